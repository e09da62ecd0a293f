"""The best example of a named head, on attention that was built by hand."""

import math
from dataclasses import fields

import pandas as pd
import pytest
import torch

from model.attention.head_examples import HeadExample, best_examples, keys_of
from model.attention.surveys import LABELS, SENTENCES, sentence_survey
from model.tracing import trace
from model.tracing.head_metrics import RowStats, find_repeats, rows_from_pattern
from tests.support.models.helpers import VARIANTS, H, L, assert_close, tiny_model, tokens_of

IDS = torch.tensor([5, 6, 7, 5, 6, 5])  # A B C A B A
REPEATS = find_repeats(IDS)


def labels(*rows: tuple[int, int, str]) -> pd.DataFrame:
    """Return a table of names, as surveys.labels does."""
    index = pd.MultiIndex.from_tuples([row[:2] for row in rows], names=["layer", "head"])
    return pd.DataFrame({"label": [row[2] for row in rows], "score": 0.5, "baseline": 0.1}, index=index)


def rows_of(*patterns: torch.Tensor) -> torch.Tensor:
    """Return the rows [statistics, 1, H, T] of one layer whose heads have these patterns."""
    stats = rows_from_pattern(torch.stack(patterns), find_repeats(IDS[: patterns[0].shape[-1]]))
    return torch.stack([getattr(stats, field.name) for field in fields(RowStats)])[:, None]


def looking(*pairs: tuple[int, int, float]) -> torch.Tensor:
    """Return a pattern with these weights from query to key, and the rest of each row on the token itself."""
    pattern = torch.zeros(6, 6)
    for query, key, weight in pairs:
        pattern[query, key] = weight
    return pattern + torch.diag(1 - pattern.sum(1))


def test_the_keys_of_each_name():
    assert [keys_of("previous_token", query, REPEATS) for query in (0, 1, 4)] == [(), (0,), (3,)]
    assert [keys_of("first_token", query, REPEATS) for query in (0, 1, 4)] == [(), (0,), (0,)]
    assert [keys_of("self", query, REPEATS) for query in (0, 4)] == [(0,), (4,)]
    assert [keys_of("duplicate_token", query, REPEATS) for query in (2, 3, 5)] == [(), (0,), (0, 3)]
    assert [keys_of("induction", query, REPEATS) for query in (2, 3, 5)] == [(), (1,), (1, 4)]
    assert {keys_of(label, 5, REPEATS) != () for label in LABELS} == {True}


@pytest.mark.parametrize(
    ("label", "pairs", "query", "keys"),
    [
        ("induction", [(3, 1, 0.6), (4, 2, 0.9), (5, 0, 1.0)], 4, (2,)),  # row 5 reads a copy, not its successor
        ("induction", [(5, 1, 0.5), (5, 4, 0.5), (4, 2, 0.8)], 5, (1, 4)),  # both copies count
        ("duplicate_token", [(3, 0, 0.7), (4, 2, 0.9)], 3, (0,)),
        ("previous_token", [(1, 0, 1.0), (4, 3, 0.9)], 4, (3,)),  # 0.9 of five tokens is more than 1.0 of two
        ("first_token", [(2, 0, 1.0), (5, 0, 0.95)], 5, (0,)),
        ("self", [(5, 0, 0.2), (4, 0, 1.0)], 3, (3,)),
    ],
)
def test_the_example_is_the_row_that_most_exceeds_uniform_attention(label, pairs, query, keys):
    nothing = torch.full((6, 6), 1 / 6).tril()
    rows = rows_of(nothing, looking(*pairs))
    weight = sum(float(looking(*pairs)[query, key]) for key in keys)
    found = best_examples([rows], [REPEATS], labels((0, 1, label)))
    assert found == {(0, 1, label): HeadExample(0, query, keys, pytest.approx(weight))}


def test_the_clearest_of_several_texts_and_each_head_its_own():
    weak, strong = looking((4, 3, 0.5)), looking((4, 3, 0.8), (5, 0, 0.9))
    rows = [rows_of(weak, strong), rows_of(strong, weak)]
    names = labels((0, 0, "previous_token"), (0, 1, "previous_token"), (0, 0, "first_token"))
    found = best_examples(rows, [REPEATS, REPEATS], names)
    assert found[0, 0, "previous_token"] == HeadExample(1, 4, (3,), pytest.approx(0.8))
    assert found[0, 1, "previous_token"] == HeadExample(0, 4, (3,), pytest.approx(0.8))
    assert found[0, 0, "first_token"] == HeadExample(1, 5, (0,), pytest.approx(0.9)) and len(found) == 3


def test_a_name_without_any_such_row_has_no_example():
    rows = rows_of(torch.eye(3))  # A B C: nothing is repeated
    repeats = find_repeats(IDS[:3])
    assert set(best_examples([rows], [repeats], labels((0, 0, "induction"), (0, 0, "self")))) == {(0, 0, "self")}
    one = torch.full((len(fields(RowStats)), 1, 1, 1), math.nan)
    assert best_examples([one], [find_repeats(IDS[:1])], labels((0, 0, "self"))) == {}


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_the_weight_of_an_example_is_that_of_the_run_of_its_sentence(name):
    model, seen = tiny_model({**VARIANTS[name], "vocab_size": 256, "n_ctx": 40}), []

    def encode(text):
        return tokens_of(torch.tensor(list(text.encode())))

    sentence_survey(model, encode, finished=seen.append)
    assert len(seen) == len(SENTENCES)
    names = labels(*((layer, head, label) for label in LABELS for layer in range(L) for head in range(H)))
    found = best_examples([each.rows for each in seen], [each.repeats for each in seen], names)
    assert len(found) == len(names)
    for (layer, head, label), example in list(found.items())[:: len(found) // 7]:
        run = trace.run(model, tokens_of(torch.tensor(list(SENTENCES[example.text].encode()[:40]))))
        row = run.pattern(layer, head)[example.query]
        assert_close(sum(float(row[key]) for key in example.keys), example.weight, 1e-5, label)
