"""The drawing of a model and the map of its parameters, without a browser."""

import itertools
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from model.activations.site_statistics import block_numbers, vector
from model.anatomy.anatomy import PARTS, n_params
from model.anatomy.architectures import ARCHITECTURES
from model.anatomy.blueprint import blueprint
from model.anatomy.mixers.kinds import keys_of, kinds
from model.anatomy.parameter_shares import shares
from model.api import LanguageModel
from model.errors import InputError
from model.gpt.config import ModelConfig
from model.gpt.presets import PRESETS
from model.source_code.parts import PARTS as PARTS_OF_CODE
from tests.support.models.helpers import VARIANTS, byte_tokenizer, serving, tiny_config, tiny_model
from tests.support.models.states import STATES
from viz.numbers import bits
from viz.page.parts import packed
from viz.page.pipeline import PageRequest, payloads, scene_of
from viz.seam import panels
from viz.seam.programs.reading import measured
from viz.views.anatomy import subject
from viz.views.anatomy.diagram.boxes import EDGE, STREAM, SUM, drawing
from viz.views.anatomy.diagram.measure import KEYS, vectors
from viz.views.anatomy.diagram.texts import drawn, heads_drawn, second_line
from viz.views.anatomy.diagram.view import VIEW, code_of
from viz.words import LANGUAGES, Words, words

CONFIGS = {f"variant {name}": tiny_config(changes) for name, changes in (VARIANTS | STATES).items()} | {
    name: each.config for name, each in ARCHITECTURES.items()
}
PUBLISHED = Path(__file__).parents[3] / "data" / "configs"
PROMPT = "abcabd ab"
T = len(PROMPT)
EDIT = {"kind": "zero", "layer": 1, "head": 2}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return byte_tokenizer(tmp_path_factory.mktemp("bytes"))


def playground_of(tokenizer, variant):
    model = tiny_model({**VARIANTS[variant], "vocab_size": 256, "n_ctx": 300})
    return serving(LanguageModel("tiny", "Tiny", model, tokenizer))


@pytest.fixture(scope="module", params=list(VARIANTS))
def wired(request, tokenizer):
    return playground_of(tokenizer, request.param)


@pytest.fixture(scope="module")
def llama(tokenizer):
    return playground_of(tokenizer, "llama")


def page_request(values=None, view="diagram", prompt=PROMPT, language="en", **selection):
    sent = {"anatomy_view": {"view": view}} | (values or {})
    return PageRequest("tiny", prompt, selection or None, sent, {}, language, "anatomy")


def shown(playground, values=None, **changes):
    parts = payloads(playground, page_request(values, **changes))[0]
    packed(parts)
    return parts


def view_parts(playground, values, **changes):
    """Return the view's own parts, without the page around it."""
    scene = scene_of(playground, page_request(values, **changes))
    pictures = panels.pictures(VIEW, scene, values)
    result = {name: picture.make() for name, picture in pictures.items() if name.startswith("diagram_")}
    json.dumps(result, allow_nan=False)
    return result


def picked(part, **form):
    return {"diagram_figure": {"part": part}} | ({"anatomy_form": form} if form else {})


# --- layout ---


@pytest.mark.parametrize("name", CONFIGS)
def test_every_part_stands_once_and_none_on_another(name):
    config = CONFIGS[name]
    found = blueprint(config, T)
    parts, inside = list(found), [key for key, part in found.items() if part.block]
    layout = drawing(config, parts)
    frames = [keys_of(config, kind, inside) for kind in kinds(config)]
    first, last = parts.index(inside[0]), parts.index(inside[-1]) + 1
    assert [box.key for box in layout.boxes] == [*parts[:first], *itertools.chain(*frames), *parts[last:]]
    for n, a in enumerate(layout.boxes):
        assert a.x >= 0 and a.x + a.w <= EDGE and a.y >= 0 and a.bottom <= layout.height
        for b in layout.boxes[n + 1 :]:
            apart = a.bottom <= b.y or b.bottom <= a.y or a.x + a.w <= b.x or b.x + b.w <= a.x
            assert apart, (a.key, b.key)
    for (top, bottom), keys in zip(layout.frames, frames, strict=True):
        assert [box.key for box in layout.boxes if top < box.y and box.bottom < bottom] == keys


