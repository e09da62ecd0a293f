"""Gradients of a logit on the token embeddings: finite differences, completeness, and a model where all is known."""

import numpy as np
import pytest
import torch

from model.errors import InputError
from model.gpt.edits import Edit
from model.gpt.tap import compose
from model.predictions import gradients as module
from model.predictions.gradients import gradients
from model.tracing.trace import Trace, run
from tests.support.models.helpers import VARIANTS, D, L, V, assert_close, force, random_ids, tiny_model, tokens_of

T = 9
IDS = random_ids(1, T, seed=5)[0]
TOKEN, OTHER = 7, 31
EDITS = (
    Edit("mean", 0, 1),
    Edit("zero", 1, 2),
    Edit("uniform", 1, 0),
    Edit("block_edge", 2, query=6, key=2),
    Edit("block_edge", query=7, key=4),
    Edit("scale", 2, 3, factor=2.0),
)


def traced(name: str = "gpt2", edits: tuple[Edit, ...] = ()) -> Trace:
    return run(tiny_model(VARIANTS[name]), tokens_of(IDS), edits=edits)


def shifted(trace: Trace, move, position: int) -> float:
    """logit(TOKEN) - logit(OTHER) at a position where the token embeddings are moved, by the model's own forward."""

    def tap(site: str, layer: int, x: torch.Tensor) -> torch.Tensor:
        return move(x) if site == "embed" else x

    with torch.no_grad():
        logits = trace.model(torch.from_numpy(trace.tokens.ids)[None], tap=compose(*filter(None, (tap, trace.tap))))
    return float(logits[0, position, TOKEN].double() - logits[0, position, OTHER].double())


# --- against the definition ---


@pytest.mark.parametrize("edits", [(), EDITS], ids=["unedited", "edited"])
@pytest.mark.parametrize("name", VARIANTS)
def test_gradient_x_activation_is_what_a_little_more_of_a_token_does(name: str, edits: tuple[Edit, ...]):
    trace = traced(name, edits)
    found = gradients(trace, 7, TOKEN, OTHER, most=4)
    step, differences = 2e-2, np.zeros(8)
    for s in range(8):
        sizes = torch.zeros(T, 1)
        sizes[s] = step
        more, less = (
            shifted(trace, lambda x, a=sizes: x * (1 + a), 7),
            shifted(trace, lambda x, a=sizes: x * (1 - a), 7),
        )
        differences[s] = (more - less) / (2 * step)
    assert_close(found.gradient_x_activation, differences, 2e-2 * np.abs(differences).max())
    assert np.abs(differences).max() > 0.03  # a thousand times what float32 makes of it
    assert found.value == pytest.approx(shifted(trace, lambda x: x, 7), abs=2e-5)
    assert found.gradient_x_activation.shape == found.integrated.shape == (8,)


