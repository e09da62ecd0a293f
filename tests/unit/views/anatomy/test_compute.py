"""The views of work and memory without a browser: their numbers, their jobs, their functions for programs."""

import json
import re

import pytest

from model.anatomy.anatomy import ARCHITECTURES
from model.anatomy.component_times import Clocked, measure
from model.anatomy.flops import by_group, crossing, intensity, next_token, operations, prompt, total
from model.anatomy.footprint import Setting, kept_bytes, largest, parts, weights_bytes, working_bytes
from model.anatomy.measured_memory import Held
from model.api import LanguageModel
from model.errors import InputError
from model.gpt.transformer import Transformer
from tests.support.helpers import VARIANTS, byte_tokenizer, serving, tiny_model
from viz.api.endpoints import ENDPOINTS
from viz.api.registry import call
from viz.page import background
from viz.page.pipeline import Asked, payloads, scene_of
from viz.views.anatomy.compute import times
from viz.views.anatomy.compute import view as compute
from viz.views.anatomy.compute.figures import Band, Bar, Mark, contexts, times_figure, told_flops, work_figure
from viz.views.anatomy.memory import view as memory
from viz.views.anatomy.memory.figures import Layer, memory_figure
from viz.words import LANGUAGES, section, words

PROMPT = "abcabd ab"
T = len(PROMPT)
NAMED = {each.name: each for each in ENDPOINTS}
EDIT = {"kind": "zero", "layer": 1, "head": 2}
LLAMA = {"anatomy_form": {"which": "llama-3.1-8b"}}
TIMED = [name for name in times.PARTS if name != "work_job"]


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


def question(view, values=None, text=PROMPT, language="en", **selection):
    sent = {"anatomy_view": {"view": view}} | (values or {})
    return Asked("tiny", text, selection or None, sent, {}, language, "anatomy")


def drawn(playground, view, values=None, **changes):
    found = payloads(playground, question(view, values, **changes))[0]
    json.dumps(found, allow_nan=False)
    assert not [name for name, part in found.items() if "problem" in part]
    return found


def finished(playground, view, plan, values=None, **changes):
    """The payloads once the job of a view is done."""
    asked = question(view, values, **changes)
    list(background.perform(playground, plan(scene_of(playground, asked), asked.values), "en"))
    return drawn(playground, view, values, **changes)


def figure(payload):
    return json.loads(payload["figure"])


def cells(payload):
    return [[cell["text"] if isinstance(cell, dict) else cell for cell in row] for row in payload["rows"]]


def run_lines(text, model):
    """The values of the last lines, which are expressions."""
    lines, space = text.replace("load_model('tiny')", "lm").splitlines(), {"lm": model}
    made = max(n for n, line in enumerate(lines) if re.match(r"\w+ = ", line))
    exec("\n".join(lines[: made + 1]), space)
    return [eval(line, space) for line in lines[made + 1 :]]


# --- work ---


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_tables_are_the_operations_and_pytorch_agrees(tokenizer, variant):
    playground = playground_of(tokenizer, variant)
    config, found = playground.opened("tiny").config, drawn(playground, "work")
    for name, reading in (("work_prompt", prompt(T)), ("work_step", next_token(T))):
        table, made = found[name], operations(config, reading)
        assert table["same"] and f"{total(made):,} FLOPs" in table["check"]
        rows = cells(table)
        assert [row[3] for row in rows] == [*(f"{op.all_products:,}" for op in made), f"{total(made):,}"]
        assert [row[2] for row in rows[:-1] if row[2] != "–"] == [
            f"{op.products:,}" for op in made if op.products and op.key != "head"
        ]
        assert all((row[1] == "0") == (op.products == 0) for row, op in zip(rows, made, strict=False))
        apart = sum(op.all_elementwise for op in made)
        assert rows[-1][5] == f"{apart:,}"


@pytest.mark.parametrize("shown", compute.SHOWN)
@pytest.mark.parametrize("which", [{}, LLAMA])
def test_the_curves_are_the_groups(playground, shown, which):
    config = ARCHITECTURES["llama-3.1-8b"].config if which else playground.opened("tiny").config
    payload = drawn(playground, "work", {"work_form": {"shown": shown}} | which)["work_figure"]
    made = figure(payload)
    x = made["data"][0]["x"]
    at = len(x) // 2
    reading = next_token(x[at] - 1) if shown == "step" else prompt(x[at])
    groups = by_group(operations(config, reading))
    curves = {each["name"]: each for each in made["data"] if each["mode"] == "lines"}
    said = section(words("en"), "workfigure")
    for key in ("attention", "projections", "mlp", "head"):
        assert curves[said[key]]["text"][at] == told_flops(groups[key])
    values = [each["y"][at] for each in curves.values()]
    unit = 1 if shown == "lines" else sum(groups.values()) / sum(values)
    assert sorted(values) == pytest.approx(sorted(n / unit for n in groups.values() if n), rel=1e-6)
    lines = {shape["x0"] for shape in made["layout"]["meta"]["shapes"]}
    assert {crossing(config), crossing(config, "layer"), T} <= lines and max(lines) <= x[-1]
    assert ("stackgroup" in made["data"][0]) == (shown != "lines")
    if shown == "lines":
        (point,) = [each for each in made["data"] if each["mode"] == "markers"]
        assert point["x"] == [crossing(config)]


