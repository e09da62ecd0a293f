"""Changed norms: each change equals a model that has such a norm, and numbers that overflow are told, not spread."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from model.activations.norm_swap import (
    SWAPS,
    WHERE,
    NormInput,
    Swap,
    divergence_at,
    mean_divisor,
    places_of,
    swapped,
    swaps_of,
)
from model.activations.norm_walk import SITES, norm_of, norms_of
from model.attention.effects import Target, metric, next_tokens
from model.errors import InputError
from model.gpt.edits import Edit
from model.gpt.tap import compose, identity, record
from model.tracing.trace import Trace, run
from tests.support.models.helpers import (
    ALL_VARIANTS,
    FEW_VARIANTS,
    VARIANTS,
    D,
    L,
    assert_close,
    random_ids,
    steer,
    tiny_config,
    tiny_model,
    tokens_of,
)

T = 11
IDS = random_ids(1, T, seed=5)[0]
EDITS = (Edit("scale", 0, 1, factor=-2.0), Edit("previous_token", 1, 2), Edit("block_edge", query=7, key=2))
CASES = [(name, swap) for name in FEW_VARIANTS for swap in swaps_of(tiny_config(VARIANTS[name]))]
CASES += [("bloom", "other"), ("bloom", "frozen"), ("olmo", "other")]


def traced(name: str = "gpt2", ids=IDS, edits=()) -> Trace:
    return run(tiny_model(ALL_VARIANTS[name]), tokens_of(ids), edits=edits)


class Instead(nn.Module):
    """Another norm in the place of one, by its textbook formula."""

    def __init__(self, norm, swap: str, divisor: float) -> None:
        super().__init__()
        self.norm, self.swap, self.divisor = norm, swap, divisor

    def forward(self, x):
        w, b, eps, centers = self.norm.weight, self.norm.bias, self.norm.eps, self.norm.kind == "layernorm"
        zero = torch.zeros(D) if b is None else b
        if self.swap == "other":
            return F.rms_norm(x, (D,), w, eps) + zero if centers else F.layer_norm(x, (D,), w, None, eps)
        if self.swap == "no_mean":
            return x / (x.var(-1, correction=0, keepdim=True) + eps).sqrt() * w + zero
        if self.swap == "no_gain":
            return F.layer_norm(x, (D,), None, b, eps) if centers else F.rms_norm(x, (D,), None, eps)
        if self.swap == "no_bias":
            return F.layer_norm(x, (D,), w, None, eps)
        if self.swap == "frozen":
            return (x - x.mean(-1, keepdim=True) if centers else x) * (w / self.divisor) + zero
        assert self.swap == "removed"
        return x

    def tapped(self, x, name, layer, each):
        return self(x)


def rebuilt(trace: Trace, swap: str, places) -> Trace:
    """A run of a copy of the model that has other norms at those places."""
    store: dict = {}
    sites = [f"{site}_scale" for site in SITES]
    with torch.no_grad():
        ids = torch.tensor(trace.key.ids)[None]
        trace.model(ids, tap=compose(trace.tap or identity, record(sites, store)))
    model = copy.deepcopy(trace.model)
    for layer, site in places:
        made = Instead(norm_of(trace.model, layer, site), swap, float(store[f"{site}_scale", layer].mean()))
        whole = {"final": "final_norm", "embed_norm": "embed_norm"}
        setattr(model if site in whole else model.blocks[layer], whole.get(site, site), made)
    return run(model, trace.tokens, edits=trace.key.edits)


def assert_near(actual, expected, what: str) -> None:
    """Within 1e-4 of the largest number; the paths differ by rounding, and some changes make numbers large."""
    assert_close(actual, expected, 1e-4 * max(1.0, float(np.abs(expected).max())), what)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    x = logits.astype(np.float64)
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


# --- each change, on every way a block can be wired ---


@pytest.mark.parametrize(("name", "swap"), CASES)
def test_a_change_equals_a_model_with_such_norms(name: str, swap: str):
    """At all norms, those of one kind, and single ones; of a run with edits, and for all of a plain one."""
    plain, edited = traced(name), traced(name, edits=EDITS)
    choices = [places_of(plain.config, where) for where in ("all", *SITES)]
    single = [place for place in norms_of(plain.config) if place in ((1, "norm1"), (2, "norm2"), (1, "after1"))]
    choices = [each for each in (*choices, *((place,) for place in single)) if each]
    for trace, places in [(plain, choices[0]), *((edited, each) for each in choices)]:
        found, expected = swapped(trace, swap, places), rebuilt(trace, swap, places)
        what = f"{swap} at {places}"
        assert found.overflow is None and len(found.read) == T
        assert_near(found.lengths, expected.residuals.double().norm(dim=-1).numpy(), f"stream with {what}")
        assert (found.before == trace.residuals.double().norm(dim=-1).numpy()).all()
        logits = np.stack([found.logits_at(position) for position in range(T)])
        assert_near(logits, expected.logits, f"logits with {what}")
        p, q = log_softmax(trace.logits), log_softmax(logits)
        assert found.kl == pytest.approx((np.exp(p) * (p - q)).sum(1).mean(), rel=1e-4, abs=1e-6)
        losses = [-x[np.arange(T - 1), IDS[1:]].mean() for x in (p, q)]
        assert found.losses == pytest.approx(losses, rel=1e-4)
        assert divergence_at(trace.logits_at(-1), logits[-1]) == pytest.approx(
            (np.exp(p) * (p - q))[-1].sum(), rel=1e-4, abs=1e-6
        )
        # A single norm may change nothing: where a norm follows, it undoes another scale.
        assert found.kl > 1e-7 or places != choices[0], what


@pytest.mark.parametrize("name", VARIANTS)
def test_a_norm_exchanged_for_itself_changes_nothing(name: str, monkeypatch):
    def same(seen: NormInput):
        if seen.kind == "layernorm":
            return F.layer_norm(seen.x, (D,), seen.gain, torch.zeros(D) + seen.bias, seen.eps)
        return F.rms_norm(seen.x, (D,), seen.gain, seen.eps)

    monkeypatch.setitem(SWAPS, "same", Swap("The same norm.", same))
    for edits in ((), EDITS):
        trace = traced(name, edits=edits)
        found = swapped(trace, "same", places_of(trace.config, "all"))
        assert_close(found.lengths, trace.residuals.double().norm(dim=-1), 2e-5)
        assert_close(found.logits_at(4), trace.logits_at(4), 2e-5)
        assert 0 <= found.kl < 1e-9
        assert found.losses[0] == pytest.approx(metric(trace, Target("loss")), abs=1e-6)
        assert found.losses[1] == pytest.approx(found.losses[0], abs=1e-6)


@pytest.mark.parametrize("name", VARIANTS)
def test_changes_that_have_nothing_to_change(name: str):
    """Gains that are 1 and one token, whose mean divisor is its own, leave the run as it is."""
    trace = traced(name, ids=IDS[:1])
    found = swapped(trace, "frozen", places_of(trace.config, "all"))
    assert found.kl < 1e-9 and found.losses is None and found.lengths.shape == (L + 1, 1)
    model = tiny_model(VARIANTS[name])
    with torch.no_grad():
        for place in places_of(model.config, "all"):
            norm_of(model, *place).weight.fill_(1.0)
    trace = run(model, tokens_of(IDS))
    assert swapped(trace, "no_gain", places_of(trace.config, "all")).kl < 1e-9


def test_a_frozen_divisor_is_the_mean_of_the_run_as_it_is():
    trace, store = traced(edits=EDITS), {}
    with torch.no_grad():
        trace.model(IDS[None], tap=compose(trace.tap, record(["norm2_scale"], store)))
    assert mean_divisor(trace, 1, "norm2") == pytest.approx(float(store["norm2_scale", 1].mean()), rel=1e-5)


def test_the_final_norm_alone_runs_no_block(monkeypatch):
    trace = traced()
    monkeypatch.setattr(trace.model.blocks[0].__class__, "forward", lambda *_: pytest.fail("a block ran"))
    found = swapped(trace, "no_gain", places_of(trace.config, "final"))
    assert (found.lengths == trace.residuals.double().norm(dim=-1).numpy()).all() and found.kl > 1e-3


def test_frozen_without_bias_keeps_the_order_of_a_tokens_logits():
    """Dividing by another number scales all logits of a token alike."""
    trace = traced("llama")
    found = swapped(trace, "frozen", places_of(trace.config, "final"))
    ratio = found.logits_at(3) / trace.logits_at(3)
    assert ratio.std() < 1e-5 * abs(ratio.mean()) and abs(ratio.mean() - 1) > 1e-3


# --- which there are ---


@pytest.mark.parametrize("name", VARIANTS)
def test_where_and_what(name: str):
    config = tiny_config(VARIANTS[name])
    assert places_of(config, "norm2") == tuple((layer, "norm2") for layer in range(L))
    assert places_of(config, "final") == (((L, "final"),) if config.final_norm else ())
    assert set(places_of(config, "all")) == {
        place for where in WHERE if where != "one" for place in places_of(config, where)
    }
    assert ("no_bias" in swaps_of(config)) == (config.norm == "layernorm" and config.norm_bias)
    assert ("no_mean" in swaps_of(config)) == (config.norm == "layernorm")


def test_what_is_refused():
    trace = traced("llama")
    places = places_of(trace.config, "all")
    for swap, where, said in (
        ("nothing", places, "No change of a norm"),
        (None, places, "No change of a norm"),
        ("no_bias", places, "have no such part"),
        ("removed", (), "is empty.*places"),
        ("removed", ((0, "norm9"),), "No norm has this name"),
        ("removed", ((L, "norm1"),), "layer"),
    ):
        with pytest.raises(InputError, match=said):
            swapped(trace, swap, where)
    with pytest.raises(ValueError, match="tap"):
        swapped(run(trace.model, trace.tokens, tap=steer), "removed", places)
    found = swapped(trace, "other", places)
    for position in (-1, T):
        with pytest.raises(InputError, match="no numbers"):
            found.logits_at(position)


def test_progress_runs_to_its_end_and_can_cancel():
    trace, seen = traced(), []
    swapped(trace, "other", ((1, "norm2"),), lambda done, total, what: seen.append((done, total, what)))
    assert seen == [(1, 3, "Changing norms"), (2, 3, "Changing norms"), (3, 3, "Changing norms")]

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        swapped(trace, "other", ((1, "norm2"),), stop)


def test_the_table_of_next_tokens_reads_a_changed_run():
    trace = traced()
    found = swapped(trace, "removed", ((0, "norm1"),))
    table = next_tokens(trace, found, 3, 5)
    assert np.allclose(table["logit_after"], found.logits_at(3)[table["id"]])
    assert np.allclose(table["p_before"], np.exp(log_softmax(trace.logits_at(3)))[table["id"]])


# --- numbers that overflow ---


def wild(name: str = "llama", at: int = 6) -> Trace:
    """A run in which the token at `at` comes in so large that without norms its products leave float32."""
    model = tiny_model(VARIANTS[name] | {"tie_embeddings": False})
    ids = IDS.clone()
    ids[ids == 52] = 51
    ids[at] = 52
    with torch.no_grad():
        model.embed.weight[52] *= 1e15
    return run(model, tokens_of(ids))


@pytest.mark.parametrize("name", ["llama", "mqa"])
def test_tokens_before_the_one_that_overflows_keep_their_numbers(name: str):
    trace = wild(name)
    assert np.isfinite(trace.logits).all()
    found = swapped(trace, "removed", places_of(trace.config, "norm2"))
    assert found.overflow == 1 and len(found.read) == 6
    assert np.isfinite(found.lengths[:2]).all() and np.isnan(found.lengths[2:, 6:]).all()
    short = run(trace.model, tokens_of(trace.tokens.ids[:6]))
    expected = swapped(short, "removed", places_of(trace.config, "norm2"))
    assert_close(found.lengths[:, :6], expected.lengths, 1e-4)
    assert_close(found.logits_at(5), expected.logits_at(5), 1e-4)
    assert found.kl == pytest.approx(expected.kl, rel=1e-5)
    # The next token of the last one that counts is the one that overflowed: it can still be scored.
    p, q = (log_softmax(np.stack([each.logits_at(t) for t in range(6)])) for each in (trace, found))
    wanted = trace.tokens.ids[1:7]
    assert found.losses == pytest.approx([-x[np.arange(6), wanted].mean() for x in (p, q)], rel=1e-4)
    with pytest.raises(InputError, match="no numbers"):
        found.logits_at(6)


def test_all_tokens_lost():
    found = swapped(wild(at=0), "removed", places_of(wild().config, "norm2"))
    assert found.overflow == 1 and len(found.read) == 0 and found.kl is None and found.losses is None
    assert np.isnan(found.lengths[2:]).all()


def test_an_overflow_at_the_very_end():
    """The stream is finite, what the head makes of it is not."""
    model = tiny_model(VARIANTS["gpt2"] | {"tie_embeddings": False})
    with torch.no_grad():
        model.unembed.weight *= 1e20
        model.embed.weight[int(IDS[6])] *= 1e20
    trace = run(model, tokens_of(IDS))
    first = IDS.tolist().index(int(IDS[6]))
    found = swapped(trace, "removed", places_of(trace.config, "final"))
    assert found.overflow == L and len(found.read) == first and np.isfinite(found.lengths).all()
    assert np.isfinite([found.logits_at(t) for t in range(first)]).all()
