"""Better rounding: each idea by hand or against another way to compute it, the comparison, and the view."""

import math

import numpy as np
import pytest
import torch

from model.api import LanguageModel
from model.errors import InputError
from model.quantization.experiments import changed, layer_of
from model.quantization.formats import Scheme, rounded
from model.quantization.rounding import (
    METHODS,
    POINTS,
    best_power,
    blocks_of,
    compare,
    compensated,
    entering,
    inputs_of,
    matrices_of,
    matrix_name,
    output_error,
    scaled,
    scales_of,
    with_weight,
)
from model.text.held_out import bundled_text
from tests.support.models.helpers import VARIANTS, byte_tokenizer, serving, tiny_model
from viz.api.endpoints import ENDPOINTS
from viz.api.registry import call
from viz.page.pipeline import PageRequest, payloads, scene_of
from viz.seam import panels
from viz.seam.jobs import background
from viz.seam.settings import Settings
from viz.views.quantization.rounding import view as rounding
from viz.words import LANGUAGES

GROUPED = Scheme("int3-8", 3, False, "group", 8)
ROWS = Scheme("int3-row", 3, False, "channel")


def correlated(rows, width, seed=0):
    """Inputs that say much of one another, some large. [rows, width]"""
    rng = torch.Generator().manual_seed(seed)
    few = torch.randn(rows, width // 3, generator=rng) @ torch.randn(width // 3, width, generator=rng)
    x = few + 0.1 * torch.randn(rows, width, generator=rng)
    x[:, ::7] *= 6
    return x


def matrix(out, width, seed=1):
    return torch.randn(out, width, generator=torch.Generator().manual_seed(seed))


# --- the ideas -------------------------------------------------------------------------------------------


def test_the_error_is_that_of_the_output():
    x, change = correlated(30, 12).double(), matrix(5, 12).double()
    assert output_error(change, x.T @ x) == pytest.approx(float((x @ change.T).square().sum()))


def test_scales_are_balanced_and_leave_the_idle_alone():
    scale = scales_of(torch.tensor([4.0, 1.0, 0.25, 0.0]), 0.5)
    assert torch.allclose(scale, torch.tensor([2.0, 1.0, 0.5, 1.0]))  # square roots; extremes 2 and 1/2 balance
    assert torch.equal(scales_of(torch.tensor([4.0, 1.0]), 0.0), torch.ones(2))


def test_scaling_by_ones_is_rounding_to_the_nearest():
    w = matrix(6, 20)
    assert torch.equal(scaled(w, torch.ones(20), GROUPED), rounded(w, GROUPED)[0])


def test_the_best_power_is_the_best_of_all():
    x, w = correlated(200, 24), matrix(16, 24)
    activity, hessian = x.abs().mean(0), x.double().T @ x.double()
    power, powers, errors = best_power(w, activity, hessian, GROUPED)
    assert powers[0] == 0 and powers[-1] == 1 and errors[powers.index(power)] == min(errors)
    assert errors[0] == pytest.approx(output_error(rounded(w, GROUPED)[0] - w, hessian))
    by_hand = rounded(w * scales_of(activity, power), GROUPED)[0] / scales_of(activity, power)
    assert min(errors) == pytest.approx(float((x.double() @ (by_hand - w).double().T).square().sum()), rel=1e-6)


def textbook(weight, hessian, scheme):
    """Column by column with the whole inverse made anew each time (Frantar et al. 2022, eq. 2 and 3)."""
    w, width = weight.double().numpy().copy(), weight.shape[1]
    h = hessian.double().numpy() + 0.01 * np.mean(np.diag(hessian.double().numpy())) * np.eye(width)
    size = scheme.group if scheme.per == "group" else width
    for i in range(width):
        if i % size == 0:  # scale and zero point of the group as it is now
            part = torch.from_numpy(w[:, i : i + size]).float()
            low, high = part.amin(1).clamp(max=0), part.amax(1).clamp(min=0)
            scale = (high - low) / (2**scheme.bits - 1)
            if scheme.per == "group":  # kept as float16, rounded up
                half = scale.half()
                bigger = torch.nextafter(half, torch.full_like(half, math.inf))
                scale = torch.where(half.float() < scale, bigger, half).float()
            zero = (-low / scale).round().clamp(0, 2**scheme.bits - 1)
            scale, zero = scale.double().numpy(), zero.double().numpy()
        q = (np.clip(np.round(w[:, i] / scale) + zero, 0, 2**scheme.bits - 1) - zero) * scale
        inverse = np.linalg.inv(h[i:, i:])  # of the columns that are left
        error = (w[:, i] - q) / inverse[0, 0]
        w[:, i:] -= error[:, None] * inverse[0][None]
        w[:, i] = q
    return torch.from_numpy(w).float()


@pytest.mark.parametrize("scheme", [GROUPED, ROWS, Scheme("int4-24", 4, False, "group", 24)], ids=lambda s: s.key)
def test_compensating_is_the_textbook_method(scheme):
    """Blocks, the Cholesky factor and one product for later columns change nothing."""
    x, w = correlated(300, 72), matrix(9, 72)
    hessian = x.double().T @ x.double()
    assert torch.allclose(compensated(w, hessian, scheme), textbook(w, hessian, scheme), atol=1e-5)


def test_without_correlation_there_is_nothing_to_make_up_for():
    w = matrix(9, 64)
    assert torch.allclose(compensated(w, torch.eye(64, dtype=torch.float64), GROUPED), rounded(w, GROUPED)[0])


def test_an_input_that_is_always_zero_does_no_harm():
    x, w = correlated(100, 40), matrix(7, 40)
    x[:, 5] = 0
    for hessian in (x.double().T @ x.double(), torch.zeros(40, 40, dtype=torch.float64)):
        assert torch.isfinite(compensated(w, hessian, GROUPED)).all()


def test_one_scale_for_all_is_refused():
    with pytest.raises(ValueError, match="scales of their rows"):
        compensated(matrix(3, 8), torch.eye(8, dtype=torch.float64), Scheme("int8", 8, True, "tensor"))


@pytest.mark.parametrize("width", [1, 31, 32, 33, 100])
def test_blocks_cover_all_columns_and_begin_with_groups(width):
    for group in (8, 24, 64):
        blocks = blocks_of(width, Scheme("x", 3, False, "group", group))
        assert [i for start, end in blocks for i in range(start, end)] == list(range(width))
        assert {start for start, _ in blocks} >= set(range(0, width, min(group, width)))


def test_the_error_shrinks_in_the_order_of_the_methods():
    x, w = correlated(400, 48), matrix(20, 48)
    hessian = x.double().T @ x.double()
    power, _, errors = best_power(w, x.abs().mean(0), hessian, GROUPED)
    plain, made_up = errors[0], output_error(compensated(w, hessian, GROUPED) - w, hessian)
    assert power > 0 and made_up < 0.5 * min(errors) < 0.5 * plain


# --- one layer of a model --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def texts():
    rng = np.random.default_rng(0)
    return [rng.integers(0, 50, 24).tolist() for _ in range(3)]


def small(variant):
    return tiny_model({**VARIANTS[variant], "vocab_size": 50, "n_ctx": 40})


@pytest.mark.parametrize("variant", VARIANTS)
def test_inputs_give_the_outputs_of_the_matrix(variant, texts):
    """What is recorded times the matrix is what the model's own tap sees."""
    model = small(variant)
    sites = {"q": "q", "k": "k", "v": "v", "up": "mlp_up" if model.config.mlp == "swiglu" else "mlp_pre"}
    for matrix_, site in sites.items():
        seen = {}
        with torch.no_grad():
            model(torch.tensor([texts[0]]), tap=lambda s, l, x, seen=seen: (seen.update({(s, l): x}), x)[1])
            x = inputs_of(model, 1, matrix_, entering(model, 1, texts[0]))
            layer = model.get_submodule(matrix_name(1, matrix_).removesuffix(".weight"))
            given = torch.nn.functional.linear(x, layer.weight, layer.bias)
        wanted = seen[site, 1][0]
        wanted = wanted.transpose(0, 1).flatten(1) if wanted.ndim == 3 else wanted
        if not (matrix_ in "qk" and model.config.qk_norm):
            assert torch.allclose(given, wanted, atol=1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_matrix_is_compared_and_the_model_stays(variant, texts):
    model = small(variant)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for matrix_ in matrices_of(model.config):
        ticks = []
        found = compare(model, 1, matrix_, GROUPED, texts, lambda done, total, _, to=ticks: to.append((done, total)))
        assert [each.method for each in found.outcomes] == list(METHODS)
        assert found.fit_tokens == 48 and found.held_out_tokens == 24 and found.columns[-1] == found.shape[1]
        assert len(found.columns) == len(found.plain) == len(found.made_up) <= POINTS
        by_method = {each.method: each for each in found.outcomes}
        assert found.plain[-1] == pytest.approx(by_method["nearest"].fit, rel=1e-4)
        assert found.made_up[-1] == pytest.approx(by_method["compensated"].fit, rel=1e-4)
        assert min(found.errors) == pytest.approx(by_method["scaled"].fit, rel=1e-4)
        assert found.errors[0] == pytest.approx(by_method["nearest"].fit, rel=1e-4)
        assert [done for done, _ in ticks] == list(range(1, len(ticks) + 1)) and ticks[-1][0] == ticks[-1][1]
    after = model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_the_effect_on_the_model_is_that_of_the_other_matrix(texts):
    model, name = small("llama"), matrix_name(1, "o")
    found = compare(model, 1, "o", GROUPED, texts)
    with torch.no_grad():
        block = with_weight(model, 1, "o", rounded(model.get_parameter(name), GROUPED)[0])
        less = changed(model, {1: block})
        p, q = (m(torch.tensor([texts[-1]]))[0].log_softmax(-1) for m in (model, less))
    kl = float((p.exp() * (p - q)).sum(-1).mean())
    assert found.outcomes[0].kl == pytest.approx(kl, rel=1e-4) and kl > 0
    assert found.outcomes[0].agree == float((p.argmax(-1) == q.argmax(-1)).double().mean())


def test_a_wide_matrix_by_hand(texts):
    """All texts but the last are seen, with the mean size of their inputs; at most POINTS looks on the way."""
    model = tiny_model({**VARIANTS["gpt2"], "vocab_size": 50, "n_ctx": 40, "d_mlp": 32 * 19 + 8})
    found, name = compare(model, 1, "down", GROUPED, texts), matrix_name(1, "down")
    w = model.get_parameter(name).detach()
    with torch.no_grad():
        seen, other = (
            torch.cat([inputs_of(model, 1, "down", entering(model, 1, ids)) for ids in texts[:-1]]),
            inputs_of(model, 1, "down", entering(model, 1, texts[-1])),
        )
    activity, plain = seen.double().abs().mean(0), rounded(w, GROUPED)[0]
    scale = scales_of(activity, found.power)
    change = {"nearest": plain - w, "scaled": scaled(w, scale, GROUPED) - w}
    outcomes = {each.method: each for each in found.outcomes}
    for method, off in change.items():
        for x, told in ((seen, outcomes[method].fit), (other, outcomes[method].held_out)):
            x = x.double()
            wanted = (x @ off.double().T).square().sum() / (x @ w.double().T).square().sum()
            assert told == pytest.approx(float(wanted), rel=1e-5)
        assert outcomes[method].weight == pytest.approx(float(off.norm() / w.norm()))
    for power, told in zip(found.powers, found.errors, strict=True):
        off = scaled(w, scales_of(activity, power), GROUPED) - w
        wanted = (seen.double() @ off.double().T).square().sum() / (seen.double() @ w.double().T).square().sum()
        assert told == pytest.approx(float(wanted), rel=1e-5)
    assert len(found.columns) <= POINTS < 20 and found.columns[-1] == 616 and found.columns[0] < 100
    for at, told in zip(found.columns, found.plain, strict=True):
        off = (seen[:, :at].double() @ (plain - w)[:, :at].double().T).square().sum()
        assert told == pytest.approx(float(off / (seen.double() @ w.double().T).square().sum()), rel=1e-5)


def test_what_cannot_be_compared_is_refused(texts):
    with pytest.raises(ValueError, match="matrix must be"):
        compare(small("gpt2"), 0, "gate", GROUPED, texts)
    with pytest.raises(ValueError, match="a text to fit to"):
        compare(small("gpt2"), 0, "q", GROUPED, texts[:1])


# --- the view --------------------------------------------------------------------------------------------


@pytest.fixture
def playground(tmp_path):
    model = tiny_model({**VARIANTS["llama"], "vocab_size": 256, "n_ctx": 300})
    return serving(LanguageModel("tiny", "Tiny", model, byte_tokenizer(tmp_path)))


def asked(value=None, language="en", heads=((1, 2),)):
    values = {"quantization_view": {"view": "rounding"}, "rounding_form": value}
    return PageRequest("tiny", "abcabd ab", {"heads": [list(h) for h in heads]}, values, {}, language, "quantization")


def measured(playground, value=None, language="en"):
    question = asked(value, language)
    scene = scene_of(playground, question)
    job = panels.job_of(rounding.VIEW, "main", scene, panels.settings_of(rounding.VIEW, scene, question.values))
    list(background.perform(playground, job, language))
    return payloads(playground, question)[0]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("tokens", ["128", "512"])
def test_the_view_shows_what_was_measured(playground, tokens, language):
    value = {"matrix": "down", "bits": "2", "group": "row", "tokens": tokens}
    assert "empty" in payloads(playground, asked(value, language))[0]["rounding_errors"]
    parts = measured(playground, value, language)
    scene = scene_of(playground, asked(value))
    settings = panels.settings_of(rounding.VIEW, scene, {"rounding_form": value})
    assert settings == Settings(tuple(value.items())) and scene.head[0] == 1
    assert rounding.scheme_of(settings) == Scheme("int2-row", 2, False, "channel", 0)
    found = panels.measured(rounding.VIEW, "main", scene, settings).value
    assert found.fit_tokens == int(tokens) // 40 * 40 and found.name == "blocks.1.mlp.down.weight"
    bars = parts["rounding_errors"]["figure"].data
    assert bars[0]["y"] == pytest.approx([100 * each.fit for each in found.outcomes], rel=1e-5)
    assert bars[1]["y"] == pytest.approx([100 * each.held_out for each in found.outcomes], rel=1e-5)
    assert [line[1] for line in parts["rounding_table"]["lines"]] == [each.fit for each in found.outcomes]
    assert parts["rounding_power"]["figure"].data[1]["x"] == (found.power,)
    assert parts["rounding_columns"]["figure"].data[0]["x"] == (0, *found.columns)


def test_the_sentence_follows_from_the_numbers(playground):
    parts = measured(playground, {"matrix": "v"})
    best = min(parts["rounding_table"]["lines"], key=lambda line: line[2])[0]
    said = {
        "nearest": "no method here beats",
        "scaled": "“scaled first” is best",
        "compensated": "“compensated” is best",
        "both": "“scaled and compensated” is best",
    }
    assert said[best] in parts["rounding_errors"]["note"]


def test_the_python_lines_make_the_numbers(playground, monkeypatch):
    lm = playground.opened("tiny")
    monkeypatch.setattr("model.api.load_model", lambda name: lm)
    for value in ({"tokens": "512"}, {"tokens": "128", "matrix": "o"}):
        parts, space = measured(playground, value), {}
        exec(parts["rounding_table"]["python"], space)
        made = [each.held_out for each in space["found"].outcomes]
        assert made == pytest.approx([line[2] for line in parts["rounding_table"]["lines"]], rel=1e-4)


def test_fewer_tokens_than_a_window(playground):
    scene = scene_of(playground, asked())
    assert [len(ids) for ids in rounding.texts_of(scene, 20)] == [20, 40]
    ids = scene.model.encode(bundled_text()).ids.tolist()
    assert rounding.texts_of(scene, 20)[1] == ids[40:80]
    assert [len(each) for each in rounding.texts_of(scene, 120)] == [40] * 4


def test_the_endpoint_gives_the_same(playground):
    endpoint = next(each for each in ENDPOINTS if each.name == "round_matrix")
    found = call(playground, endpoint, {"layer": 1, "matrix": "down", "tokens": "128"})
    assert [each["method"] for each in found["outcomes"]] == list(METHODS)
    lines = measured(playground, {"matrix": "down", "tokens": "128"})["rounding_table"]["lines"]
    assert [each["held_out"] for each in found["outcomes"]] == pytest.approx([line[2] for line in lines], rel=1e-6)


def test_a_layer_without_the_matrix_is_named():
    model = tiny_model({"mixer": ("mamba2", "softmax", "softmax"), "ssm_heads": 2, "d_ssm_head": 4, "d_state": 4})
    with pytest.raises(InputError, match="does not have the matrix") as caught:
        compare(model, 0, "v", GROUPED, [[1, 2], [3, 4]])
    assert "1, 2" in str(caught.value.hint)
    assert layer_of(with_weight(model, 1, "v", torch.ones(24, 48)), "v").weight.sum() == 24 * 48
