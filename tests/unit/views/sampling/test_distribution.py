"""The distribution without a browser: its numbers are those of the model code, and sliders run no forward."""

import json
import math

import numpy as np
import pytest
import torch

from model.api import LanguageModel
from model.errors import InputError
from model.generation.next_token import context_at, logits_after
from model.gpt.edits import Edit
from model.gpt.transformer import Block, Transformer
from model.sampling.pipeline import Context, Step, entropy, second, softmax
from model.sampling.warps import WARPS, shape
from model.tracing.trace import Trace
from tests.support.models.helpers import byte_tokenizer, tiny_model
from tests.support.scripts import names_in, script, words_in
from viz.labels import visible
from viz.numbers import bits, logit, percent
from viz.page.parts import packed
from viz.page.pipeline import PageRequest, payloads
from viz.seam import panels
from viz.views.sampling.distribution.figures import place, shown_tokens, stages_of, step_rows
from viz.views.sampling.distribution.view import VIEW
from viz.views.sampling.distribution.vocabulary_table import (
    PAGE,
    RowsRequest,
    frame,
    matches,
    ordered,
    page_of,
    shown_rows,
)
from viz.words import section, words
from viz.work.playground import Options, Playground

PROMPT = "abcab"
SCRIPT = script("views/sampling/distribution")
STEPS = [
    {"warp": "temperature", "values": {"temperature": 0.5}},
    {"warp": "top_k", "values": {"k": 20}},
    {"warp": "top_p", "values": {"p": 0.8}},
]
OURS = (Step("temperature", (("temperature", 0.5),)), Step("top_k", (("k", 20.0),)), Step("top_p", (("p", 0.8),)))


def asked(prompt=PROMPT, language="en", values=None, view="distribution", **selection):
    given = {"sampling_view": {"view": view}, "pipeline": {"steps": STEPS}} | (values or {})
    return PageRequest("tiny", prompt, selection or None, given, {}, language, tab="sampling")


def drawn(playground, prompt=PROMPT, **changes):
    return payloads(playground, asked(prompt, **changes))[0]


def figure_of(figure):
    """A figure as the page gets it."""
    return json.loads(figure.to_json())


def shaped_at(lm, at, steps=OURS, prompt=PROMPT):
    run = lm.trace(prompt)
    context = Context(tuple(run.tokens.ids[: at + 1].tolist()), at + 1)
    return shape(torch.from_numpy(run.logits_at(at)), steps, context)


def by_hand(*stages):
    """Stages of given logits."""
    logits = np.array(stages, np.float32)
    shaped = shape(torch.from_numpy(logits[0]), ())
    reports = type(shaped)((), torch.from_numpy(logits)).report()
    return stages_of(logits, softmax(logits), reports, np.argsort(-logits[0], kind="stable"))


# --- numbers ---


def test_the_context_is_the_prompt_up_to_the_position(lm):
    run = lm.trace(PROMPT)
    assert context_at(run, 2) == context_at(run, -3) == Context((97, 98, 99), 3, chance=second(0, 0))
    assert context_at(run, 2, 0.5).chance == 0.5
    assert context_at(run, -1).prompt == 5
    assert torch.equal(logits_after(run, 1, 200)[:200], torch.from_numpy(run.logits_at(1)[:200]))
    assert torch.isneginf(logits_after(run, 1, 200)[200:]).all() and len(logits_after(run, 1, 200)) == 256
    with pytest.raises(InputError):
        logits_after(run, 5, 256)


def test_stages_by_hand():
    inf, logs = np.inf, np.log([0.5, 0.25, 0.125, 0.125])
    found = by_hand(logs, [*logs[:2], -inf, logs[3]], [*logs[:2], -inf, -inf])
    assert found.out.tolist() == [0, 0, 1, 2] and found.ranks.tolist() == [1, 2, 3, 4]
    assert [each.removed for each in found.reports] == pytest.approx([0, 0.125, 1 / 7])
    rows = step_rows(found, ["model", "first", "second"], ["model", "cut", "scale"])
    left = [row[1] for row in rows]
    assert [row[0] for row in rows] == ["model", "first", "second"] and [each["text"] for each in left] == [
        "4",
        "3",
        "2",
    ]
    assert [each["bars"][0]["to"] for each in left] == pytest.approx([1, math.log(3) / math.log(4), 0.5])
    assert rows[0][3] == bits(1.75) and rows[1][2] == percent(0.125)
    assert [place(found.logits[-1], token) for token in range(4)] == [1, 2, None, None]
    assert [place(found.logits[0], token) for token in range(4)] == [1, 2, 3, 4]  # of equals the smaller id first


