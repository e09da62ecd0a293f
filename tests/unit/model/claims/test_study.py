"""The test of claims on tiny models: one pass gives what each claim alone gives; readings are those of a trace."""

import numpy as np
import pytest
import torch

from model.api import LanguageModel
from model.claims.bench import BEGUN, WRITTEN, Bench, continue_greedily
from model.claims.changed import RECENT
from model.claims.reading import read
from model.claims.registry import CLAIMS
from model.claims.study import study
from model.claims.texts import PASSAGES, passages, spread
from model.errors import InputError
from model.text.held_out import bundled_text
from tests.support.models.helpers import VARIANTS, byte_tokenizer, tiny_model

TEXTS = 5


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return byte_tokenizer(tmp_path_factory.mktemp("bytes"))


def model_of(tokenizer, variant="gpt2", **changes):
    changes = {**VARIANTS[variant], "vocab_size": 256, "n_ctx": 100, **changes}
    return LanguageModel("tiny", "Tiny", tiny_model(changes), tokenizer)


@pytest.fixture(scope="module")
def lm(tokenizer):
    return model_of(tokenizer)


@pytest.fixture(scope="module")
def found(lm):
    return study(lm, texts=TEXTS)


@pytest.fixture(scope="module")
def text(lm):
    return read(Bench(lm, (3, 7)), 7)


def test_the_passages_are_the_chapter_in_equal_pieces():
    assert len(passages()) == PASSAGES and " ".join(passages()) == " ".join(bundled_text().split())
    lengths = [len(passage.split()) for passage in passages()]
    assert max(lengths) - min(lengths) <= 1 and min(lengths) >= 25
    assert spread(PASSAGES) == tuple(range(PASSAGES)) and spread(4) == (0, 50, 100, 150)


def test_every_claim_has_a_number(found):
    assert list(found.values) == list(CLAIMS) and not found.reasons and found.passages == spread(TEXTS)
    named = {"names", "pronoun", "verb", "sentence_start", "after_the", "similar_embeddings", "word_start", "content"}
    named |= {"punctuation", "punctuation_easier"}  # single bytes are seldom words
    for key, values in found.values.items():
        assert values.shape == (TEXTS,) and (np.isfinite(values).any() or key in named), key


def test_one_claim_alone_gives_the_same_numbers_as_all_together(lm, found):
    for key in ("swap", "half_heads", "shuffle", "induction_head", "greedy_loops", "int8", "names", "last_word"):
        alone = study(lm, [key], texts=TEXTS)
        assert list(alone.values) == [key] and alone.tokens == found.tokens
        np.testing.assert_allclose(alone.values[key], found.values[key], rtol=1e-4, atol=1e-5, err_msg=key)


def test_the_number_of_a_text_does_not_depend_on_the_other_texts(lm, found):
    few = study(lm, ["one_head", "top_half", "greedy_likelier"], texts=10)
    for key, values in few.values.items():  # the first of 10 texts and of 5 is the same passage, and so is every second
        np.testing.assert_allclose(values[::2], found.values[key], rtol=1e-4, atol=1e-5, err_msg=key)


def test_a_reading_has_the_numbers_of_a_trace(lm, text):
    run = lm.trace(bytes(text.ids.tolist()).decode())
    assert np.array_equal(run.tokens.ids, text.ids) and len(text.ids) == 50  # half of the context
    for layer, head in ((0, 1), (2, 3)):
        np.testing.assert_allclose(text.pattern[layer, head], run.pattern(layer, head), atol=1e-5)
    np.testing.assert_allclose(text.stream, run.residuals.numpy(), rtol=1e-4, atol=1e-4)
    logits = torch.from_numpy(run.logits)
    np.testing.assert_allclose(text.log_probs, logits.log_softmax(-1).numpy(), atol=1e-3)
    np.testing.assert_allclose(text.weights, text.pattern.reshape(-1, 50, 50).mean(0), atol=1e-6)
    assert (text.lens_tops[-1] == run.logits.argmax(-1)[3::4]).all()


def test_changes_that_change_nothing(text):
    changed, T = text.changed, len(text.ids)
    np.testing.assert_allclose(changed.through(range(3)), text.loss, atol=1e-3)
    np.testing.assert_allclose(changed.without_heads(0), text.log_probs, atol=1e-3)
    np.testing.assert_allclose(changed.hiding(torch.zeros(T, T, dtype=torch.bool)), text.loss, atol=1e-3)
    np.testing.assert_allclose(changed.repeated[: T - 1], text.loss, atol=1e-3)
    np.testing.assert_allclose(changed.recent_only()[: RECENT - 1], text.loss[: RECENT - 1], atol=1e-3)


def test_changes_change_what_they_say(text):
    changed, T = text.changed, len(text.ids)
    assert abs(changed.without_heads(12) - text.log_probs).max() > 0.01
    assert abs(changed.recent_only()[RECENT:] - text.loss[RECENT:]).max() > 1e-3
    moved = abs(changed.without_first() - text.loss)
    assert moved[: T // 2].max() < 1e-3 < moved[T // 2 :].max()
    assert changed.shuffled.shape == (T - 1,) and abs(changed.shuffled.mean() - text.loss.mean()) > 1e-4
    assert abs(changed.through([1, 0, 2]) - text.loss).max() > 0.01
    assert changed.induction.shape == (3, 4) and 0 <= changed.induction.min() < changed.induction.max() <= 1


def test_greedy_decoding_appends_the_most_likely_token(lm, text):
    ids, log_probs = text.changed.written()
    whole = np.concatenate([text.ids[:BEGUN], ids])
    exact = lm.model(torch.from_numpy(whole)[None])[0].log_softmax(-1).detach()
    assert len(ids) == WRITTEN and (exact[BEGUN - 1 : -1].argmax(-1).numpy() == ids).all()
    np.testing.assert_allclose(log_probs, exact[BEGUN - 1 : -1].max(-1).values.numpy(), atol=1e-3)
    both, _ = continue_greedily(lm.model, torch.from_numpy(np.stack([text.ids[:BEGUN]] * 2)), 4)
    assert (both == ids[:4]).all()


def test_progress_counts_the_texts_and_may_cancel(lm):
    seen = []
    study(lm, ["top_half"], texts=TEXTS, progress=lambda done, total, what: seen.append((done, total)))
    assert seen == [(n, TEXTS) for n in range(TEXTS + 1)]

    def stop(done, total, what):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        study(lm, ["top_half"], texts=TEXTS, progress=stop)


def test_what_cannot_be_measured_has_a_reason(tokenizer):
    found = study(model_of(tokenizer, "llama"), ["mean_matters", "positions", "top_half"], texts=TEXTS)
    assert found.reasons == {"mean_matters": "layernorm", "positions": "position_vectors"}
    assert list(found.values) == ["top_half"]


def test_unknown_claims_and_short_contexts_are_refused(lm, tokenizer):
    with pytest.raises(InputError, match="No claim has this name"):
        study(lm, ["sixty"], texts=TEXTS)
    with pytest.raises(InputError, match="too short"):
        study(model_of(tokenizer, n_ctx=40), texts=TEXTS)
    with pytest.raises(InputError):
        study(lm, texts=1)
