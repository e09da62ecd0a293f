"""The page's explanation of one cell: what is shown adds up, whatever the wiring, the edits or the tokens."""

import dataclasses
import itertools
import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from model.attention.cell import explain
from model.errors import InputError
from model.gpt.edits import Edit
from model.tracing.trace import run
from tests.support.models.helpers import (
    ALL_VARIANTS,
    MORE_VARIANTS,
    VARIANTS,
    E,
    H,
    L,
    random_ids,
    tiny_model,
    tokens_of,
)
from viz.numbers import number
from viz.seam import panels
from viz.seam.scene import Scene
from viz.seam.selection import Selection
from viz.views.attention.cell import view as cell
from viz.views.attention.cell.figures import (
    adding_up,
    decimals_of,
    products_shown,
    row_shown,
    stages_of,
    steps_payload,
)
from viz.views.attention.cells import named
from viz.words import translate, words
from viz.work.playground import Options, Playground
from viz.work.prompt import Prompt

T = 19
IDS = random_ids(1, T, seed=3, vocab_size=9)[0]
HOSTILE = ("<img src=x onerror=alert(1)>", "{query}", "\u202eabc", "&lt;", "\ud83d", "${1}", "{{x}}", "'\"", "\n")


def found(name: str = "gpt2", layer: int = 1, head: int = 2, query: int = 12, key: int = 4):
    trace = run(tiny_model(ALL_VARIANTS[name]), tokens_of(IDS))
    return explain(trace, layer, head, query, key), trace.tokens


def total(parts, decimals: int) -> str:
    return f"{sum(parts) + 0.0:.{decimals}f}"


# --- rounding ---


def test_thirds_add_up_to_one():
    assert adding_up([1 / 3, 1 / 3, 1 / 3], 2) == [0.34, 0.33, 0.33]
    assert adding_up([1 / 3, 1 / 3, 1 / 3], 2, keep=0) == [0.33, 0.34, 0.33]
    assert adding_up([0.666, 0.666, 0.666], 1) == [0.6, 0.7, 0.7]
    assert adding_up([-0.04, -0.04, -0.04], 1) == [-0.1, 0.0, 0.0]
    assert adding_up([2.5], 0) == [2.0]
    assert adding_up([], 3) == []


@pytest.mark.parametrize("decimals", [0, 1, 4, 8])
@pytest.mark.parametrize("size", [1e-6, 1.0, 3e4])
def test_rounded_parts_add_up_and_stay_where_they_are(decimals: int, size: float):
    random = np.random.default_rng(0)
    for n, keep in itertools.product((1, 2, 5, 10), (None, 0)):
        parts = size * random.normal(size=n)
        shown = adding_up(parts, decimals, keep)
        assert total(shown, decimals) == f"{round(float(parts.sum()), decimals) + 0.0:.{decimals}f}"
        assert np.abs(shown - parts).max() <= 10.0**-decimals * 1.001
        if keep is not None and n > 1:
            assert shown[0] == round(float(parts[0]), decimals) + 0.0


def test_decimals_show_four_digits_of_the_sum():
    assert decimals_of(22.85, 5.1) == 2
    assert decimals_of(3.991, 3.0) == 3
    assert decimals_of(0.001234, 50.0) == 4  # six digits of the part
    assert decimals_of(123456.0, 99999.0) == 0
    assert decimals_of(0.0, 0.0) == 0
    assert decimals_of(1e-12, 1e-12) == 8


# --- products ---


def test_products_by_hand():
    said = products_shown(np.array([0.1, 3.2, -1.4, 2.1, 0.3]))
    assert said["dimensions"] == [1, 3, 2]
    assert said["parts"] == [3.2, 2.1, -1.4]
    assert (said["rest"], said["others"], said["total"], said["decimals"]) == (0.4, 2, 4.3, 3)


def test_few_dimensions_leave_no_rest():
    said = products_shown(np.array([2.0, -0.5]))
    assert (said["parts"], said["rest"], said["others"], said["total"]) == ([2.0, -0.5], 0.0, 0, 1.5)