def test_shown_are_the_likeliest_before_or_after_and_the_token_that_comes():
    rng = np.random.default_rng(0)
    before = rng.permutation(100).astype(np.float32)
    after = before.copy()
    lifted = int(np.argsort(before)[10])  # far down
    after[lifted] = 200
    found = by_hand(before, after)
    comes = int(np.argmin(before))
    chosen = shown_tokens(found, 1, comes, limit=8)
    assert len(chosen) == 9 and chosen[-1] == comes and lifted in chosen
    assert chosen[0] == int(before.argmax()) and [before[t] for t in chosen] == sorted(before[chosen], reverse=True)
    assert shown_tokens(found, 0, None, limit=8) == np.argsort(-before)[:8].tolist()


@pytest.mark.parametrize("at", [0, 2, 4])
def test_facts_and_steps_are_those_of_the_model_code(playground, lm, at):
    parts, shaped = drawn(playground, tokens=[at]), shaped_at(lm, at)
    report, p = shaped.report(), [shaped.probabilities(0), shaped.probabilities()]
    facts = {fact[0]: fact[1:3] for fact in parts["distribution_facts"]["facts"]}
    assert facts["Entropy (bits)"] == [bits(float(entropy(each)) / math.log(2)) for each in p]
    assert facts["Tokens left"] == ["256", str(report[-1].kept)] and report[-1].kept < 20
    rows = parts["distribution_steps"]["rows"]
    assert [row[1]["text"] for row in rows] == [str(each.kept) for each in report]
    assert [row[0] for row in rows][1:] == ["1 · Temperature 0.5", "2 · Top-k 20", "3 · Top-p (nucleus) 0.8"]
    told = parts["distribution_facts"]["next"]
    if at == 4:
        assert told["facts"] == [] and "ends here" in told["text"]
        return
    token = ord(PROMPT[at + 1])
    ranks, shares, surprisals = (fact[1:3] for fact in told["facts"])
    assert ranks[0] == str(int((p[0] > p[0][token]).sum()) + 1)
    assert surprisals[0] == f"{-math.log2(p[0][token]):.2f}"
    if p[1][token] == 0:
        assert (ranks[1], shares[1], surprisals[1]) == ("–", percent(0), "∞") and "; step " in told["text"]


def test_bars_curve_and_python_lines_are_the_same_numbers(playground, lm, monkeypatch):
    parts, shaped = drawn(playground, tokens=[1]), shaped_at(lm, 1)
    p = [shaped.probabilities(0), shaped.probabilities()]
    found = run_lines(parts["distribution_bars"]["python"], lm, monkeypatch)
    bars = figure_of(parts["distribution_bars"]["figure"])["data"]
    kept = [token for token in found["ids"] if p[1][token] > 0]
    assert bars[0]["x"] == pytest.approx([float(p[0][token]) for token in kept], rel=1e-5)
    assert bars[2]["x"] == pytest.approx([float(p[1][token]) for token in kept], rel=1e-5)
    lost = [float(p[0][token]) for token in found["ids"] if p[1][token] == 0]
    assert bars[1]["x"] == pytest.approx(lost, rel=1e-5)
    assert bars[3]["y"][0].endswith(" c") and bars[3]["y"][0] in bars[0]["y"] + bars[1]["y"]
    assert np.array_equal(found["_"][0], p[0][found["ids"]]) and np.array_equal(found["_"][1], p[1][found["ids"]])
    curves = figure_of(parts["distribution_curve"]["figure"])["data"]
    mass = run_lines(parts["distribution_curve"]["python"], lm, monkeypatch)["_"]
    held = np.minimum(np.cumsum(np.sort(p[0])[::-1]), 1)[np.array(curves[0]["x"]) - 1]
    assert curves[0]["y"] == pytest.approx(held, rel=1e-5)
    assert mass[curves[2]["x"][-1] - 1] == pytest.approx(curves[2]["y"][-1], rel=1e-5)
    cuts = {curve["name"]: curve for curve in curves[3:]}
    assert cuts["2 · Top-k 20"]["x"] == [20, 20]
    assert cuts["3 · Top-p (nucleus) 0.8"]["y"][0] == 0.8 and cuts["3 · Top-p (nucleus) 0.8"]["x"][1] == int(
        (p[1] > 0).sum()
    )


