"""Fine-tuning: what is masked, by ids and losses worked out by hand, and files of examples that are broken."""

import json
import math

import numpy as np
import pytest
import torch

from model.alignment import instructions
from model.alignment.instructions import Example
from model.errors import InputError
from model.gpt.transformer import Transformer
from model.training import data, loop
from model.training.loop import Recipe
from model.training.tasks import IGNORE
from tests.support.models.helpers import shake, tiny_config

END = 256
# "Instruction: Add 1.\nAnswer:" is 12 + 7 + 1 + 7 = 27 bytes, " 3" two more, and the end of text: 30 ids.
SHORT = Example("Add 1.", "", "3")
LONG = Example("Say it twice.", "Ho", "Ho ho.")


@pytest.fixture(scope="module")
def tokenizer():
    """Bytes and the end of text: as many ids as bytes, so that they can be counted."""
    return data.read_vocabulary(data.train_vocabulary(["a"], 257))


@pytest.fixture(scope="module")
def model() -> Transformer:
    model = Transformer(tiny_config({"vocab_size": 257, "n_ctx": 80}))
    shake(model, torch.Generator().manual_seed(0))
    return model


def write(path, *lines: str | dict):
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines), "utf-8")
    return path


# --- what is scored ---


def test_the_prompt_has_an_input_only_where_there_is_one():
    assert instructions.prompt_text(SHORT) == "Instruction: Add 1.\nAnswer:"
    assert instructions.prompt_text(LONG) == "Instruction: Say it twice.\nInput: Ho\nAnswer:"


def test_ids_are_prompt_answer_and_end(tokenizer):
    ids, prompt = instructions.to_ids(SHORT, tokenizer, END)
    assert (len(ids), prompt, ids[-1]) == (30, 27, END)
    assert tokenizer.decode(ids[:27]) == instructions.prompt_text(SHORT)
    assert tokenizer.decode(ids[27:-1]) == " 3"


def test_a_row_by_hand():
    """The prompt is 5 6 7, the answer 8 9: 8 is predicted at 7, the end at 9, and nothing behind it."""
    ids, targets = instructions.to_row([5, 6, 7, 8, 9, END], 3, 8, END)
    assert ids.tolist() == [5, 6, 7, 8, 9, END, END, END]
    assert targets.tolist() == [IGNORE, IGNORE, 8, 9, END, IGNORE, IGNORE, IGNORE]
    ids, targets = instructions.to_row([5, 6, 7, 8, 9, END], 3, 5, END)  # it just fits
    assert (ids.tolist(), targets.tolist()) == ([5, 6, 7, 8, 9], [IGNORE, IGNORE, 8, 9, END])


def test_the_loss_is_that_of_the_answer_and_its_end(tokenizer, model):
    """Each probability is taken from a forward of the bare text: 3 tokens of one example and 8 of the other."""
    rows = [instructions.to_ids(example, tokenizer, END) for example in (SHORT, LONG)]
    surprise = []
    for example, (ids, _) in zip((SHORT, LONG), rows, strict=True):
        prompt = tokenizer.encode_ids(instructions.prompt_text(example))
        answer = [*tokenizer.encode_ids(f" {example.output}"), END]
        assert prompt + answer == ids
        for n, token in enumerate(answer):
            with torch.no_grad():
                logits = model(torch.tensor([ids[: len(prompt) + n]]))[0, -1].double()
            surprise.append((logits.exp().sum().log() - logits[token]).item())
    assert len(surprise) == 3 + 8
    (batch,) = instructions.every_demonstration(rows, END)(2, 64)
    loss = loop.summed_loss(model, torch.from_numpy(batch.ids), torch.from_numpy(batch.targets)).item()
    assert loss == pytest.approx(sum(surprise), rel=1e-5)
    run = loop.from_model(model, Recipe(steps=1, batch=2, length=64, learning_rate=0.0))
    assert next(loop.steps(run, Recipe(steps=1, learning_rate=0.0), lambda *_: batch)).loss == pytest.approx(
        sum(surprise) / 11, rel=1e-5
    )
    found = loop.evaluate(model, instructions.every_demonstration(rows, END), data.token_bytes(tokenizer), length=64)
    assert (found.tokens, found.loss) == (11, pytest.approx(sum(surprise) / 11, rel=1e-5))
    assert found.bits_per_byte == pytest.approx(sum(surprise) / math.log(2) / (2 + 7), rel=1e-5)  # the ends are no text