def test_facts_have_the_exact_numbers(playground):
    config = playground.opened("tiny").config
    items = dict(
        drawn(playground, "work", {"work_form": {"tokens": 100, "logits": "last", "item": "bfloat16"}})["work_facts"][
            "items"
        ]
    )
    reading = prompt(100, 1)
    assert f"{total(operations(config, reading)):,} FLOPs" in items["The prompt"]
    assert f"= 48·(1 + 4/4) = {crossing(config):.0f} tokens" in items["Where attention overtakes"]
    assert items["Intensity of the prompt"].startswith(f"{intensity(config, reading, 2):.4g} FLOPs")
    exact, N = total(operations(config, reading)) / 100, 3 * (4 * 48 * 48 + 2 * 48 * 100)
    assert f"N = {N:,}" in items["Rule of thumb 2N"]
    assert f"{100 * (2 * N / exact - 1):+.1f} %".replace("-", "−") in items["Rule of thumb 2N"]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("which", ["gpt2", "llama-3.1-8b", "minigpt"])
def test_every_architecture_is_worked_out(playground, language, which):
    for view in ("work", "memory"):
        found = drawn(playground, view, {"anatomy_form": {"which": which}}, language=language)
        shown = [part for name, part in found.items() if name.startswith(f"{view}_") and not name.endswith("_form")]
        ours = [{key: text for key, text in part.items() if key not in ("words", "python")} for part in shown]
        assert len(ours) > 5 and not re.search(r"(?<!%)\{\w+\}", json.dumps(ours, ensure_ascii=False))
        assert found[f"{view}_job"]["state"] == "unready"
        if view == "work":
            assert found["work_prompt"]["same"] and found["work_step"]["same"]
            assert all("empty" in found[name] for name in TIMED)


@pytest.mark.parametrize("sent", [None, [], {"tokens": "9"}, {"tokens": float("nan")}, {"shown": 3, "item": []}])
def test_what_is_not_offered_is_the_default(playground, sent):
    def ours(view, values=None):
        return {name: part for name, part in drawn(playground, view, values).items() if name.startswith(f"{view}_")}

    assert ours("work", {"work_form": sent}) == ours("work")
    sent = {"mode": sent, "batch": sent, "tokens": sent, "form": sent}
    assert ours("memory", {"memory_form": sent}) == ours("memory")


def test_bounds_are_kept(playground):
    asked = question("work", {"work_form": {"tokens": 1e30}})
    assert compute.asked_of(scene_of(playground, asked), asked.values).tokens == compute.MOST
    drawn(playground, "work", {"work_form": {"tokens": 1e30}})
    drawn(playground, "memory", {"memory_form": {"tokens": 1e30, "batch": 1e30, "mode": "mixed"}})


def test_nothing_runs_for_what_is_derived(playground, monkeypatch):
    drawn(playground, "work")
    monkeypatch.setattr(Transformer, "trunk", lambda *given, **named: pytest.fail("the model was run"))
    for tokens in (1, 5, 1000):
        drawn(playground, "work", {"work_form": {"tokens": tokens}})
        drawn(playground, "memory", {"memory_form": {"tokens": tokens}})


# --- time ---


@pytest.mark.parametrize("variant", ["gpt2", "post", "qwen3"])
def test_a_measurement_is_shown(tokenizer, variant):
    playground = playground_of(tokenizer, variant)
    idle = drawn(playground, "work")
    assert idle["work_job"]["state"] == "idle" and all("empty" in idle[name] for name in TIMED)
    found = finished(playground, "work", times.plan)
    asked = question("work")
    result = playground.results.peek(times.key_of(scene_of(playground, asked), True)).value
    for kind, forward in (("prompt", result.prompt), ("step", result.step)):
        rows = cells(found[f"work_clock_{kind}"])
        assert len(rows) == len(forward.parts) + 1
        shares = [float(row[3].split()[0]) for row in rows[:-1]]
        assert sum(shares) == pytest.approx(100, abs=1)
        work_bars, time_bars = figure(found[f"work_times_{kind}"])["data"]
        assert sum(work_bars["x"]) == pytest.approx(1) and sum(time_bars["x"]) == pytest.approx(1)
        assert "measured here" in found[f"work_times_{kind}"]["source"]
    assert result.prompt.reading == prompt(T)


