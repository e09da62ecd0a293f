"""Who wrote it, without a browser: what is shown is what the model code computes, and what a page sends is checked."""

import itertools
import json
import re

import numpy as np
import pandas as pd
import pytest

from model.api import LanguageModel
from model.gpt.edits import Edit
from model.predictions.attribution import attribute, by_source, components, promoted
from model.predictions.gradients import MOST, affordable, gradients
from tests.support.models.helpers import VARIANTS, byte_tokenizer, tiny_model
from tests.support.scripts import script
from viz.labels import visible
from viz.numbers import exact, signed
from viz.page.pipeline import PageRequest, payloads, scene_of
from viz.seam import panels
from viz.seam.jobs import background
from viz.seam.settings import Settings
from viz.views.predictions.logit_parts import measure as logit_parts
from viz.views.predictions.logit_parts.figures import map_figure, steps_of, strongest, tokens_figure
from viz.views.predictions.logit_parts.measure import SameTokens, Watched, inside_of, measure_target
from viz.views.predictions.logit_parts.view import TOP, VIEW
from viz.words import LANGUAGES, Words, words
from viz.work.playground import Options, Playground

PROMPT = "abcab"
XY = {"target": ord("x"), "distractor": ord("y")}
SCRIPT = script("views/predictions/logit_parts")
PARTS = panels.names_of(VIEW)
FIGURE = Words(words("en"), "logit_parts.figure")


def asked(prompt=PROMPT, inside=None, language="en", **selection):
    values = {"predictions_view": {"view": "logit_parts"}, "logit_parts_map": inside}
    return PageRequest("tiny", prompt, selection or None, values, {}, language, "predictions")


def drawn(playground, prompt=PROMPT, **changes):
    return payloads(playground, asked(prompt, **changes))[0]


def data(payload):
    return json.loads(payload["figure"].to_json())["data"]


def plan_gradients(scene, values):
    return panels.job_of(VIEW, "gradients", scene, panels.settings_of(VIEW, scene, values))


def words_of(part):
    """The short keys of a part's words."""
    return set(Words(words("en"), f"logit_parts.{part}").plain())


def promoted_in(shown):
    """The tokens that are said to be promoted most."""
    return [token["token"] for token, *_ in shown["logit_parts_tokens"]["tables"][0]["rows"]]


# --- words ---


def test_the_script_has_the_words_it_asks_for():
    (code,) = [each for each in SCRIPT.split("define(") if each.strip().startswith('"wrotemap"')]
    found = set(re.findall(r"\bwords\.(\w+)", code))
    assert len(found) > 1 and found <= words_of("map")
    kinds = {"head", "mlp", "embedding", "position", "o_bias", "mlp_bias", "norm1_bias", "norm2_bias", "final_bias"}
    kinds |= {"edit", "entry"}
    assert {f"part_{kind}" for kind in kinds} <= words_of("map")


@pytest.mark.parametrize("language", LANGUAGES)
def test_first_drawing_fills_every_part_and_computes_no_gradients(playground, language, monkeypatch):
    monkeypatch.setattr(logit_parts, "gradients", lambda *_: pytest.fail("the gradients ran by themselves"))
    shown = drawn(playground, language=language)
    assert set(PARTS) <= set(shown)
    assert not any("problem" in shown[name] for name in PARTS)
    assert shown["logit_parts_job"]["state"] == "idle" and str(MOST) in shown["logit_parts_job"]["text"]
    assert set(shown["logit_parts_gradients"]) == {"empty"}


# --- the numbers ---


