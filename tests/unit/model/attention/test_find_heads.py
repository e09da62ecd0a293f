"""Some rows of attention, and heads ranked by them, equal the plain computation from whole patterns.

For every way a block is wired, with and without edits.
"""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from model.attention import find_heads, measures
from model.attention.find_heads import RANKINGS, punctuation, rank_heads
from model.attention.measures import attend_rows, measure, value_rows
from model.errors import InputError
from model.gpt.tap import compose, identity, record
from model.tracing.trace import Trace, run
from tests.support.models.helpers import (
    FEW_VARIANTS,
    VARIANTS,
    D,
    H,
    L,
    assert_close,
    random_ids,
    tiny_model,
    tokens_of,
)

T = 17
IDS = random_ids(1, T, seed=8)

CHOICES = {
    "one back to one": ([11], [4]),
    "one to itself": ([6], [6]),
    "some back to some": ([12, 7, 16], [3, 0, 5]),
    "keys among and after the queries": ([2, 9, 5], [4, 5, 9, 10, 16]),
    "all": (list(range(T)), list(range(T))),
}
EVERY = [pytest.param(*choice, id=name) for name, choice in CHOICES.items()]


def double(site: str, layer: int, x: torch.Tensor) -> torch.Tensor:
    """Scores of layer 1 and values of layer 0 are doubled, and the stream into layer 2 is moved."""
    if (site, layer) == ("resid_pre", 2):
        return x + torch.linspace(-1, 1, D)
    return x * 2 if (site, layer) in {("scores", 1), ("v", 0)} else x


def look_ahead(site: str, layer: int, x: torch.Tensor) -> torch.Tensor:
    """Every row of layer 1 reads all tokens alike, those after it too."""
    return torch.full_like(x, 1 / T) if (site, layer) == ("pattern", 1) else x


EDITS = {"none": None, "double": double, "look ahead": look_ahead}


def traced(name: str = "gpt2", edit=None) -> Trace:
    return run(tiny_model(VARIANTS[name]), tokens_of(IDS[0]), tap=edit)


def plainly(trace: Trace, queries, keys, name: str) -> np.ndarray:
    """The definition, a head and a query at a time. float64 [L, H]"""
    out = np.zeros((L, H))
    E = trace.config.d_head
    for layer in range(L):
        weight = trace.model.blocks[layer].attn.o.weight.detach().double().numpy()
        for head in range(H):
            pattern = trace.pattern(layer, head).astype(np.float64)
            written = trace.qkv(layer, head).v.astype(np.float64) @ weight[:, head * E : (head + 1) * E].T  # [T, D]
            for q in queries:
                seen = [k for k in keys if k <= q]
                if name == "weights":
                    out[layer, head] += pattern[q, seen].sum() / len(queries)
                else:
                    out[layer, head] += np.linalg.norm(pattern[q, seen] @ written[seen]) / len(queries)
    return out


# --- rows of attention ---


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
@pytest.mark.parametrize("name", VARIANTS)
def test_rows_are_those_of_the_explicit_forward(name: str, edit):
    trace, at = traced(name, edit), {}
    with torch.no_grad():
        trace.model(IDS, tap=compose(edit or identity, record(["pattern", "v"], at)))
    queries = [11, 3, 3, 0]  # in no order, one twice
    for layer in range(L):
        rows, values = attend_rows(trace, layer, queries), value_rows(trace, layer, queries)
        assert rows.dtype == values.dtype == torch.float32
        assert_close(rows, at["pattern", layer][0][:, queries], 1e-5, f"rows of layer {layer}")
        assert_close(values, at["v", layer][0][:, queries], 1e-5, f"values of layer {layer}")


def test_rows_of_the_last_query_and_of_all():
    trace = traced("llama")
    whole = attend_rows(trace, 1, range(T))
    for head in range(H):
        assert_close(whole[head], trace.pattern(1, head), 2e-6, f"head {head}")
    assert_close(attend_rows(trace, 1, [T - 1])[:, 0], whole[:, -1], 2e-6)
    assert (whole.triu(1) == 0).all()


