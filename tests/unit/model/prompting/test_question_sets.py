"""The bundled sets: answers among choices, nothing twice, worked examples that end where they say."""

import pytest

from model.api import load_model
from model.errors import InputError
from model.prompting.answers import is_right, plain_answer, read_answer
from model.prompting.prompts import few_shot
from model.prompting.question_sets import keys, question_set
from model.prompting.tools import look_up, observe, parse_call, toolbox

SETS = [question_set(key) for key in keys()]


@pytest.mark.parametrize("asked", SETS, ids=lambda asked: asked.key)
def test_a_set_is_sound(asked):
    texts = [each.text for each in asked.questions]
    assert 20 <= len(texts) <= 60 and len(set(texts)) == len(texts)
    assert "{question}" in asked.frame and not asked.frame.endswith(" ")
    for each in asked.questions:
        assert each.answer.strip() == each.answer != "" and is_right(each.answer, each)
        if each.choices:
            assert each.answer in each.choices and len(set(map(plain_answer, each.choices))) == len(each.choices) >= 2
            assert not {*each.accepted} & {*each.choices}
        assert read_answer(f" {each.answer}", asked.kind, (*each.right, *each.choices)) == plain_answer(each.answer)


@pytest.mark.parametrize("asked", SETS, ids=lambda asked: asked.key)
def test_examples_are_no_questions_but_where_the_examples_hold_the_answers(asked):
    for group in asked.groups:
        examples = {each.text: each.answer for each in group.examples}
        assert len(examples) == len(group.examples) >= 8
        if asked.key == "pairs":
            assert examples == {each.text: each.answer for each in group.questions}
        else:
            assert not examples.keys() & {each.text for each in asked.questions}


@pytest.mark.parametrize("asked", [each for each in SETS if each.chains], ids=lambda asked: asked.key)
def test_the_way_to_an_answer_ends_in_it(asked):
    for group in asked.groups:
        for each in group.examples:
            shown = each.worked.rstrip(".")
            assert shown.endswith(each.answer), each
            for sum_ in shown.split(". "):
                if " = " in sum_:
                    left, right = sum_.rsplit(" = ", 1)
                    left = left.split(" are ")[-1] if " are " in left else left
                    expression = left[min(at for at, c in enumerate(left) if c.isdigit()) :]
                    assert observe(toolbox({}), ("calculate", expression)) == right, sum_


@pytest.mark.parametrize("asked", [each for each in SETS if each.tools], ids=lambda asked: asked.key)
def test_the_tool_of_an_example_gives_its_answer(asked):
    tools = toolbox(dict(asked.table))
    for group in asked.groups:
        for each in group.examples:
            assert observe(tools, parse_call(each.call)) == each.answer, each
    if asked.table:
        for each in asked.questions:
            assert look_up(dict(asked.table), each.text.removesuffix("?").split(" of ")[-1]) == each.answer


def test_a_choice_after_a_prompt_is_cut_into_the_same_tokens_alone():
    """So that the log-probability of its tokens is that of the text."""
    lm = load_model("tinygpt")
    for asked in SETS:
        for question in asked.questions[:8]:
            prompt = few_shot(asked, (), question)
            for choice in question.choices:
                whole = lm.encode(f"{prompt} {choice}").ids.tolist()
                assert whole == [*lm.encode(prompt).ids.tolist(), *lm.tokenizer.encode_ids(f" {choice}")]


def test_sums_are_right():
    for each in question_set("sums").questions:
        a, b = each.text.removeprefix("What is ").removesuffix("?").split(" + ")
        assert int(a) + int(b) == int(each.answer)
    for each in question_set("letters").questions:
        assert each.text.removesuffix("?").endswith(each.answer)


@pytest.mark.parametrize("key", ["nothing", "", "../sets/pairs", "a/b", "pairs.toml"])
def test_a_name_that_is_none_is_refused(key):
    with pytest.raises(InputError, match="question set"):
        question_set(key)
