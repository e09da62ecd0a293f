"""A trace recomputes from the residual stream exactly what the forward computed, with and without edits."""

import numpy as np
import pytest
import torch

from model.errors import InputError
from model.gpt.tap import SITES, compose, record
from model.records import RunKey
from model.tracing.head_metrics import (
    HEAD_METRICS,
    find_repeats,
    head_metrics,
    rows_from_pattern,
    thumbnails_from_pattern,
)
from model.tracing.trace import Trace, check_length, run
from tests.support.models.helpers import (
    N_CTX,
    VARIANTS,
    D,
    E,
    H,
    L,
    M,
    V,
    assert_close,
    force,
    random_ids,
    steer,
    tiny_model,
    tokens_of,
)
from tests.support.models.rounding import logits_within, products, rounded, shares_within, sums, within

T = 19
IDS = random_ids(1, T, seed=3, vocab_size=9)  # nine ids among 19 tokens: there are repeats
ABOVE = np.triu(np.ones((T, T), bool), 1)


def zero_head(site: str, layer: int, x: torch.Tensor) -> torch.Tensor:
    """Head 1 of layer 0 writes nothing."""
    if (site, layer) != ("z", 0):
        return x
    x = x.clone()
    x[:, 1] = 0
    return x


def sharpen(site: str, layer: int, x: torch.Tensor) -> torch.Tensor:
    """The scores of layer 2 are doubled, as by a temperature of 1/2."""
    return x * 2 if (site, layer) == ("scores", 2) else x


EDITS = {"none": None, "double the scores": sharpen, "zero a head": zero_head, "steer": steer, "force a pattern": force}


@torch.no_grad()
def forward(model, edit=None) -> tuple[torch.Tensor, dict]:
    """Logits [T, V] and every site of one explicit forward."""
    store: dict = {}
    tap = record(SITES, store)
    return model(IDS, tap=tap if edit is None else compose(edit, tap))[0], store