def run_lines(text, lm, monkeypatch):
    """What the lines leave, the value of the last one as "_"."""
    monkeypatch.setattr("model.api.load_model", lambda _: lm)
    *before, last = text.splitlines()
    space = {}
    exec("\n".join([*before, f"_ = {last}"]), space)
    return space


@pytest.mark.parametrize("warp", WARPS)
def test_every_warp_is_drawn_and_its_lines_give_its_numbers(playground, lm, warp, monkeypatch):
    sent = {"warp": warp, "text": "a: 5\nb: -3"}
    parts = drawn(playground, prompt="abcabcabca", values={"pipeline": {"steps": [sent]}}, tokens=[7])
    assert not [name for name in panels.names_of(VIEW) if "problem" in parts[name]]
    made = run_lines(parts["distribution_table"]["python"], lm, monkeypatch)
    stages, before, after = made["_"]
    assert stages.shape == (2, 256)
    told = {row["id"]: row for row in parts["distribution_table"]["rows"]}
    for token, row in told.items():
        out = math.isinf(float(stages[1][token]))
        assert row["out"] == int(out) and row["numbers"][1] == ("" if out else logit(float(stages[1][token])))
        assert row["rank"] == str(int((before > before[token]).sum() + (before[:token] == before[token]).sum()) + 1)
    assert parts["distribution_facts"]["facts"][2][2] == f"{int((after > 0).sum()):,}"


def test_a_stage_between_can_be_compared(playground, lm):
    shaped = shaped_at(lm, 4)
    for stage, chosen in ((1, "1"), (2, "2"), (3, "last"), (3, "7"), (3, 5)):
        parts = drawn(playground, values={"distribution_form": {"stage": chosen, "axis": "log"}})
        figure = figure_of(parts["distribution_bars"]["figure"])
        assert sum(figure["data"][2]["x"]) == pytest.approx(
            np.sort(shaped.probabilities(stage))[::-1][: len(figure["data"][2]["x"])].sum()
        )
        assert figure["layout"]["xaxis"]["type"] == "log" and figure["layout"]["yaxis"]["type"] == "category"


def test_edits_change_the_distribution_and_the_lines_make_them(playground, lm, monkeypatch):
    parts = drawn(playground, edits=[{"kind": "zero", "layer": 1, "head": 2}])
    after = run_lines(parts["distribution_table"]["python"], lm, monkeypatch)["_"][1]
    edited = lm.trace(PROMPT).edit(Edit("zero", 1, 2))
    assert after == pytest.approx(softmax(edited.logits_at(4)))
    assert not np.allclose(after, softmax(lm.trace(PROMPT).logits_at(4)))
    assert "edited" in parts["distribution_table"]["source"]


def test_rows_that_no_token_has_are_neither_drawn_nor_counted(tmp_path):
    lm = LanguageModel("tiny", "Tiny", tiny_model({"vocab_size": 300, "n_ctx": 40}), byte_tokenizer(tmp_path))
    ours = Playground(Options(model="tiny", max_tokens=40))
    ours.models.get("tiny", lambda: lm)
    parts = drawn(ours, values={"pipeline": {"steps": []}})
    assert parts["distribution_facts"]["facts"][2][1:3] == ["256", "256"]
    assert parts["distribution_table"]["total"] == "256 of 256 tokens"
    p = softmax(lm.trace(PROMPT).logits_at(-1)[:256])
    assert parts["distribution_facts"]["facts"][0][1] == bits(float(entropy(p)) / math.log(2))