# --- the row ---


def test_row_by_hand():
    scores = np.log([1.0, 8.0, 4.0, 2.0, 1.0])
    row = row_shown(scores, np.exp(scores - scores.max()), 0)
    assert [line["key"] for line in row["lines"]] == [1, 2, 3, 0, 4]
    assert [line["weight"] for line in row["lines"]] == pytest.approx([0.5, 0.25, 0.125, 0.0625, 0.0625])
    assert (row["denominator"], row["shown"], row["others"]) == (pytest.approx(2), [2.0, 1.0], None)
    assert row["lines"][3]["below"] == pytest.approx(-math.log(8))


@pytest.mark.parametrize("key", [0, 7, 8, 19])
def test_a_long_row_keeps_the_cell_and_sums_the_others(key: int):
    exponentials = 0.5 ** np.arange(20.0)
    row = row_shown(np.log(exponentials), exponentials, key)
    keys = [line["key"] for line in row["lines"]]
    assert keys == [*range(8), *([key] if key > 7 else [])]
    assert row["others"]["count"] == 20 - len(keys)
    assert row["others"]["exponential"] == pytest.approx(exponentials[8:].sum() - exponentials[key] * (key > 7))
    assert_row_adds_up(row)


def assert_row_adds_up(row: dict) -> None:
    parts = [*row["lines"], *(row[name] for name in ("others", "sink") if row[name])]
    assert sum(part["exponential"] for part in parts) == pytest.approx(row["denominator"], rel=1e-12)
    assert sum(part["weight"] for part in parts) == pytest.approx(1, rel=1e-12)
    for column in (0, 1):
        assert total([part["shown"][column] for part in parts], 4) == f"{row['shown'][column]:.4f}"
    assert row["shown"][1] == 1
    assert row["shown"][0] == pytest.approx(row["denominator"], abs=0.51e-4)


# --- the whole payload ---


@pytest.mark.parametrize("name", VARIANTS)
def test_every_number_follows_from_the_ones_before(name: str):
    cells = [(0, 0), (1, 0), (7, 3), (18, 0), (18, 18)]
    for (layer, head), (query, key) in itertools.product([(0, 0), (L - 1, H - 1)], cells):
        ours, tokens = found(name, layer, head, query, key)
        payload = json.loads(json.dumps(steps_payload(ours, tokens), allow_nan=False))
        last = payload["stages"][-1]
        products = np.multiply(last["q"], last["k"])
        assert payload["products"] == pytest.approx(products.tolist(), rel=1e-6, abs=1e-9)
        assert sum(payload["products"]) == pytest.approx(payload["dot"], rel=1e-9, abs=1e-9)
        said = payload["named"]
        parts = [*said["parts"], said["rest"]]
        assert total(parts, said["decimals"]) == f"{said['total'] + 0.0:.{said['decimals']}f}"
        assert said["total"] == pytest.approx(payload["dot"], abs=0.51 * 10.0 ** -said["decimals"])
        assert payload["dot"] / payload["scale"] == pytest.approx(payload["score"])
        assert payload["scores"][key] == payload["score"]
        assert_row_adds_up(payload["row"])
        line = next(line for line in payload["row"]["lines"] if line["key"] == key)
        assert line["weight"] == pytest.approx(payload["weight"])
        assert line["shown"][1] == round(payload["weight"], 4)
        assert payload["weight"] * payload["value_length"] == pytest.approx(payload["output_length"])
        assert payload["share"] * payload["row_length"] == pytest.approx(payload["output_length"])
        assert payload["hidden"] == T - 1 - query
        assert np.multiply(payload["weight"], payload["value"]) == pytest.approx(payload["weighted"])


