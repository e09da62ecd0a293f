"""The views of number formats and of the layer sweep without a browser, and their endpoints."""

import base64
import dataclasses
import json
import re

import numpy as np
import pytest
import torch

from model.api import LanguageModel
from model.errors import InputError
from model.gpt.transformer import Transformer
from model.quantization.experiments import errors, total_bytes, usable, with_format
from model.quantization.formats import FORMATS, USUAL, stored, weight_error
from model.quantization.texts import file_types, held_out_ids
from model.tracing.trace import run
from tests.support.models.helpers import VARIANTS, L, byte_tokenizer, serving, tiny_model
from viz.numbers import nats
from viz.page.parts import packed
from viz.page.pipeline import PageRequest, payloads, scene_of
from viz.seam import panels
from viz.seam.jobs import background
from viz.seam.programs.reading import unprompted
from viz.views.quantization.formats import measure as formats_run
from viz.views.quantization.formats import view as formats
from viz.views.quantization.formats.figures import Dot, levels_figure, scatter_figure
from viz.views.quantization.layer_sweep import view as layer_sweep
from viz.views.quantization.layer_sweep.figures import heat_figure, line_figure, mildest, strongest
from viz.views.quantization.naming import decibels, divergence, moved, perplexity
from viz.words import LANGUAGES, Words, words

PROMPT = "abcabd ab"
EDIT = {"kind": "zero", "layer": 1, "head": 2}


def playground_of(tokenizer, variant="gpt2"):
    model = tiny_model({**VARIANTS[variant], "vocab_size": 256, "n_ctx": 300, "d_model": 64, "d_mlp": 96})
    return serving(LanguageModel("tiny", "Tiny", model, tokenizer))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return byte_tokenizer(tmp_path_factory.mktemp("bytes"))


@pytest.fixture
def playground(tokenizer):
    return playground_of(tokenizer)


def question(view, form=None, prompt=PROMPT, language="en", **selection):
    sent = {"quantization_view": {"view": view}} | ({} if form is None else {f"{view}_form": form})
    return PageRequest("tiny", prompt, selection or None, sent, {}, language, "quantization")


def drawn(playground, view, form=None, **changes):
    parts = payloads(playground, question(view, form, **changes))[0]
    assert packed(parts)
    return {name: part for name, part in parts.items() if name.startswith(view)}


def measured(playground, view, form=None, **changes):
    """The payloads once the job is done."""
    list(background.perform(playground, planned(playground, view, form, **changes), "en"))
    return drawn(playground, view, form, **changes)


def planned(playground, view, form=None, **changes):
    """The job of a view's button."""
    scene = scene_of(playground, question(view, form, **changes))
    declared, name = {"formats": (formats.VIEW, "outputs"), "layer_sweep": (layer_sweep.VIEW, "main")}[view]
    return panels.job_of(declared, name, scene, panels.settings_of(declared, scene, {f"{view}_form": form}))


def run_lines(text, model):
    """The values of the last lines, which are expressions."""
    lines, space = text.replace("load_model('tiny')", "lm").splitlines(), {"lm": model}
    body = [re.sub(r"\s+#.*$", "", line) for line in lines]
    exec("\n".join(body[:-1]), space)
    return eval(body[-1], space)


def array_of(value):
    """A matrix of float32 as Plotly's JSON carries it."""
    shape = [int(n) for n in value["shape"].split(",")]
    return np.frombuffer(base64.b64decode(value["bdata"]), np.dtype(value["dtype"])).reshape(shape)


