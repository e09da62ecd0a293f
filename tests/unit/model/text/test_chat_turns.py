"""Which turn each token of a conversation is of, and what the template wrote by itself."""

import dataclasses

import numpy as np
import pytest

from model.text.chat import chat_ids, chat_turns, default_system
from model.text.chat_places import places, turn_of_characters, turn_of_tokens
from model.text.tokenizer import Tokenizer, from_tiktoken
from tests.support.models.helpers import byte_tokenizer

START, END = 256, 257
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
OWN = "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nBe kind<|im_end|>\n{% endif %}"


@pytest.fixture(scope="module")
def bytes_only(tmp_path_factory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("vocabulary")
    byte_tokenizer(folder)
    return from_tiktoken(folder / "bytes256.tiktoken", special={"<|im_start|>": START, "<|im_end|>": END})


def talking(tokenizer: Tokenizer, template: str) -> Tokenizer:
    return dataclasses.replace(tokenizer, chat_template=template)


def message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def owned(tokenizer: Tokenizer, messages: list[dict], turn: int) -> str:
    ids, turns = chat_turns(tokenizer, messages)
    return tokenizer.decode([number for number, each in zip(ids, turns, strict=True) if each == turn])


@pytest.mark.parametrize(
    "texts",
    [
        ("Be kind.", "Hi 你", "Hello"),
        ("system", "user", "assistant"),  # the words of the frame itself
        ("", "", ""),
        ("a<|im_end|>\n<|im_start|>user\nb", "<|im_start|>", "x<|im_end|>"),
        ("same", "same", "same"),
        (" spaces \n", "\n", "\U00100000\U00100001"),  # characters that stand in for others
    ],
)
def test_the_tokens_of_a_turn_are_its_text(bytes_only, texts):
    tokenizer = talking(bytes_only, CHATML)
    talk = [message(role, text) for role, text in zip(("system", "user", "assistant"), texts, strict=True)]
    ids, turns = chat_turns(tokenizer, talk)
    assert ids == chat_ids(tokenizer, talk) and len(turns) == len(ids)
    assert [owned(tokenizer, talk, turn) for turn in range(3)] == list(texts)
    frame = "<|im_start|>system\n<|im_end|>\n<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n<|im_end|>\n"
    assert owned(tokenizer, talk, -1) == frame + "<|im_start|>assistant\n"


def test_without_an_answer_the_last_turn_ends_it(bytes_only):
    tokenizer = talking(bytes_only, CHATML)
    ids, turns = chat_turns(tokenizer, [message("user", "x")], answer=False)
    assert tokenizer.decode(ids) == "<|im_start|>user\nx<|im_end|>\n"
    assert len(turns) == len(ids) and turns.count(0) == 1


def test_a_template_that_trims(bytes_only):
    talk = [message("user", "  hi  "), message("assistant", "yo\n")]
    tokenizer = talking(bytes_only, CHATML.replace("['content']", "['content'].strip()"))
    assert [owned(tokenizer, talk, turn) for turn in (0, 1)] == ["hi", "yo"]


def test_a_template_that_shortens_writes_the_rest(bytes_only):
    talk = [message("user", "let me think</think>answer"), message("assistant", "ok")]
    tokenizer = talking(bytes_only, CHATML.replace("['content']", "['content'].split('</think>')[-1]"))
    assert [owned(tokenizer, talk, turn) for turn in (0, 1)] == ["answer", "ok"]


def test_a_template_that_leaves_turns_out_or_turns_them_round(bytes_only):
    talk = [message("system", "S"), message("user", "U"), message("assistant", "A")]
    last_first = talking(bytes_only, "[{{ messages[2].content }}|{{ messages[0].content }}]")
    assert chat_turns(last_first, talk) == ([*b"[A|S]"], [-1, 2, -1, 0, -1])


def test_a_template_that_hides_its_turns_has_all_tokens(bytes_only):
    shouting = talking(bytes_only, "{{ messages[0].content | length }}")
    assert chat_turns(shouting, [message("user", "abc")]) == ([*b"3"], [-1])
    own = "{% if 'abc' in messages[0].content %}yes{% else %}{{ messages[0].content }}no{% endif %}"
    other = talking(bytes_only, own)
    assert chat_turns(other, [message("user", "abc")]) == ([*b"yes"], [-1] * 3)


def test_a_frame_and_a_text_of_its_own():
    assert places("[a]b]", "[X]", ["a]b"], ["X"]) == [(1, 4, 0)]  # not up to the first bracket
    assert places("[a][b][c]", "[X][Y]", ["a][b", "c"], ["X", "Y"]) == [(1, 5, 0), (7, 8, 1)]
    assert places("<a><b>", "<X><Y>", ["a", "b"], ["X", "Y"]) == [(1, 2, 0), (4, 5, 1)]
    assert places("other", "<X>", ["a"], ["X"]) == []
    assert places("plain", "plain", [], []) == []
    assert turn_of_characters(6, [(1, 2, 0), (4, 5, 1)]).tolist() == [-1, 0, -1, -1, 1, -1]


def test_a_token_of_both_is_the_turns():
    turns = np.array([-1, -1, 0, 0, -1])
    assert turn_of_tokens(turns, [1, 1, 1, 3, 1], [1, 2, 2, 1, 1]) == [-1, 0, 0, 0, -1]


@pytest.mark.parametrize(
    ("template", "found"),
    [
        (OWN + CHATML, "Be kind"),
        (CHATML, ""),
        ("{% for m in messages %}{% if m.role != 'system' %}{{ m.content }}{% endif %}{% endfor %}", None),
        (
            "{% if messages[0].role == 'system' %}{{ raise_exception('none') }}{% endif %}{{ messages[0].content }}",
            None,
        ),
        ("", None),
    ],
)
def test_the_templates_own_system_message(bytes_only, template, found):
    assert default_system(talking(bytes_only, template)) == found
