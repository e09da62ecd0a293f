"""Sweeps and patches, in batches, equal one edit at a time."""

import numpy as np
import pytest
import torch

from model.attention import effects, targets
from model.attention.effects import (
    PATCH_SITES,
    TARGETS,
    Target,
    metric,
    next_tokens,
    patch,
    patch_heads,
    recovered,
    sweep,
)
from model.errors import InputError
from model.gpt.edits import Edit, tap_of
from model.tracing.trace import Trace, run
from tests.support.models.helpers import FEW_VARIANTS, VARIANTS, H, L, V, assert_close, tiny_model, tokens_of
from tests.support.models.two_runs import EDITS, IDS, TARGET, T, number, off, pair, traced

# --- the numbers ---


@pytest.mark.parametrize("name", VARIANTS)
def test_metrics_by_their_definitions(name: str):
    before = traced(name)
    trace = before.edit(Edit("zero", 1, 2))
    logits, other = trace.logits.astype(np.float64), before.logits.astype(np.float64)
    p, q = (np.exp(x) / np.exp(x).sum(1, keepdims=True) for x in (logits, other))
    loss = np.mean([-np.log(p[t, IDS[0, t + 1]]) for t in range(T - 1)])
    assert metric(trace, TARGET["logit"]) == pytest.approx(logits[-1, 5], abs=1e-5)
    assert metric(trace, TARGET["difference"]) == pytest.approx(logits[6, 5] - logits[6, 7], abs=1e-5)
    assert metric(trace, TARGET["probability"]) == pytest.approx(p[-3, 5], abs=1e-6)
    assert metric(trace, TARGET["loss"]) == pytest.approx(loss, abs=1e-5)
    kl = (q[-1] * np.log(q[-1] / p[-1])).sum()
    assert kl > 1e-3  # the edit matters, so that the direction of the divergence can be seen
    assert metric(trace, TARGET["kl"], before) == pytest.approx(kl, rel=1e-4, abs=1e-6)
    assert metric(trace, TARGET["kl"]) == pytest.approx(0, abs=1e-9)


# --- sweep ---


def one_by_one(trace: Trace, how: str, target: Target) -> np.ndarray:
    """Each head ablated in a run of its own."""
    start = metric(trace, target, trace)
    values = [metric(trace.edit(Edit(how, n, m)), target, trace) - start for n in range(L) for m in range(H)]
    return np.array(values).reshape(L, H)


@pytest.mark.parametrize("edits", [(), EDITS], ids=["unedited", "edited"])
@pytest.mark.parametrize("how", ["zero", "mean"])
@pytest.mark.parametrize("name", FEW_VARIANTS)
def test_a_sweep_is_one_edit_at_a_time(name: str, how: str, edits: tuple[Edit, ...]):
    trace = traced(name, edits=edits)
    for target in (TARGET["difference"], TARGET["kl"]):
        result = sweep(trace, how, target)
        assert result.shape == (L, H) and result.dtype == np.float32
        assert_close(result, one_by_one(trace, how, target), off(trace), target.kind)
        assert np.abs(result).max() > 5 * off(trace)  # or the comparison would see nothing


@pytest.mark.parametrize("kind", TARGETS)
def test_a_sweep_of_every_target(kind: str):
    trace = traced("gqa", edits=EDITS)
    assert_close(sweep(trace, "zero", TARGET[kind]), one_by_one(trace, "zero", TARGET[kind]), off(trace))