# --- formats ---


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_bytes_and_one_matrix_are_there_at_once(tokenizer, variant, language, monkeypatch):
    monkeypatch.setattr(formats_run.experiments, "measure", lambda *_: pytest.fail("measured by itself"))
    playground = playground_of(tokenizer, variant)
    parts, model = drawn(playground, "formats", language=language), playground.opened("tiny").model
    table = parts["formats_table"]
    keys = [key for key in USUAL if usable(model, FORMATS[key])]
    assert [row[2] for row in table["lines"]] == [total_bytes(model, FORMATS[key])[0] for key in keys]
    layer = scene_of(playground, question("formats")).head[0]
    weight = model.blocks[layer].mlp.down.weight
    errors_ = [weight_error(weight, *stored(weight, FORMATS[key])).relative for key in keys]
    assert [row[3] for row in table["lines"]] == pytest.approx(errors_)
    assert all(cell == "–" for row in table["rows"] for cell in row[6:])
    assert parts["formats_job"]["state"] == "idle" and "empty" in parts["formats_maps"]
    dots = parts["formats_scatter"]["figure"].to_plotly_json()["data"]
    assert sum(len(trace["x"]) for trace in dots) == len(keys) - 1  # without float32, which has no error
    assert not re.search(r"\{\w*\}", json.dumps([parts["formats_facts"], parts["formats_levels"]["note"]]))


def test_a_measurement_is_shown(playground):
    parts, model = measured(playground, "formats"), playground.opened("tiny").model
    assert parts["formats_job"]["state"] == "done"
    rows = dict(zip((row[0] for row in parts["formats_table"]["lines"]), parts["formats_table"]["rows"], strict=True))
    exact = {row[0]: row for row in parts["formats_table"]["lines"]}
    found = errors(model, FORMATS["int4-32"])
    assert exact["int4, groups of 32"][3:6] == pytest.approx([found.relative, found.largest, found.snr])
    assert exact["int4, groups of 32"][1] == found.bits
    assert set(rows["float32"][6:8]) <= {"0", divergence(1e-9)}
    assert rows["GGUF Q4_0"][-1]["text"] == "simulated: speed not measured" and exact["GGUF Q4_0"][-1] is None
    assert all(
        float(rows[name][-1].replace(",", "")) > 0 for name in ("float32", "bfloat16 (GGUF BF16)", "int8 per channel")
    )
    assert "40 of a held-out text" in parts["formats_table"]["source"]
    data = parts["formats_scatter"]["figure"].to_plotly_json()["data"]
    shown = {text: y for trace in data for text, y in zip(trace["text"], trace["y"], strict=True)}
    assert shown["Q4_0"] == exact["GGUF Q4_0"][7] and "float32" not in shown
    assert "float32" in parts["formats_scatter"]["note"]


def test_the_head_counts_where_it_is_rounded(playground):
    model = playground.opened("tiny").model
    plain, more = (drawn(playground, "formats", {"head": head})["formats_table"] for head in (False, True))
    gap = [b[2] - a[2] for a, b in zip(plain["lines"], more["lines"], strict=True)]
    assert (
        gap[0] == model.embed.weight.nbytes and gap[USUAL.index("int8-channel")] == model.embed.weight.numel() + 4 * 256
    )
    assert "embedding and the output head" in more["about"]


def test_maps_of_the_picked_head_before_and_after(playground):
    form = {"one": "int4-32"}
    parts = measured(playground, "formats", form, heads=[[1, 3]])
    lm = playground.opened("tiny")
    before, after = (array_of(trace["z"]) for trace in json.loads(parts["formats_maps"]["figure"].to_json())["data"])
    twin = run(with_format(lm.model, FORMATS["int4-32"]), lm.encode(PROMPT))
    assert np.nanmax(np.abs(after - twin.pattern(1, 3))) < 1e-3
    assert np.nanmax(np.abs(before - lm.trace(PROMPT).pattern(1, 3))) < 1e-6
    assert np.isnan(after[0, 1:]).all() and "head 1.3" in parts["formats_maps"]["title"]
    given = run_lines(parts["formats_maps"]["python"], lm)
    assert np.abs(given - twin.pattern(1, 3)).max() == 0
    assert "empty" in drawn(playground, "formats", {"one": "int2-32"})["formats_maps"]


