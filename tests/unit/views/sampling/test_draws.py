"""The view of draws without a browser: its numbers are those of the run's own logits, and no model is run for them."""

import json
import re

import numpy as np
import pytest
import torch

from model.api import LanguageModel
from model.generation.next_token import context_at
from model.gpt.transformer import Transformer
from model.sampling.draw_statistics import bar_of, fit, uniforms
from model.sampling.outcomes import counts, expected
from model.sampling.pipeline import Context, Step, draw, softmax, uniform, usable
from model.sampling.warps import final
from tests.support.models.helpers import byte_tokenizer, tiny_model
from tests.support.scripts import names_in, script, words_in
from viz.page.parts import packed
from viz.page.pipeline import PageRequest, payloads, scene_of
from viz.seam import panels
from viz.seam.view import Seen
from viz.views.sampling.draws import figures as pictures
from viz.views.sampling.draws import view as draws
from viz.views.sampling.draws.figures import DrawCount, groups, many_figure, rug, single
from viz.views.sampling.draws.view import AHEAD, MOST_SEED, MOST_STEP, VIEW, Numbers, read
from viz.views.sampling.pipelines import DEFAULT
from viz.words import LANGUAGES, Words, section, words

PROMPT = "abcabd ab"
SCRIPT = script("views/sampling/draw*")
NONE = {"steps": []}  # the model's own distribution
PARTS = panels.names_of(VIEW)


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    model = tiny_model({"vocab_size": 300, "n_ctx": 300})  # 44 rows that no token has
    return LanguageModel("tiny", "Tiny", model, byte_tokenizer(tmp_path_factory.mktemp("bytes")))


def question(values=None, prompt=PROMPT, language="en", shown=None, **selection):
    sent = {"sampling_view": {"view": "draws"}} | (values or {})
    return PageRequest("tiny", prompt, selection or None, sent, shown or {}, language, tab="sampling")


def scene(playground, **changes):
    return scene_of(playground, question(**changes))


def drawn(playground, values=None, **changes):
    return payloads(playground, question(values, **changes))[0]


def figure_of(figure):
    """A figure as the page gets it."""
    return json.loads(figure.to_json())


def theirs(scene, steps=DEFAULT, at=None):
    """The distribution, worked out anew."""
    at = len(scene.trace.tokens) - 1 if at is None else at
    logits = usable(torch.from_numpy(scene.trace.logits_at(at)), scene.model.tokenizer.vocab_size)
    return softmax(final(logits, steps, Context(tuple(scene.trace.tokens.ids[: at + 1].tolist()), at + 1)).numpy())


# --- words ---


def test_the_script_has_the_words_it_asks_for():
    known = {*section(words("en"), "draws.bar.labels"), *section(words("en"), "plot")}
    found = words_in(SCRIPT)
    assert len(found) > 10 and found <= known
    assert set(section(words("en"), "draws.bar.labels")) <= names_in(SCRIPT)


@pytest.mark.parametrize("language", LANGUAGES)
def test_first_drawing_fills_every_part(playground, language):
    parts = drawn(playground, language=language)
    for name in PARTS:
        assert name in parts and "problem" not in parts[name] and "empty" not in parts[name], name
    packed(parts)  # as it is sent
    assert "{" not in parts["draws_many"]["note"] + parts["draws_bar"]["note"] + parts["draws_bar"]["title"]
    assert not [text for item in parts["draws_fit"]["items"] for text in item if "{" in text]


# --- the bar ---


def test_the_bar_is_the_run_s_own_distribution(playground):
    payload, shares = drawn(playground)["draws_bar"], theirs(scene(playground))
    bar = bar_of(shares)
    n = len(payload["ids"])
    assert payload["ids"] == bar.ids[:n].tolist()
    assert payload["edges"] == bar.edges[:n].tolist() and payload["shares"] == bar.shares[:n].tolist()
    assert payload["total"] == shares.sum() and payload["count"] == np.count_nonzero(shares)
    assert payload["numbers"] == [uniform(0, step) for step in range(AHEAD)]
    assert sum(payload["rug"]["counts"]) == payload["rug"]["n"] == 1000


