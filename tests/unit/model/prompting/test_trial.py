"""Prompts, their strategies, and a whole trial on a tiny model against a plain loop."""

import numpy as np
import pytest
import torch

from model.errors import InputError
from model.prompting import prompts as made
from model.prompting import trial as module
from model.prompting.prompts import Shots, chosen_examples
from model.prompting.question_sets import Question, QuestionGroup, QuestionSet, WorkedQuestion, question_set
from model.prompting.tools import toolbox
from model.prompting.trial import Variant, answered, chat_prompts, curve, trial
from tests.support.models.talking import talking_model

EXAMPLES = tuple(WorkedQuestion(f"q{n}", f"a{n}", f"w{n}", f"t{n}", f"calculate[{n}]") for n in range(4))
ASKED = QuestionSet(
    "own",
    "tiny",
    "word",
    "",
    "Q {question}\nA",
    "\n",
    (
        QuestionGroup(EXAMPLES, (Question("x", "b", ("a", "b")), Question("y", "cc", ("cc", "d", "eee")))),
        QuestionGroup(EXAMPLES[:2], (Question("z", "d", ("c", "d")),)),
    ),
)


# --- prompts: text in, text out ---


def test_prompts_are_as_they_read():
    sums = question_set("sums")
    question, example = sums.questions[0], sums.groups[0].examples[0]
    zero = f"Add the numbers.\n\nQ: {question.text}\nA:"
    assert made.few_shot(sums, (), question) == zero
    shown = f"Add the numbers.\n\nQ: {example.text}\nA: {example.answer}\n\nQ: {question.text}\nA:"
    assert made.few_shot(sums, (example,), question) == shown
    assert made.chain_of_thought(sums, (), question) == f"{zero} Let's think step by step."
    worked = f"A: {example.worked} The answer is {example.answer}.\n\nQ: {question.text}\nA:"
    assert made.chain_of_thought(sums, (example,), question).endswith(worked)
    lines = made.react(sums, (example,), question, toolbox({})).splitlines()
    assert lines[1:5] == [
        f"Thought: {example.thought}",
        f"Action: {example.call}",
        f"Observation: {example.answer}",  # computed
        f"Action: finish[{example.answer}]",
    ]
    assert lines[-2:] == [f"Question: {question.text}", "Thought:"]
    assert made.messages(sums, question, "Be brief.") == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": question.text},
    ]
    assert made.messages(sums, question) == [{"role": "user", "content": f"Add the numbers. {question.text}"}]


def test_the_order_is_that_of_the_seed():
    group = ASKED.groups[0]
    assert chosen_examples(group, Shots(3)) == EXAMPLES[:3]
    orders = [chosen_examples(group, Shots(4, order)) for order in range(1, 9)]
    assert orders == [chosen_examples(group, Shots(4, order)) for order in range(1, 9)]
    assert len({*orders}) > 3 and all({*order} == {*EXAMPLES} for order in orders)


@pytest.mark.parametrize("order", range(5))
def test_shuffled_answers_are_the_same_answers_and_none_is_right(order):
    right, shuffled = (chosen_examples(ASKED.groups[0], Shots(4, order, wrong)) for wrong in (False, True))
    assert [each.text for each in right] == [each.text for each in shuffled]
    assert sorted(each.answer for each in right) == sorted(each.answer for each in shuffled)
    assert all(a.answer != b.answer for a, b in zip(right, shuffled, strict=True))


def test_which_strategies_a_set_has_something_for():
    assert [name for name in made.STRATEGIES if made.fits(name, question_set("pairs"))] == ["zero", "few"]
    assert all(made.fits(name, question_set("sums")) for name in made.STRATEGIES)
    assert not made.fits("chain", question_set("capitals")) and made.fits("react", question_set("capitals"))


# --- a trial ---


@torch.no_grad()
def log_prob(lm, prompt, choice):
    """One choice alone, without a cache."""
    before, own = lm.encode(prompt).ids.tolist(), lm.tokenizer.encode_ids(choice)
    log_p = lm.model(torch.tensor([before + own]))[0].double().log_softmax(-1)
    return [float(log_p[len(before) + at - 1, id]) for at, id in enumerate(own)]