def test_in_float64_it_is_the_derivative():
    trace = traced()  # learned positions: nothing in its forward is bound to float32
    model = trace.model.double()
    found = gradients(trace, 7, TOKEN, OTHER, most=4)
    x = model.embed.weight.detach()[torch.from_numpy(trace.tokens.ids)]
    for s in (0, 4, 7):
        move = torch.zeros_like(x)
        move[s] = 1e-5 * x[s]
        slope = shifted(trace, lambda _, m=move: (x + m)[None], 7) - shifted(trace, lambda _, m=move: (x - m)[None], 7)
        assert found.gradient_x_activation[s] == pytest.approx(slope / 2e-5, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("edits", [(), EDITS], ids=["unedited", "edited"])
@pytest.mark.parametrize("name", VARIANTS)
def test_integrated_gradients_add_up_to_the_change(name: str, edits: tuple[Edit, ...]):
    trace = traced(name, edits)
    found = gradients(trace, 7, TOKEN, OTHER)
    weight, scale = trace.model.embed.weight.detach(), D**0.5 if trace.config.embed_scale else 1
    base = weight.mean(0) * scale
    assert found.baseline == pytest.approx(shifted(trace, lambda x: base.expand_as(x), 7), abs=2e-5)
    change = found.value - found.baseline
    assert found.integrated.sum() == pytest.approx(change + found.gap)
    assert abs(found.gap) <= 0.02 * max(1, abs(change))
    assert found.taken <= 128


def test_more_places_leave_a_smaller_gap(monkeypatch):
    monkeypatch.setattr(module, "_ENOUGH", 0.0)  # as many as allowed
    trace = traced("llama")
    gaps = [abs(gradients(trace, 8, TOKEN, OTHER, most=most).gap) for most in (4, 16, 128)]
    assert gaps[0] > 2 * gaps[1] > 20 * gaps[2]


def test_halves_that_miss_by_more_than_the_whole_step_do_not_count():
    """By hand: the middle of the right half is on a spike of slope 9, which the whole step and its left half missed."""

    def tried(a, b, slope, change, *halves):
        step = module._Step(a, b, 0.0, change, 0.0, torch.tensor([slope], dtype=torch.float64))
        return module._Tried(step, list(halves))

    spike = tried(0.75, 1.0, 9.0, 0.25)  # 2.25 instead of 0.25
    fine = tried(0.5, 0.75, 1.0, 0.25)
    left, right = tried(0.0, 0.5, 2.0, 0.75), tried(0.5, 1.0, 2.0, 0.5, fine, spike)
    whole = tried(0.0, 1.0, 3.0, 1.25, left, right)
    miss, best = whole.best()
    assert best == [left, right] and miss == pytest.approx(0.25 + 0.5)
    assert right.worst() is spike and whole.worst() is spike and left.worst() is left
    spike.halves = [tried(0.75, 0.875, 1.0, 0.125), tried(0.875, 1.0, 1.0, 0.125)]
    assert whole.best() == (pytest.approx(0.25), [left, fine, *spike.halves])  # found what was there


@pytest.mark.parametrize("name", VARIANTS)
def test_the_gap_is_within_the_least_total_miss_that_was_computed(name, monkeypatch):
    monkeypatch.setattr(module, "_ENOUGH", 0.0)
    seen, best = [], module._Tried.best

    def watched(self):
        found = best(self)
        seen.append(found[0])
        return found

    monkeypatch.setattr(module._Tried, "best", watched)
    found = gradients(traced(name), 8, TOKEN, OTHER, most=32)
    assert abs(found.gap) <= seen[-1] + 1e-6 and found.taken == 32


def test_equal_steps_are_the_midpoint_rule(monkeypatch):
    monkeypatch.setattr(module, "_ENOUGH", 1e9)  # no step is halved
    trace = traced()
    found = gradients(trace, 7, TOKEN, OTHER, most=20)  # a quarter of it: 5 equal steps
    assert found.taken == 5
    x = trace.model.embed.weight.detach()[torch.from_numpy(trace.tokens.ids)][None]
    base = trace.model.embed.weight.detach().mean(0)
    total, step = 0.0, 1e-2
    for n in range(5):
        middle = (n + 0.5) / 5
        at = [shifted(trace, lambda _, a=middle + d: base + a * (x - base), 7) for d in (step, -step)]
        total += (at[0] - at[1]) / (2 * step) / 5
    assert found.integrated.sum() == pytest.approx(total, rel=2e-2)


def test_a_linear_model_by_hand():
    """Without heads and MLPs the logit is W_U . (e + position): all of it is of the token itself."""
    trace = traced("mqa")  # no position embedding, no final norm
    with torch.no_grad():
        for block in trace.model.blocks:
            for linear in (block.attn.o, block.mlp.down):
                linear.weight.zero_()
                linear.bias.zero_()
    trace = run(trace.model, trace.tokens)
    weight = trace.model.embed.weight.detach().double().numpy()  # tied
    e, u = weight[IDS[5]], weight[TOKEN] - weight[OTHER]
    found = gradients(trace, 5, TOKEN, OTHER)
    assert_close(found.gradient_x_activation, np.append(np.zeros(5), e @ u), 1e-5)
    assert_close(found.integrated, np.append(np.zeros(5), (e - weight.mean(0)) @ u), 1e-5)
    assert found.taken == 32  # one gradient would do, so no step is halved
    assert found.gap == pytest.approx(0, abs=1e-5)


def test_one_token_alone():
    trace = run(tiny_model(), tokens_of(IDS[:1]))
    found = gradients(trace, -1, TOKEN, most=8)
    assert found.gradient_x_activation.shape == (1,)
    assert found.value == pytest.approx(float(trace.logits_at(0)[TOKEN]), abs=1e-5)


@pytest.mark.parametrize("tokens", [1, 3 * T, 10**6])
def test_how_it_is_cut_into_batches_does_not_show(tokens: int, monkeypatch):
    trace = traced("gqa", EDITS)
    monkeypatch.setattr(module, "_ENOUGH", 0.0)  # as many as allowed
    monkeypatch.setattr(module, "_HALVED", 1)
    expected = gradients(trace, 7, TOKEN, most=16)
    monkeypatch.setattr(module, "_TOKENS", tokens)
    found = gradients(trace, 7, TOKEN, most=16)
    assert_close(found.integrated, expected.integrated, 2e-5)
    assert found.taken == expected.taken == 16


# --- what it leaves alone ---


def test_the_weights_and_the_trace_stay_as_they_were():
    trace = traced("gpt2", EDITS)
    model, residuals = trace.model, trace.residuals.clone()
    before = {name: (parameter.clone(), parameter.requires_grad) for name, parameter in model.named_parameters()}
    with torch.inference_mode():  # as where a page is drawn
        gradients(trace, 7, TOKEN, most=4)
        assert torch.is_inference_mode_enabled() and not torch.is_grad_enabled()
    gradients(trace, 7, TOKEN, most=4)
    for name, parameter in model.named_parameters():
        assert parameter.grad is None and parameter.requires_grad == before[name][1]
        assert torch.equal(parameter, before[name][0])
    assert torch.equal(trace.residuals, residuals)


def test_progress_goes_up_and_can_cancel():
    trace, told = traced(), []
    found = gradients(trace, 7, TOKEN, most=16, progress=lambda *report: told.append(report))
    done = [report[0] for report in told]
    assert done == sorted(set(done)) and done[-1] <= told[0][1] == L * (2 * 17 + 5)
    assert done[-1] == L * (2 * (found.taken + 1) + 5) and {report[2] for report in told} == {"Computing gradients"}

    class Stop(Exception):
        pass

    def stop(done: int, total: int | None, what: str) -> None:
        if done > 10:
            raise Stop

    with pytest.raises(Stop):
        gradients(trace, 7, TOKEN, most=16, progress=stop)


# --- what is refused ---


def test_what_does_not_exist_is_said():
    trace = traced()
    for position in (T, -T - 1, True, 1.0):
        with pytest.raises(InputError, match="position does not exist"):
            gradients(trace, position, TOKEN)
    for tokens in ((V,), (-1,), (TOKEN, V), (True,)):
        with pytest.raises(InputError, match="no token with this id"):
            gradients(trace, 3, *tokens)
    for most in (3, 0, True, 8.0, 1 << 17):
        with pytest.raises(InputError, match=r"most: \w+(\.0)?\. Choose a whole number from 4 to 65536"):
            gradients(trace, 3, TOKEN, most=most)
    with pytest.raises(ValueError, match="tap"):
        gradients(run(tiny_model(), tokens_of(IDS), tap=force), 3, TOKEN)


def test_edits_are_those_of_the_trace():
    plain, edited = traced(), traced(edits=EDITS)
    one, other = (gradients(trace, 8, TOKEN, most=4) for trace in (plain, edited))
    assert np.abs(one.gradient_x_activation - other.gradient_x_activation).max() > 1e-2