def test_python_lines_give_the_numbers_of_the_pictures(playground):
    lm = playground.opened("tiny")
    idle = drawn(playground, "formats", {"one": "int3-32", "matrix": "q"})
    given = run_lines(idle["formats_levels"]["python"], lm)
    layer = scene_of(playground, question("formats")).head[0]
    assert torch.equal(given, stored(lm.model.blocks[layer].attn.q.weight, FORMATS["int3-32"])[0])
    found = run_lines(idle["formats_scatter"]["python"], lm)
    assert [each.bits for each in found] == [stored_.bits for stored_ in found] and len(found) == len(FORMATS)
    parts = measured(playground, "formats")
    exact = {row[7] for row in parts["formats_table"]["lines"]}
    assert {each.text.kl for each in run_lines(parts["formats_table"]["python"], lm)} == exact
    assert {kl for _, _, kl in run_lines(parts["formats_scatter"]["python"], lm)} == exact


def test_edits_are_left_out_and_it_is_said(playground):
    assert "edits are left out" in drawn(playground, "formats", edits=[EDIT])["formats_job"]["text"]
    parts = measured(playground, "formats", edits=[EDIT])
    assert "without your edits" in parts["formats_table"]["source"]
    assert "edits" not in drawn(playground, "formats")["formats_table"]["source"]  # the same measurement


@pytest.mark.parametrize("sent", [None, [], {"one": "x", "matrix": "gate", "which": 3, "head": "yes"}, {"one": None}])
def test_settings_that_are_not_offered(playground, sent):
    scene = scene_of(playground, question("formats", sent))
    settings = panels.settings_of(formats.VIEW, scene, {"formats_form": sent})
    assert tuple(settings.values()) == ("usual", False, "int4-32", "down")


def test_a_changed_setting_needs_a_new_measurement_and_a_head_does_not(playground, monkeypatch):
    measured(playground, "formats")
    monkeypatch.setattr(Transformer, "trunk", lambda *given, **named: pytest.fail("the model was run"))
    assert "figure" in drawn(playground, "formats", heads=[[2, 0]])["formats_maps"]
    assert "empty" in drawn(playground, "formats", {"which": "all"})["formats_maps"]
    assert "empty" in drawn(playground, "formats", {"head": True})["formats_maps"]


def test_what_was_rounded_before_is_named(playground):
    model = playground.opened("tiny").model
    for block in model.blocks:
        for part in (*block.attn.parts(), block.attn.o, block.mlp.up, block.mlp.down):
            part.weight.data = stored(part.weight, FORMATS["Q4_0"])[0]
    facts = dict(drawn(playground, "formats")["formats_facts"]["items"])
    assert "GGUF Q4_0: quantization returns the same weights" in facts["Already in this format"]
    assert "no blocks of integers" in facts["The model's own file"] and file_types("tiny") == {}


def test_bytes_are_told_as_they_are_counted(playground):
    def told(one):
        return dict(drawn(playground, "formats", {"one": one})["formats_facts"]["items"])["Bytes of this matrix"]

    # down is 64 x 96
    assert "3,072 bytes of integers + 192 scales of 2 bytes = 3,456 bytes" in told("int4-32")
    assert "+ 192 scales of 2 bytes + 96 bytes of zero points = 3,552 bytes" in told("int4-32-affine")
    assert "6,144 bytes of integers + 64 scales of 4 bytes = 6,400 bytes" in told("int8-channel")
    assert "blocks of 32 weights in 18 bytes, scales included = 3,456 bytes" in told("Q4_0")
    assert "2 bytes per weight = 12,288 bytes" in told("bf16") and "2 bytes per weight = 12,288 bytes" in told("TQ1_0")


def test_held_out_tokens(playground):
    lm = playground.opened("tiny")
    assert len(held_out_ids(lm)) == 256 and len(held_out_ids(lm, 30)) == 30
    assert lm.decode(held_out_ids(lm, 300)) != "" and len(held_out_ids(lm, 10_000)) == 300