@pytest.mark.parametrize("steps", [None, NONE], ids=["default", "none"])
def test_what_the_page_finds_is_what_would_be_drawn(playground, steps):
    """The page takes the first edge beyond u * total; a number in the tail it finds by its value."""
    payload = drawn(playground, {"pipeline": steps} if steps else None)["draws_bar"]
    shares = theirs(scene(playground), () if steps else DEFAULT)
    tail = {found["u"]: found for found in payload["found"]}
    for u in payload["numbers"]:
        place = next((at for at, edge in enumerate(payload["edges"]) if edge > u * payload["total"]), None)
        found = tail[u]["id"] if place is None else payload["ids"][place]
        assert found == draw(shares, u)


def test_a_number_in_the_tail_is_looked_up(playground):
    u = 0.9999
    payload = drawn(playground, {"pipeline": NONE, "draws_bar": {"seed": 3, "step": 70, "u": u}})["draws_bar"]
    shares = theirs(scene(playground), ())
    (found,) = [each for each in payload["found"] if each["u"] == u]
    bar = bar_of(shares)
    assert found["id"] == draw(shares, u) == bar.ids[found["rank"] - 1]
    assert found["rank"] > len(payload["ids"])
    assert found["from"] <= u * bar.total < found["to"] and found["share"] == shares[found["id"]]
    assert (payload["seed"], payload["first"]) == (3, 64)
    assert payload["numbers"] == [uniform(3, step) for step in range(64, 64 + AHEAD)]


def test_the_first_token_of_the_tail_is_looked_up_too(playground):
    first = drawn(playground, {"pipeline": NONE})["draws_bar"]
    u = first["edges"][-1] / first["total"] + 1e-9
    payload = drawn(playground, {"pipeline": NONE, "draws_bar": {"u": u}})["draws_bar"]
    assert [found["rank"] for found in payload["found"] if found["u"] == u] == [len(payload["ids"]) + 1]


def test_no_row_without_a_token_is_on_the_bar(playground):
    payload = drawn(playground, {"pipeline": NONE})["draws_bar"]
    assert payload["count"] <= 256


def test_one_token_is_certain(playground):
    values = {"pipeline": {"steps": [{"warp": "temperature", "values": {"temperature": 0}}]}}
    parts = drawn(playground, values)
    assert parts["draws_bar"]["count"] == 1 and "single token" in parts["draws_bar"]["note"]
    assert "nothing to test" in parts["draws_fit"]["items"][0][1]


def test_the_position_that_is_picked_is_looked_at(playground):
    parts = drawn(playground, tokens=[2])
    assert "(position 2)" in parts["draws_bar"]["title"]
    assert parts["draws_bar"]["ids"][0] == int(theirs(scene(playground), at=2).argmax())


def test_edits_are_in_what_is_drawn(playground):
    edit = {"kind": "zero", "layer": 1, "head": 2}
    plain, edited = drawn(playground)["draws_bar"], drawn(playground, edits=[edit])["draws_bar"]
    assert plain["shares"] != edited["shares"] and "edited" in edited["source"]


@pytest.mark.parametrize(
    ("shares", "expected"),
    [([1.0], 1), ([0.5, 0.5], 2), ([0.9998, 0.0001, 0.0001], 1), ([0.9998, 0.0002], 2), ([1e-6] * 5, 1)],
    ids=str,
)
def test_parts_that_can_be_seen_stand_alone(shares, expected):
    assert single(np.array(shares)) == expected


def test_not_more_parts_than_are_allowed():
    assert single(np.full(1000, 1 / 1000)) == pictures.MOST


def test_the_rug_counts_every_number():
    assert rug(np.array([0.0, 0.001, 0.5, 1 - 2**-53]))[0] == 2
    assert sum(rug(uniforms(0, 500))) == 500


# --- what a page sends ---