@pytest.mark.parametrize("name", MORE_VARIANTS)
def test_a_row_by_other_rules_adds_up(name: str):
    for layer, key in itertools.product(range(L), (15, 18)):
        ours, tokens = found(name, layer, 2, 18, key)
        payload = json.loads(json.dumps(steps_payload(ours, tokens), allow_nan=False))
        assert_row_adds_up(payload["row"])
        assert payload["scores"][key - payload["first"]] == payload["score"]
        assert {line["key"] for line in payload["row"]["lines"]} <= set(range(payload["first"], 19))
        line = next(line for line in payload["row"]["lines"] if line["key"] == key)
        assert (line["score"], line["weight"]) == (payload["score"], pytest.approx(payload["weight"]))
        sink = payload["row"]["sink"]
        assert (sink is None) == (name != "oss")
        assert sink is None or (sink["score"], sink["weight"]) == (ours.sink, pytest.approx(ours.sink_weight))


@pytest.mark.parametrize(
    ("name", "stages"),
    [
        ("gpt2", ["raw"]),
        ("gqa", ["raw", "normed"]),
        ("llama", ["raw", "turned"]),
        ("qwen3", ["raw", "normed", "turned"]),
    ],
)
def test_stages_end_at_what_is_multiplied(name: str, stages: list[str]):
    ours, _ = found(name)
    made = stages_of(ours)
    assert [stage["name"] for stage in made] == stages
    assert made[0]["q"] == ours.q_raw.tolist() and made[-1]["q"] == ours.q.tolist()
    assert made[0]["k"] == ours.k_raw.tolist() and made[-1]["k"] == ours.k.tolist()
    if "normed" in stages:
        assert made[1]["q"] == pytest.approx(ours.q_normed.tolist(), abs=1e-6)


def test_angles_are_those_of_the_pairs():
    ours, tokens = found("neox")
    assert len(steps_payload(ours, tokens)["angles"]) == E // 4  # half the dimensions turn, in pairs
    assert steps_payload(*found("gpt2"))["angles"] is None


def test_a_single_token_gives_itself_everything():
    trace = run(tiny_model(), tokens_of([5]))
    payload = steps_payload(explain(trace, 0, 0, 0, 0), trace.tokens)
    assert (payload["weight"], payload["hidden"], payload["share"]) == (1, 0, pytest.approx(1))
    assert payload["row"]["others"] is None and payload["row"]["shown"] == [1, 1]


def test_nothing_written_has_no_share():
    ours, tokens = found()
    silent = dataclasses.replace(ours, weight=0.0, output_norm=0.0, row_output_norm=0.0)
    payload = steps_payload(silent, tokens)
    assert payload["share"] is None and payload["value_length"] is None


def test_hostile_tokens_stay_text():
    tokens = tokens_of(range(len(HOSTILE)), tuple(piece.encode("utf-8", "replace").decode() for piece in HOSTILE))
    assert "\u202e" not in named(tokens, 2) and named(tokens, 0).startswith("<img")
    assert named(tokens, 8) == "↵ (8)"


# --- on the page ---


def scene_of(lm, prompt: str = "abcabd", *, edits=(), head=(1, 2), language="en") -> Scene:
    playground = Playground(Options(model="tiny"))
    trace = playground.trace(lm, Prompt(prompt), tuple(edits))
    picked = Selection((head,), edits=tuple(edits))
    return Scene(playground, lm, Prompt(prompt), trace, "run", words(language), language, picked)


def picture(scene: Scene, pair: tuple[int, int]):
    at = dataclasses.replace(scene, picked=dataclasses.replace(scene.picked, pair=pair))
    return panels.pictures(cell.VIEW, at, {})["cell_steps"]


def shown(scene: Scene, pair: tuple[int, int]) -> dict:
    return picture(scene, pair).make()


