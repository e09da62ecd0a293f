"""The text under a rule, as The distribution shows it, and its number for programs."""

import numpy as np
import pytest

from model.errors import InputError
from model.sampling.pipeline import Context, Step
from model.sampling.warps import values_of
from viz.page.pipeline import PageRequest, payloads
from viz.views.sampling.distribution.rule import rule_report
from viz.views.sampling.pipelines import spec, step_imports, steps_code, steps_of, value_of
from viz.views.sampling.rules import RULE_EXAMPLES
from viz.words import LANGUAGES, words

CHOICE = {"warp": "fits", "values": {}, "rule": {"kind": "choice", "text": "·yes\n·no"}}


def drawn(playground, steps, language="en"):
    given = {"sampling_view": {"view": "distribution"}, "pipeline": {"steps": steps}}
    return payloads(playground, PageRequest("tiny", "abcab", None, given, {}, language, tab="sampling"))[0]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_token_of_the_text_is_explained(playground, language):
    table = drawn(playground, [CHOICE], language)["distribution_rule"]
    said = words(language)
    assert table["rows"][0][1]["text"] == "·"
    assert table["rows"][0][4] == said["distribution.rule.forced"]  # only a space can come first
    assert table["good"] and said["distribution.rule.ended_complete"] in table["verdict"]
    written = "".join(row[1]["text"].replace("·", " ") for row in table["rows"])
    assert written in (" yes", " no")
    assert any("y" in row[5] and "n" in row[5] for row in table["rows"][1:2])  # what could come instead
    assert all(0 <= row[3]["bars"][0]["to"] <= 1 for row in table["rows"])


LETTERS = {"warp": "fits", "values": {}, "rule": {"kind": "regex", "text": " [a-y]+"}}


@pytest.mark.parametrize("language", LANGUAGES)
def test_forced_tokens_and_saved_passes_are_counted(playground, language):
    """ " yes" over single bytes: only the choice of y or n is free; the last letter is never read."""
    shown, said = drawn(playground, [CHOICE], language)["distribution_rule"], words(language)
    n = len(shown["rows"])
    counts = {"n": n, "forced": n - 1, "saved": n - 2, "passes": 2}
    assert said["distribution.rule.forced_passes"].format(**counts) in shown["verdict"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_of_two_rules_has_a_column_and_its_own_reasons(playground, language):
    said = words(language)
    shown = drawn(playground, [CHOICE, {"warp": "top_k", "values": {"k": 256}}, LETTERS], language)["distribution_rule"]
    columns = [said["distribution.rule.column_rule"].format(step=step) for step in (1, 3)]
    assert shown["columns"][4:6] == columns
    second = shown["rows"][1]
    assert [cell["text"] for cell in second[2:6:2] + second[5:6]] == ["n y", "n y", "a–y"]
    assert all(len(row) == len(shown["columns"]) for row in shown["rows"])
    both = [said["distribution.rule.why_by"].format(step=step, why="") for step in (1, 3)]
    assert all(each in shown["rows"][0][7] for each in both)  # at the start, both want a space
    assert shown["good"]


def test_rules_that_part_say_what_each_wants_there(playground):
    shown = drawn(playground, [CHOICE, LETTERS | {"rule": {"kind": "regex", "text": " (ye|n)[a-f]{3}"}}])[
        "distribution_rule"
    ]
    assert not shown["good"] and shown["columns"][4] == "Step 1 alone"
    assert "Wanted here: step 1: " in shown["verdict"][2] and "step 2: a–f" in shown["verdict"][2]


def test_a_program_reads_each_rule_by_itself(lm):
    steps = tuple(steps_of(lm, [CHOICE, LETTERS]))
    p = np.random.default_rng(0).dirichlet(np.ones(256))
    found = rule_report(lm, steps, Context((97, 32), 1), p)
    assert [each["step"] for each in found["rules"]] == [1, 2]
    letters = p[ord("a") : ord("y") + 1].sum()
    assert found["rules"][1]["forbidden"] == pytest.approx(1 - letters)
    assert found["forbidden"] == pytest.approx(1 - p[ord("y")] - p[ord("n")]) and found["allowed"] == 2
    assert found["rules"][0]["may_come"] == found["may_come"] == "n y" and found["rules"][1]["may_come"] == "a–y"
    for each in found["likeliest"]:
        outside = [1, *([] if ord("a") <= each["id"] <= ord("y") else [2])]
        assert [one["step"] for one in each["by"]] == outside


def test_without_a_rule_there_is_no_table(playground):
    for steps in ([], [CHOICE | {"off": True}], [CHOICE | {"rule": None}]):
        shown = drawn(playground, steps)["distribution_rule"]
        assert shown["absent"] is True and "rows" not in shown


def test_a_rule_after_a_cut_says_what_to_do(playground):
    shown = drawn(
        playground, [{"warp": "top_k", "values": {"k": 1}}, CHOICE | {"rule": {"kind": "choice", "text": "~"}}]
    )
    assert "before the cuts" in str(shown["distribution_facts"])


def test_a_mistake_in_a_rule_is_shown_with_its_place(playground):
    shown = drawn(playground, [CHOICE | {"rule": {"kind": "regex", "text": "a[b"}}])
    assert "character 2" in str(shown["distribution_facts"])


def test_steps_with_rules_are_read_and_written_as_code(lm):
    steps = steps_of(lm, [CHOICE])
    assert steps[0].rule == lm.rule("choice", "·yes\n·no") and values_of(steps[0]) == {}
    code = steps_code(steps)
    assert eval(code, {"Step": Step, "lm": lm}) == steps
    assert steps_of(lm, [CHOICE | {"rule": None}])[0].rule is None
    for wrong in ("x", {"kind": "choice"}, {"kind": "nope", "text": "a"}, {"kind": "choice", "text": 5}):
        with pytest.raises(InputError):
            steps_of(lm, [CHOICE | {"rule": wrong}])


def test_a_rule_stands_beside_phrases_and_tokens(lm):
    texts = {"logit_bias": "a: 3", "banned_words": "b", "dry": ":"}
    steps = steps_of(lm, [CHOICE, *({"warp": warp, "text": text} for warp, text in texts.items()), {"warp": "xtc"}])
    names = {"Step": Step, "lm": lm}
    exec("\n".join(step_imports(steps)), names)
    assert eval(steps_code(steps), names) == steps
    back = steps_of(lm, value_of(steps))
    assert [(step.rule, step.tokens, step.phrases) for step in back] == [
        (step.rule, step.tokens, step.phrases) for step in steps
    ]
    kept = [{"rule" in each: each["warp"]} for each in value_of(steps) if "rule" in each]
    assert kept == [{True: "fits"}] and [each.get("text") for each in value_of(steps)] == [None, "a: 3", "b", ":", None]


def test_a_rule_is_no_place_on_the_cumulative_curve(playground):
    """It leaves out tokens of any rank, so no dashed line can say where."""
    lines = [str(drawn(playground, steps)["distribution_curve"]["figure"]) for steps in ([CHOICE], [])]
    assert lines[0].count("Only what fits") == 0 and lines[1].count("Only what fits") == 0
    cut = drawn(playground, [CHOICE, {"warp": "top_k", "values": {"k": 1}}])
    assert "1 · Only what fits" in str(cut["distribution_steps"])


@pytest.mark.parametrize("key", RULE_EXAMPLES)
def test_every_example_can_be_read(lm, key):
    kind, text = RULE_EXAMPLES[key]
    assert lm.rule(kind, text).kind == kind
    labels = [each["label"] for each in spec(words("en"))["rules"]["examples"]]
    assert words("en")[f"rule.example_{key}"] in labels