@pytest.mark.parametrize("name", CONFIGS)
def test_every_way_begins_and_ends_at_something(name):
    config = CONFIGS[name]
    layout = drawing(config, list(blueprint(config, T)))

    def touches(x, y):
        boxes = any(
            box.x - 1e-9 <= x <= box.x + box.w + 1e-9 and box.y - 1e-9 <= y <= box.bottom + 1e-9 for box in layout.boxes
        )
        joins = any(math.isclose(x, a) and math.isclose(y, b) for line in layout.lines for a, b in line.points)
        return boxes or math.isclose(x, STREAM) or joins

    for line in layout.lines:
        assert touches(*line.points[0]) and touches(*line.points[-1]), line
        for (a, b), (c, d) in zip(line.points, line.points[1:], strict=False):
            assert math.isclose(a, c) or math.isclose(b, d)  # horizontal or vertical
    sums = [line for line in layout.lines if line.kind == "sum"]
    rounds = [box for box in layout.boxes if box.round]
    assert {line.points[-1][1] for line in sums} == {box.y + SUM / 2 for box in rounds} | set(layout.sums)
    assert sum(line.kind == "tied" for line in layout.lines) == config.tie_embeddings
    sublayers = sum(1 + kind.mlp for kind in kinds(config))
    assert len(rounds) == (1 if config.parallel_residual else sublayers)
    json.dumps(drawn(layout, PARTS), allow_nan=False)


def test_post_norm_stands_across_the_stream_and_pre_norm_beside_it():
    for name, across in (("minigpt", True), ("gpt2", False)):
        config = PRESETS[name]
        layout = {box.key: box for box in drawing(config, list(blueprint(config, T))).boxes}
        for norm, add in (("norm1", "add1"), ("norm2", "add2")):
            assert (layout[norm].x < STREAM) == across
            assert (layout[norm].y > layout[add].y) == across


def test_a_parallel_block_has_its_sublayers_side_by_side():
    config = ARCHITECTURES["pythia-70m"].config
    layout = {box.key: box for box in drawing(config, list(blueprint(config, T))).boxes}
    assert layout["norm1"].y == layout["norm2"].y and layout["o"].y == layout["down"].y
    assert layout["norm1"].x + layout["norm1"].w < layout["norm2"].x


@pytest.mark.parametrize(
    ("heads", "kv", "chosen", "drawn_"),
    [
        (12, 12, 5, (12, 1, False, [5, 0])),
        (9, 3, 4, (3, 3, False, [1, 1])),
        (32, 8, 31, (8, 4, False, [7, 3])),
        (96, 96, 40, (32, 1, True, None)),
        (64, 1, 3, (1, 32, True, [0, 3])),
        (64, 1, 40, (1, 32, True, None)),
        (4, 2, None, (2, 2, False, None)),
    ],
)
def test_heads_by_hand(heads, kv, chosen, drawn_):
    config = ModelConfig(vocab_size=9, n_ctx=9, n_layer=1, d_model=heads, n_head=heads, n_kv_head=kv, d_head=2)
    assert tuple(heads_drawn(config, chosen).values()) == drawn_


def test_second_lines():
    config = ARCHITECTURES["qwen3-0.6b"].config
    parts = blueprint(config, T)
    assert second_line(config, "q", parts["q"]) == "1024 → 2048"
    assert second_line(config, "k", parts["k"]) == "1024 → 1024"
    assert second_line(config, "o", parts["o"]) == "2048 → 1024"
    assert second_line(config, "embed", parts["embed"]) == "151936 → 1024"
    assert second_line(config, "scores", parts["scores"]) == "[H 16, T 9, S 9]"
    gpt2 = PRESETS["gpt2"]
    assert second_line(gpt2, "pos_embed", blueprint(gpt2, T)["pos_embed"]) == "1024 × 768"


# --- the view ---


def test_every_part_shows_its_lines(wired):
    parts = blueprint(wired.opened("tiny").config, T)
    for part in parts:
        payload = view_parts(wired, picked(part))["diagram_code"]
        assert payload["sets"] and all(excerpts for _, excerpts in payload["sets"])
        assert len(json.dumps(payload)) < 8_000
    assert set(PARTS_OF_CODE) == set(KEYS)
    unknown, first = (view_parts(wired, picked(part))["diagram_code"]["sets"] for part in ("no such part", "q"))
    assert unknown == first


def test_lines_of_an_architecture_without_weights(wired):
    payload = view_parts(wired, picked("gate", which="llama-3.1-8b"))["diagram_code"]
    (_, excerpts), *_ = payload["sets"]
    assert excerpts[0]["caption"] == "model/gpt/mlp.py: MLP.forward"
    assert "self.gate(x)" in excerpts[0]["pieces"][0][1]
    assert list(excerpts[0]["shapes"].values()) == [f"[1, {T}, 14336]"]