def traced(name: str = "gpt2", edit=None) -> Trace:
    return run(tiny_model(VARIANTS[name]), tokens_of(IDS[0]), tap=edit)


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
@pytest.mark.parametrize("name", VARIANTS)
def test_everything_equals_the_explicit_forward(name: str, edit):
    trace = traced(name, edit)
    logits, at = forward(trace.model, edit)
    config, R, bound = trace.config, trace.config.group_size, within(trace.model, IDS, edit, SITES)
    rotated = "_rot" if config.positions == "rope" else ""
    assert_close(trace.logits, logits, bound["logits", L][0], "logits")
    assert_close(trace.logits_at(-1), logits[-1], bound["logits", L][0, -1], "logits of the last position")
    repeats = find_repeats(IDS[0])
    table = trace.head_metrics().to_numpy().reshape(L, H, -1)
    for layer in range(L):
        for head in range(H):
            what = f"layer {layer}, head {head}"
            qkv, scores, pattern = trace.qkv(layer, head), trace.scores(layer, head), trace.pattern(layer, head)
            shown = (
                (f"q{rotated}", head, qkv.q),
                (f"k{rotated}", head // R, qkv.k),
                ("v", head // R, qkv.v),
                ("pattern", head, pattern),
                ("z", head, trace.z(layer, head)),
                ("scores", head, np.where(ABOVE, -np.inf, scores)),
            )
            for site, n, values in shown:
                assert_close(values, at[site, layer][0, n], bound[site, layer][0, n], f"{site} of {what}")
            assert np.isnan(scores[ABOVE]).all() and np.isfinite(scores[~ABOVE]).all(), what
        assert_close(trace.mlp_activations(layer), at["mlp_post", layer][0], bound["mlp_post", layer][0], "MLP")
        if edit is not steer:  # hidden() is what the block before wrote; the edit comes after it
            assert_close(trace.hidden(layer), at["resid_pre", layer][0], bound["resid_pre", layer][0], f"into {layer}")
        whole = at["pattern", layer][0]
        assert_close(table[layer], head_metrics(rows_from_pattern(whole, repeats), repeats), 1e-4, f"metrics {layer}")
        codes = thumbnails_from_pattern(whole).int()
        assert np.abs(trace.thumbnails[layer].astype(int) - codes.numpy()).max() <= 1
    assert_close(trace.hidden(L), at["resid_post", L - 1][0], bound["resid_post", L - 1][0], "after the last block")


@pytest.mark.parametrize("name", VARIANTS)
def test_identities_of_one_head(name: str):
    trace = traced(name)
    bound = within(trace.model, IDS, sites=["z"])
    for layer in range(L):
        for head in range(H):
            qkv, scores, pattern = trace.qkv(layer, head), trace.scores(layer, head), trace.pattern(layer, head)
            assert pattern.dtype == scores.dtype == np.float32
            assert_close(pattern.sum(1), np.ones(T), sums(T, 1), "rows sum to 1")
            assert (pattern[ABOVE] == 0).all() and (pattern >= 0).all()
            root, off = np.sqrt(qkv.q.shape[1]), products(qkv.q, qkv.k.T)
            assert_close(scores[~ABOVE], (qkv.q @ qkv.k.T / root)[~ABOVE], (off / root)[~ABOVE], "q.k / sqrt(d)")
            e = np.exp(np.where(ABOVE, -np.inf, scores))
            off = shares_within(pattern, rounded(2 * np.nanmax(np.abs(scores))))
            assert_close(e / e.sum(1, keepdims=True), pattern, off, "softmax of the scores")
            off = products(pattern, qkv.v) + bound["z", layer][0, head]
            assert_close(pattern @ qkv.v, trace.z(layer, head), off, "pattern times values")


@pytest.mark.parametrize("name", VARIANTS)
def test_without_edits_the_logits_are_the_models(name: str):
    trace = traced(name)
    bound = logits_within(trace.model, IDS)[0]
    with torch.no_grad():
        assert_close(trace.logits, trace.model(IDS)[0], bound)
    for position in (0, 7, T - 1):
        assert_close(trace.logits_at(position), trace.logits[position], bound[position], str(position))
        assert_close(trace.logits_at(position - T), trace.logits[position], bound[position], "counted from the end")


def test_shapes_and_key():
    trace = run(tiny_model(), tokens_of(IDS[0]), model_id="tiny")
    assert trace.key == RunKey("tiny", tuple(IDS[0].tolist()))
    assert trace.residuals.shape == (L + 1, T, D)
    assert trace.thumbnails.shape == (L, H, T, T)
    assert trace.logits.shape == (T, V) and trace.logits_at(0).shape == (V,)
    assert trace.mlp_activations(0).shape == (T, M)
    assert trace.qkv(0, 0).k.shape == (T, E)
    assert trace.rows.shape == (7, L, H, T)
    kept = trace.residuals.nbytes + trace.thumbnails.nbytes + trace.metrics.nbytes + trace.rows.nbytes
    assert trace.nbytes == kept + T * V * 4 + V * 4  # all logits, and those of the position asked for last
    assert trace.seconds > 0


def test_the_logits_of_the_last_position_are_read_once(monkeypatch):
    trace, made, logits = traced(), [], Trace._logits
    monkeypatch.setattr(Trace, "_logits", lambda self, x: (made.append(len(x)), logits(self, x))[1])
    for position, n in ((2, 1), (2, 1), (2 - T, 1), (3, 2), (2, 3)):
        assert_close(trace.logits_at(position), logits(trace, trace.residuals[-1])[position], 5e-6)
        assert made == [1] * n


def test_head_metrics_table():
    table = traced().head_metrics()
    assert list(table.columns) == list(HEAD_METRICS)
    assert table.index.names == ["layer", "head"]
    assert list(table.index) == [(layer, head) for layer in range(L) for head in range(H)]


# --- norms ---


@pytest.mark.parametrize(
    ("name", "per_token"), [("gpt2", 2 * L + 1), ("neox", 2 * L + 1), ("post", 2 * L), ("mqa", 2 * L)]
)
def test_norms_by_their_definitions(name: str, per_token: int):
    trace = traced(name)
    table = trace.norms()
    assert len(table) == per_token * T
    assert list(table.columns) == ["site", "layer", "token", "mean", "variance", "rms", "norm"]
    square, norm = table["rms"].to_numpy() ** 2, table["norm"].to_numpy()
    assert_close(square, (table["mean"] ** 2 + table["variance"]).to_numpy(), sums(D, square))
    assert_close(norm, table["rms"].to_numpy() * np.sqrt(D), sums(D, norm))
    _, at = forward(trace.model)
    sites = [f"{norm}_{what}" for norm in ("norm1", "norm2", "final") for what in ("in", "scale")]
    bound = within(trace.model, IDS, sites=sites)
    for (site, layer), rows in table.groupby(["site", "layer"]):
        x = at[f"{site}_in", layer][0].double().numpy()
        assert rows["token"].tolist() == list(range(T))
        # x is another forward's: each number is off by up to `off`, and sums of D of them are rounded
        off, size = bound[f"{site}_in", layer][0, :, 0].numpy(), np.sqrt((x**2).mean(1))
        assert_close(rows["mean"].to_numpy(), x.sum(1) / D, off + sums(D, size).numpy(), f"{site} {layer} mean")
        variance = ((x - x.sum(1, keepdims=True) / D) ** 2).sum(1) / D
        assert_close(rows["variance"].to_numpy(), variance, 2 * size * off + sums(D, size**2).numpy(), "variance")
        length = np.sqrt((x**2).sum(1))
        assert_close(rows["norm"].to_numpy(), length, np.sqrt(D) * off + sums(D, length).numpy(), "length")
        if trace.config.norm == "layernorm":
            scale = at[f"{site}_scale", layer][0, :, 0]
            off = bound[f"{site}_scale", layer][0, :, 0]
            assert_close(np.sqrt(rows["variance"].to_numpy() + 1e-5), scale, off, f"{site} {layer} divisor")


def test_norms_of_a_stream_known_by_hand():
    """Every embedding is (3, 4) repeated, without positions: mean 3.5, variance 1/4, mean square 12.5."""
    model = tiny_model({"positions": "none", "n_layer": 1})
    model.embed.weight.data = torch.tensor([3.0, 4.0]).repeat(V, D // 2)
    model.tie()
    row = run(model, tokens_of([1, 2])).norms().query("site == 'norm1'").iloc[1]
    assert (row["layer"], row["token"]) == (0, 1)
    assert row["mean"] == pytest.approx(3.5)
    assert row["variance"] == pytest.approx(0.25, rel=1e-5)
    assert row["rms"] == pytest.approx(np.sqrt(12.5))
    assert row["norm"] == pytest.approx(np.sqrt(12.5 * D))


# --- edits ---


def test_a_zeroed_head_shows_in_every_method():
    plain, edited = traced(), traced(edit=zero_head)
    assert (edited.z(0, 1) == 0).all()
    off = within(plain.model, IDS, sites=["pattern"])["pattern", 0][0, 1]
    assert_close(edited.pattern(0, 1), plain.pattern(0, 1), off, "its pattern is what it was")
    assert np.array_equal(edited.hidden(0), plain.hidden(0))
    for ours, theirs in (
        (edited.hidden(1), plain.hidden(1)),
        (edited.pattern(1, 0), plain.pattern(1, 0)),
        (edited.mlp_activations(0), plain.mlp_activations(0)),
        (edited.logits, plain.logits),
    ):
        assert np.abs(ours - theirs).max() > 1e-3


def test_a_forced_pattern_is_what_is_shown():
    trace = traced(edit=force)
    assert (trace.pattern(1, 2)[:, 0] == 1).all()
    assert trace.head_metrics().loc[(1, 2), "first_token"] == 1
    assert (trace.thumbnails[1, 2][:, 0] == 254).all()
    assert_close(trace.z(1, 2), np.broadcast_to(trace.qkv(1, 2).v[0], (T, E)), 1e-6)


def test_an_edit_is_applied_once():
    """A recomputed block must not add a steering vector on top of the one already in the stream."""
    trace = traced(edit=steer)
    _, at = forward(trace.model, steer)
    off = within(trace.model, IDS, steer, ["resid_pre"])["resid_pre", 1]
    assert_close(trace.sites(1, ["resid_pre"])["resid_pre"], at["resid_pre", 1], off)


# --- what is refused ---


@pytest.mark.parametrize("edit", [None, zero_head])
@pytest.mark.parametrize(
    ("ask", "what"),
    [
        (lambda t: t.pattern(L, 0), "layer does not exist"),
        (lambda t: t.pattern(-1, 0), "layer does not exist"),
        (lambda t: t.pattern(0, H), "head does not exist"),
        (lambda t: t.scores(0, -1), "head does not exist"),
        (lambda t: t.qkv(L, 0), "layer does not exist"),
        (lambda t: t.qkv(0, H), "head does not exist"),
        (lambda t: t.z(0, H), "head does not exist"),
        (lambda t: t.z(L, 0), "layer does not exist"),
        (lambda t: t.mlp_activations(L), "layer does not exist"),
        (lambda t: t.hidden(L + 1), "layer does not exist"),
        (lambda t: t.hidden(-1), "layer does not exist"),
        (lambda t: t.logits_at(T), "position does not exist"),
        (lambda t: t.logits_at(-T - 1), "position does not exist"),
        (lambda t: t.sites(0, ["mlp_up"]), "no such site"),  # SwiGLU only
    ],
)
def test_out_of_range(ask, what: str, edit):
    with pytest.raises(InputError, match=what):
        ask(traced(edit=edit))


def test_an_unknown_site_is_a_programmers_mistake():
    with pytest.raises(InputError, match=r"names\[0\]: attention"):
        traced().sites(0, ["attention"])


def test_an_empty_and_an_overlong_prompt():
    with pytest.raises(InputError, match="The prompt is empty"):
        run(tiny_model(), tokens_of([]))
    with pytest.raises(InputError, match=f"too long.*{N_CTX + 1} tokens.*{N_CTX} tokens or fewer"):
        run(tiny_model(), tokens_of([0] * (N_CTX + 1)))
    check_length(1, 1)


def test_a_single_token():
    trace = run(tiny_model(), tokens_of([5]))
    assert trace.pattern(2, 3).tolist() == [[1.0]]
    assert trace.logits.shape == (1, V)
    assert trace.thumbnails.tolist() == [[[[254]]] * H] * L