# --- layer by layer ---


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_sweep_is_shown(tokenizer, variant, language):
    playground = playground_of(tokenizer, variant)
    idle = drawn(playground, "layer_sweep", language=language)
    assert all(set(idle[name]) == {"empty"} for name in ("layer_sweep_heat", "layer_sweep_line", "layer_sweep_facts"))
    parts = measured(playground, "layer_sweep", language=language)
    (heat,) = parts["layer_sweep_heat"]["figure"].to_plotly_json()["data"]
    assert np.array(heat["z"]).shape == (L, 8 if VARIANTS[variant].get("mlp") == "swiglu" else 7)
    (line,) = parts["layer_sweep_line"]["figure"].to_plotly_json()["data"]
    assert list(line["y"]) == pytest.approx([row[-1] for row in heat["z"]], rel=1e-5)
    assert not re.search(r"\{\w*\}", json.dumps(parts["layer_sweep_facts"]))
    found = run_lines(parts["layer_sweep_heat"]["python"], playground.opened("tiny"))
    assert found.tolist() == heat["z"]


def test_halves_the_loss_and_the_other_text(playground):
    form = {"by": "half", "on": "text", "shown": "loss", "one": "int2-32"}
    parts = measured(playground, "layer_sweep", form)
    lines = parts["layer_sweep_line"]["figure"].to_plotly_json()["data"]
    assert [trace["name"] for trace in lines] == ["whole layer", "attention", "MLP"]
    found = run_lines(parts["layer_sweep_line"]["python"], playground.opened("tiny"))
    shown = np.array([trace["y"] for trace in (lines[1], lines[2], lines[0])])
    assert pytest.approx(shown, rel=1e-5, abs=1e-12) == found.T
    assert "40 tokens of a held-out text" in parts["layer_sweep_heat"]["source"]
    assert (
        "empty" not in drawn(playground, "layer_sweep", form, prompt="other")["layer_sweep_heat"]
    )  # it is not of the prompt
    assert "empty" in drawn(playground, "layer_sweep", form | {"one": "Q4_0"})["layer_sweep_heat"]


def test_one_token_has_a_kl_only(playground):
    parts = measured(playground, "layer_sweep", {"shown": "loss"}, prompt="a")
    assert "no loss" in parts["layer_sweep_heat"]["note"] and "KL" in parts["layer_sweep_heat"]["columns"][2]


@pytest.mark.parametrize(("ratio", "key"), [(1.0, "add up"), (2.0, "compound"), (0.5, "cancel")])
def test_sums_are_judged(ratio, key):
    text = Words(words("en"), "layer_sweep.facts")
    assert key in layer_sweep.sum_text(text, 0.5, 0.5 * ratio)
    assert "0 nats" in layer_sweep.sum_text(text, 0.0, 0.0)


def test_a_sweep_can_be_cancelled(playground):
    for view in ("formats", "layer_sweep"):
        steps = background.perform(playground, planned(playground, view), "en")
        next(steps)
        steps.close()
        with playground.computing:  # free again
            pass


def test_the_model_is_held_while_it_runs(playground, monkeypatch):
    held, logits = [], Transformer.logits

    def spy(*given, **named):
        held.append(playground.computing.locked())
        return logits(*given, **named)

    monkeypatch.setattr(Transformer, "logits", spy)
    for view in ("formats", "layer_sweep"):
        measured(playground, view)
    assert len(held) > 20 and all(held)


# --- figures ---


def test_numbers_as_they_are_read():
    assert [divergence(x) for x in (0, 1e-9, 2e-8, 0.2)] == ["0", "< 1 × 10⁻⁸", nats(2e-8), nats(0.2)]
    assert [moved(x) for x in (0, 1e-7, 0.5)] == ["0", "< 1 × 10⁻⁶", "0.5"]
    assert [decibels(x) for x in (None, 12.34)] == ["∞", "12.3"]
    assert [perplexity(x) for x in (None, 0.0)] == ["–", "1"]


def test_figures_escape_what_plotly_would_read():
    keys = "bits damage float int8 few gguf value count before after rounded steps layer part"
    said = dict.fromkeys(keys.split(), "<b>")
    figures = [
        scatter_figure([Dot("<b>", "gguf", 4.5, 0.1, ["<b>"])], said),
        scatter_figure([], said),
        levels_figure(np.eye(3), np.eye(3), slice(0, 3), said),
        heat_figure(np.eye(2), ["<b>", "q"], said, signed=False),
        line_figure({"<b>": np.ones(2)}, said, signed=True),
    ]
    texts = [figure if isinstance(figure, str) else figure.to_json() for figure in figures]
    assert not [text for text in texts if "<b>" in text]


