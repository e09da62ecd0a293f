"""The view of beam search without a browser: what is shown are the numbers of model.generation.search."""

import math
import pickle
import re

import pytest
import torch

from model.generation.search.beam_tree import REASONS, beam_tree
from model.generation.search.exhaustive import most_probable
from model.generation.strategies import DecodingPlan, Strategy
from model.sampling.pipeline import Step
from tests.support.models.helpers import byte_model
from tests.support.scripts import script
from tests.unit.views.test_seam import same, values_only
from viz.labels import visible
from viz.numbers import decimals, factor, percent, plain
from viz.page.pipeline import PageRequest, payloads, scene_of
from viz.seam.jobs import background
from viz.seam.panels import job_of, key_of, settings_of
from viz.seam.tasks import MeasureTask
from viz.views.sampling.beam_tree import measure
from viz.views.sampling.beam_tree.figures import drawn as drawn_of
from viz.views.sampling.beam_tree.view import VIEW
from viz.words import LANGUAGES, section, words

PROMPT = "abcabdabcabd ab"
SCRIPT = script("views/sampling/beam_tree/beam_tree")
FORM = {"beams": 4, "tokens": 5, "length_penalty": 1.0, "groups": "1", "diversity": 1.0, "runs": "256"}
STEPS = (Step("temperature", (("temperature", 0.5),)), Step("top_k", (("k", 3),)))
SENT = [{"warp": "temperature", "values": {"temperature": 0.5}}, {"warp": "top_k", "values": {"k": 3}}]
DIVERSE = {**FORM, "groups": "2", "diversity": 0.8}


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    return byte_model(tmp_path_factory.mktemp("bytes"))


def asked(form=None, language="en", steps=None, **selection):
    values = {"sampling_view": {"view": "beam_tree"}, "beam_tree_form": form, "pipeline": {"steps": steps}}
    return PageRequest("tiny", PROMPT, selection or None, values, {}, language, "sampling")


def drawn(playground, *given, **changes):
    return payloads(playground, asked(*given, **changes))[0]


def done(playground, form, *names, **changes):
    """The results of the jobs, and the payloads that show them."""
    results = []
    for name in names:
        request = asked(form, **changes)
        scene = scene_of(playground, request)
        job = job_of(VIEW, name, scene, settings_of(VIEW, scene, request.values))
        list(background.perform(playground, job, "en"))
        results.append(playground.results.peek(job.key).value)
    return *results, drawn(playground, form, **changes)


# --- words ---


def test_the_script_has_the_words_it_asks_for():
    used = set(re.findall(r"\bwords\.(\w+)", SCRIPT)) | {
        f"fate_{each}" for each in ("winner", "final", "kept", *REASONS)
    }
    used |= {f"key_{each}" for each in ("winner", "final", "kept", "dropped", "below")}
    used |= {f"ended_{each}" for each in ("end", "stop", "length", "context")} | {"place", "place_group"}
    names = re.search(r"\[([^\]]*)\]\.map\(\s*\(name\) => words\[`csv_", SCRIPT).group(1)
    used |= {f"csv_{name}" for name in re.findall(r"\w+", names)} | {"numbers", "numbers_fined"}
    for language in LANGUAGES:
        assert used <= set(section(words(language), "beam_tree.tree")), language


@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_runs_by_itself(playground, language, monkeypatch):
    monkeypatch.setattr(measure, "beam_tree", lambda *_, **__: pytest.fail("it ran by itself"))
    parts = drawn(playground, language=language)
    assert parts["beam_tree_job"]["state"] == parts["beam_tree_exact_job"]["state"] == "idle"
    assert "empty" in parts["beam_tree_tree"] and "empty" in parts["beam_tree_texts"]


# --- what is asked for ---


def test_what_a_page_sends_is_kept_within_bounds(playground):
    request = asked({"beams": 99, "tokens": 1e9, "length_penalty": "x", "groups": "5", "diversity": -1, "runs": 7})
    read = settings_of(VIEW, scene_of(playground, request), request.values)
    assert (read.beams, read.tokens, read.length_penalty) == (8, 16, 1.0)
    assert (read.groups, read.diversity, read.runs) == ("1", 0, "1024")


