"""Operations and times without a browser: their numbers, the job, the functions for programs."""

import json
import re

import pytest

from model.anatomy.architectures import ARCHITECTURES
from model.anatomy.component_times import Clocked, measure
from model.anatomy.flops import by_group, crossing, intensity, next_token, operations, prompt, total
from model.api import LanguageModel
from model.gpt.transformer import Transformer
from tests.support.models.helpers import VARIANTS, byte_tokenizer, serving, tiny_model
from viz.api.endpoints import ENDPOINTS
from viz.api.registry import call
from viz.numbers import flops, number, signed_percent, whole
from viz.page.pipeline import PageRequest, payloads, scene_of
from viz.seam import panels
from viz.seam.jobs import background
from viz.seam.settings import Settings
from viz.views.anatomy.compute.figures import ComponentBar, FlopsBand, Mark, times_figure, work_figure
from viz.views.anatomy.compute.measure import MOST, SHOWN, contexts, measure_counted, measure_curve, measure_work
from viz.views.anatomy.compute.view import VIEW
from viz.words import LANGUAGES, Words, words

PROMPT = "abcabd ab"
T = len(PROMPT)
NAMED = {each.name: each for each in ENDPOINTS}
EDIT = {"kind": "zero", "layer": 1, "head": 2}
DEEP = {"model_type": "gpt2", "n_layer": 201, "n_embd": 8, "n_head": 2, "vocab_size": 9, "n_positions": 9}
LLAMA = {"anatomy_form": {"which": "llama-3.1-8b"}}
TIMED = [f"compute_{what}_{kind}" for what in ("times", "clock") for kind in ("prompt", "step")]


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


def page_request(values=None, text=PROMPT, language="en", **selection):
    sent = {"anatomy_view": {"view": "compute"}} | (values or {})
    return PageRequest("tiny", text, selection or None, sent, {}, language, "anatomy")


def drawn(playground, values=None, **changes):
    parts = payloads(playground, page_request(values, **changes))[0]
    assert not [name for name, part in parts.items() if "problem" in part]
    return {name: part for name, part in parts.items() if name.startswith("compute_")}


def planned(playground, values=None, **changes):
    """Return the job of the measurement."""
    request = page_request(values, **changes)
    scene = scene_of(playground, request)
    return panels.job_of(VIEW, "times", scene, panels.settings_of(VIEW, scene, request.values))


def finished(playground, values=None, **changes):
    """Run the job and return the payloads after it."""
    list(background.perform(playground, planned(playground, values, **changes), "en"))
    return drawn(playground, values, **changes)


def figure(payload):
    return json.loads(payload["figure"].to_json())


def cells(payload):
    return [[cell["text"] if isinstance(cell, dict) else cell for cell in row] for row in payload["rows"]]


def run_lines(text, model):
    """Run the lines and return the values of the last ones, which are expressions."""
    lines, space = text.replace("load_model('tiny')", "lm").splitlines(), {"lm": model}
    last_assignment = max(n for n, line in enumerate(lines) if re.match(r"\w+ = ", line))
    exec("\n".join(lines[: last_assignment + 1]), space)
    return [eval(line, space) for line in lines[last_assignment + 1 :]]


def chosen(**values):
    """Return settings for a measure, with defaults for the others."""
    usual = {"anatomy_form": ("loaded", ""), "tokens": T, "shown": "whole", "logits": "every", "item": "float32"}
    return Settings(tuple((usual | values).items()))


# --- work ---


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_measured_is_the_operations_and_pytorch_agrees(tokenizer, variant):
    playground = playground_of(tokenizer, variant)
    scene, config = scene_of(playground, page_request()), playground.opened("tiny").config
    work, counted = measure_work(scene, chosen(tokens=20)), measure_counted(scene, chosen(tokens=20))
    for name, reading in (("prompt", prompt(20)), ("step", next_token(20))):
        assert work.operations[name] == operations(config, reading)
        assert counted[name] == total(work.operations[name])
        assert work.intensity[name] == intensity(config, reading, 4)
    deep = ("pasted", json.dumps(DEEP))
    assert measure_counted(scene, chosen(anatomy_form=deep)) is None


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_tables_are_the_operations(tokenizer, variant):
    playground = playground_of(tokenizer, variant)
    config, parts = playground.opened("tiny").config, drawn(playground)
    for name, reading in (("compute_prompt", prompt(T)), ("compute_step", next_token(T))):
        table, ops = parts[name], operations(config, reading)
        assert table["same"] and f"{whole(total(ops))} FLOPs" in table["check"]
        rows = cells(table)
        assert [row[3] for row in rows] == [*(whole(op.all_products) for op in ops), whole(total(ops))]
        assert [row[2] for row in rows[:-1] if row[2] != "–"] == [
            whole(op.products) for op in ops if op.products and op.key != "head"
        ]
        assert all((row[1] == "0") == (op.products == 0) for row, op in zip(rows, ops, strict=False))
        assert rows[-1][5] == whole(sum(op.all_elementwise for op in ops))