def test_a_head_that_writes_nothing_does_not_matter():
    trace = traced(edits=(Edit("zero", 1, 2),))
    result = sweep(trace, "zero", TARGET["logit"])
    assert abs(result[1, 2]) < off(trace) < np.abs(np.delete(result, H + 2)).min()


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("tokens", [1, 3 * T, 5 * T, 10**6])
def test_how_it_is_cut_into_batches_does_not_show(tokens: int, kind: str, monkeypatch):
    trace, (clean, corrupted) = traced("llama"), pair("llama")
    swept = sweep(trace, "mean", TARGET[kind])
    patched = None if kind in ("kl", "loss") else patch(clean, corrupted, TARGET[kind], "mlp_out")
    heads = None if patched is None else patch_heads(clean, corrupted, TARGET[kind])
    monkeypatch.setattr(effects, "_TOKENS", tokens)
    monkeypatch.setattr(targets, "_LOGIT_BYTES", 4 * V * 7)  # 7 rows of logits, across sequences of 10
    assert_close(sweep(trace, "mean", TARGET[kind]), swept, off(trace))
    if patched is not None:
        assert_close(patch(clean, corrupted, TARGET[kind], "mlp_out"), patched, off(clean, corrupted))
        assert_close(patch_heads(clean, corrupted, TARGET[kind]), heads, off(clean, corrupted))


def test_a_trace_is_left_as_it_was():
    clean, corrupted = pair(edits=EDITS)
    before = [trace.residuals.clone() for trace in (clean, corrupted)]
    sweep(clean, "mean", TARGET["loss"])
    patch(clean, corrupted, TARGET["logit"], "resid_pre")
    patch_heads(clean, corrupted, TARGET["logit"])
    assert torch.equal(clean.residuals, before[0]) and torch.equal(corrupted.residuals, before[1])


# --- patch ---


def patched_by_hand(clean: Trace, corrupted: Trace, target: Target, site: str) -> np.ndarray:
    """Each place in an explicit forward of its own, through a tap written here."""
    means = {(n, m): torch.from_numpy(corrupted.unedited().z(n, m)).mean(0) for n in range(L) for m in range(H)}
    edit, ids = tap_of(corrupted.key.edits, means), torch.from_numpy(corrupted.tokens.ids)[None]
    values = np.zeros((L, T))
    for layer in range(L):
        vectors = clean.sites(layer, [site])[site][0]
        for position in range(T):

            def tap(at: str, n: int, x: torch.Tensor, layer=layer, position=position, vectors=vectors) -> torch.Tensor:
                x = edit(at, n, x)
                if (at, n) != (site, layer):
                    return x
                return torch.cat((x[:, :position], vectors[None, position, None], x[:, position + 1 :]), 1)

            with torch.no_grad():
                values[layer, position] = number(corrupted.model(ids, tap=tap)[0], target)
    return values - number(torch.from_numpy(corrupted.logits), target)


@pytest.mark.long
@pytest.mark.parametrize("edits", [(), EDITS], ids=["unedited", "edited"])
@pytest.mark.parametrize("site", PATCH_SITES)
@pytest.mark.parametrize("name", FEW_VARIANTS)
def test_a_patch_is_one_replacement_at_a_time(name: str, site: str, edits: tuple[Edit, ...]):
    clean, corrupted = pair(name, edits)
    rounding = off(clean, corrupted)
    for kind in ("logit", "difference", "probability"):
        result = patch(clean, corrupted, TARGET[kind], site)
        assert result.shape == (L, T) and result.dtype == np.float32
        assert_close(result, patched_by_hand(clean, corrupted, TARGET[kind], site), rounding, kind)
    assert np.abs(result).max() > 2 * rounding


def test_what_cannot_matter_is_exactly_nothing():
    clean, corrupted = pair()
    result = patch(clean, corrupted, TARGET["difference"], "resid_pre")  # tokens 3 and 5 differ, the position is 6
    assert (result[0, [0, 1, 2, 4]] == 0).all() and (result[:, 7:] == 0).all()
    assert (result[0, [3, 5]] != 0).all() and (result[1:, 3:7] != 0).all()


