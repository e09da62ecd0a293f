"""Every measure against its definition, by hand on small arrays and from explicit forwards with and without edits."""

import networkx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model.attention.measures import (
    FLOW_TOKENS,
    FLOW_UNIT,
    MEASURES,
    REST_FLOOR,
    flow_of,
    measure,
    mixing,
    output_weights,
    rollout_of,
    rows_undefined,
    with_residual,
)
from model.errors import InputError
from model.gpt.tap import SITES, compose, record
from model.tracing.trace import Trace, run
from tests.support.models.helpers import (
    FEW_VARIANTS,
    N_CTX,
    VARIANTS,
    D,
    H,
    L,
    assert_close,
    force,
    random_ids,
    steer,
    tiny_model,
    tokens_of,
)

T = 19
IDS = random_ids(1, T, seed=5)
ABOVE = np.triu(np.ones((T, T), bool), 1)
NAN = np.nan


def sharpen(site: str, layer: int, x: torch.Tensor) -> torch.Tensor:
    """The scores of layer 2 and the values of layer 0 are doubled."""
    return x * 2 if (site, layer) in {("scores", 2), ("v", 0)} else x


EDITS = {"none": None, "steer": steer, "force": force, "sharpen": sharpen}
every_edit = pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
every_variant = pytest.mark.parametrize("name", VARIANTS)


def traced(name: str = "gpt2", edit=None) -> Trace:
    return run(tiny_model(VARIANTS[name]), tokens_of(IDS[0]), tap=edit)


@torch.no_grad()
def forward(model, edit=None) -> dict:
    """Every site of one explicit forward."""
    store: dict = {}
    tap = record(SITES, store)
    model(IDS, tap=tap if edit is None else compose(edit, tap))
    return store


def causal(rng: np.random.Generator, tokens: int) -> torch.Tensor:
    """Weights that sum to 1 a row, some of them exactly 0. [T, T]"""
    weights = np.tril(rng.exponential(size=(tokens, tokens)) * rng.integers(0, 2, (tokens, tokens)))
    weights += 0.05 * np.eye(tokens)
    return torch.from_numpy((weights / weights.sum(1, keepdims=True)).astype(np.float32))


# --- one head ---


@every_edit
@every_variant
def test_weights_and_scores(name: str, edit):
    trace = traced(name, edit)
    at = forward(trace.model, edit)
    for layer in range(L):
        for head in range(H):
            for key, site in (("weights", "pattern"), ("scores", "scores")):
                got = measure(trace, key, layer, head)
                expected = np.where(ABOVE, NAN, at[site, layer][0, head].numpy())
                assert_close(got, expected, 2e-5, f"{key} of layer {layer}, head {head}")


@every_edit
@every_variant
def test_without_the_first_token(name: str, edit):
    trace = traced(name, edit)
    for layer in range(L):
        for head in range(H):
            pattern = trace.pattern(layer, head).astype(np.float64)
            got = measure(trace, "without_first", layer, head)
            forced = edit is force and (layer, head) == (1, 2)
            assert np.isnan(got[:, 0]).all() and np.isnan(got[0]).all() and np.isnan(got[ABOVE]).all()
            assert rows_undefined(trace.pattern(layer, head)) == (T - 1 if forced else 0)
            assert np.isnan(got).all() == forced
            if not forced:
                expected = np.where(ABOVE, NAN, pattern)[1:, 1:] / (1 - pattern[1:, :1])
                assert_close(got[1:, 1:], expected, 2e-5, f"layer {layer}, head {head}")


def fixed(weights, model=None) -> Trace:
    """A trace in which every head has these weights. [T, T]"""
    pattern = torch.tensor(weights, dtype=torch.float32)

    def tap(site: str, layer: int, x: torch.Tensor) -> torch.Tensor:
        return pattern.expand_as(x) if site == "pattern" else x

    return run(model or tiny_model({"n_layer": 2}), tokens_of(IDS[0, : len(pattern)]), tap=tap)


