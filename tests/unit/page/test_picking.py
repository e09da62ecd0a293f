"""What is picked and the page: names of runs, and which parts another selection draws again."""

from model.gpt.edits import Edit
from tests.support.picking import asked
from viz.page.pipeline import edit_payload, payloads
from viz.seam.scene import prompt_id
from viz.work.playground import Options, Playground

# --- names ---


def test_a_prompt_keeps_its_name_while_it_is_edited(scene):
    edited = scene(edits=[{"kind": "zero", "layer": 1, "head": 0}])
    assert edited.picked.edits == (Edit("zero", 1, 0),) and edited.trace.key.edits
    assert prompt_id(edited) == prompt_id(scene()) != prompt_id(scene("other"))
    assert edited.run != scene().run


# --- the page's part in it ---


def test_edits_leave_the_token_strip_alone_and_are_told_only_where_they_were_changed(playground):
    _, shown = payloads(playground, asked(selection={"heads": [[2, 3]]}))
    edits = [edit_payload(Edit("zero", 1, 0))]
    parts, shown = payloads(playground, asked(selection={"heads": [[2, 3]], "edits": edits}, shown=shown))
    assert {"overview_heads", "map_plot"} <= set(parts) and not {"tokens", "selection"} & set(parts)
    wrong = [*edits, {"kind": "block_edge", "query": 30, "key": 1}]
    parts, _ = payloads(playground, asked(selection={"heads": [[2, 3]], "edits": wrong}, shown=shown))
    assert parts["selection"]["edits"] == edits and "map_plot" not in parts


def test_what_cannot_be_drawn_says_why_in_its_own_place(playground):
    prompt = "ab" * 35
    wide = Playground(Options(model="tiny", max_tokens=100))
    wide.models.get("tiny", lambda: playground.load("tiny"))
    parts, _ = payloads(wide, asked(prompt, values={"attention_view": {"measure": "flow"}}))
    assert parts["notice"] == {} and parts["overview_heads"]["layers"] == 3
    assert parts["map_plot"]["problem"]["text"] and parts["map_plot"]["problem"]["hint"]


def test_a_job_that_ended_has_its_part_drawn_again(playground):
    page = {"tab": "effects", "values": {"effects_view": {"view": "sweep"}}}
    _, shown = payloads(playground, asked(**page))
    assert "sweep_job" not in payloads(playground, asked(**page, shown=shown))[0]
    assert "sweep_job" in payloads(playground, asked(**page, shown=shown, done="1"))[0]