# --- forwards ---


def test_nothing_but_a_new_prompt_runs_the_model(playground, monkeypatch):
    ran = []
    for owner, name in ((Transformer, "trunk"), (Block, "forward")):
        whole = getattr(owner, name)
        monkeypatch.setattr(
            owner, name, lambda *given, whole=whole, **named: (ran.append(1), whole(*given, **named))[1]
        )
    drawn(playground)
    assert ran
    ran.clear()
    read, logits = [], Trace._logits
    monkeypatch.setattr(Trace, "_logits", lambda self, x: (read.append(len(x)), logits(self, x))[1])
    for T in (0, 0.3, 1.5):
        for view in ("distribution", "temperature"):
            steps = [{"warp": "temperature", "values": {"temperature": T}}, *STEPS[1:]]
            drawn(playground, values={"pipeline": {"steps": steps}}, view=view)
    assert not read  # those of this position are kept
    for query, page, by in (("a", 0, "token"), ("", 3, "after"), ("", 0, "after_2")):
        drawn(
            playground, values={"distribution_table": {"query": query, "page": page, "by": by, "down": "yes", "all": 1}}
        )
    drawn(playground, tokens=[1])
    drawn(playground, tokens=[1], view="temperature")
    assert read == [1] and not ran  # one position, once
    drawn(playground, prompt="cba")
    assert ran


# --- the whole vocabulary ---


def table_by_hand():
    logs = np.log([0.1, 0.4, 0.2, 0.3]).astype(np.float32)
    return frame(by_hand(logs, [-np.inf, logs[1], logs[2], logs[3]]))


def test_frame_has_a_row_a_token():
    table = table_by_hand()
    assert list(table) == ["rank", "id", "logit", "after_1", "out", "before", "after"]
    assert table["rank"].tolist() == [4, 1, 3, 2] and table["out"].tolist() == [1, 0, 0, 0]
    assert math.isnan(table["after_1"][0]) and table["after"].tolist() == pytest.approx([0, 4 / 9, 2 / 9, 3 / 9])


@pytest.mark.parametrize(
    ("by", "down", "ids"),
    [
        ("rank", False, [1, 3, 2, 0]),
        ("rank", True, [0, 2, 3, 1]),
        ("id", True, [3, 2, 1, 0]),
        ("after_1", False, [2, 3, 1, 0]),
        ("after_1", True, [1, 3, 2, 0]),  # what is out is last either way
        ("out", True, [0, 1, 3, 2]),
        ("before", False, [0, 2, 3, 1]),
    ],
)
def test_rows_are_sorted_and_the_likelier_of_equals_is_first(by, down, ids):
    assert ordered(table_by_hand(), by, down)["id"].tolist() == ids


def test_rows_are_sorted_by_text():
    table, pieces = table_by_hand(), ["b", " a", "B", "a"]
    assert page_of(table, RowsRequest(by="token"), pieces).rows["id"].tolist() == [1, 2, 3, 0]
    assert page_of(table, RowsRequest(by="token", down=True), pieces).rows["id"].tolist() == [0, 3, 2, 1]


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("the", [0, 1, 2, 4]),
        ("The", [2]),
        (" the", [1]),
        ("·the", [1, 4]),
        ("↵", [3]),
        ("·", [1, 4]),
        ("3", [3]),
        ("99", []),
        ("<b>", [5]),
        ("he", [0, 1, 2, 4]),
        ("x y", []),
        ("٣", []),
        ("²", []),
    ],
)
def test_tokens_are_found_by_text_with_the_signs_of_the_page_and_by_id(query, ids):
    pieces = ["the", " the", "The", "a\n", "·the", "<b>"]
    assert np.flatnonzero(matches(query, pieces)).tolist() == ids