# --- rows and batches ---


def test_examples_too_long_for_a_row_are_left_out(tokenizer):
    """The short one has 30 ids, of which a row reads 29; the long one has 44 + 7 + 1 = 52."""
    short, long = (instructions.to_ids(example, tokenizer, END) for example in (SHORT, LONG))
    assert len(long[0]) == 52
    assert instructions.fitting([LONG, SHORT], tokenizer, END, 51) == [long, short]
    assert instructions.fitting([LONG, SHORT], tokenizer, END, 50) == [short]
    assert instructions.fitting([LONG, SHORT], tokenizer, END, 29) == [short]
    with pytest.raises(InputError, match=r"No example fits.*shortest has 30 tokens, 28 fit"):
        instructions.fitting([LONG, SHORT], tokenizer, END, 28)


ROWS = [([10 + n, 20 + n, 30 + n, END], 2) for n in range(5)]


def test_demonstrations_are_drawn_at_random():
    draw = instructions.demonstrations(ROWS, END)
    batch = draw(np.random.default_rng(0), 500, 6, 0.0)
    assert batch.ids.shape == batch.targets.shape == (500, 6) and batch.ids.dtype == batch.targets.dtype == np.int64
    for ids, targets in zip(batch.ids, batch.targets, strict=True):
        expected = instructions.to_row(*ROWS[ids[0] - 10], 6, END)
        assert np.array_equal(ids, expected[0]) and np.array_equal(targets, expected[1])
    counts = np.bincount(batch.ids[:, 0] - 10)  # 100 of each, give or take 9
    assert len(counts) == 5 and counts.min() > 60
    assert np.array_equal(draw(np.random.default_rng(0), 500, 6, 0.0).ids, batch.ids)
    assert not np.array_equal(draw(np.random.default_rng(1), 500, 6, 0.0).ids, batch.ids)


def test_all_demonstrations_come_once_and_in_order():
    batches = [*instructions.every_demonstration(ROWS, END)(2, 3)]
    assert [len(batch.ids) for batch in batches] == [2, 2, 1]
    assert np.concatenate([batch.ids for batch in batches]).tolist() == [[10 + n, 20 + n, 30 + n] for n in range(5)]
    assert np.concatenate([b.targets for b in batches]).tolist() == [[IGNORE, 30 + n, END] for n in range(5)]


# --- files ---

GOOD = {"instruction": "Add.", "output": "3"}


def test_examples_are_read_with_and_without_input(tmp_path):
    path = write(
        tmp_path / "a.jsonl", GOOD, "", {"instruction": "x", "input": "é\n", "output": "狐"}, "  ", GOOD | {"input": ""}
    )
    add = Example("Add.", "", "3")
    assert instructions.read_examples(path) == [add, Example("x", "é\n", "狐"), add]


@pytest.mark.parametrize("odd", ["\u2028", "\u2029", "\x85"])
def test_only_a_line_feed_ends_a_line(tmp_path, odd: str):
    """JSON allows these inside a string, though Python counts them as ends of lines."""
    path = write(tmp_path / "a.jsonl", json.dumps(GOOD | {"input": f"a{odd}b"}, ensure_ascii=False) + "\r", GOOD)
    assert instructions.read_examples(path) == [Example("Add.", f"a{odd}b", "3"), Example("Add.", "", "3")]