def test_lines_for_programs(wired):
    lm = wired.opened("tiny")
    answer = code_of(wired, lm, "softmax", 0, 5)
    assert answer["code"][0]["file"] == "model/gpt/layers.py" and answer["code"][0]["function"] == "attention_pattern"
    (first, last) = answer["code"][0]["lines"][0]
    assert last - first + 1 == len(answer["code"][0]["text"].splitlines())
    assert answer["code"][0]["shapes"][0]["shape"] == f"[1, {lm.config.n_head}, 5, 5]"
    assert code_of(wired, lm, "step_check")["code"][0]["function"] == "explain"
    with pytest.raises(InputError):
        code_of(wired, lm, "q", layer=99)


def test_the_drawing_has_a_name_for_every_part(wired):
    for language in LANGUAGES:
        payload = shown(wired, language=language)["diagram_figure"]
        parts = [box["key"] for box in payload["drawing"]["boxes"]]
        assert list(payload["labels"]) == parts == list(payload["formulas"])
        assert all(name for name, _, _ in payload["labels"].values())
        config = wired.opened("tiny").config
        assert sum(line[-1] for line in payload["lines"]) == n_params(config)
        assert payload["look"]["layers"] == 3 and payload["look"]["heads"] == config.n_head
    assert set(Words(words("en"), "diagram.names")) >= set(KEYS)


def test_every_part_has_facts_numbers_and_weights(wired):
    config = wired.opened("tiny").config
    weighted = shares(config)
    for key, part in blueprint(config, T).items():
        drawn_ = view_parts(wired, picked(key), heads=[[1, 3]], tokens=[4])
        facts = dict(drawn_["diagram_facts"]["items"])
        assert facts["Formula"] == part.formula
        assert all(f"{letter} {n:,}" in facts["Output"] for letter, n in part.gives[0].axes)
        live, weights_ = drawn_["diagram_live"], drawn_["diagram_weights"]
        assert live["rows"] and "problem" not in live, key
        assert "Layer 1" in live["about"] if part.block else "Layer" not in live["about"]
        assert "(4)" in live["about"]
        if key not in weighted:
            assert "empty" in weights_ and facts["Parameters"].startswith("none")
            continue
        assert [row[0] for row in weights_["rows"]] == [each.name for each in weighted[key].tensors]
        assert sum(int(row[2].replace(",", "")) for row in weights_["rows"]) == weighted[key].once
        assert f"{weighted[key].whole:,}" in facts["Parameters"]


def test_numbers_are_of_the_layer_head_and_token(llama):
    """KV head 1 serves query heads 2 and 3."""
    scene = scene_of(llama, page_request(heads=[[2, 2]], tokens=[5]))
    passed = block_numbers(scene.trace, 2)
    parts = measured(VIEW, "main", scene)
    (reads, gives) = vectors(parts, "k", passed.sizes, head=(2, 2), position=5)
    assert (reads.way, reads.site, reads.head) == ("reads", "norm1_out", None)
    assert (gives.way, gives.site, gives.head) == ("gives", "k", 1)
    assert vars(gives.vector) == vars(vector(passed.sizes["k"], 5, 1))
    rows = shown(llama, picked("softmax"), heads=[[2, 2]], tokens=[5])["diagram_live"]["rows"]
    weights_ = scene.trace.pattern(2, 2)[5]
    assert float(rows[0][1]) == pytest.approx(weights_.max(), rel=1e-2)
    assert f"({weights_.argmax()})" in rows[1][1]
    edited = shown(llama, picked("mix"), heads=[[1, 2]], tokens=[5], edits=[EDIT])["diagram_live"]
    assert edited["rows"][-1][2] == "0" and edited["rows"][0][2] != "0"


def test_the_next_tokens_are_those_of_the_model(llama):
    rows = shown(llama, picked("output"))["diagram_live"]["rows"]
    logits = scene_of(llama, page_request()).trace.logits_at(-1).astype(float)
    shares_ = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    assert [row[1]["bar"] for row in rows[:5]] == pytest.approx(np.sort(shares_)[::-1][:5], rel=1e-5)
    assert rows[-1][1] == f"{bits(-(shares_ * np.log2(shares_)).sum())} bits"