def test_a_measurement_is_of_its_prompt_and_its_head(playground):
    finished(playground, "work", times.plan)
    assert all("empty" in drawn(playground, "work", text="other")[name] for name in TIMED)
    last = {"work_form": {"logits": "last"}}
    assert all("empty" in drawn(playground, "work", last)[name] for name in TIMED)
    assert all("empty" not in drawn(playground, "work", {"work_form": {"tokens": 50}})[name] for name in TIMED)
    assert all("empty" in drawn(playground, "work", LLAMA)[name] for name in TIMED)


def test_edits_are_left_out_and_it_is_said(playground):
    assert "edits are left out" in drawn(playground, "work", edits=[EDIT])["work_job"]["text"]
    found = finished(playground, "work", times.plan, edits=[EDIT])
    assert "without your edits" in found["work_times_prompt"]["source"]


def test_the_model_is_held_while_it_is_timed(playground, monkeypatch):
    held, trunk = [], Transformer.trunk
    asked = question("work")
    scene = scene_of(playground, asked)

    def spy(*given, **named):
        held.append(playground.computing.locked())
        return trunk(*given, **named)

    monkeypatch.setattr(Transformer, "trunk", spy)
    list(background.perform(playground, times.plan(scene, {}), "en"))
    list(background.perform(playground, memory.plan(scene, {}), "en"))
    assert len(held) > 20 and all(held) and not playground.computing.locked()


# --- memory ---


@pytest.mark.parametrize("mode", ["inference", "adamw", "mixed"])
def test_the_table_is_the_parts(playground, mode):
    config = playground.opened("tiny").config
    form = {"mode": mode, "batch": 3, "tokens": 70, "attention": "explicit", "form": "int8", "item": "bfloat16"}
    found = drawn(playground, "memory", {"memory_form": form})
    setting = Setting(mode, "int8", 3, 70, 2, True)
    expected = parts(config, setting)
    assert [row[1] for row in cells(found["memory_table"])] == [
        *(f"{n:,}" for n in expected.values() if n),
        f"{sum(expected.values()):,}",
    ]
    data = figure(found["memory_figure"])["data"]
    assert len(data) == sum(n > 0 for n in expected.values())
    for size, row in zip(memory.BUDGETS, cells(found["memory_fits"]), strict=True):
        tokens, batch = largest(config, setting, size * memory.GB)
        assert row[0] == f"{size} GB" and row[1].split()[0] == f"{tokens:,}" and row[2] == f"{batch:,}"


def test_what_does_not_fit_is_said(playground):
    found = drawn(playground, "memory", {"anatomy_form": {"which": "gpt3-175b"}})
    assert {cell for row in cells(found["memory_fits"]) for cell in row[1:]} == {"does not fit"}
    rows = cells(drawn(playground, "memory", LLAMA)["memory_formats"])
    assert [row[3] for row in rows] == ["32.1 GB", "16.1 GB", "8.04 GB", "4.52 GB"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_measured_is_equal(tokenizer, variant):
    playground = playground_of(tokenizer, variant)
    before = drawn(playground, "memory")["memory_held"]
    assert [row[2] != "–" for row in cells(before)] == [True, True, False, False, False, False] and before["same"]
    found = finished(playground, "memory", memory.plan)["memory_held"]
    config = playground.opened("tiny").config
    assert found["same"] and "6" in found["check"]
    assert [row[2] for row in cells(found)][2:] == [
        f"{n:,}"
        for n in (
            working_bytes(config, Setting(tokens=T)),
            working_bytes(config, Setting(tokens=T, explicit=True)),
            kept_bytes(config, 1, T),
            kept_bytes(config, 1, T, True),
        )
    ]


def test_what_is_not_equal_is_not_called_equal(playground):
    scene = scene_of(playground, question("memory"))
    config = scene.model.config
    payload = memory.held_payload(scene, Held(T, weights_bytes(config) + 8, 0, 0, 0, 0, 0), True)
    assert not payload["same"] and cells(payload)[0][3].startswith("+8 (+0.0 %")


def test_the_published_formula_is_only_shown_where_it_applies(playground):
    gpt2 = dict(drawn(playground, "memory", {"anatomy_form": {"which": "gpt2"}})["memory_facts"]["items"])
    assert "Korthikanti et al. 2022, with dropout" in gpt2["Published formula"]
    llama = dict(drawn(playground, "memory", LLAMA)["memory_facts"]["items"])
    assert "does not apply" in llama["Published formula"]


# --- pictures ---


def test_figures_escape_what_plotly_would_read():
    said = {
        "context": "<b>",
        "axis": "<b>",
        "tokens": "<b>",
        "work": "<b>",
        "time": "<b>",
        "share": "<b>",
        "size": "<b>",
        "here": "<b>",
    }
    made = work_figure([1, 2], [Band("mlp", "<b>", [1, 2])], [Mark(1, "<b>", 1)], True, said)
    made += times_figure([Bar("<b>", 1, 1, (1, 1), ("<b>", "<b>"))], said)
    made += memory_figure([1, 2], [Layer("cache", "<b>", [1, 2])], {"<b>": 2}, 1, said)
    assert "<b>" not in made


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (0, "0 FLOP"),
        (999, "999 FLOP"),
        (1000, "1.00 kFLOP"),
        (168_591_360, "169 MFLOP"),
        (3.625e14, "362 TFLOP"),
        (999_600, "1.00 MFLOP"),
    ],
)
def test_numbers_as_they_are_read(n, text):
    assert told_flops(n) == text