@pytest.mark.parametrize("sent", [None, {}, [], "x", {"seed": "1", "step": None, "u": "0.5"}, {"u": float("nan")}])
def test_nothing_usable_means_the_first_number(sent):
    found = read(sent, None)
    assert found == Numbers() and found.step == 0


def test_what_is_sent_is_kept_within_bounds():
    found = read({"seed": 1e300, "step": 1e300, "u": 7}, None)
    assert (found.seed, found.step) == (MOST_SEED, MOST_STEP) and found.u < 1
    found = read({"seed": -5, "step": 130.9, "u": -1}, None)
    assert found == Numbers(0, 128, 0) and found.step == 130
    for sent, n in (("10000", "10000"), ("1000000000", "1000"), (None, "1000")):
        assert panels.read_all(VIEW.settings, {"n": sent}, None).n == n


def test_steps_that_cannot_be_are_told(playground):
    parts = drawn(playground, {"pipeline": {"steps": [{"warp": "nothing"}]}})
    assert "problem" in parts["draws_bar"] and "draws_many" not in parts


# --- many draws ---


@pytest.mark.parametrize("n", draws.NUMBERS)
def test_many_draws_are_counted(playground, n):
    values = {"draws_form": {"n": str(n)}, "draws_bar": {"seed": 5}, "pipeline": NONE}
    parts, bar = drawn(playground, values), bar_of(theirs(scene(playground), ()))
    counts = bar.counts(uniforms(5, n))
    data = figure_of(parts["draws_many"]["figure"])["data"]
    assert data[0]["x"] == pytest.approx([*(100 * bar.shares[:12]), 100 * bar.shares[12:].sum()], rel=1e-5)
    seen = {y: x for trace in data[1:] for x, y in zip(trace["x"], trace["y"], strict=True)}
    assert [seen[y] for y in data[0]["y"]] == pytest.approx([*(100 * counts[:12] / n), 100 * counts[12:].sum() / n])
    test = fit(counts, bar.shares)
    assert f"χ² = {test.statistic:.2f} (degrees of freedom: {test.degrees})" in parts["draws_fit"]["items"][0][1]
    assert f"{int((counts > 0).sum()):,} of the {len(bar.ids):,} possible tokens" in str(parts["draws_fit"]["items"])


def test_the_rest_is_one_line():
    shares, counts = groups(np.array([0.4, 0.3, 0.1, 0.1, 0.1]), np.array([4, 3, 2, 1, 0]), 2)
    assert shares.tolist() == pytest.approx([0.4, 0.3, 0.3]) and counts.tolist() == [4, 3, 3]
    assert groups(np.array([0.5, 0.3, 0.2]), np.array([1, 2, 3]), 2)[1].tolist() == [1, 2, 3]  # one more fits


def test_every_line_has_its_name(playground):
    opened = scene(playground)
    said = Words(words("en"), "draws")
    for k in (1, 5, 12, 13, 14, 60):
        sent = {"pipeline": {"steps": [{"warp": "top_k", "values": {"k": k}}]}, "draws_form": {"n": "100"}}
        settings = panels.settings_of(VIEW, opened, sent)
        results = {name: panels.measured(VIEW, name, opened, settings).value for name in ("main", "many")}
        bar, facts = results["main"], panels.facts_of(opened)
        lines = draws.lines_of(Seen("draws", "many", bar, results, {}, {}, settings, said, facts))
        assert len(lines) == min(len(bar.ids), 13)
        assert sum(line.count for line in lines) == 100 and sum(line.share for line in lines) == pytest.approx(1)
        assert ("more" in lines[-1].name) == (len(bar.ids) > 13)


def test_a_dot_beyond_its_whisker_is_marked():
    said = section(words("en"), "draws.many")
    lines = [DrawCount("<b>", 0.5, 50, 40, 60), DrawCount("<b>", 0.5, 70, 40, 60)]
    figure = figure_of(many_figure(lines, 100, said))
    bars, inside, outside = figure["data"]
    assert inside["x"] == [50.0] and outside["x"] == [70.0] and outside["marker"]["symbol"] == "diamond-open"
    assert bars["error_x"]["array"] == pytest.approx([10, 10]) and bars["error_x"]["arrayminus"] == pytest.approx(
        [10, 10]
    )
    assert len(set(bars["y"])) == 2 and all("<b>" not in name for name in bars["y"])
    assert "40–60" in bars["hovertext"][0]