def test_without_the_first_token_by_hand():
    """Row 1 leaves 0.2, row 2 leaves 0.75: 0.5 / 0.75 and 0.25 / 0.75. Row 3 leaves half of the floor."""
    half = REST_FLOOR / 2
    weights = [[1, 0, 0, 0], [0.8, 0.2, 0, 0], [0.25, 0.5, 0.25, 0], [1 - half, half, 0, 0]]
    got = measure(fixed(weights), "without_first", 0, 3)
    expected = [[NAN] * 4, [NAN, 1, NAN, NAN], [NAN, 2 / 3, 1 / 3, NAN], [NAN] * 4]
    assert_close(got, expected, 1e-6)
    assert rows_undefined(np.array(weights, np.float32)) == 1
    resting = np.array([[1, 0, 0], [1 - half, half, 0], [0.5, 0.25, 0.25]])
    assert rows_undefined(np.where(np.tri(3, dtype=bool), resting, NAN)) == 1, "NaN above the diagonal"


def test_a_row_just_above_the_floor_is_defined_and_exact():
    """Weights of 1e-3 and 1e-4 beside 0.9989: 1 minus it in float32 would be off in the fifth digit."""
    got = measure(fixed([[1, 0, 0], [0, 1, 0], [0.9989, 1e-3, 1e-4]]), "without_first", 1, 0)
    assert_close(got[2], [NAN, 10 / 11, 1 / 11], 2e-7)