@pytest.mark.long
@pytest.mark.parametrize("shown", SHOWN.options)
@pytest.mark.parametrize("which", [{}, LLAMA])
def test_the_curves_are_the_groups(playground, shown, which):
    config = ARCHITECTURES["llama-3.1-8b"].config if which else playground.opened("tiny").config
    chart = figure(drawn(playground, {"compute_form": {"shown": shown}} | which)["compute_figure"])
    x = chart["data"][0]["x"]
    at = len(x) // 2
    reading = next_token(x[at] - 1) if shown == "step" else prompt(x[at])
    groups = by_group(operations(config, reading))
    curves = {each["name"]: each for each in chart["data"] if each["mode"] == "lines"}
    names = Words(words("en"), "compute.figure")
    for key in ("attention", "projections", "mlp", "head"):
        assert curves[names[key]]["text"][at] == flops(groups[key])
    values = [each["y"][at] for each in curves.values()]
    unit = 1 if shown == "lines" else sum(groups.values()) / sum(values)
    assert sorted(values) == pytest.approx(sorted(n / unit for n in groups.values() if n), rel=1e-5)
    lines = {shape["x0"] for shape in chart["layout"]["meta"]["shapes"]}
    assert {crossing(config), crossing(config, "layer"), T} <= lines and max(lines) <= x[-1]
    assert ("stackgroup" in chart["data"][0]) == (shown != "lines")
    if shown == "lines":
        (point,) = [each for each in chart["data"] if each["mode"] == "markers"]
        assert point["x"] == [crossing(config)]


def test_the_curve_is_measured_at_whole_contexts(playground):
    curve = measure_curve(scene_of(playground, page_request()), chosen(shown="step", tokens=50))
    config = playground.opened("tiny").config
    assert curve.groups["attention"][3] == by_group(operations(config, next_token(curve.x[3] - 1)))["attention"]
    for logarithmic in (False, True):
        x = contexts(1536, logarithmic)
        assert x[0] == 1 and x[-1] == 1536 and x == sorted(set(x))
    assert contexts(1, True) == [1]


def test_facts_have_the_exact_numbers(playground):
    config = playground.opened("tiny").config
    form = {"tokens": 100, "logits": "last", "item": "bfloat16"}
    items = dict(drawn(playground, {"compute_form": form})["compute_facts"]["items"])
    reading = prompt(100, 1)
    assert f"{whole(total(operations(config, reading)))} FLOPs" in items["The prompt"]
    assert f"= 48·(1 + 4/4) = {crossing(config):.0f} tokens" in items["Where attention overtakes the rest"]
    assert items["Arithmetic intensity, prompt"].startswith(f"{number(intensity(config, reading, 2))} FLOPs")
    exact, N = total(operations(config, reading)) / 100, 3 * (4 * 48 * 48 + 2 * 48 * 100)
    assert f"N = {whole(N)}" in items["Rule of thumb 2N"]
    assert signed_percent(2 * N / exact - 1) in items["Rule of thumb 2N"]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("which", ["gpt2", "llama-3.1-8b", "minigpt"])
def test_every_architecture_is_worked_out(playground, language, which):
    parts = drawn(playground, {"anatomy_form": {"which": which}}, language=language)
    shown = [part for name, part in parts.items() if not name.endswith("_form")]
    ours = [{key: text for key, text in part.items() if key not in ("words", "python", "figure")} for part in shown]
    assert len(ours) > 5 and not re.search(r"(?<!%)\{\w+\}", json.dumps(ours, ensure_ascii=False))
    assert parts["compute_job"]["state"] == "unready"
    assert parts["compute_prompt"]["same"] and parts["compute_step"]["same"]
    assert all("empty" in parts[name] for name in TIMED)


@pytest.mark.parametrize("sent", [None, [], {"tokens": "9"}, {"tokens": float("nan")}, {"shown": 3, "item": []}])
def test_what_is_not_offered_is_the_default(playground, sent):
    def ours(values=None):
        parts = drawn(playground, values)
        return {name: {k: v for k, v in part.items() if k != "figure"} for name, part in parts.items()}

    assert ours({"compute_form": sent}) == ours()


def test_bounds_are_kept(playground):
    request = page_request({"compute_form": {"tokens": 1e30}})
    assert panels.settings_of(VIEW, scene_of(playground, request), request.values).tokens == MOST
    drawn(playground, {"compute_form": {"tokens": 1e30}})


def test_nothing_runs_for_what_is_derived(playground, monkeypatch):
    drawn(playground)
    monkeypatch.setattr(Transformer, "trunk", lambda *args, **kwargs: pytest.fail("the model was run"))
    for tokens in (1, 5, 1000):
        drawn(playground, {"compute_form": {"tokens": tokens}})


# --- time ---