class Largest(TorchDispatchMode):
    """Notes the largest result of any operation, in elements."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        parts = out if isinstance(out, (tuple, list)) else (out,)
        self.elements = max([self.elements, *(part.numel() for part in parts if torch.is_tensor(part))])
        return out


def test_no_square_matrix_is_made_for_a_few_rows():
    trace = run(tiny_model({"n_ctx": 400, **VARIANTS["gqa"]}), tokens_of(random_ids(1, 400)[0]))
    with Largest() as few:
        attend_rows(trace, 1, [399, 2])
    assert H * 2 * 400 <= few.elements < 400 * 400


def test_a_rollout_holds_some_rows_of_one_layer_at_a_time(monkeypatch):
    trace = run(tiny_model({"n_ctx": 300}), tokens_of(random_ids(1, 300)[0]))
    expected = measure(trace, "rollout", L - 1, 0)
    monkeypatch.setattr(measures, "_CHUNK", 64)
    with Largest() as seen:
        chunked = measure(trace, "rollout", L - 1, 0)
    assert seen.elements < H * 300 * 300
    assert_close(chunked, expected, 2e-6)


@pytest.mark.parametrize("edit", [None, double], ids=["plain", "edited"])
@pytest.mark.parametrize("rows", [attend_rows, value_rows])
def test_rows_refused(rows, edit):
    trace = traced(edit=edit)
    for layer, positions, what in (
        (L, [0], "layer does not exist.*0 to 2"),
        (-1, [0], "layer does not exist"),
        (0, [T], "position does not exist.*17.*0 to 16"),
        (0, [3, -1], "position does not exist"),
    ):
        with pytest.raises(InputError, match=what):
            rows(trace, layer, positions)
    with pytest.raises(ValueError, match="at least one position"):
        attend_rows(trace, 0, [])


# --- ranking ---


@pytest.mark.long
@pytest.mark.parametrize("measured", RANKINGS)
@pytest.mark.parametrize(("queries", "keys"), EVERY)
@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
@pytest.mark.parametrize("name", FEW_VARIANTS)
def test_ranks_equal_the_plain_computation(name: str, edit, queries, keys, measured: str):
    trace = traced(name, edit)
    got = rank_heads(trace, queries, keys, measured)
    assert got.shape == (L, H) and got.dtype == np.float32
    assert_close(got, plainly(trace, queries, keys, measured), 1e-5)


@pytest.mark.parametrize("name", VARIANTS)
def test_one_token_back_to_one_is_an_entry_of_the_measure(name: str):
    trace = traced(name)
    for measured in RANKINGS:
        got = rank_heads(trace, [11], [4], measured)
        expected = [[measure(trace, measured, layer, head)[11, 4] for head in range(H)] for layer in range(L)]
        assert_close(got, expected, 1e-5, measured)


@pytest.mark.parametrize("name", VARIANTS)
def test_all_keys_hold_all_of_the_weight(name: str):
    """And the shares of two sets of keys that make up the prompt sum to 1."""
    trace = traced(name)
    assert_close(rank_heads(trace, range(T), range(T)), np.ones((L, H)), 2e-6)
    parts = [rank_heads(trace, [10, 13], keys) for keys in (range(0, 14, 2), range(1, 14, 2))]
    assert_close(sum(parts), np.ones((L, H)), 2e-6)


def test_by_hand():
    """Every pattern is [[1, 0, 0], [.25, .75, 0], [.5, .125, .375]].

    From 1 and 2 to 1 and 2: (.75 + .125 + .375) / 2 = .625. From 0 and 2 to 1: (0 + .125) / 2.
    """
    pattern = torch.tensor([[1, 0, 0], [0.25, 0.75, 0], [0.5, 0.125, 0.375]])
    tap = lambda site, layer, x: pattern.expand_as(x) if site == "pattern" else x  # noqa: E731
    trace = run(tiny_model(), tokens_of(IDS[0, :3]), tap=tap)
    assert_close(rank_heads(trace, [1, 2], [1, 2]), np.full((L, H), 0.625), 0)
    assert_close(rank_heads(trace, [0, 2], [1]), np.full((L, H), 0.0625), 0)


def test_vectors_are_added_before_their_length_is_taken():
    """Two keys with opposite values that are read alike write nothing together."""
    pattern = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0], [0.5, 0.5, 0]])

    def tap(site: str, layer: int, x: torch.Tensor) -> torch.Tensor:
        if site == "v":
            x = x.clone()
            x[:, :, 1] = -x[:, :, 0]
        return pattern.expand_as(x) if site == "pattern" else x

    trace = run(tiny_model(), tokens_of(IDS[0, :3]), tap=tap)
    assert_close(rank_heads(trace, [2], [0, 1], "value_weighted"), np.zeros((L, H)), 1e-6)
    assert (rank_heads(trace, [2], [0], "value_weighted") > 0.01).all()


@pytest.mark.parametrize("edit", [None, double], ids=["plain", "edited"])
def test_order_and_repeats_do_not_matter(edit):
    trace = traced("gqa", edit)
    for measured in RANKINGS:
        once = rank_heads(trace, [5, 9], [1, 2], measured)
        assert np.array_equal(rank_heads(trace, (9, 5, 9), np.array([2, 1, 1, 2]), measured), once), measured


def test_many_queries_are_taken_in_portions(monkeypatch):
    trace = traced("qwen3")
    whole = {measured: rank_heads(trace, range(T), [0, 4, 9], measured) for measured in RANKINGS}
    monkeypatch.setattr(measures, "_CHUNK", 5)
    asked = []
    monkeypatch.setattr(
        find_heads,
        "attend_rows",
        lambda t, layer, queries: asked.append(len(queries)) or attend_rows(t, layer, queries),
    )
    for measured, expected in whole.items():
        assert_close(rank_heads(trace, range(T), [0, 4, 9], measured), expected, 2e-6, measured)
    assert asked == [5, 5, 5, 2] * L * len(RANKINGS)


def test_nothing_is_changed_by_ranking():
    queries, keys = [9, 5], [2, 1]
    pattern = torch.eye(T).expand(1, H, T, T).contiguous()
    before = pattern.clone()
    trace = run(tiny_model(), tokens_of(IDS[0]), tap=lambda site, layer, x: pattern if site == "pattern" else x)
    residuals = trace.residuals.clone()
    for measured in RANKINGS:
        rank_heads(trace, queries, keys, measured)
    assert (queries, keys) == ([9, 5], [2, 1])
    assert torch.equal(pattern, before) and torch.equal(trace.residuals, residuals)


@pytest.mark.parametrize("edit", [None, double], ids=["plain", "edited"])
@pytest.mark.parametrize(
    ("queries", "keys", "measured", "what"),
    [
        ([], [1], "weights", "No query token"),
        ([1], [], "weights", "No key token"),
        ([T], [1], "weights", "position does not exist.*17.*0 to 16"),
        ([-1], [1], "weights", "position does not exist"),
        ([3], [1, T], "weights", "position does not exist"),
        ([3], [-1], "value_weighted", "position does not exist"),
        ([3, 7], [8, 9], "weights", "can only attend to earlier tokens.*from 7 to 8"),
        ([3], [1], "scores", "unknown value.*measure: scores.*weights, value_weighted"),
    ],
)
def test_refused(queries, keys, measured: str, what: str, edit):
    with pytest.raises(InputError, match=what):
        rank_heads(traced(edit=edit), queries, keys, measured)


def test_punctuation_and_line_breaks_are_found_and_the_first_token_is_not():
    assert punctuation(['"', "The", " cat", ",", " ", "\n", " \n\n", "...", "。", "a.", "3", "<0xE2>", ""]) == [
        3,
        5,
        6,
        7,
        8,
    ]
    assert punctuation([]) == [] == punctuation(["."])