def test_everything_shown_is_of_the_likeliest_token(playground, lm):
    shown, run = drawn(playground, heads=[[2, 1]]), lm.trace(PROMPT)
    token = int(np.argmax(run.logits_at(-1)))
    found = components(run)
    parts = attribute(found, lm.model, token)
    heads, strip = data(shown["logit_parts_map"])
    assert np.array(map_values(heads)) == pytest.approx(parts.heads) and np.array(strip["z"]) == pytest.approx(
        parts.mlps[:, None]
    )
    assert [row[0]["part"] for row in strip["customdata"]] == [0, 1, 2]
    assert [value for _, value in shown["logit_parts_check"]["items"]] == [
        exact(parts.total),
        exact(parts.logit),
        signed(parts.gap, 2),
    ]
    assert parts.logit == run.logits_at(-1)[token] and f"id {token}" in shown["logit_parts_check"]["about"]
    (bars,) = data(shown["logit_parts_sources"])
    assert bars["y"] == pytest.approx(by_source(run, 2, 1, 4, parts.directions[2]), rel=1e-5)
    assert [click["tokens"] for click in bars["customdata"]] == [[4, 0], [4, 1], [4, 2], [4, 3], [4]]
    best = promoted(found, lm.model, 2, 1, TOP, lm.tokenizer.vocab_size)
    assert promoted_in(shown) == best.ids.tolist()
    lines, low = shown["logit_parts_tokens"]["lines"], shown["logit_parts_tokens"]["tables"][1]["rows"]
    assert [value for *_, value in lines] == [*best.values.tolist(), *best.low_values.tolist()]
    assert [text for *_, text in low] == [signed(value) for value in best.low_values]
    top = np.abs([best.values, best.low_values]).max()
    assert [2 * (bar["bars"][0]["to"] - bar["bars"][0]["from"]) for _, bar, _ in low] == pytest.approx(
        np.abs(best.low_values) / top
    )
    assert "2.1" in shown["logit_parts_tokens"]["title"] and signed(best.mean) in shown["logit_parts_tokens"]["note"]


def map_values(heat):
    """Plotly packs an array of numbers."""
    if not isinstance(heat["z"], dict):
        return heat["z"]
    import base64

    kind = {"f8": np.float64, "f4": np.float32}[heat["z"]["dtype"]]
    flat = np.frombuffer(base64.b64decode(heat["z"]["bdata"]), kind)
    return flat.reshape([int(n) for n in heat["z"]["shape"].split(",")])


def test_tokens_position_and_edits_are_those_asked_for(playground, lm):
    edits = [{"kind": "scale", "layer": 1, "head": 2, "factor": 3}]
    shown = drawn(playground, **XY, tokens=[3], heads=[[0, 3]], edits=edits)
    run = lm.trace(PROMPT).edit(Edit("scale", 1, 2, 3.0))
    parts = attribute(components(run, 3), lm.model, ord("x"), ord("y"))
    assert np.array(map_values(data(shown["logit_parts_map"])[0])) == pytest.approx(parts.heads)
    assert shown["logit_parts_check"]["items"][1][1] == exact(parts.logit)
    assert "“x”" in shown["logit_parts_map"]["title"] and "“y”" in shown["logit_parts_map"]["title"]
    assert "edited" in shown["logit_parts_map"]["source"]
    (bars,) = data(shown["logit_parts_sources"])
    assert bars["y"] == pytest.approx(by_source(run, 0, 3, 3, parts.directions[0])[:4], rel=1e-5)


def test_an_edited_head_says_why_it_has_no_sources(playground):
    shown = drawn(playground, heads=[[1, 2]], edits=[{"kind": "zero", "layer": 1, "head": 2}])
    assert "not a sum over tokens" in shown["logit_parts_sources"]["problem"]["text"]
    assert not any("problem" in shown[name] for name in PARTS if name != "logit_parts_sources")


def test_inside_an_mlp(playground, lm):
    shown = drawn(playground, inside={"mlp": 1, "head": [2, 3]}, heads=[[2, 3]])
    best = promoted(components(lm.trace(PROMPT)), lm.model, 1, None)
    assert promoted_in(shown) == best.ids.tolist()
    assert shown["logit_parts_map"]["mlp"] == 1 and set(shown["logit_parts_sources"]) == {"empty"}
    assert "MLP 1" in shown["logit_parts_tokens"]["title"]


@pytest.mark.parametrize(
    "sent",
    [
        None,
        3,
        [],
        {},
        {"mlp": 1},
        {"mlp": 1, "head": [0, 0]},
        {"mlp": 3, "head": [2, 3]},
        {"mlp": -1, "head": [2, 3]},
        {"mlp": True, "head": [2, 3]},
        {"mlp": "1", "head": [2, 3]},
    ],
)
def test_an_mlp_gives_way_to_another_head_and_to_nonsense(playground, sent):
    assert inside_of(sent, scene_of(playground, asked(heads=[[2, 3]]))) is None