BAD = {
    "not JSON": ('{"instruction": "Add.", "output": 3', "is not JSON"),
    "a list": ("[1, 2]", "is not an example"),
    "a string": ('"instruction"', "is not an example"),
    "null": ("null", "is not an example"),
    "no output": ({"instruction": "Add."}, "is not an example"),
    "no instruction": ({"output": "3"}, "is not an example"),
    "empty output": (GOOD | {"output": ""}, "is not an example"),
    "empty instruction": (GOOD | {"instruction": ""}, "is not an example"),
    "a number": (GOOD | {"output": 3}, "is not an example"),
    "input null": (GOOD | {"input": None}, "is not an example"),
    "unknown key": (GOOD | {"answer": "3"}, "is not an example"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_line_is_named(tmp_path, name: str):
    line, what = BAD[name]
    path = write(tmp_path / "a.jsonl", GOOD, "", line, GOOD)  # empty lines count
    with pytest.raises(InputError, match=f"{what}.*line 3: "):
        instructions.read_examples(path)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "no examples.*a.jsonl"),
        (b"\n \n", "no examples"),
        (b'{"instruction": "\xff"}', "cannot be read.*utf-8"),
        (None, "cannot be read.*No such file"),
    ],
    ids=["empty", "blank", "not UTF-8", "missing"],
)
def test_a_file_without_examples(tmp_path, content: bytes | None, what: str):
    if content is not None:
        (tmp_path / "a.jsonl").write_bytes(content)
    with pytest.raises(InputError, match=what):
        instructions.read_examples(tmp_path / "a.jsonl")


# --- the template ---


def test_a_template_is_filled_and_what_the_example_says_is_not():
    template = "[[({input}) ]]Q: {instruction}\nA:"
    assert instructions.prompt_text(LONG, template) == "(Ho) Q: Say it twice.\nA:"
    assert instructions.prompt_text(SHORT, template) == "Q: Add 1.\nA:"
    sly = Example("{input} [[x]]", "{instruction}", "y")
    assert instructions.prompt_text(sly, template) == "({instruction}) Q: {input} [[x]]\nA:"


@pytest.mark.parametrize(
    ("template", "text"), [("{instruction}\n", "3"), ("{instruction} ", "3"), ("{instruction}", " 3")]
)
def test_an_answer_follows_after_one_space(template, text):
    assert instructions.answer_text(SHORT, template) == text


BAD_TEMPLATES = {
    "": "no placeholder for the instruction",
    "Answer:": "no placeholder for the instruction",
    "[[{instruction}]] {input}": "no placeholder for the instruction",
    "{instruction} {output}": "unknown placeholder",
    "{instruction} [[{input}": "do not match",
    "{instruction} {input}]]": "do not match",
    "{instruction} [[a [[b]]": "do not match",
    "{instruction}" + "x" * 1000: "too long",
}


@pytest.mark.parametrize("template", BAD_TEMPLATES)
def test_a_template_that_cannot_be_filled_is_refused(template):
    with pytest.raises(InputError, match=BAD_TEMPLATES[template]):
        instructions.check_template(template)
    instructions.check_template(instructions.TEMPLATE)


def test_lines_and_examples_are_inverse():
    assert instructions.parse_examples(instructions.to_lines([SHORT, LONG])) == [SHORT, LONG]


def test_a_split_holds_out_a_tenth_by_the_seed():
    rows = [Example(str(n), "", "x") for n in range(40)]
    train, held_out = instructions.split(rows)
    assert (len(train), len(held_out)) == (36, 4) and sorted([*train, *held_out], key=rows.index) == rows
    assert instructions.split(rows) == (train, held_out) != instructions.split(rows, seed=1)
    assert [len(part) for part in instructions.split(rows[:2])] == [1, 1]
    with pytest.raises(InputError, match="cannot be split"):
        instructions.split(rows[:1])
