"""A neuron and a direction over a corpus: the numbers of single runs, and what is refused."""

import numpy as np
import pytest

from model.activations.neurons import promoted
from model.corpus.directions import read_direction, read_neuron
from model.corpus.texts import corpus_of
from model.errors import InputError
from model.steering.effects import tokens_moved
from model.steering.vectors import stream_at, token_vector

TEXT = "the cat sat on a mat. Sara saw the cat, and Sara sat on the mat, too. " * 3


@pytest.fixture(scope="module")
def corpus(lm):
    return corpus_of(lm, [TEXT], 24, 5)


@pytest.fixture(scope="module")
def runs(lm, corpus):
    return [lm.trace(lm.tokenizer.decode(ids.tolist())) for ids in corpus.ids]


def test_a_neuron_is_that_of_the_runs(lm, corpus, runs):
    told = []
    found = read_neuron(lm, corpus, 1, 7, top=4, batch=2, see=lambda values: told.append(len(values)))
    expected = np.stack([run.mlp_activations(1)[:, 7] for run in runs])
    assert np.allclose(found.values, expected, atol=1e-5) and told == [2, 4, 5]
    assert np.allclose(found.peaks, expected[:, 1:].max(1), atol=1e-5)
    assert found.at.tolist() == (expected[:, 1:].argmax(1) + 1).tolist()
    assert np.array_equal(found.counted, found.values[:, 1:])
    assert found.moved.ids.tolist() == promoted(lm.model, 1, [7], 4, lm.tokenizer.vocab_size).up[0].tolist()


@pytest.mark.parametrize("site", ["resid_pre", "resid_mid", "resid_post"])
def test_a_direction_is_that_of_the_runs(lm, corpus, runs, site: str):
    vector = token_vector(lm, 101)
    found = read_direction(lm, corpus, 3 * vector, 1, site=site)  # the length does not matter
    expected = np.stack([stream_at(run, 1, site) @ vector for run in runs])
    assert np.allclose(found.values, expected, atol=1e-4)
    assert found.moved.ids.tolist() == tokens_moved(lm.model, vector, 10, lm.tokenizer.vocab_size).ids.tolist()


def test_what_does_not_exist_is_refused(lm, corpus):
    with pytest.raises(InputError, match="neuron does not exist"):
        read_neuron(lm, corpus, 0, 100_000)
    with pytest.raises(InputError, match="vector of zeros"):
        read_direction(lm, corpus, np.zeros(lm.config.d_model, np.float32), 0)
    with pytest.raises(InputError, match="another length"):
        read_direction(lm, corpus, np.ones(3, np.float32), 0)