def test_the_likeliest_token_is_the_target_where_none_is_picked(playground, lm):
    likely = int(np.argmax(lm.trace(PROMPT).logits_at(-1)))
    assert measure_target(scene_of(playground, asked()), Settings()) == Watched(4, likely)
    shown = drawn(playground)["logit_parts_targets"]["fields"]
    assert [each["token"] for each in shown] == [None, None] and visible(lm.tokenizer.piece(likely)) in shown[0][
        "empty"
    ]


def test_what_cannot_be_taken_apart_is_said_once(playground):
    same = {"target": ord("x"), "distractor": ord("x")}
    assert isinstance(measure_target(scene_of(playground, asked(**same)), Settings()), SameTokens)
    shown = drawn(playground, **same)
    assert "same token" in shown["logit_parts_check"]["problem"]["text"]
    assert shown["logit_parts_job"]["state"] == "unready" and "same token" in shown["logit_parts_job"]["text"]
    others = [name for name in PARTS if name.split("_")[-1] not in ("targets", "check", "job")]
    assert all(set(shown[name]) == {"empty"} for name in others)


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("prompt", ["a", "abca"])
def test_every_wiring_is_drawn(tmp_path, name, prompt):
    model = LanguageModel("tiny", "Tiny", tiny_model(VARIANTS[name] | {"vocab_size": 256}), byte_tokenizer(tmp_path))
    ours = Playground(Options(model="tiny", max_tokens=40))
    ours.models.get("tiny", lambda: model)
    shown = drawn(ours, prompt)
    assert not any("problem" in shown[part] for part in PARTS)
    texts = [value.replace("−", "-") for _, value in shown["logit_parts_check"]["items"][:2]]
    total, logit = map(float, texts)
    last = 10.0 ** -max(len(text.partition(".")[2]) for text in texts)  # equal sums may be rounded to either side
    assert last < 1e-3 and abs(total - logit) < 1.01 * last


# --- figures ---


def parts_frame():
    rows = [
        ("embedding", -1, -1, 1.0),
        ("head", 0, 0, 2.0),
        ("head", 0, 1, -0.5),
        ("o_bias", 0, -1, 0.25),
        ("mlp", 0, -1, -4.0),
        ("mlp_bias", 0, -1, 0.0),
        ("edit", 0, -1, 0.25),
        ("final_bias", 1, -1, 3.0),
    ]
    return pd.DataFrame(rows, columns=["kind", "layer", "head", "value"])


def test_steps_by_hand():
    steps = steps_of(parts_frame())
    assert [(step["kind"], step["layer"], step["value"], step["total"]) for step in steps] == [
        ("embedding", -1, 1.0, 1.0),
        ("attention", 0, 1.5, 2.5),
        ("mlp", 0, -4.0, -1.5),
        ("bias", 0, 0.25, -1.25),
        ("edit", 0, 0.25, -1.0),
        ("bias", 1, 3.0, 2.0),
    ]


def test_strongest_by_hand():
    found = strongest(parts_frame(), 2)
    assert [(row["kind"], row["value"]) for row in found["up"]] == [("final_bias", 3.0), ("head", 2.0)]
    assert [(row["kind"], row["value"]) for row in found["down"]] == [("mlp", -4.0), ("head", -0.5)]


def test_the_bars_of_the_layers_end_where_the_next_begin(playground):
    *bars, running = data(drawn(playground)["logit_parts_layers"])
    ends = {}
    for trace in bars:
        for name, base, value in zip(trace["x"], trace["base"], trace["y"], strict=True):
            ends[name] = (base, base + value)
    names = running["x"][::3] + running["x"][-2:-1]
    assert len(ends) == len(names) > 7
    for before, after in itertools.pairwise(names):
        assert ends[before][1] == pytest.approx(ends[after][0])
    assert ends[names[0]][0] == 0


def test_one_scale_for_heads_and_mlps():
    layout = map_figure(np.array([[0.5, -1]]), np.array([-3.0]), FIGURE).layout
    assert (layout.coloraxis.cmin, layout.coloraxis.cmax) == (-3, 3) and layout.meta["heads"]
    assert map_figure(np.zeros((1, 2)), np.zeros(1), FIGURE).layout.coloraxis.cmax == 1