def test_a_known_architecture_has_no_numbers(llama):
    drawn_ = shown(llama, picked("gate", which="qwen3-8b"))
    assert "Qwen3 8B" in drawn_["diagram_figure"]["title"] and drawn_["diagram_figure"]["look"] is None
    assert "empty" in drawn_["diagram_live"] and drawn_["diagram_weights"]["rows"][0][1] == "12,288 × 4,096"
    assert "hidden" not in str(drawn_["diagram_facts"])
    other = shown(llama, picked("gate", which="gpt2"))  # it has no gate
    assert other["diagram_facts"]["title"] == "Query"


@pytest.mark.parametrize("value", [{"part": 3}, {"part": "<b>"}, [], "q", None, {"part": ["q"]}])
def test_an_unknown_part_is_the_first(llama, value):
    assert shown(llama, {"diagram_figure": value})["diagram_facts"]["title"] == "Query"


def test_a_pasted_config_is_drawn_and_a_broken_one_said_in_its_place(llama):
    text = (PUBLISHED / "pythia-70m.json").read_text()
    drawn_ = shown(llama, picked("q", which="pasted", config=text))
    assert "q = W_Q x + b_q" in str(drawn_["diagram_facts"]) and not drawn_["notice"]
    for broken in ("{", text.replace("gpt_neox", "mamba"), text.replace("512", "511"), "\ud800{}"):
        parts = shown(llama, picked("q", which="pasted", config=broken), language="zh")
        assert not parts["notice"]
        assert all(parts[name]["problem"]["text"] for name in ("diagram_figure", "diagram_facts"))
        assert shown(llama, picked("q", which="pasted", config=broken), view="parameters")["parameters_tree"]["problem"]
    for empty in ("", "  \n", None, 7):
        drawn_ = shown(llama, picked("q", which="pasted", config=empty))
        assert drawn_["diagram_figure"]["look"] is not None  # still the loaded model


@pytest.mark.parametrize("key", sorted({*KEYS} - {"qk_norm", "pos_embed"}))
def test_the_python_lines_run(llama, key, monkeypatch):
    """The code below a table reproduces its numbers."""
    lm = llama.opened("tiny")
    drawn_ = view_parts(llama, picked(key), heads=[[1, 3]], tokens=[4])
    for name in ("diagram_figure", "diagram_live", "diagram_weights"):
        if "empty" not in drawn_[name]:
            value = run_last_line(drawn_[name]["python"], lm, monkeypatch)
    if key == "k":
        assert value == shares(lm.config)["k"].tensors
        row = drawn_["diagram_live"]["rows"][-1]
        numbers = run_last_line(drawn_["diagram_live"]["python"], lm, monkeypatch)
        assert float(row[2].replace("−", "-")) == pytest.approx(numbers.rms, rel=1e-2)
    if key == "unembed":
        assert run_last_line(drawn_["diagram_live"]["python"], lm, monkeypatch).shape == (256,)


def run_last_line(lines, lm, monkeypatch):
    """Run the lines and return the value of the last one."""
    monkeypatch.setattr("model.api.load_model", lambda name: lm)
    monkeypatch.chdir(PUBLISHED)
    *before, last = lines.replace("config.json", "gpt2.json").splitlines()
    scope = {}
    exec("\n".join(before), scope)
    return eval(last, scope)


# --- words ---


def test_no_placeholder_is_left(llama):
    for language in LANGUAGES:
        for key in KEYS:
            drawn_ = view_parts(llama, picked(key), language=language)
            ours = [drawn_[f"diagram_{name}"] for name in ("facts", "live", "weights")]
            texts = json.dumps(ours, ensure_ascii=False)
            assert not re.search(r"\{[a-z]\w*\}", texts), key


def test_the_form_offers_every_architecture(llama):
    control = shown(llama)["anatomy_form"]["controls"][0]
    keys = [key for key, _ in control["options"]]
    assert keys == list(subject.WHICH.options) and (keys[0], keys[-1]) == ("loaded", "pasted")
    assert sorted(keys[1:-1]) == sorted(ARCHITECTURES)
    headings = [control["groups"][key] for key in keys]
    assert headings[0] == headings[-1] == "" and all(headings[1:-1])
    assert [heading for heading, _ in itertools.groupby(headings[1:-1])] == [*subject.MAKERS, "For teaching"]
    assert control["groups"]["gpt-oss-20b"] == "OpenAI" and control["groups"]["minigpt"] == "For teaching"