@pytest.mark.parametrize("name", VARIANTS)
def test_the_whole_difference_put_back_is_the_clean_run(name: str):
    """With one differing token, the stream into block 0 at that token is all that differs."""
    model, ids = tiny_model(VARIANTS[name]), IDS[0].clone()
    ids[3] = 20
    clean, corrupted = run(model, tokens_of(IDS[0])), run(model, tokens_of(ids))
    target = TARGET["difference"]
    ends = metric(clean, target), metric(corrupted, target)
    assert abs(ends[0] - ends[1]) > 2e-3
    shares = recovered(patch(clean, corrupted, target, "resid_pre"), *ends)
    assert shares[0, 3] == pytest.approx(1, abs=1e-3)
    assert (np.delete(shares[0], 3) == 0).all()


def test_the_last_stream_at_the_position_decides_where_attention_no_longer_reads():
    """Parallel blocks and others alike: in the last block, attn_out and mlp_out matter at the position alone."""
    for site in ("attn_out", "mlp_out"):
        result, rounding = patch(*pair("neox"), TARGET["difference"], site), off(*pair("neox"))
        assert (np.delete(np.abs(result[L - 1]), 6) < rounding).all()
        assert abs(result[L - 1, 6]) > 5 * rounding


def test_equal_prompts_run_nothing():
    clean, calls = traced(), []
    result = patch(clean, clean.unedited(), TARGET["logit"], "attn_out", lambda *told: calls.append(told))
    assert (result == 0).all() and calls == []


def test_recovered():
    shares = recovered(np.array([[0.0, 1.0], [2.0, -1.0]], dtype=np.float32), 3.0, 1.0)
    assert shares.tolist() == [[0, 0.5], [1, -0.5]] and shares.dtype == np.float32
    assert np.isnan(recovered(np.ones((2, 3), np.float32), 1.5, 1.5)).all()


# --- progress ---


def test_progress_counts_up_to_all(monkeypatch):
    monkeypatch.setattr(effects, "_TOKENS", 5 * T)  # 5 heads a batch
    told = []
    sweep(traced(), "zero", TARGET["logit"], lambda *what: told.append(what))
    assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)
    assert {done for done, _, _ in told} == {0, 5, 10, 12}
    assert {what[1:] for what in told} == {(L * H, "Sweeping heads")}
    told.clear()
    patch(*pair(), Target("logit", -1, 5), "resid_pre", lambda *what: told.append(what))
    places = 2 + 2 * (T - 3)  # tokens 3 and 5 enter block 0; from token 3 on everything differs after it
    assert told[-1] == (places, places, "Patching")
    told.clear()
    patch_heads(*pair(), Target("logit", -1, 5), progress=lambda *what: told.append(what))
    assert {done for done, _, _ in told} == {0, 5, 10, 12} and told[-1] == (L * H, L * H, "Patching")


def test_progress_may_cancel():
    class Cancelled(Exception):
        pass

    def stop(*told) -> None:
        raise Cancelled

    for work in (
        lambda: sweep(traced(), "zero", TARGET["loss"], stop),
        lambda: patch(*pair(), TARGET["logit"], "attn_out", stop),
        lambda: patch_heads(*pair(), TARGET["logit"], progress=stop),
    ):
        with pytest.raises(Cancelled):
            work()


# --- next tokens ---


def test_next_tokens_is_the_union_of_both_tops():
    before = traced()
    after = before.edit(Edit("scale", 1, 2, factor=-20.0))
    table = next_tokens(before, after, -1, most=4)
    assert list(table.columns) == ["id", "p_before", "p_after", "logit_before", "logit_after"]
    tops = [set(trace.logits[-1].argsort()[-4:].tolist()) for trace in (before, after)]
    assert tops[0] != tops[1] and set(table["id"]) == tops[0] | tops[1] and table["id"].is_unique
    most = table[["p_before", "p_after"]].max(axis=1)
    assert most.is_monotonic_decreasing
    for column, trace in (("before", before), ("after", after)):
        logits = trace.logits[-1].astype(np.float64)
        p = np.exp(logits) / np.exp(logits).sum()
        assert_close(table[f"p_{column}"].to_numpy(), p[table["id"]], 1e-6)
        assert_close(table[f"logit_{column}"].to_numpy(), logits[table["id"]], 1e-5)