@pytest.mark.parametrize("variant", ["gpt2", "post", "qwen3"])
def test_a_measurement_is_shown(tokenizer, variant):
    playground = playground_of(tokenizer, variant)
    idle = drawn(playground)
    assert idle["compute_job"]["state"] == "idle" and all("empty" in idle[name] for name in TIMED)
    parts = finished(playground)
    result = playground.results.peek(planned(playground).key).value
    for kind, forward in (("prompt", result.prompt), ("step", result.step)):
        rows = cells(parts[f"compute_clock_{kind}"])
        assert len(rows) == len(forward.parts) + 1
        shares = [float(row[3].rstrip("%")) for row in rows[:-1]]
        assert sum(shares) == pytest.approx(100, abs=1)
        work_bars, time_bars = figure(parts[f"compute_times_{kind}"])["data"]
        assert sum(work_bars["x"]) == pytest.approx(1, abs=1e-5) and sum(time_bars["x"]) == pytest.approx(1, abs=1e-5)
        assert "measured here" in parts[f"compute_times_{kind}"]["source"]
    assert result.prompt.reading == prompt(T)


def test_a_measurement_is_of_its_prompt_and_its_head(playground):
    finished(playground)
    assert all("empty" in drawn(playground, text="other")[name] for name in TIMED)
    last = {"compute_form": {"logits": "last"}}
    assert all("empty" in drawn(playground, last)[name] for name in TIMED)
    assert all("empty" not in drawn(playground, {"compute_form": {"tokens": 50}})[name] for name in TIMED)
    assert all("empty" in drawn(playground, LLAMA)[name] for name in TIMED)


def test_edits_are_left_out_and_it_is_said(playground):
    assert "edits are left out" in drawn(playground, edits=[EDIT])["compute_job"]["text"]
    parts = finished(playground, edits=[EDIT])
    assert "without your edits" in parts["compute_times_prompt"]["source"]


def test_the_model_is_held_while_it_is_timed(playground, monkeypatch):
    held, trunk, job = [], Transformer.trunk, planned(playground)

    def spy(*args, **kwargs):
        held.append(playground.computing.locked())
        return trunk(*args, **kwargs)

    monkeypatch.setattr(Transformer, "trunk", spy)
    list(background.perform(playground, job, "en"))
    assert len(held) > 20 and all(held) and not playground.computing.locked()


# --- pictures ---


def test_figures_escape_what_plotly_would_read():
    labels = dict.fromkeys(("context", "axis", "tokens", "work", "time", "share"), "<b>")
    bands, marks = [FlopsBand("mlp", "<b>", [1, 2])], [Mark(1, "<b>", 1)]
    figures = [work_figure([1, 2], bands, marks, stacked, labels) for stacked in (True, False)]
    figures.append(times_figure([ComponentBar("<b>", 1, 1, (1, 1), ("<b>", "<b>"))], labels))
    assert not any("<b>" in each.to_json() for each in figures)


# --- Python ---


@pytest.mark.parametrize("which", [{}, LLAMA])
def test_the_python_lines_give_the_same_numbers(playground, which):
    model = playground.opened("tiny")
    config = ARCHITECTURES["llama-3.1-8b"].config if which else model.config
    parts = drawn(playground, which)
    for name, reading in (("compute_prompt", prompt(T)), ("compute_step", next_token(T))):
        (value,) = run_lines(parts[name]["python"], model)
        assert value == (total(operations(config, reading)),) * 2
    groups, crossings = run_lines(parts["compute_figure"]["python"], model)
    x = figure(parts["compute_figure"])["data"][0]["x"]
    assert groups[1] == by_group(operations(config, prompt(x[1])))
    assert crossings == (crossing(config), crossing(config, "layer"))


def test_the_python_lines_measure(playground):
    parts = finished(playground)
    (rows,) = run_lines(parts["compute_times_step"]["python"], playground.opened("tiny"))
    assert rows[0][0] == "embed" and all(seconds >= 0 for _, seconds, _ in rows)


# --- functions for programs ---


def ask(playground, name, **arguments):
    answer = call(playground, NAMED[name], arguments)
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    return answer


def test_the_functions_give_the_same(playground):
    config = playground.opened("tiny").config
    answer = ask(playground, "work", tokens=50)
    assert answer["prompt"]["total"] == total(operations(config, prompt(50)))
    assert answer["step"]["total"] == total(operations(config, next_token(50)))
    assert sum(row["all"] for row in answer["prompt"]["operations"]) == answer["prompt"]["total"]
    assert answer["crossing"] == {"projections": crossing(config), "layer": crossing(config, "layer")}
    other = ask(playground, "work", architecture="gpt2", tokens=50, every_head=False, item="bfloat16")
    gpt2 = ARCHITECTURES["gpt2"].config
    assert other["prompt"]["intensity"] == pytest.approx(intensity(gpt2, prompt(50, 1), 2), rel=1e-6)


def test_the_function_of_times_measures(playground):
    answer = ask(playground, "work_times", prompt=PROMPT, every_head=False)
    assert answer["prompt"]["flops"] == total(operations(playground.opened("tiny").config, prompt(T, 1)), useful=True)
    assert [row["component"] for row in answer["step"]["parts"]][-1] == "rest"
    assert isinstance(measure(playground.opened("tiny").model, [1, 2], budget=0.0), Clocked)