def test_hostile_tokens_are_text(playground):
    pieces = ("<b>", "&amp;", "\u202e")
    figure = tokens_figure({"": np.array([1.0, -1, 0])}, pieces, 2, FIGURE)
    assert figure.data[0].text == (
        "&lt;b&gt;",
        "&amp;amp;",
        visible("\u202e").replace("<", "&lt;").replace(">", "&gt;"),
    )
    assert figure.layout.xaxis.ticktext[0] == "&lt;b&gt;"


def test_a_long_prompt_has_few_labels():
    figure = tokens_figure({"": np.zeros(1024)}, ["a"] * 1024, 1023, FIGURE)
    assert len(figure.data[0].x) == 1024 and len(figure.layout.xaxis.tickvals) <= 32


# --- gradients ---


def test_the_comparison_is_what_the_model_code_computes(playground, lm):
    scene = scene_of(playground, asked(**XY, tokens=[3]))
    list(background.perform(playground, plan_gradients(scene, {}), "en"))
    shown = drawn(playground, **XY, tokens=[3])
    found = gradients(lm.trace(PROMPT), 3, ord("x"), ord("y"))
    first, second = data(shown["logit_parts_gradients"])
    assert first["y"] == pytest.approx(found.gradient_x_activation, rel=1e-5, abs=1e-6)
    assert second["y"] == pytest.approx(found.integrated, rel=1e-5, abs=1e-6)
    assert signed(found.gap) in shown["logit_parts_gradients"]["note"] and shown["logit_parts_job"]["state"] == "done"
    assert "empty" in drawn(playground, tokens=[3])["logit_parts_gradients"]  # another target


def test_long_prompts_take_fewer_gradients():
    assert [affordable(n) for n in (1, 10, 32, 64, 256, 1024)] == [128, 128, 128, 64, 16, 16]


# --- python ---


@pytest.mark.parametrize("inside", [None, {"mlp": 1, "head": [2, 3]}])
def test_the_python_lines_give_the_numbers(playground, lm, inside, monkeypatch):
    monkeypatch.setattr("model.api.load_model", lambda name: lm)
    edits = [{"kind": "zero", "layer": 0, "head": 1}]
    shown = drawn(playground, **XY, inside=inside, heads=[[2, 3]], edits=edits)

    def last(code: str) -> object:
        *lines, final = code.splitlines()
        names: dict = {}
        exec("\n".join(lines), names)
        return eval(final, names)

    total, logit = last(shown["logit_parts_map"]["python"])
    assert [exact(total), exact(logit)] == [value for _, value in shown["logit_parts_check"]["items"][:2]]
    assert last(shown["logit_parts_layers"]["python"])["value"].sum() == pytest.approx(total)
    best = last(shown["logit_parts_tokens"]["python"])
    assert best.ids.tolist() == promoted_in(shown)
    if inside is None:
        assert data(shown["logit_parts_sources"])[0]["y"] == pytest.approx(
            last(shown["logit_parts_sources"]["python"]), rel=1e-5
        )


def test_the_python_lines_of_the_gradients(playground, lm, monkeypatch):
    monkeypatch.setattr("model.api.load_model", lambda name: lm)
    scene = scene_of(playground, asked())
    list(background.perform(playground, plan_gradients(scene, {}), "en"))
    shown = drawn(playground)["logit_parts_gradients"]
    *lines, final = shown["python"].splitlines()
    names: dict = {}
    exec("\n".join(lines), names)
    assert data(shown)[1]["y"] == pytest.approx(eval(final, names).integrated, rel=1e-5, abs=1e-6)


def test_a_target_is_dotted_anew_and_nothing_else_is(playground, monkeypatch):
    calls = []
    monkeypatch.setattr(logit_parts, "components", lambda *given: calls.append(given) or components(*given))
    drawn(playground)
    drawn(playground, target=ord("x"))
    drawn(playground, target=ord("x"), heads=[[1, 1]])
    assert len(calls) == 1
    drawn(playground, tokens=[1])
    assert len(calls) == 2