# --- no model is run ---


def test_no_model_runs_for_a_draw(playground, monkeypatch):
    drawn(playground)  # the run itself
    monkeypatch.setattr(Transformer, "trunk", lambda *given, **named: pytest.fail("the model was run"))
    for values in (
        {"draws_bar": {"seed": 9, "step": 700}},
        {"draws_bar": {"u": 0.9999}},
        {"draws_form": {"n": "10000"}},
        {"pipeline": NONE},
        {"pipeline": {"steps": [{"warp": "temperature", "values": {"temperature": 2}}]}},
    ):
        assert "problem" not in drawn(playground, values)["draws_bar"]
    assert "problem" not in drawn(playground, tokens=[1])["draws_bar"]


def test_another_number_draws_the_bar_only(playground):
    first, shown = payloads(playground, question())
    parts, _ = payloads(playground, question({"draws_bar": {"u": 0.25}}, shown=shown))
    assert set(parts) & set(PARTS) == {"draws_bar"} and set(first) > set(parts)
    parts, _ = payloads(playground, question({"draws_bar": {"step": AHEAD - 1}}, shown=shown))
    assert not set(parts) & set(PARTS)  # the page has that number


# --- Python ---


def run_lines(text, lm):
    """The last expression of the lines, and what they define."""
    *lines, last = text.replace("load_model('tiny')", "lm").splitlines()
    space = {"lm": lm}
    exec("\n".join(lines), space)
    return eval(last, space), space


@pytest.mark.parametrize("u", [None, 0.25, 0.9999])
def test_the_python_lines_draw_the_same_token(playground, lm, u):
    values = {"draws_bar": {"seed": 4, "step": 2, "u": u}}
    text = drawn(playground, values)["draws_bar"]["python"]
    assert len(re.findall(r"^u = .*$", text, re.M)) == 1  # the page puts another number there
    piece, space = run_lines(text, lm)
    token = draw(theirs(scene(playground)), uniform(4, 2) if u is None else u)
    assert space["token"] == token and piece == lm.tokenizer.piece(token)


def test_the_python_lines_of_many_draws_test_the_same(playground, lm):
    values = {"draws_bar": {"seed": 4}, "pipeline": NONE}
    text = drawn(playground, values)["draws_many"]["python"]
    found, space = run_lines(text, lm)
    bar = bar_of(theirs(scene(playground), ()))
    assert found == fit(bar.counts(uniforms(4, 1000)), bar.shares)
    assert space["counts"].sum() == 1000 and len(space["low"]) == 12


# --- a step by chance ---


def test_draws_with_xtc_mix_both_outcomes(playground, lm):
    steps = [{"warp": "xtc", "values": {"threshold": 0.01, "xtc_probability": 0.5}}]
    chosen = {"pipeline": {"steps": steps}, "draws_form": {"n": "10000"}}
    parts = drawn(playground, chosen)
    at = scene(playground)
    logits = usable(torch.from_numpy(at.trace.logits_at(len(at.trace.tokens) - 1)), at.model.tokenizer.vocab_size)
    ours = (Step("xtc", (("threshold", 0.01), ("xtc_probability", 0.5))),)
    shares = expected(logits, ours)
    bar = bar_of(shares)
    n = len(parts["draws_bar"]["ids"])
    assert parts["draws_bar"]["ids"] == bar.ids[:n].tolist()
    assert not np.array_equal(shares, theirs(at, ()))
    assert "averaged over the outcomes" in parts["draws_bar"]["note"]
    found, names = run_lines(parts["draws_many"]["python"], lm)
    assert np.array_equal(names["counts"], counts(logits, ours, 0, 10_000, context_at(at.trace, -1))[bar.ids])
    assert found.p > 0.001