def test_labels_of_the_scatter_do_not_cover_each_other():
    dots = [Dot(f"int4 g{n}", "few", 4.5 + 0.01 * n, 0.1 + 0.0002 * n, ["x"]) for n in range(4)]
    (trace,) = scatter_figure(dots, dict.fromkeys(("bits", "damage", "few"), "x")).data
    assert len(set(trace["textposition"])) == 4


def test_a_label_without_room_is_left_out_and_none_lies_on_an_axis():
    words_ = dict.fromkeys(("bits", "damage", "few", "gguf"), "x")
    crowd = [Dot(f"int4 g{n}", "few", 4.5 + 0.001 * n, 0.1 + 0.0001 * n, ["x"]) for n in range(20)]
    apart = [Dot("Q2_K", "gguf", 2.0, 3.0, ["x"]), Dot("Q8_0", "gguf", 8.0, 0.001, ["x"])]
    few, gguf = scatter_figure([*crowd, *apart], words_).data
    assert "" in few["text"] and any(few["text"]) and list(gguf["text"]) == ["Q2_K", "Q8_0"]
    assert "left" not in gguf["textposition"][0]  # the axis is there
    assert "bottom" not in gguf["textposition"][1]


def test_the_strongest_and_the_mildest():
    z = np.array([[0.1, -3.0], [0.2, 0.01]])
    assert strongest(z) == (0, 1) and mildest(z[:, 1]) == 1


# --- endpoints ---


def test_weight_errors(playground):
    model = playground.opened("tiny")
    found = formats.weight_errors(playground, model, 1, "q")
    rows = {row["format"]: row for row in found["formats"]}
    weight = model.model.blocks[1].attn.q.weight
    assert rows["int4-32"]["relative"] == weight_error(weight, *stored(weight, FORMATS["int4-32"])).relative
    assert rows["int4-32"]["bytes"] == total_bytes(model.model, FORMATS["int4-32"])[0]
    assert rows["float32"]["snr"] is None and "TQ1_0" not in rows
    with pytest.raises(Exception, match="unknown value"):
        formats.weight_errors(playground, model, 0, "gate")
    with pytest.raises(Exception, match="layer"):
        formats.weight_errors(playground, model, 9)
    assert unprompted(playground, model).model is model
    for changes, says in (
        ({"mixer": ("mamba2", "softmax", "mamba2")}, "attention in every layer.* Got: layer 0: mamba2"),
        ({"n_expert": 3, "experts_per_token": 2}, "one MLP per layer"),
    ):
        other = dataclasses.replace(model, model=tiny_model(changes))
        with pytest.raises(InputError, match=says):
            formats.weight_errors(playground, other)


def test_the_endpoints_answer_with_the_numbers_of_the_page(playground):
    scene = scene_of(playground, question("formats"))
    found = formats.quantization_formats(scene)
    parts = measured(playground, "formats")
    json.dumps(found, allow_nan=False)
    assert [row["text"]["kl"] for row in found["formats"]] == [row[7] for row in parts["formats_table"]["lines"]]
    assert found["text_tokens"] == 40 and {row["format"] for row in found["formats"] if row["speed"]} == {
        "float32",
        "bf16",
        "int8-channel",
    }
    swept = layer_sweep.quantization_sweep(scene, "int4-32", "half", "prompt")
    json.dumps(swept, allow_nan=False)
    heat = measured(playground, "layer_sweep", {"by": "half"})["layer_sweep_heat"]
    assert [row["kl"] for row in swept["rows"]] == heat["figure"].to_plotly_json()["data"][0]["z"]
    assert swept["parts"] == ["attention", "mlp", "block"] and len(swept["rows"]) == L
    assert swept["sum"] == pytest.approx(sum(row["kl"][-1] for row in swept["rows"]))
