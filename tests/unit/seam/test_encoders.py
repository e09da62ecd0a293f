"""An encoder on the page: it predicts the masked token, and every view works or says in one place what it needs."""

import dataclasses
import logging

import pytest

from model.api import load_model
from model.predictions.masked import masked_logits
from tests.support.models.encoders import TEXT, save_encoder
from viz.page.notebook import _chooser, page_of
from viz.page.pipeline import payloads, scene_of
from viz.seam.panels import names_of
from viz.views.tabs import TABS

VIEWS = [(tab.key, view.key) for tab in TABS for view in tab.views]
WORKS = {
    *("map", "lines", "text", "cell", "find", "surprise", "sizes", "outliers", "one_norm", "stream_picture"),
    *("distribution", "edits", "checks", "diagram", "parameters", "compute", "memory", "tokenizers"),
}
NEXT, HEAD = "reads in both directions, so it has no next token.", "has no head that predicts tokens"
AT = 3  # position of [MASK]
STEP = {"warp": "fits", "values": {}}


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    return load_model(save_encoder(tmp_path_factory.mktemp("page") / "encoder"))


@pytest.fixture(scope="module")
def page(lm):
    return page_of(lm, TEXT, heads=[(1, 2)])


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    return page_of(load_model(save_encoder(tmp_path_factory.mktemp("page") / "bare", head=False)), TEXT, heads=[(1, 2)])


def drawn(page, tab: str, view: str, **changes) -> dict:
    """The parts of a view, by their names in the view."""
    place = next(each for each in TABS if each.key == tab)
    chooser, control, _ = _chooser(place)
    request = dataclasses.replace(page.request, tab=tab, values={chooser: {control: view}}, **changes)
    parts, _ = payloads(page.playground, request)
    assert parts["notice"] == {}, parts["notice"]
    shown = next(each for each in place.views if each.key == view)
    placed = names_of(shown)  # a part may be read here and shown by another view of the tab
    return {name: parts[shown.part_name(name)] for name in shown.parts if shown.part_name(name) in placed}


@pytest.mark.parametrize(("tab", "view"), VIEWS)
@pytest.mark.parametrize("which", ["page", "bare"])
def test_a_view_is_drawn_or_says_what_it_needs(which, tab, view, request, caplog):
    caplog.set_level(logging.ERROR)
    parts = drawn(request.getfixturevalue(which), tab, view)
    assert not caplog.records
    assert not {name: part["problem"] for name, part in parts.items() if "problem" in part}
    lacking = {name: part["empty"] for name, part in parts.items() if part.get("empty", {}).get("lacks")}
    assert all(part["text"].endswith(NEXT) or HEAD in part["text"] for part in lacking.values())
    if which == "page":
        assert not any(HEAD in part["text"] for part in lacking.values())
        assert not (lacking and view in WORKS)
    elif view in ("surprise", "distribution"):
        assert set(lacking) == set(parts) and all(part["text"].startswith("bare ") for part in lacking.values())


def test_start_predicts_the_mask_and_puts_a_candidate_there(page, lm):
    part = drawn(page, "start", "start")["next"]
    assert part["title"] == "The masked token" and "[MASK]" in part["about"] and part["masked"] is True
    logits = masked_logits(lm.trace(TEXT), AT, lm.tokenizer.mask_id)
    assert part["tokens"][0]["id"] == int(logits.argmax())
    texts = {each["id"]: each["prompt"] for each in part["tokens"]}
    for number, text in texts.items():
        if text:
            ids = lm.trace(TEXT).tokens.ids.copy()
            ids[AT] = number
            assert lm.encode(text).ids.tolist() == ids.tolist()
    assert any(texts.values())


def test_without_a_mask_the_selected_token_is_masked(page, lm):
    prompt = "the cat sat on the mat"
    request = dataclasses.replace(page.request, prompt=prompt)
    assert scene_of(page.playground, request).position == 6  # the last one that is not special
    selected = {**page.request.selection, "tokens": [2]}
    parts = drawn(page, "sampling", "distribution", prompt=prompt, selection=selected)
    assert parts["facts"]["title"].startswith("Prediction in place of “·cat” (position 2)")
    assert "The prompt has" in parts["facts"]["next"]["text"] and "cat" in parts["facts"]["next"]["text"]
    run = lm.trace(prompt)
    scene = scene_of(page.playground, dataclasses.replace(request, selection=selected))
    assert scene.position == 2 and scene.actual == run.tokens.ids[2]
    assert abs(scene.logits() - masked_logits(run, 2, lm.tokenizer.mask_id)).max() == 0


def test_the_text_is_scored_by_masking_each_token(page):
    parts = drawn(page, "predictions", "surprise")
    names = [name for name, *_ in parts["text"]["facts"]]
    assert names == ["Pseudo-perplexity", "Pseudo-log-likelihood", "Mean surprisal", "Scored"]
    unscored = [at for at, place in enumerate(parts["text"]["places"]) if place is None]
    assert unscored == [0, AT, 12]
    assert parts["detail"]["own"].startswith("The prompt has the mask here") and parts["detail"]["following"] is None


