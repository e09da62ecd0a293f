"""Memory without a browser: what is derived, what is measured beside it, what fits, the function for programs."""

import json
import re

import pytest

from model.anatomy.architectures import ARCHITECTURES
from model.anatomy.footprint import Setting, kept_bytes, largest, parts, weights_bytes, working_bytes
from model.anatomy.measured_memory import MemoryUse
from model.api import LanguageModel
from model.errors import InputError
from model.gpt.transformer import Transformer
from tests.support.models.helpers import VARIANTS, byte_tokenizer, serving, tiny_model
from viz.api.endpoints import ENDPOINTS
from viz.api.registry import call
from viz.numbers import percent, signed_percent, whole
from viz.page.pipeline import PageRequest, payloads, scene_of
from viz.seam import panels
from viz.seam.jobs import background
from viz.seam.settings import Settings
from viz.views.anatomy.memory.figures import Band, memory_figure
from viz.views.anatomy.memory.measure import BUDGETS, GB, measure
from viz.views.anatomy.memory.view import VIEW
from viz.words import LANGUAGES

PROMPT = "abcabd ab"
T = len(PROMPT)
NAMED = {each.name: each for each in ENDPOINTS}
LLAMA = {"anatomy_form": {"which": "llama-3.1-8b"}}


def playground_of(tokenizer, variant="gpt2"):
    model = tiny_model({**VARIANTS[variant], "vocab_size": 256, "n_ctx": 300})
    model.join()
    model.requires_grad_(False)
    return serving(LanguageModel("tiny", "Tiny", model, tokenizer))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return byte_tokenizer(tmp_path_factory.mktemp("bytes"))


@pytest.fixture
def playground(tokenizer):
    return playground_of(tokenizer)


def page_request(values=None, language="en", **selection):
    sent = {"anatomy_view": {"view": "memory"}} | (values or {})
    return PageRequest("tiny", PROMPT, selection or None, sent, {}, language, "anatomy")


def drawn(playground, values=None, **changes):
    shown_parts = payloads(playground, page_request(values, **changes))[0]
    assert not [name for name, part in shown_parts.items() if "problem" in part]
    return {name: part for name, part in shown_parts.items() if name.startswith("memory_")}


def planned(playground, values=None):
    request = page_request(values)
    scene = scene_of(playground, request)
    return panels.job_of(VIEW, "held", scene, panels.settings_of(VIEW, scene, request.values))


def finished(playground, values=None):
    list(background.perform(playground, planned(playground, values), "en"))
    return drawn(playground, values)


def cells(payload):
    return [[cell["text"] if isinstance(cell, dict) else cell for cell in row] for row in payload["rows"]]


def run_lines(text, model):
    """Run the lines and return the values of the last ones, which are expressions."""
    lines, space = text.replace("load_model('tiny')", "lm").splitlines(), {"lm": model}
    last_assignment = max(n for n, line in enumerate(lines) if re.match(r"\w+ = ", line))
    exec("\n".join(lines[: last_assignment + 1]), space)
    return [eval(line, space) for line in lines[last_assignment + 1 :]]


@pytest.mark.parametrize("mode", ["inference", "adamw", "mixed"])
def test_the_table_is_the_parts(playground, mode):
    config = playground.opened("tiny").config
    form = {"mode": mode, "batch": 3, "tokens": 70, "attention": "explicit", "form": "int8", "item": "bfloat16"}
    shown_parts = drawn(playground, {"memory_form": form})
    setting = Setting(mode, "int8", 3, 70, 2, True)
    expected = parts(config, setting)
    assert [row[1] for row in cells(shown_parts["memory_table"])] == [
        *(whole(n) for n in expected.values() if n),
        whole(sum(expected.values())),
    ]
    assert len(shown_parts["memory_figure"]["figure"].data) == sum(n > 0 for n in expected.values())
    for size, row in zip(BUDGETS, cells(shown_parts["memory_fits"]), strict=True):
        tokens, batch = largest(config, setting, size * GB)
        assert row[0] == f"{size} GB" and row[1].split()[0] == whole(tokens) and row[2] == whole(batch)


def test_what_is_measured_is_the_formulas(playground):
    scene = scene_of(playground, page_request())
    usual = panels.settings_of(VIEW, scene, {})
    assert usual.tokens == 0 and measure(scene, usual).setting.tokens == 300  # the model's full context length
    memory = measure(scene, usual.but(anatomy_form=("gpt2", ""), mode="adamw", tokens=64))
    gpt2 = ARCHITECTURES["gpt2"].config
    assert memory.parts == parts(gpt2, Setting("adamw", tokens=64))
    assert [memory.curves[key][-1] for key in memory.parts] == [
        *parts(gpt2, Setting("adamw", tokens=memory.x[-1])).values()
    ]
    assert isinstance(usual, Settings) and memory.formats["int8"] == weights_bytes(gpt2, "int8")


