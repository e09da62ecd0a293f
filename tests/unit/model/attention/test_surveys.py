"""Surveys of all heads: means and spreads over sequences, baselines, and which heads get a name."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from model.api import load_model
from model.attention.probes import SHORTEST, probe_heads, repeated_ids
from model.attention.surveys import (
    LABELS,
    MARGIN,
    PROBES,
    SENTENCES,
    Survey,
    even_share,
    labels,
    random_survey,
    sentence_survey,
    survey,
)
from model.errors import InputError
from model.tracing import trace
from model.tracing.head_metrics import HEAD_METRICS
from tests.support.models.helpers import N_CTX, VARIANTS, H, L, V, assert_close, random_ids, tiny_model, tokens_of

COLUMNS = list(HEAD_METRICS)
REPEATS = ["duplicate_token", "induction"]
INDEX = pd.MultiIndex.from_product([range(L), range(H)], names=["layer", "head"])


def sequences_of(*lengths: int, pool: int = 9) -> list[torch.Tensor]:
    return [random_ids(1, length, seed=length, vocab_size=pool)[0] for length in lengths]


# --- means and spreads ---


@pytest.mark.parametrize("name", VARIANTS)
def test_a_batch_of_unequal_sequences_is_the_mean_of_its_traces(name: str):
    model, ids = tiny_model(VARIANTS[name]), sequences_of(19, 4, 33, 12, 40)
    mean, spread = survey(model, ids)
    each = np.stack([trace.run(model, tokens_of(one)).head_metrics().to_numpy() for one in ids]).astype(float)
    for frame in (mean, spread):
        assert frame.index.equals(INDEX) and frame.index.names == ["layer", "head"]
        assert list(frame.columns) == COLUMNS
    assert_close(mean, np.nanmean(each, 0), 2e-5, "means")
    assert_close(spread, np.nanstd(each, 0, ddof=1), 2e-5, "spreads")


def test_many_batches_are_as_one_sequence_at_a_time():
    model, ids = tiny_model(), sequences_of(*range(21, 41), *range(21, 41))  # 1240 tokens
    mean, _ = survey(model, ids)
    assert_close(mean, sum(survey(model, [one])[0] for one in ids) / len(ids), 1e-5)


def test_sequences_without_a_repeat_do_not_count_for_repeats():
    model = tiny_model()
    plain, repeated = torch.arange(11), sequences_of(15, 20)
    mean, spread = survey(model, [plain, *repeated])
    only_mean, only_spread = survey(model, repeated)
    assert_close(mean[REPEATS], only_mean[REPEATS], 1e-6, "means")
    assert_close(spread[REPEATS], only_spread[REPEATS], 1e-6, "spreads")
    assert np.abs(mean["previous_token"] - only_mean["previous_token"]).max() > 1e-3
    assert survey(model, [plain])[0][REPEATS].isna().all(axis=None)
    assert survey(model, [plain, repeated[0]])[1][REPEATS].isna().all(axis=None)


def test_one_sequence_has_a_mean_and_no_spread():
    mean, spread = survey(tiny_model(), sequences_of(20))
    assert mean.notna().all(axis=None) and spread.isna().all(axis=None)


def test_a_single_token_says_nothing_of_rows_after_the_first():
    mean, _ = survey(tiny_model(), [torch.tensor([3]), *sequences_of(20)])
    alone, _ = survey(tiny_model(), sequences_of(20))
    assert_close(mean["previous_token"], alone["previous_token"], 1e-6)


def test_no_sequences_is_a_programmers_mistake():
    with pytest.raises(ValueError, match="at least one sequence"):
        survey(tiny_model(), [])


def test_progress_counts_sequences_and_can_cancel():
    model, ids, told = tiny_model(), sequences_of(*range(21, 41), *range(21, 41)), []
    survey(model, ids, lambda *news: told.append(news))
    done = [news[0] for news in told]
    assert len(told) > 2 and done == sorted(set(done)) and done[-1] == len(ids)
    assert {news[1:] for news in told} == {(len(ids), "Surveying heads")}

    def cancel(done: int, total: int | None, what: str) -> None:
        told.append(done)
        raise InterruptedError

    told.clear()
    with pytest.raises(InterruptedError):
        survey(model, ids, cancel)
    assert len(told) == 1 and told[0] < len(ids)


# --- the two probes ---


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_random_survey_is_what_the_probe_of_heads_finds(name: str):
    model = tiny_model(VARIANTS[name])
    found = random_survey(model, pool=V - 3, sequences=5, length=26, seed=4)
    wanted = probe_heads(model, pool=V - 3, length=26, sequences=5, seed=4)
    assert (found.probe, found.sequences) == ("random", 5) and found.probe in PROBES
    assert_close(found.mean, wanted[COLUMNS], 1e-5, "means")
    assert_close(found.baseline["induction"], wanted["induction_baseline"], 1e-6, "baseline of induction")
    twice, _ = repeated_ids(V - 3, 26, 5, 4)
    assert_close(found.spread, survey(model, twice)[1], 1e-5, "spreads")


def test_baseline_of_copies_is_the_same_places_with_the_second_half_shuffled():
    model, half = tiny_model(), 9
    found = random_survey(model, pool=V, sequences=3, length=2 * half, seed=1)
    _, shuffled = repeated_ids(V, 2 * half, 3, 1)
    runs = [trace.run(model, tokens_of(ids)) for ids in shuffled]
    query = np.arange(half, 2 * half)
    for layer, head in INDEX:
        weights = [run.pattern(layer, head)[query, query - half].mean() for run in runs]
        assert found.baseline.loc[(layer, head), "duplicate_token"] == pytest.approx(np.mean(weights), abs=1e-6)


def test_baseline_of_fixed_places_is_even_attention():
    found = random_survey(tiny_model(), pool=V, sequences=2, length=8)
    wanted = sum(1 / (i + 1) for i in range(1, 8)) / 7
    fixed = ["previous_token", "self", "first_token"]
    assert found.baseline[fixed].to_numpy() == pytest.approx(wanted)
    assert even_share(8) == pytest.approx(wanted) and even_share(2) == 0.5
    assert found.baseline.drop(columns=[*fixed, *REPEATS]).isna().all(axis=None)
    assert list(found.baseline.columns) == COLUMNS


def test_an_even_head_scores_its_baseline():
    """Scores of 0 everywhere: the weight on any one place is 1 / (i + 1)."""
    model = tiny_model()
    with torch.no_grad():
        for block in model.blocks:
            block.attn.q.weight.zero_()
            block.attn.q.bias.zero_()
    found = random_survey(model, pool=V, sequences=2, length=20)
    for column in ("previous_token", "self", "first_token"):
        assert_close(found.mean[column], found.baseline[column], 1e-6, column)
    assert_close(found.mean[REPEATS], found.baseline[REPEATS], 1e-6, "no content is read")
    assert labels(found).empty


@pytest.mark.parametrize(("n_ctx", "length", "T"), [(N_CTX, 1000, N_CTX), (N_CTX, 13, 12), (11, 64, 10), (8, 64, 8)])
def test_random_sequences_are_even_and_fit_into_the_context(n_ctx: int, length: int, T: int):
    found = random_survey(tiny_model({"n_ctx": n_ctx}), pool=V, sequences=1, length=length)
    assert found.baseline["self"].iloc[0] == pytest.approx(even_share(T))


@pytest.mark.parametrize(("n_ctx", "length"), [(SHORTEST - 1, 64), (N_CTX, SHORTEST - 1)])
def test_a_context_too_short_for_a_survey(n_ctx: int, length: int):
    with pytest.raises(InputError, match=r"too short to survey heads on. Got: 7 tokens. At least 8 tokens are needed"):
        random_survey(tiny_model({"n_ctx": n_ctx}), pool=V, length=length)


def test_random_survey_counts_the_shuffled_runs_too():
    told = []
    random_survey(tiny_model(), pool=V, sequences=3, length=20, progress=lambda *news: told.append(news))
    assert told[-1] == (6, 6, "Surveying heads")


def test_sentence_survey_cuts_each_sentence_to_the_context():
    model, asked = tiny_model(), []

    def encode(text: str):
        asked.append(text)
        return tokens_of([ord(letter) % V for letter in text])

    found = sentence_survey(model, encode)
    assert tuple(asked) == SENTENCES
    assert (found.probe, found.sequences, found.baseline) == ("sentences", len(SENTENCES), None)
    mean, spread = survey(model, [torch.tensor([ord(letter) % V for letter in text[:N_CTX]]) for text in SENTENCES])
    assert_close(found.mean, mean, 1e-6)
    assert_close(found.spread, spread, 1e-6)


def test_sentence_survey_says_what_the_tokenizer_says():
    def encode(text: str):
        raise InputError("This vocabulary has no token for a character of the text.")

    with pytest.raises(InputError, match="no token for a character"):
        sentence_survey(tiny_model(), encode)


def test_the_sentences_are_many_and_varied():
    assert len(SENTENCES) == len(set(SENTENCES)) >= 20
    assert all(10 <= len(text.split()) <= 40 and text.isascii() for text in SENTENCES)
    assert set(PROBES) == {"random", "sentences"} and all(probe.label and probe.doc for probe in PROBES.values())


# --- names ---


def survey_of(scores: dict[str, float], spread: float = 0.05, baseline: float = 0.06, sequences: int = 16) -> Survey:
    """Of one head with these means; every other metric is at its baseline."""
    index = pd.MultiIndex.from_tuples([(2, 1)], names=["layer", "head"])
    frames = [pd.DataFrame(value, index, COLUMNS) for value in (baseline, spread, baseline)]
    for column, score in scores.items():
        frames[0][column] = score
    return Survey("random", sequences, *frames)


@pytest.mark.parametrize(
    ("scores", "wanted"),
    [
        ({"induction": 0.95}, ["induction"]),
        ({"previous_token": 0.9}, ["previous_token"]),
        ({"first_token": 0.8}, ["first_token"]),
        ({"self": 0.5}, ["self"]),
        ({"duplicate_token": 0.3}, ["duplicate_token"]),
        ({"induction": 0.5, "first_token": 0.45}, ["first_token", "induction"]),
        ({"induction": 0.24}, []),  # below what is worth a name
        ({"entropy": 0.9, "effective_span": 30.0, "distance": 12.0}, []),
        ({}, []),
    ],
)
def test_labels_of_made_up_heads(scores, wanted):
    found = labels(survey_of(scores))
    assert list(found.columns) == ["label", "score", "baseline"]
    assert found.index.names == ["layer", "head"] and set(found.index) <= {(2, 1)}
    assert found["label"].tolist() == wanted
    assert found["score"].tolist() == [scores[name] for name in wanted]
    assert set(found["baseline"]) <= {0.06}


def test_a_label_must_clear_the_baseline_by_more_than_its_error():
    """Standard error 0.2 / sqrt(16) = 0.05: a mean of 0.5 clears 0.5 - 0.1 - 0.1 = 0.3."""
    assert MARGIN == 0.1
    assert labels(survey_of({"induction": 0.5}, 0.2, 0.29))["label"].tolist() == ["induction"]
    assert labels(survey_of({"induction": 0.5}, 0.2, 0.31)).empty
    assert labels(survey_of({"induction": 0.5}, 0.2, 0.29, sequences=12)).empty
    assert labels(survey_of({"induction": 0.5}, math.nan, 0.0)).empty  # one sequence tells nothing
    assert labels(survey_of({"induction": math.nan}, 0.1, 0.0)).empty


def test_least_is_the_smallest_share_with_a_name():
    made = survey_of({"induction": 0.5})
    assert labels(made, least=0.5)["label"].tolist() == ["induction"]
    assert labels(made, least=0.51).empty


def test_labels_come_in_order_of_heads_and_names():
    index = pd.MultiIndex.from_product([range(2), range(2)], names=["layer", "head"])
    mean = pd.DataFrame(0.0, index, COLUMNS)
    mean.loc[(1, 0), ["induction", "self"]] = 0.9, 0.3
    mean.loc[(0, 1), "first_token"] = 0.7
    found = labels(Survey("random", 9, mean, mean * 0, mean * 0))
    assert list(zip(found.index, found["label"], found["score"], strict=True)) == [
        ((0, 1), "first_token", 0.7),
        ((1, 0), "self", 0.3),
        ((1, 0), "induction", 0.9),
    ]
    assert set(LABELS) < set(COLUMNS)


def test_labels_need_a_baseline():
    made = survey_of({})
    with pytest.raises(ValueError, match="baseline, got the survey of 'sentences'"):
        labels(Survey("sentences", 24, made.mean, made.spread, None))


# --- a real model ---


def test_heads_of_the_bundled_model():
    lm = load_model("tinygpt", offline=True)
    found = random_survey(lm.model, pool=lm.tokenizer.vocab_size)
    names = labels(found)
    of = {at: set(rows["label"]) for at, rows in names.groupby(level=[0, 1])}
    assert "previous_token" in of[5, 7] and "induction" not in of[5, 7]
    assert "induction" in of[7, 3] and "previous_token" not in of[7, 3]
    assert len(of) < 64  # most names are not for everyone
    everyday = sentence_survey(lm.model, lm.encode)
    assert everyday.mean.loc[(5, 7), "previous_token"] > 0.4
    assert everyday.mean.notna().all(axis=None) and everyday.spread.notna().all(axis=None)