def test_the_view_shows_the_models_numbers(lm):
    scene = scene_of(lm)
    payload = shown(scene, (4, 1))
    assert payload["weight"] == pytest.approx(float(scene.trace.pattern(1, 2)[4, 1]), abs=1e-6)
    assert payload["title"] == f"Why head 1.2 at b (4) puts weight {number(payload['weight'], 4)} on b (1)"
    assert payload["names"] == ["b (4)", "b (1)"] and payload["run"] == "run 1.2 4 1"
    assert payload["check"]["state"] == "same" and payload["group"] == 2
    lines = payload["python"].split("\n")
    assert "from model.attention.cell import explain" in lines and lines[-1] == "explain(run, 1, 2, 4, 1)"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_step_shows_its_lines(lm, language):
    payload = shown(scene_of(lm, language=language), (4, 1))
    assert {f"step_{step}" for step in payload["code"]} == {key for key in payload["words"] if key.startswith("step_")}
    assert all(code["sets"] and all(found for _, found in code["sets"]) for code in payload["code"].values())
    project = dict(payload["code"]["softmax"]["sets"])[words(language)["code.project"]]
    assert [each["caption"] for each in project] == [
        "model/gpt/layers.py: attention_pattern",
        "model/attention/cell.py: explain",
    ]
    assert list(project[1]["shapes"].values()) == ["[5]", "[5]"]
    assert len(json.dumps(payload["code"])) < 16_000


def test_another_cell_or_head_is_another_picture(lm):
    scene, other = scene_of(lm), scene_of(lm, head=(0, 1))
    keys = {repr(picture(*args).key) for args in [(scene, (4, 1)), (scene, (4, 2)), (other, (4, 1))]}
    assert len(keys) == 3


@pytest.mark.parametrize(
    "edits,state,output",
    [
        ((), "same", False),
        ((Edit("uniform", 1, 2),), "forced", False),
        ((Edit("uniform", 1, 1),), "same", False),
        ((Edit("uniform", 0, 2),), "same", False),  # an earlier layer changes the vectors, not the steps
        ((Edit("block_edge", query=4, key=1),), "cell", False),
        ((Edit("block_edge", 1, 2, query=4, key=0),), "row", False),
        ((Edit("block_edge", 1, 2, query=3, key=1),), "same", False),
        ((Edit("zero", 1, 2),), "same", True),
        ((Edit("zero", 1, 3),), "same", False),
        ((Edit("scale", 1, 2, factor=0.5), Edit("previous_token", 1, 2)), "forced", True),
    ],
)
def test_edits_are_given_as_the_reason(lm, edits, state, output):
    scene = scene_of(lm, edits=edits)
    payload = shown(scene, (4, 1))
    assert (payload["check"]["state"], payload["check"]["output"]) == (state, output)
    assert payload["check"]["weight"] == pytest.approx(float(scene.trace.pattern(1, 2)[4, 1]))
    assert f"check_{state}" in payload["words"]
    json.dumps(payload, allow_nan=False)
    assert ("Edit(" in payload["python"]) == bool(edits) == payload["source"].endswith("edited run")


def test_a_difference_that_no_edit_explains_is_shown(lm):
    ours = explain(scene_of(lm).trace, 1, 2, 4, 1)
    nothing = cell.Changed(False, False, False, False)
    apart = dataclasses.replace(ours, model_weight=ours.weight + 1e-3)
    assert cell.check(apart, nothing)["state"] == "apart"
    assert cell.check(dataclasses.replace(ours, model_score=ours.score + 0.01), nothing)["state"] == "apart"
    assert cell.check(ours, nothing)["state"] == "same"


def test_numbers_that_are_not_finite_are_said(lm, monkeypatch):
    monkeypatch.setattr(cell, "explain", lambda *_: SimpleNamespace(dot=math.nan, denominator=1.0, row_output_norm=1.0))
    with pytest.raises(InputError, match="not finite") as raised:
        shown(scene_of(lm), (4, 1))
    assert translate(raised.value.what, "zh") == "这个头的数值不是有限数。" and raised.value.got == "1.2"


def test_the_view_speaks_chinese(lm):
    payload = shown(scene_of(lm, language="zh"), (4, 1))
    assert payload["title"].startswith("头 1.2 在 b (4) 处")
    assert payload["words"]["step_vectors"] == "两个向量"