@every_edit
@every_variant
def test_value_weighted_is_the_length_of_what_is_written(name: str, edit):
    """The vectors A[i, j] v_j W_O of all heads and keys, and the bias of o, sum to attn_out."""
    trace = traced(name, edit)
    config, attn = trace.config, trace.model.blocks[0].attn
    E, R = config.d_head, config.group_size
    for layer in range(L):
        attn = trace.model.blocks[layer].attn
        at = trace.sites(layer, ["pattern", "v", "attn_out"])
        total = torch.zeros(T, D) if attn.o.bias is None else attn.o.bias.detach().expand(T, D)
        for head in range(H):
            o = attn.o.weight[:, head * E : (head + 1) * E].detach()  # [D, E]
            assert torch.equal(output_weights(trace, layer)[head], o.T)
            v, pattern = at["v"][0, head // R], at["pattern"][0, head]
            written = torch.einsum("ij,je,de->ijd", pattern, v, o)
            expected = written.norm(dim=-1).masked_fill(torch.from_numpy(ABOVE), NAN)
            assert_close(measure(trace, "value_weighted", layer, head), expected, 1e-5, f"layer {layer}, head {head}")
            total = total + written.sum(1)
        assert_close(total, at["attn_out"][0], 2e-5, f"attn_out of layer {layer}")


def test_value_weighted_by_hand():
    """v = (3, 4, 0, ...) with the identity as W_O: 5 times the weight; a negative weight has a length as well."""
    model = tiny_model({"n_layer": 1, "d_head": D, "n_head": 1, "n_kv_head": 1})
    attn = model.blocks[0].attn
    attn.v.weight.data.zero_()
    attn.v.bias.data = torch.tensor([3.0, 4.0] + [0.0] * (D - 2))
    attn.o.weight.data = torch.eye(D)
    got = measure(fixed([[1, 0], [-0.5, 1.5]], model), "value_weighted", 0, 0)
    assert_close(got, [[5, NAN], [2.5, 7.5]], 1e-6)


# --- all layers up to one ---


def test_rollout_by_hand():
    """Mean patterns [[1, 0], [.5, .5]] and [[1, 0], [1, 0]] become A0 = [[1, 0], [.25, .75]], A1 = [[1, 0], [.5, .5]].

    R = A1 A0: its last row is .5 [1, 0] + .5 [.25, .75] = [.625, .375].
    """
    means = [torch.tensor([[1.0, 0], [0.5, 0.5]]), torch.tensor([[1.0, 0], [1, 0]])]
    low, high = (with_residual(mean) for mean in means)
    assert means[1].tolist() == [[1, 0], [1, 0]], "the input was changed"
    assert_close(low, [[1, 0], [0.25, 0.75]], 0)
    assert_close(high, [[1, 0], [0.5, 0.5]], 0)
    assert_close(rollout_of([low]), low, 0, "one layer")
    assert_close(rollout_of(iter([low, high])), [[1, 0], [0.625, 0.375]], 0)


def test_rollout_of_three_tokens_by_hand():
    """Last row [.25, .25, .5] of A1 over A0: .25 [1, 0, 0] + .25 [.5, .5, 0] + .5 [0, .4, .6] = [.375, .325, .3]."""
    low = torch.tensor([[1, 0, 0], [0.5, 0.5, 0], [0, 0.4, 0.6]])
    high = torch.tensor([[1, 0, 0], [0.2, 0.8, 0], [0.25, 0.25, 0.5]])
    assert_close(rollout_of([low, high]), [[1, 0, 0], [0.6, 0.4, 0], [0.375, 0.325, 0.3]], 1e-7)


def test_rows_are_made_to_sum_to_one():
    """An edit may leave a row with less: [[0, 0], [.25, .25]] gives [[.5, 0], [.125, .625]], then each over its sum."""
    assert_close(with_residual(torch.tensor([[0.0, 0], [0.25, 0.25]])), [[1, 0], [1 / 6, 5 / 6]], 1e-7)


@every_edit
@every_variant
def test_rollout_from_explicit_patterns(name: str, edit):
    trace = traced(name, edit)
    at, expected = forward(trace.model, edit), np.eye(T)
    for layer in range(L):
        mean = at["pattern", layer][0].double().mean(0).numpy()
        expected = (0.5 * mean + 0.5 * np.eye(T)) @ expected
        got = measure(trace, "rollout", layer, 0)
        assert_close(got, np.where(ABOVE, NAN, expected), 1e-5, f"layer {layer}")
        assert np.array_equal(got, measure(trace, "rollout", layer, H - 1), equal_nan=True), "of the layer, not a head"


def test_flow_by_hand():
    """A0 = [[1, 0], [.25, .75]] below A1 = [[1, 0], [.5, .5]].

    From token 1 to input 0: min(.5, 1) by token 0 and min(.5, .25) by token 1, .75 in all; to input 1: min(.5, .75).
    """
    low, high = torch.tensor([[1, 0], [0.25, 0.75]]), torch.tensor([[1, 0], [0.5, 0.5]])
    assert_close(flow_of([low, high]), [[1, NAN], [0.75, 0.5]], 0)
    assert_close(flow_of([low]), [[1, NAN], [0.25, 0.75]], 0, "one layer")


def test_flow_of_three_layers_has_to_go_around():
    """Below the two layers [[1, 0], [.5, .5]] lies [[1, 0], [.25, .75]].

    To input 0: .5 by token 0; the .5 at token 1 can all move to token 0, where the last pipe of 1 takes both: 1.
    Were it to stay at token 1, only .25 would pass. To input 1 leads token 1 alone: .5.
    """
    half, low = torch.tensor([[1, 0], [0.5, 0.5]]), torch.tensor([[1, 0], [0.25, 0.75]])
    assert_close(flow_of([low, half, half]), [[1, NAN], [1, 0.5]], 0)


def test_flow_of_three_tokens_by_hand():
    """Last row of A1 [.5, .25, .25], A0 [[1, 0, 0], [.25, .75, 0], [.125, .125, .75]].

    From token 2 to 0: .5 + .25 + .125; to 1: .25 by token 1 and .125 by token 2; to 2: .25.
    From token 1, [.5, .5, 0], to 0: .5 + .25; to 1: .5.
    """
    low = torch.tensor([[1, 0, 0], [0.25, 0.75, 0], [0.125, 0.125, 0.75]])
    high = torch.tensor([[1, 0, 0], [0.5, 0.5, 0], [0.5, 0.25, 0.25]])
    assert_close(flow_of([low, high]), [[1, NAN, NAN], [0.75, 0.5, NAN], [0.875, 0.375, 0.25]], 0)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_flow_equals_another_library(tokens: int, layers: int, seed: int):
    rng = np.random.default_rng(seed)
    mixed = [causal(rng, tokens) for _ in range(layers)]
    graph = networkx.DiGraph()
    for layer, each in enumerate(mixed):
        for t in range(tokens):
            for s in range(t + 1):
                graph.add_edge((layer + 1, t), (layer, s), capacity=each[t, s].item())
    got = flow_of(mixed)
    edges = layers * tokens * (tokens + 1) / 2
    for i in range(tokens):
        for j in range(i + 1):
            expected = networkx.maximum_flow_value(graph, (layers, i), (0, j))
            assert abs(got[i, j] - expected) <= edges / FLOW_UNIT + 1e-7, (i, j)  # and float32 rounding
    assert np.isnan(got[np.triu_indices(tokens, 1)]).all()


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 12), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_rollout_and_flow_of_any_layers(tokens: int, layers: int, seed: int):
    """A rollout is one way to fill the pipes, so no flow is less; nothing above 1 can leave a token."""
    rng = np.random.default_rng(seed)
    mixed = [with_residual(causal(rng, tokens).double()) for _ in range(layers)]
    before = [each.clone() for each in mixed]
    rollout, flow = rollout_of(mixed).numpy(), flow_of(mixed)
    past = np.tri(tokens, dtype=bool)
    assert_close(rollout.sum(1), np.ones(tokens), 1e-12, "rows of the rollout")
    assert (rollout[~past] == 0).all() and (rollout >= 0).all()
    assert (flow[past] >= rollout[past] - 1e-6).all() and (flow[past] <= 1).all()
    assert flow[0, 0] == 1
    assert all(torch.equal(*pair) for pair in zip(mixed, before, strict=True)), "an input was changed"