def test_pages_are_within_their_bounds(playground):
    for page, shown in ((0, 0), (2, 2), (99, 5), (-4, 0), ("x", 0), (1.5, 1), (float("nan"), 0), (None, 0)):
        table = drawn(playground, values={"distribution_table": {"page": page}})["distribution_table"]
        assert (table["page"], table["pages"]) == (shown, 6) and len(table["rows"]) == (6 if shown == 5 else PAGE)
        assert table["rows"][0]["rank"] == str(shown * PAGE + 1)


@pytest.mark.parametrize("sent", [None, 3, [], {"query": 7, "by": "nope", "down": 1, "all": "x"}, {"by": "after_9"}])
def test_a_question_that_is_none_is_the_first_page(playground, sent):
    table = drawn(playground, values={"distribution_table": sent})["distribution_table"]
    assert (table["by"], table["down"], table["page"]) == ("rank", False, 0) and "table" not in table
    assert (
        drawn(playground, values={"distribution_table": {"query": "no such text"}})["distribution_table"]["rows"] == []
    )


def test_all_rows_are_given_only_where_asked_for_and_are_the_numbers(playground, lm):
    table = drawn(playground, values={"distribution_table": {"all": 12}})["distribution_table"]
    assert table["all"] == 12
    names, lines = table["table"]["names"], table["table"]["lines"]
    assert names[:4] == ["Token", "Rank", "Id", "Logit"] and names[4] == "1 · Temperature 0.5" and len(names) == 10
    shaped = shaped_at(lm, 4)
    p = [shaped.probabilities(0), shaped.probabilities()]
    assert sorted(int(line[2]) for line in lines) == list(range(256)) and [int(line[1]) for line in lines] == list(
        range(1, 257)
    )
    for line in lines:
        token = int(line[2])
        assert np.float32(line[3]) == shaped.stages[0][token] and line[8:] == [p[0][token], p[1][token]]
        for n in (1, 2, 3):
            value = float(shaped.stages[n][token])
            assert line[3 + n] is None if math.isinf(value) else np.float32(line[3 + n]) == np.float32(value)


def test_rows_as_the_page_shows_them():
    table = table_by_hand()
    rows = shown_rows(table, ["\n", "\u202e", "<b>", " a"])
    assert [row["text"] for row in rows] == [visible(each) for each in ("\n", "\u202e", "<b>", " a")]
    assert rows[0]["numbers"] == ["−2.30", ""] and rows[0]["out"] == 1
    assert rows[0]["shares"] == [percent(table["before"][0]), ""]


# --- the page ---


def test_wrong_steps_are_told_and_the_rest_stays(playground):
    for language, said in (("en", "out of range"), ("zh", "超出")):
        sent = {"pipeline": {"steps": [{"warp": "top_k", "values": {"k": -1}}]}}
        parts = drawn(playground, values=sent, language=language)
        assert said in parts["distribution_facts"]["problem"]["text"] and not parts["notice"]
        assert not {"distribution_bars", "distribution_steps", "distribution_curve", "distribution_table"} & set(parts)


@pytest.mark.parametrize("prompt", ["a", "\n", "\u202e<b>{token}</b>"])
def test_short_and_hostile_prompts_are_drawn(playground, prompt):
    for steps in ([], STEPS, [{"warp": "temperature", "values": {"temperature": 0}}]):
        parts = drawn(playground, prompt, values={"pipeline": {"steps": steps}})
        assert not [name for name in panels.names_of(VIEW) if "problem" in parts[name]]
        assert parts["tokens"].pop("prompt") == prompt  # for the address, never shown
        assert "\u202e" not in packed(parts)


def test_text_in_figures_is_escaped(playground):
    figure = drawn(playground, prompt="a<b", values={"pipeline": {"steps": []}}, tokens=[0])["distribution_bars"][
        "figure"
    ]
    layout = figure_of(figure)["layout"]
    assert "<b>◆ &lt;</b>" in layout["yaxis"]["ticktext"]


def test_the_script_has_the_words_it_asks_for():
    labels = section(words("en"), "distribution.table.labels")
    known = {"before", "then", *(key for key in labels if not key.startswith("masked."))}
    assert words_in(SCRIPT) - {"numbers", "python"} <= known <= names_in(SCRIPT)