def test_next_tokens_leaves_out_ids_beyond_the_vocabulary():
    trace = traced()
    vocab = int(trace.logits[4].argmax())  # the likeliest id is the first that no token has
    assert vocab in next_tokens(trace, trace, 4)["id"].to_numpy()
    table = next_tokens(trace, trace, 4, most=V, vocab=vocab)
    assert sorted(table["id"]) == list(range(vocab))
    assert table["p_before"].sum() == pytest.approx(1) and table["p_after"].sum() == pytest.approx(1)


# --- what is refused ---


@pytest.mark.parametrize(
    ("target", "what"),
    [
        (Target("accuracy"), "No target has this name.*accuracy"),
        (Target(["logit"]), "No target has this name.*list"),
        (Target("logit", T, 5), f"position does not exist.*0 to {T - 1}"),
        (Target("logit", -T - 1, 5), "position does not exist"),
        (Target("kl", 1.0), "position does not exist"),
        (Target("kl", True), "position does not exist"),
        (Target("kl", 10**5000), "position does not exist"),
        (Target("logit"), "lacks a token.*token"),
        (Target("difference", -1, 5), "lacks a token.*distractor"),
        (Target("probability", -1, V), f"no token with this id.*0 to {V - 1}"),
        (Target("difference", -1, 5, -1), "no token with this id.*-1"),
        (Target("logit", -1, True), "no token with this id"),
        (Target("logit", -1, 10**5000), "no token with this id"),
    ],
)
def test_targets_that_do_not_fit(target: Target, what: str):
    trace = traced()
    for ask in (lambda: metric(trace, target), lambda: sweep(trace, "zero", target)):
        with pytest.raises(InputError, match=what):
            ask()


def test_a_single_token_has_no_loss():
    trace = run(tiny_model(), tokens_of([5]))
    with pytest.raises(InputError, match="no loss"):
        sweep(trace, "zero", Target("loss"))
    assert np.isfinite(sweep(trace, "zero", Target("logit", 0, 5))).all()


def test_patches_that_cannot_be_made():
    clean, corrupted = pair()
    shorter = run(clean.model, tokens_of(IDS[0, :-1]))
    for runs, target, site, what in (
        ((clean, shorter), TARGET["logit"], "resid_pre", f"differ in length.*{T} and {T - 1} tokens"),
        ((clean, traced()), TARGET["logit"], "resid_pre", "different models"),
        ((clean, corrupted), TARGET["logit"], "pattern", "This place cannot be patched"),
        ((clean, corrupted), TARGET["logit"], ["z"], "This place cannot be patched"),
        ((clean, corrupted), TARGET["kl"], "resid_pre", "needs a target token.*kl"),
        ((clean, corrupted), TARGET["loss"], "resid_pre", "needs a target token.*loss"),
        ((clean, corrupted), Target("logit"), "resid_pre", "lacks a token"),
    ):
        with pytest.raises(InputError, match=what):
            patch(*runs, target, site)


def test_a_sweep_of_something_else():
    with pytest.raises(InputError, match=r"No kind of edit.*uniform"):
        sweep(traced(), "uniform", TARGET["logit"])


def test_a_trace_with_a_tap_of_its_own_is_a_programmers_mistake():
    tapped = run(tiny_model(), tokens_of(IDS[0]), tap=tap_of([Edit("zero", 1, 2)], {}))
    for work in (
        lambda: sweep(tapped, "zero", TARGET["logit"]),
        lambda: patch(tapped, tapped, TARGET["logit"], "attn_out"),
        lambda: patch_heads(tapped, tapped, TARGET["logit"]),
    ):
        with pytest.raises(ValueError, match="which its key does not hold"):
            work()