def test_contexts_are_whole_and_reach_both_ends():
    for logarithmic in (False, True):
        found = contexts(1536, logarithmic)
        assert found[0] == 1 and found[-1] == 1536 and found == sorted(set(found))
    assert contexts(1, True) == [1]


# --- Python ---


@pytest.mark.parametrize("which", [{}, LLAMA])
def test_the_python_lines_give_the_same_numbers(playground, which):
    model = playground.opened("tiny")
    config = ARCHITECTURES["llama-3.1-8b"].config if which else model.config
    found = drawn(playground, "work", which)
    for name, reading in (("work_prompt", prompt(T)), ("work_step", next_token(T))):
        (value,) = run_lines(found[name]["python"], model)
        assert value == (total(operations(config, reading)),) * 2
    groups, crossings = run_lines(found["work_figure"]["python"], model)
    assert groups[1] == by_group(operations(config, prompt(found_x(found)[1])))
    assert crossings == (crossing(config), crossing(config, "layer"))
    found = drawn(playground, "memory", which)
    setting = Setting(tokens=config.n_ctx)
    assert run_lines(found["memory_table"]["python"], model) == [parts(config, setting)]
    (fits,) = run_lines(found["memory_fits"]["python"], model)
    assert fits == [largest(config, setting, size * 10**9) for size in memory.BUDGETS]
    (forms,) = run_lines(found["memory_formats"]["python"], model)
    assert forms["int4"] == weights_bytes(config, "int4")
    (stacked,) = run_lines(found["memory_figure"]["python"], model)
    assert stacked[0] == parts(config, Setting(tokens=1))


def found_x(found):
    return figure(found["work_figure"])["data"][0]["x"]


def test_the_python_lines_measure(playground):
    found = finished(playground, "work", times.plan)
    (rows,) = run_lines(found["work_times_step"]["python"], playground.opened("tiny"))
    assert rows[0][0] == "embed" and all(seconds >= 0 for _, seconds, _ in rows)


# --- functions for programs ---


def ask(playground, name, **given):
    found = call(playground, NAMED[name], given)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    return found


def test_the_functions_give_the_same(playground):
    config = playground.opened("tiny").config
    found = ask(playground, "work", tokens=50)
    assert found["prompt"]["total"] == total(operations(config, prompt(50)))
    assert found["step"]["total"] == total(operations(config, next_token(50)))
    assert sum(row["all"] for row in found["prompt"]["operations"]) == found["prompt"]["total"]
    assert found["crossing"] == {"projections": crossing(config), "layer": crossing(config, "layer")}
    other = ask(playground, "work", architecture="gpt2", tokens=50, every_head=False, item="bfloat16")
    gpt2 = ARCHITECTURES["gpt2"].config
    assert other["prompt"]["intensity"] == pytest.approx(intensity(gpt2, prompt(50, 1), 2), rel=1e-6)
    found = ask(playground, "memory", architecture="gpt2", mode="mixed", tokens=64, batch=2)
    assert found["parts"] == parts(gpt2, Setting("mixed", tokens=64, batch=2)) and found["parameters"] == 124_439_808
    assert [row["gigabytes"] for row in found["fits"]] == [8, 16, 24, 80]


def test_the_function_of_times_measures(playground):
    found = ask(playground, "work_times", prompt=PROMPT, every_head=False)
    assert found["prompt"]["flops"] == total(operations(playground.opened("tiny").config, prompt(T, 1)), useful=True)
    assert [row["component"] for row in found["step"]["parts"]][-1] == "rest"
    assert isinstance(measure(playground.opened("tiny").model, [1, 2], budget=0.0), Clocked)


@pytest.mark.parametrize("given", [{"architecture": "gpt9"}, {"tokens": 0}, {"mode": "x"}, {"tokens": 1 << 30}])
def test_arguments_out_of_range_are_refused(playground, given):
    with pytest.raises(InputError):
        call(playground, NAMED["memory"], given)