@every_edit
@pytest.mark.parametrize("name", FEW_VARIANTS)
def test_flow_of_a_trace(name: str, edit):
    trace = traced(name, edit)
    assert_close(measure(trace, "flow", 0, 0), np.where(ABOVE, NAN, mixing(trace, 0, torch.float64)), 1e-7)
    at = forward(trace.model, edit)
    mixed = [with_residual(at["pattern", layer][0].mean(0)) for layer in range(L)]
    for layer in range(1, L):
        assert_close(measure(trace, "flow", layer, 1), flow_of(mixed[: layer + 1]), 2e-5, f"layer {layer}")


def test_no_flow_exceeds_one_by_rounding():
    """Deep enough, all that leaves a token can reach input 0; rows of float32 sum to a little more than 1."""
    weights = torch.tril(torch.rand(T, T, generator=torch.Generator().manual_seed(0)))
    trace = fixed((weights / weights.sum(1, keepdim=True)).tolist(), tiny_model({"n_layer": 8}))
    flow = measure(trace, "flow", 7, 0)
    assert np.nanmax(flow) == 1 and (flow[:, 0] == 1).all()


# --- all measures ---


@every_edit
@pytest.mark.parametrize("length", [1, 2, T])
@every_variant
def test_what_every_measure_promises(name: str, length: int, edit):
    edit = edit if length == T else None  # the edits are made for T tokens
    trace = run(tiny_model(VARIANTS[name]), tokens_of(IDS[0, :length]), tap=edit)
    above = np.triu(np.ones((length, length), bool), 1)
    for key, each in MEASURES.items():
        got = measure(trace, key, L - 1, H - 1)
        assert got.shape == (length, length) and got.dtype == np.float32, key
        first = (np.arange(length) == 0) | (np.arange(length) == 0)[:, None]
        undefined = above | first if key == "without_first" else above
        assert np.array_equal(np.isnan(got), undefined), f"NaN in other places: {key}"
        seen = got[~undefined]
        if each.scale == "share":
            assert (seen >= 0).all() and (seen <= 1 + 2e-6).all(), key
        if each.scale == "size":
            assert (seen >= 0).all(), key
        if each.scale == "share" and key != "flow":
            rows = np.nansum(got, 1)
            assert_close(rows, np.arange(length) > 0 if key == "without_first" else np.ones(length), 5e-6, key)