def test_what_does_not_fit_is_said(playground):
    shown_parts = drawn(playground, {"anatomy_form": {"which": "gpt3-175b"}})
    assert {cell for row in cells(shown_parts["memory_fits"]) for cell in row[1:]} == {"does not fit"}
    rows = cells(drawn(playground, LLAMA)["memory_formats"])
    assert [row[3] for row in rows] == ["32.1 GB", "16.1 GB", "8.04 GB", "4.52 GB"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_held_is_equal(tokenizer, variant):
    playground = playground_of(tokenizer, variant)
    before = drawn(playground)["memory_held"]
    assert [row[2] != "–" for row in cells(before)] == [True, True, False, False, False, False] and before["same"]
    table = finished(playground)["memory_held"]
    config = playground.opened("tiny").config
    assert table["same"] and "6" in table["check"]
    assert [row[2] for row in cells(table)][2:] == [
        whole(n)
        for n in (
            working_bytes(config, Setting(tokens=T)),
            working_bytes(config, Setting(tokens=T, explicit=True)),
            kept_bytes(config, 1, T),
            kept_bytes(config, 1, T, True),
        )
    ]


def test_what_is_not_equal_is_not_called_equal(playground):
    n = weights_bytes(playground.opened("tiny").config)
    result = background.Result(MemoryUse(T, n + 8, 0, 0, 0, 0, 0), 1.0)
    playground.results.get(planned(playground).key, lambda: result)
    payload = drawn(playground)["memory_held"]
    assert not payload["same"] and cells(payload)[0][3] == f"+8 ({signed_percent(8 / n)})"
    assert cells(payload)[1][3].endswith(f"(−{percent(1.0)})")


def test_another_architecture_is_not_measured(playground):
    finished(playground)
    shown_parts = drawn(playground, LLAMA)
    assert shown_parts["memory_job"]["state"] == "unready"
    assert "no weights here" in shown_parts["memory_held"]["empty"]["hint"]


def test_the_model_is_held_while_it_is_measured(playground, monkeypatch):
    held, trunk, job = [], Transformer.trunk, planned(playground)

    def spy(*args, **kwargs):
        held.append(playground.computing.locked())
        return trunk(*args, **kwargs)

    monkeypatch.setattr(Transformer, "trunk", spy)
    list(background.perform(playground, job, "en"))
    assert len(held) == 4 and all(held) and not playground.computing.locked()


def test_the_published_formula_is_only_shown_where_it_applies(playground):
    gpt2 = dict(drawn(playground, {"anatomy_form": {"which": "gpt2"}})["memory_facts"]["items"])
    assert "Korthikanti et al. 2022, with dropout" in gpt2["Published formula"]
    llama = dict(drawn(playground, LLAMA)["memory_facts"]["items"])
    assert "does not apply" in llama["Published formula"]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("which", ["gpt2", "llama-3.1-8b", "minigpt"])
def test_every_architecture_is_worked_out(playground, language, which):
    shown_parts = drawn(playground, {"anatomy_form": {"which": which}}, language=language)
    shown = [part for name, part in shown_parts.items() if not name.endswith("_form")]
    ours = [{key: text for key, text in part.items() if key not in ("words", "python", "figure")} for part in shown]
    assert len(ours) > 5 and not re.search(r"(?<!%)\{\w+\}", json.dumps(ours, ensure_ascii=False))
    assert shown_parts["memory_job"]["state"] == "unready"


@pytest.mark.parametrize("sent", [None, [], {"tokens": "9"}, {"tokens": float("nan")}, {"mode": 3, "item": []}])
def test_what_is_not_offered_is_the_default(playground, sent):
    def ours(values=None):
        shown_parts = drawn(playground, values)
        return {name: {k: v for k, v in part.items() if k != "figure"} for name, part in shown_parts.items()}

    sent = {"mode": sent, "batch": sent, "tokens": sent, "form": sent}
    assert ours({"memory_form": sent}) == ours()


def test_bounds_are_kept_and_nothing_runs(playground, monkeypatch):
    drawn(playground)
    monkeypatch.setattr(Transformer, "trunk", lambda *args, **kwargs: pytest.fail("the model was run"))
    drawn(playground, {"memory_form": {"tokens": 1e30, "batch": 1e30, "mode": "mixed"}})
    for tokens in (1, 5, 1000):
        drawn(playground, {"memory_form": {"tokens": tokens}})


def test_the_figure_escapes_what_plotly_would_read():
    labels = dict.fromkeys(("context", "tokens", "size", "here"), "<b>")
    chart = memory_figure([1, 2], [Band("cache", "<b>", [1, 2])], {"<b>": 2}, 1, labels)
    assert "<b>" not in chart.to_json()


@pytest.mark.parametrize("which", [{}, LLAMA])
def test_the_python_lines_give_the_same_numbers(playground, which):
    model = playground.opened("tiny")
    config = ARCHITECTURES["llama-3.1-8b"].config if which else model.config
    shown_parts = drawn(playground, which)
    setting = Setting(tokens=config.n_ctx)
    assert run_lines(shown_parts["memory_table"]["python"], model) == [parts(config, setting)]
    (fits,) = run_lines(shown_parts["memory_fits"]["python"], model)
    assert fits == [largest(config, setting, size * 10**9) for size in BUDGETS]
    (forms,) = run_lines(shown_parts["memory_formats"]["python"], model)
    assert forms["int4"] == weights_bytes(config, "int4")
    (stacked,) = run_lines(shown_parts["memory_figure"]["python"], model)
    assert stacked[0] == parts(config, Setting(tokens=1))


def test_the_function_gives_the_same(playground):
    arguments = {"architecture": "gpt2", "mode": "mixed", "tokens": 64, "batch": 2}
    answer = call(playground, NAMED["memory"], arguments)
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    gpt2 = ARCHITECTURES["gpt2"].config
    assert answer["parts"] == parts(gpt2, Setting("mixed", tokens=64, batch=2)) and answer["parameters"] == 124_439_808
    assert [row["gigabytes"] for row in answer["fits"]] == [8, 16, 24, 80]


@pytest.mark.parametrize("arguments", [{"architecture": "gpt9"}, {"tokens": 0}, {"mode": "x"}, {"tokens": 1 << 30}])
def test_arguments_out_of_range_are_refused(playground, arguments):
    with pytest.raises(InputError):
        call(playground, NAMED["memory"], arguments)