@pytest.mark.parametrize("score", ["sum", "mean"])
@pytest.mark.parametrize("shots", [Shots(0), Shots(2, 1), Shots(2, 1, True)])
def test_the_likeliest_choice_is_the_answer(lm, score, shots):
    row = answered(lm, ASKED, Variant("few", shots, score))
    at = iter(row.answers)
    for group in ASKED.groups:
        for question in group.questions:
            prompt = made.few_shot(ASKED, chosen_examples(group, shots), question)
            each = next(at)
            parts = [log_prob(lm, prompt, f" {choice}") for choice in question.choices]
            scores = [sum(part) / (len(part) if score == "mean" else 1) for part in parts]
            assert each.prompt == prompt and each.scores == pytest.approx(scores, abs=1e-4)
            assert each.said == question.choices[int(np.argmax(scores))]
            assert each.right == (each.said == question.answer)
    assert row.share == sum(row.right) / 3 and row.interval[0] <= row.share <= row.interval[1]


def test_what_is_written_is_read(lm, monkeypatch):
    texts = iter([[" b.", "nothing"], ["d"]])
    monkeypatch.setattr(module, "write", lambda *_: next(texts))
    row = answered(lm, ASKED, Variant("zero", score="text"))
    assert [each.said for each in row.answers] == ["b", "nothing", "d"] and row.right == (True, False, True)


def test_votes_of_several_samples(lm, monkeypatch):
    said = {
        "x": ["The answer is a.", "The answer is b", "The answer is b"],
        "y": ["?", "?", "?"],
        "z": ["The answer is d"] * 3,
    }

    def write(lm, prompts, writing, progress):
        assert writing.temperature == 0.5
        names = [lm.decode(ids).split("Q ")[-1][0] for ids in prompts]
        return [said[name][at % 3] for at, name in enumerate(names)]

    monkeypatch.setattr(module, "write", write)
    row = answered(lm, ASKED, Variant("votes", Shots(2), samples=3, temperature=0.5))
    assert row.right == (True, False, True) and row.answers[0].votes.counts == (("b", 2), ("a", 1))
    assert row.answers[1].said == "" and len(row.answers[2].samples) == 3


def test_react_runs_through_a_real_writer(lm):
    row = answered(lm, ASKED, Variant("react", Shots(1)))
    assert all(each.episode.ended in ("finished", "no action", "too many steps") for each in row.answers)
    assert row.answers[0].prompt.endswith("Question: x\nThought:")


def test_a_trial_and_its_progress(lm):
    reports = []
    rows = trial(lm, ASKED, [Variant("zero"), Variant("few", Shots(2))], 2, lambda *report: reports.append(report))
    assert [len(row.answers) for row in rows] == [2, 2] and reports[-1][:2] == (4, 4)
    done = [report[0] for report in reports]
    assert done == sorted(done)


def test_a_curve_is_made_of_trials(lm):
    found = curve(lm, ASKED, (0, 1, 2), orders=2)
    assert found.shares.shape == (2, 3, 2) and found.questions == 3
    for at, count in enumerate((0, 1, 2)):
        for order in range(2):
            assert found.shares[0, at, order] == answered(lm, ASKED, Variant("few", Shots(count, order))).share
    assert (found.shares[1, 0] == found.shares[0, 0]).all() and np.isnan(found.shares[1, 1]).all()
    assert found.shares[1, 2, 1] == answered(lm, ASKED, Variant("few", Shots(2, 1, True))).share


def test_what_cannot_be_asked_is_refused(lm):
    with pytest.raises(InputError, match="does not have what this strategy needs"):
        answered(lm, ASKED, Variant("chat"))
    with pytest.raises(InputError, match="chat template"):
        answered(lm, question_set("sums"), Variant("chat"))
    for wrong in ({"strategy": "magic"}, {"strategy": "few", "score": "luck"}, {"strategy": "votes", "samples": 0}):
        with pytest.raises(InputError):
            Variant(**wrong)
    for wrong in ({"count": -1}, {"order": -1}, {"count": 65}):
        with pytest.raises(InputError):
            Shots(**wrong)


def test_a_template_that_is_rendered_once_gives_the_ids_of_every_conversation(tmp_path):
    lm = talking_model(tmp_path)
    asked = question_set("letters")
    for system in ("", "Say <|im_end|> and no more."):
        several = [made.messages(asked, question, system) for question in asked.questions[:4]]
        assert chat_prompts(lm, several) == [lm.chat(each).ids.tolist() for each in several]
    row = answered(lm, asked, Variant("system", system="Be brief."), 2)
    assert "Be brief." in row.answers[0].prompt and asked.questions[0].text in row.answers[0].prompt