@pytest.mark.parametrize("key", MEASURES)
def test_nothing_is_changed_by_measuring(key: str):
    held = torch.tril(torch.rand(T, T, generator=torch.Generator().manual_seed(2))) + 0.1 * torch.eye(T)
    held = (held / held.sum(1, keepdim=True)).expand(1, H, T, T).contiguous()
    before = held.clone()
    model = tiny_model()
    trace = run(model, tokens_of(IDS[0]), tap=lambda site, layer, x: held if site == "pattern" else x)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    residuals = trace.residuals.clone()
    first = measure(trace, key, 1, 2)
    first_copy = first.copy()
    first[:] = -7  # what is handed out is nobody else's
    assert np.array_equal(measure(trace, key, 1, 2), first_copy, equal_nan=True)
    assert torch.equal(held, before) and torch.equal(trace.residuals, residuals)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


def test_the_table():
    assert list(MEASURES) == ["weights", "scores", "without_first", "value_weighted", "rollout", "flow"]
    assert [name for name, each in MEASURES.items() if each.of == "layer"] == ["rollout", "flow"]
    assert [name for name, each in MEASURES.items() if each.scale != "share"] == ["scores", "value_weighted"]
    for name, each in MEASURES.items():
        assert each.formula and each.source, name


# --- what is refused ---


@pytest.mark.parametrize("edit", [None, steer], ids=["plain", "edited"])
@pytest.mark.parametrize(
    ("ask", "what"),
    [
        (
            lambda t: measure(t, "importance", 0, 0),
            "No measure has this name.*importance.*weights, scores, without_first",
        ),
        *[(lambda t, key=key: measure(t, key, L, 0), "layer does not exist.*3.*0 to 2") for key in MEASURES],
        *[(lambda t, key=key: measure(t, key, -1, 0), "layer does not exist") for key in MEASURES],
        *[
            (lambda t, key=key: measure(t, key, 0, H), "head does not exist")
            for key in ("weights", "scores", "without_first", "value_weighted")
        ],
    ],
)
def test_refused(ask, what: str, edit):
    with pytest.raises(InputError, match=what):
        ask(traced(edit=edit))


def test_flow_stops_at_its_limit():
    model = tiny_model({"n_ctx": FLOW_TOKENS + 1, "n_layer": 1})
    ids = random_ids(1, FLOW_TOKENS + 1)[0]
    assert measure(run(model, tokens_of(ids[:-1])), "flow", 0, 0).shape == (FLOW_TOKENS, FLOW_TOKENS)
    with pytest.raises(InputError, match=f"too long.*{FLOW_TOKENS + 1} tokens.*{FLOW_TOKENS} tokens or fewer"):
        measure(run(model, tokens_of(ids)), "flow", 0, 0)
    assert N_CTX < FLOW_TOKENS  # the other tests lie within it


@pytest.mark.parametrize("two_way", [False, True])
def test_cells_outside_a_window_have_no_weight_unless_an_edit_puts_some_there(two_way):
    width = 5
    changes = {"mixer": "sliding_window", "window": width, "two_way": two_way}
    model, tokens = tiny_model(changes), tokens_of(random_ids(1, 12)[0])
    near = np.array([[abs(i - j) <= 2 if two_way else 0 <= i - j < width for j in range(12)] for i in range(12)])
    plain = run(model, tokens)
    for name in ("weights", "value_weighted"):
        assert np.array_equal(np.isfinite(measure(plain, name, 1, 2)), near), name
    if not two_way:
        forced = run(model, tokens, tap=force)
        weights = measure(forced, "weights", 1, 2)
        assert (weights[:, 0] == 1).all() and np.isnan(weights[8, 1])
