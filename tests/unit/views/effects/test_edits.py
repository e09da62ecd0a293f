"""Edits: the editor's words and choices, and next tokens before and after."""

import numpy as np
import pytest

from model.attention.effects import next_tokens
from model.gpt.edits import EDITS, Edit
from tests.support.scripts import names_in, script, words_in, words_read
from tests.support.views.effects import PROMPT, asked, drawn, scene
from viz.charts.distribution import entropy, prediction_rows
from viz.numbers import difference, logit, nats, percent
from viz.page.pipeline import payloads
from viz.seam import panels
from viz.seam.settings import Settings
from viz.views.effects.edits import view as edits
from viz.views.effects.edits.view import VIEW
from viz.words import LANGUAGES, section, words

SCRIPT = script("views/effects/*")


# --- words ---

OFFERED = [key for key, kind in EDITS.items() if kind.takes != "vector"]  # vectors are made in Steering


def test_every_kind_of_edit_has_its_words():
    for language in LANGUAGES:
        catalogue = words(language)
        for kind in OFFERED:
            assert catalogue[f"edits.editor.kind_{kind}"] and catalogue[f"edits.editor.about_{kind}"]


def test_the_script_has_the_words_it_asks_for(playground):
    shown = drawn(playground)
    editor, following = (set(shown[part]["words"]) for part in ("edits_editor", "edits_next"))
    sweep = {"ranked", "ranked_about", "head_effect"}  # of a map that was measured
    found = words_in(SCRIPT)
    assert len(found) > 20 and found <= editor | following | sweep
    rules = words_read("views/effects/edit_rules")
    assert len(rules) > 6 and rules <= editor
    used = names_in(SCRIPT) | words_in(SCRIPT) | {"column_before", "column_after"}
    own = {name for name in section(words("en"), "edits.editor") if not name.startswith(("kind_", "about_", "of_"))}
    table = {name for name in section(words("en"), "before_after") if not name.startswith("csv_")} - {"column_id"}
    assert own | table <= used


@pytest.mark.parametrize("language", LANGUAGES)
def test_first_drawing_fills_every_part(playground, language):
    parts = drawn(playground, language=language)
    assert set(panels.names_of(VIEW)) <= set(parts)
    editor = parts["edits_editor"]
    assert editor["layers"] == 3 and editor["heads"] == 4 and editor["tokens"] == list(PROMPT)
    assert [kind["key"] for kind in editor["kinds"]] == OFFERED
    assert [group["key"] for group in editor["groups"]] == ["heads", "mlp", "neuron", "direction", "token"]
    assert [group["name"] for group in editor["groups"]] == [
        words(language)[f"edits.editor.of_{group['key']}"] for group in editor["groups"]
    ]
    assert editor["vocabulary"] == [[97, "a"], [98, "b"], [99, "c"]] and editor["neurons"] == 100
    assert [kind["name"] for kind in editor["kinds"]] == [words(language)[f"edits.editor.kind_{k}"] for k in OFFERED]


# --- before and after ---


def test_the_entropy_by_hand():
    logits = np.log(np.array([0.5, 0.25, 0.25], np.float32))
    assert entropy(logits + 300) == pytest.approx(1.5 * np.log(2), abs=1e-5)


def test_what_is_measured_are_both_runs_at_the_position(playground, lm):
    found = edits.measure(scene(playground, tokens=[3], edits=[{"kind": "zero", "layer": 1, "head": 2}]), Settings())
    run = lm.trace(PROMPT)
    assert np.array_equal(found.before, run.logits_at(3))
    assert np.array_equal(found.after, run.edit(Edit("zero", 1, 2)).logits_at(3))
    assert found.kl > 1e-4 and found.entropies == [entropy(found.before), entropy(found.after)]


def test_next_tokens_of_the_plain_run(playground, lm):
    payload, run = drawn(playground)["edits_next"], lm.trace(PROMPT)
    logits = run.logits_at(-1)
    order = np.argsort(-logits, kind="stable")[:10]
    assert [row["id"] for row in payload["rows"]] == order.tolist() and not payload["edited"]
    assert [row["logit_after"] for row in payload["rows"]] == logits[order].tolist()
    assert all(row["p_before"] == row["p_after"] for row in payload["rows"])
    assert payload["kl"] == 0 and payload["entropy"][0] == payload["entropy"][1]
    assert "“b” (position 4)" in payload["title"]


def test_next_tokens_with_edits_are_those_of_both_runs(playground, lm):
    changes = [{"kind": "zero", "layer": 1, "head": 2}, {"kind": "scale", "layer": 2, "head": 0, "factor": 3}]
    payload = drawn(playground, edits=changes, tokens=[3])["edits_next"]
    before = lm.trace(PROMPT)
    after = before.edit(Edit("zero", 1, 2), Edit("scale", 2, 0, 3.0))
    table = next_tokens(before, after, 3)
    assert payload["rows"] == prediction_rows(table, [row["text"] for row in payload["rows"]])
    p, q = (np.exp(run.logits_at(3) - np.logaddexp.reduce(run.logits_at(3).astype(float))) for run in (before, after))
    for row in payload["rows"]:
        assert (row["p_before"], row["p_after"]) == pytest.approx((p[row["id"]], q[row["id"]]), abs=1e-6)
        assert [row["logit_before"], row["logit_after"]] == [run.logits_at(3)[row["id"]] for run in (before, after)]
        texts = row["texts"]
        assert (texts["p_before"], texts["p_after"]) == (percent(row["p_before"]), percent(row["p_after"]))
        assert texts["logit_after"] == logit(row["logit_after"])
        assert texts["change"] == difference(100 * (row["p_after"] - row["p_before"]), places=2)
    assert payload["kl"] == pytest.approx((p * np.log(p / q)).sum(), abs=1e-5) and payload["kl"] > 1e-4
    assert payload["entropy"] == pytest.approx([-(x * np.log2(x)).sum() for x in (p, q)], abs=1e-4)  # bits
    assert payload["texts"] == dict(
        zip(("before", "after", "kl"), map(nats, (*payload["entropy"], payload["kl"])), strict=True)
    )
    assert payload["edited"] and "position 3" in payload["title"] and "edited" in payload["source"]
    for line in ("Edit('zero', layer=1, head=2)", "run.unedited()", "next_tokens(before, run, 3)", "Target('kl', 3)"):
        assert line in payload["python"]


def test_the_position_is_the_last_picked_token(playground):
    assert scene(playground).position == 4
    assert scene(playground, tokens=[3, 1]).position == 3
    assert scene(playground, tokens=[99, -1, True, "2"]).position == 4


@pytest.mark.parametrize("prompt", ["a", "\n", "\u202e<b>{token}</b>"])
def test_short_and_hostile_prompts_are_drawn(playground, prompt):
    parts = drawn(playground, prompt)
    assert "problem" not in parts["edits_next"] and parts["edits_next"]["rows"]
    assert "\u202e" not in parts["edits_next"]["title"] and "\n" not in parts["edits_next"]["title"]


def test_picking_a_head_sends_nothing_of_the_view_again(playground):
    _, shown = payloads(playground, asked())
    parts, _ = payloads(playground, asked(shown=shown, heads=[[1, 1]]))
    assert set(parts).isdisjoint(panels.names_of(VIEW))