def test_the_mask_is_one_token_of_the_text_and_words_have_no_spaces_that_the_text_lacks(page):
    parts = drawn(page, "anatomy", "tokenizers", prompt="(the cat) [MASK] tired.")
    chips = parts["chips"]["rows"][0]["chips"]
    assert [label for label, *_ in chips] == ["[UNK]", "the", "·cat", "[UNK]", "[MASK]", "·ti", "red", "."]
    assert "special=True" in parts["chips"]["python"]
    pieces = parts["merges"]["pieces"]
    assert [each["text"] for each in pieces] == ["(", "the", "cat", ")", "[MASK]", "tired", "."]
    assert [each["added"] for each in pieces] == [False, False, False, False, True, False, False]
    assert {arc[2] for arc in pieces[5]["lattice"]["arcs"]} == {"t", "ti", "##r", "##red"}


def test_a_view_that_needs_a_next_token_leads_to_the_predictions_of_the_mask(page, bare):
    empty = drawn(page, "sampling", "temperature")["map"]["empty"]
    assert empty["way"] == {"tab": "predictions", "view": "surprise", "text": "Show its predictions"}
    assert "masked token" in empty["hint"]
    assert drawn(bare, "sampling", "temperature")["map"]["empty"]["way"]["tab"] == "attention"


def test_a_long_prompt_of_a_large_encoder_is_refused_with_a_length(page, monkeypatch):
    from viz.views.predictions import expected

    monkeypatch.setattr(expected, "MOST_MASKING", 1e6)
    fresh = page_of(page.playground.opened(page.request.model_id), TEXT)
    part = drawn(fresh, "predictions", "surprise")["text"]
    assert "would take too long" in part["problem"]["text"] and "tokens or fewer" in part["problem"]["hint"]


def test_edits_change_what_is_predicted_for_the_mask(page):
    edits = [{"kind": "zero", "layer": 1, "head": 2}]
    parts = drawn(page, "effects", "edits", selection={**page.request.selection, "edits": edits})
    assert parts["next"]["title"].startswith("Prediction for “[MASK]”") and parts["next"]["edited"]
    assert parts["next"]["rows"] != drawn(page, "effects", "edits")["next"]["rows"]
    kinds = {each["key"] for each in parts["editor"]["kinds"]}
    assert "zero" in kinds and not kinds & {"uniform", "project_out", "add_direction"}


def test_the_diagram_is_that_of_an_encoder(page, bare):
    figure = drawn(page, "anatomy", "diagram")["figure"]
    labels = {key: label[0] for key, label in figure["labels"].items()}
    assert labels["scores"] == "Scores, both directions" and labels["output"] == "Softmax: masked token"
    keys = [box["key"] for box in figure["drawing"]["boxes"]]
    assert keys[:5] == ["tokens", "embed", "pos_embed", "segment_embed", "embed_norm"]
    assert keys[-4:] == ["head_dense", "head_norm", "unembed", "output"] and keys.index("add1") < keys.index("norm1")
    without = drawn(bare, "anatomy", "diagram")["figure"]
    assert without["drawing"]["boxes"][-1]["key"] == "norm2" and "no output head" in without["title"]


def test_the_words_are_chinese_in_chinese(lm):
    page = page_of(lm, TEXT, heads=[(1, 2)], language="zh")
    assert drawn(page, "start", "start")["next"]["title"] == "被遮住的词元"
    assert drawn(page, "sampling", "distribution")["facts"]["title"].endswith("处的预测")
    lacking = drawn(page, "predictions", "guess")["board"]["empty"]["text"]
    assert lacking == "encoder 是双向模型，因此没有“下一个词元”。"


def test_a_rule_holds_for_the_mask_but_writes_no_text(page):
    rule = {"kind": "choice", "text": "cat\ndog"}
    request = dataclasses.replace(page.request, tab="sampling", values={"pipeline": {"steps": [STEP | {"rule": rule}]}})
    parts, _ = payloads(page.playground, request)
    assert parts["distribution_rule"]["absent"] is True and "rows" not in parts["distribution_rule"]
    assert "Only what fits" in str(parts["distribution_steps"]) and "problem" not in parts["distribution_facts"]


def test_both_outcomes_of_xtc_can_be_seen_for_the_mask(page):
    steps = [{"warp": "xtc", "values": {"threshold": 0.01, "xtc_probability": 0.45}}]
    for chance in ("seed", "acts", "rests"):
        values = {"pipeline": {"steps": steps}, "distribution_form": {"chance": chance}}
        parts, _ = payloads(page.playground, dataclasses.replace(page.request, tab="sampling", values=values))
        code = parts["distribution_bars"]["python"]
        assert ("context_at(masked, -1)" in code) == (chance == "seed")
        removed = {row[-1] for row in parts["distribution_effects"]["rows"]}
        assert ("removed" in removed) == (chance != "rests")  # the number of seed 0 is 0.41