def test_the_key_knows_only_what_counts(playground):
    def key(name, **changes):
        request = asked({**FORM, **changes})
        scene = scene_of(playground, request)
        return key_of(MeasureTask(VIEW, VIEW.measure(name), scene, settings_of(VIEW, scene, request.values)))

    assert key("tree") == key("tree", diversity=2.0) == key("tree", runs="4096")
    assert key("tree", groups="2") != key("tree", groups="2", diversity=2.0)
    assert key("exact") == key("exact", beams=2) != key("exact", runs="4096")


def test_groups_that_do_not_divide_the_beams_are_refused(playground):
    parts = list(background_events(playground, {**FORM, "groups": "3"}))
    assert any("divided evenly" in str(each) for each in parts)


def test_equal_steps_are_one_question(playground):
    def key(name, sent=None, **changes):
        request = asked({**FORM, **changes}, steps=sent)
        scene = scene_of(playground, request)
        return key_of(MeasureTask(VIEW, VIEW.measure(name), scene, settings_of(VIEW, scene, request.values)))

    for name in ("tree", "exact"):
        assert key(name) == key(name, SENT) != key(name, SENT, steps="mine") != key(name, steps="mine")
        assert key(name, steps="standard") == key(name, steps="mine")  # the editor's first steps are this preset
        assert key(name, [], steps="mine") == key(name, steps="none")


def test_steps_that_are_wrong_or_leave_no_text_are_said(playground):
    def told(sent, **changes):
        request = asked({**FORM, **changes}, steps=sent)
        scene = scene_of(playground, request)
        settings = settings_of(VIEW, scene, request.values)
        return str(list(background.perform(playground, job_of(VIEW, "tree", scene, settings), "en")))

    wrong = [{"warp": "top_k", "values": {"k": -5}}]
    assert "out of range" in told(wrong, steps="mine") and "out of range" not in told(wrong)
    rule = {"warp": "fits", "values": {}, "rule": {"kind": "choice", "text": "~~"}}
    assert "forbids every token" in told([{"warp": "top_k", "values": {"k": 1}}, rule], steps="mine")


def background_events(playground, form):
    request = asked(form)
    scene = scene_of(playground, request)
    yield from background.perform(
        playground, job_of(VIEW, "tree", scene, settings_of(VIEW, scene, request.values)), "en"
    )


# --- what is shown ---


@pytest.mark.parametrize("form", [FORM, DIVERSE])
def test_the_tree_is_that_of_the_model(playground, lm, form):
    searched, parts = done(playground, form, "tree")
    if form is FORM:
        strategy = Strategy((), "beam", (("beams", 4), ("length_penalty", 1.0)))
    else:
        options = (("beams", 4), ("length_penalty", 1.0), ("groups", 2), ("diversity", 0.8))
        strategy = Strategy((), "diverse_beam", options)
    ids = lm.encode(PROMPT).ids.tolist()
    tree = beam_tree(lm.model, ids, strategy, DecodingPlan(5), 256)
    assert searched.tree == tree
    payload = parts["beam_tree_tree"]
    nodes, shown = payload["nodes"], drawn_of(tree.candidates, 4 // int(form["groups"]))
    assert len(nodes) == len(shown) > 30
    for node, index in zip(nodes, shown, strict=True):
        each = tree.candidates[index]
        assert (node["text"], node["id"]) == (visible(chr(each.id)) if each.id < 128 else node["text"], each.id)
        assert node["p"] == plain(math.exp(each.log_probability)) and node["score"] == plain(each.score)
        assert (node["state"], node["reason"], node["pruned"]) == (each.state, each.reason, each.pruned)
        parent = -1 if each.parent < 0 else shown.index(each.parent)
        assert node["parent"] == parent
        assert node["rank"] == (tree.results.index(index) + 1 if index in tree.results else 0)
    assert sum(node["rank"] == 1 for node in nodes) == 1
    winner = next(node for node in nodes if node["rank"] == 1)
    assert winner["typed"] is None or winner["typed"] == bytes(tree.ids(tree.results[0])).decode("utf-8", "replace")
    assert payload["groups"] == int(form["groups"]) and payload["share"] == 4 // int(form["groups"])


def test_scores_are_those_after_the_steps(playground, lm):
    searched, exact, parts = done(playground, {**FORM, "steps": "mine"}, "tree", "exact", steps=SENT)
    ids = lm.encode(PROMPT).ids.tolist()
    strategy = Strategy(STEPS, "beam", (("beams", 4), ("length_penalty", 1.0)))
    assert searched.tree == beam_tree(lm.model, ids, strategy, DecodingPlan(5), 256)
    logits = lm.model(torch.tensor([ids]))[0, -1].double() / 0.5
    kept = logits.topk(3)
    first = [each for each in searched.tree.candidates if each.step == 1]
    assert [each.id for each in first] == kept.indices.tolist()
    totals = [each.total for each in first]
    assert totals == pytest.approx(kept.values.log_softmax(-1).tolist(), abs=1e-5)
    assert exact == most_probable(lm.model, ids, 5, 256, most_runs=256, steps=STEPS)
    for part in (parts["beam_tree_tree"]["note"], parts["beam_tree_texts"]["about"]):
        assert "after the steps: Temperature 0.5 → Top-k 3." in part
    assert parts["beam_tree_tree"]["mine"]


def test_the_table_compares_with_greedy_and_the_most_probable_text(playground, lm):
    searched, parts = done(playground, FORM, "tree")
    rows = parts["beam_tree_texts"]["rows"]
    assert [row[0] for row in rows] == ["1, winner", "2", "3", "4", "greedy"] and not parts["beam_tree_texts"][
        "verdict"
    ]
    winner = searched.tree.candidates[searched.tree.results[0]]
    assert rows[0][3:] == [
        decimals(winner.total, 3),
        {"text": decimals(winner.score, 3)},
        percent(math.exp(winner.total)),
        factor(1.0),
    ]
    assert rows[4][6] == factor(math.exp(searched.greedy_total - winner.total))

    searched, exact, parts = done(playground, FORM, "tree", "exact")
    ids = lm.encode(PROMPT).ids.tolist()
    assert exact == most_probable(lm.model, ids, 5, 256, most_runs=256)
    table = parts["beam_tree_texts"]
    assert table["rows"][-1][0] == ("most probable" if exact.exact else "best found")
    assert table["rows"][-1][6] == factor(math.exp(exact.total - winner.total))
    assert table["good"] == (exact.total - winner.total < 1e-4)
    assert ("stopped at its limit" in " ".join(table["verdict"])) == (not exact.exact)


def test_one_beam_that_misses_is_told(playground):
    """With a limit of 256 beginnings over flat distributions, the search says what it does not know."""
    one = {**FORM, "beams": 1}
    searched, exact, parts = done(playground, one, "tree", "exact")
    assert searched.tree.ids(searched.tree.results[0]) == searched.greedy
    verdict = " ".join(parts["beam_tree_texts"]["verdict"])
    gap = exact.total - searched.greedy_total
    assert ("missed" in verdict) == (gap > 1e-4) == (not parts["beam_tree_texts"]["good"])


def test_only_low_places_are_not_drawn():
    class One:
        def __init__(self, place, reason):
            self.place, self.reason = place, reason

    candidates = [One(0, ""), One(3, "below"), One(4, "below"), One(5, ""), One(6, "late"), One(7, "outrun")]
    assert drawn_of(candidates, 2) == [0, 1, 3, 5]


def test_edits_are_left_out_and_said(playground):
    edits = {"edits": [{"kind": "zero", "layer": 0, "head": 0}]}
    _, parts = done(playground, FORM, "tree")
    edited = drawn(playground, FORM, **edits)
    assert edited["beam_tree_tree"]["nodes"] == parts["beam_tree_tree"]["nodes"]
    assert "without your edits" in edited["beam_tree_tree"]["source"]


def test_the_python_lines_make_the_numbers(playground, lm, monkeypatch):
    monkeypatch.setattr("model.api.load_model", lambda name: lm)
    searched, exact, parts = done(playground, DIVERSE | {"steps": "mine"}, "tree", "exact", steps=SENT)
    *lines, last = parts["beam_tree_texts"]["python"].splitlines()
    space: dict = {}
    exec("\n".join(lines), space)
    assert eval(last, space) == exact and space["tree"] == searched.tree
    assert parts["beam_tree_tree"]["python"].splitlines()[-1] == lines[-1]


def test_what_was_searched_is_a_value(playground):
    searched, exact, _ = done(playground, FORM, "tree", "exact")
    assert values_only(searched) and same(pickle.loads(pickle.dumps(searched)), searched)
    assert values_only(exact) and same(pickle.loads(pickle.dumps(exact)), exact)
