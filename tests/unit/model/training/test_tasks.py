"""Synthetic tasks: every row obeys its rule, read back as text, and what is scored is what the rule determines."""

import math
import re

import numpy as np
import pytest
from tokenizers import Tokenizer

from model.errors import InputError
from model.training import data, recall_tasks, tasks
from model.training.tasks import IGNORE, TASKS

ANSWERS = {
    "copy": lambda letters: letters,
    "reverse": lambda letters: letters[::-1],
    "sort": lambda letters: "".join(sorted(letters)),
}


def tokenizer_of(name: str):
    return data.task_dataset(name, TASKS[name]).tokenizer


def rows_of(name: str, rows: int, length: int, held_out: bool = False, seed: int = 0) -> list[tuple[list[str], list]]:
    """(symbols, indices of the scored symbols) of some rows."""
    ids, scored = TASKS[name].make(np.random.default_rng(seed), rows, length, held_out)
    assert ids.shape == (rows, length + 1) and scored.shape == (rows, length)
    tokenizer = tokenizer_of(name)
    texts = [[tokenizer.decode([i]) for i in row] for row in ids]
    return [(text, [i + 1 for i in np.flatnonzero(row)]) for text, row in zip(texts, scored, strict=True)]


# --- the rules ---


def seen_before(text: list[str]) -> list[int]:
    """The indices whose answer an earlier copy gives: the symbol just read was read before, so what came next is known.

    "qT7bqT7b": at "q" (4) nothing says that the round starts again; "T" (5), "7" (6) and "b" (7) follow q, T and 7.
    """
    return [i for i in range(1, len(text)) if text[i - 1] in text[: i - 1]]


def test_what_an_earlier_copy_determines_by_hand():
    assert seen_before(list("qT7bqT7b")) == [5, 6, 7]


@pytest.mark.parametrize(
    ("length", "shortest", "longest"), [(8, 2, 4), (9, 2, 5), (64, 16, 32), (200, 31, 62), (256, 31, 62)]
)
def test_induction_repeats_and_scores_what_the_first_round_tells(length: int, shortest: int, longest: int):
    """Periods are a quarter to a half of the row, as far as 62 symbols go: never a single one, which positions tell."""
    seen, first = set(), set()
    for text, scored in rows_of("induction", 400, length):
        period = text.index(text[0], 1)  # the first round has no symbol twice
        assert len(set(text[:period])) == period
        assert all(text[i] == text[i - period] for i in range(period, length + 1))
        assert scored == seen_before(text)
        for i in scored:
            assert text[i] == text[text.index(text[i - 1]) + 1]
        seen.add(period)
        first.add(text[0])
    assert seen == {*range(shortest, longest + 1)}
    assert len(first) > 55  # of 62, each missed by 400 rows with probability 0.0015


@pytest.mark.parametrize("length", [4, 9, 32])
@pytest.mark.parametrize("name", ANSWERS)
def test_letters_are_answered_by_the_rule(name: str, length: int):
    counts, letters_seen = set(), set()
    for text, scored in rows_of(name, 200, length):
        letters, rest = "".join(text).split(tasks.SEPARATOR)
        n = len(letters)
        assert re.fullmatch("[a-z]+", letters)
        assert rest == ANSWERS[name](letters) + tasks.END * (length - 2 * n)
        assert length - 2 * n >= 1  # the answer is always ended
        assert scored == [*range(n + 1, 2 * n + 2)]  # the answer and one "."
        counts.add(n)
        letters_seen.update(letters)
    assert counts == {*range(1, (length - 1) // 2 + 1)}
    assert len(letters_seen) == 26


@pytest.mark.parametrize("held_out", [False, True])
def test_sums_are_right_modulo_97(held_out: bool):
    for text, scored in rows_of("modular_addition", 300, 4, held_out):
        a, b, c = map(int, re.fullmatch(r"(\d\d)\+(\d\d)=(\d\d)", "".join(text)).groups())
        assert a < 97 and b < 97
        assert c == (a + b) % 97
        assert scored == [4]


def test_pairs_to_train_on_and_pairs_held_out_are_all_pairs_and_share_none():
    """Of 97 x 97 = 9409 pairs int(0.3 x 9409) = 2822 are held out; 150,000 draws miss one with probability 1e-6."""

    def pairs(held_out: bool) -> set[tuple[int, int]]:
        ids, _ = TASKS["modular_addition"].make(np.random.default_rng(3), 150_000, 4, held_out)
        return {*map(tuple, ids[:, [0, 2]].tolist())}

    train, held = pairs(False), pairs(True)
    assert not train & held
    assert train | held == {(a, b) for a in range(97) for b in range(97)}
    assert len(held) == 2822


def recall_by_hand(text: list[str]) -> tuple[int, list[int]]:
    """The number of pairs, and where the value of an earlier key stands."""
    value: dict[str, str] = {}
    answers = []
    for i in range(0, len(text) - 1, 2):
        key, told = text[i], text[i + 1]
        assert re.fullmatch("[a-z][A-Z]", key + told)
        if key in value:
            assert value[key] == told
            answers.append(i + 1)
        else:
            assert not answers  # every pair is told before the first question
            value[key] = told
    return len(value), answers


def selective_by_hand(text: list[str]) -> tuple[int, list[int]]:
    front, answer = "".join(text).split(tasks.SEPARATOR)
    assert front.replace(tasks.END, "") == answer and re.fullmatch("[a-z]+", answer)
    return len(answer), [*range(len(front) + 1, len(text))]


def counting_by_hand(text: list[str]) -> tuple[int, list[int]]:
    at = text.index(tasks.SEPARATOR)
    letters, answer = text[:at], text[at + 1 : at + 9]
    assert answer == [part for each in "abcd" for part in (each, f"{letters.count(each):02d}")]
    assert set(text[at + 9 :]) <= {tasks.END}
    return len(letters), [at + 2, at + 4, at + 6, at + 8]


def regression_by_hand(text: list[str]) -> tuple[int, list[int]]:
    """A plane fitted to all points misses none by more than the rounding of x and y does; a clipped y is left out."""
    rest = text[: len(text) // 3 * 3]
    numbers = np.array([int(each) for each in rest if each != tasks.END]).reshape(-1, 3) * 6 / 99 - 3
    there = numbers[abs(numbers[:, 2]) < 2.99]
    w, *_ = np.linalg.lstsq(there[:, :2], there[:, 2], rcond=None)
    assert abs(there[:, :2] @ w - there[:, 2]).max() <= 6 / 99  # half a step, and as much by which w may be off
    return len(numbers), [*range(2, 3 * len(numbers), 3)]


RULES = {
    "recall": recall_by_hand,
    "selective_copy": selective_by_hand,
    "counting": counting_by_hand,
    "regression": regression_by_hand,
}
SEEN = {"recall": (1, 16), "selective_copy": (1, 16), "counting": (1, 24), "regression": (16, 16)}


@pytest.mark.parametrize("name", RULES)
def test_rows_obey_the_rule_and_score_what_it_tells(name: str):
    sizes = set()
    for text, scored in rows_of(name, 300, TASKS[name].length):
        size, answers = RULES[name](text)
        assert scored == answers
        sizes.add(size)
    assert (min(sizes), max(sizes)) == SEEN[name]


@pytest.mark.parametrize("name", [name for name in TASKS if TASKS[name].sizes])
def test_rows_of_a_size_are_asked_for(name: str):
    """Longer examples are drawn by themselves, up to the most that a row holds."""
    sizes, length = TASKS[name].sizes, TASKS[name].length
    for size in (max(2, sizes.least(length)), sizes.most(length)):
        ids, scored = sizes.at(np.random.default_rng(0), np.full(30, size), length)
        assert ids.shape == (30, length + 1) and scored.shape == (30, length)
        for row, right in zip(ids, scored, strict=True):
            text = [TASKS[name].symbols[i] for i in row]
            if name in RULES:
                assert RULES[name](text)[0] == size
            elif name == "induction":
                assert text.index(text[0], 1) == size
            else:
                assert text.index(tasks.SEPARATOR) == size
            assert right.any()


def test_ridge_regression_misses_by_the_variance_of_y_at_first_and_by_rounding_at_last():
    """var(y) = E x1^2 + E x2^2 before any point; after enough of them the rounding of y and what it adds to w."""
    ids, _ = TASKS["regression"].make(np.random.default_rng(3), 4000, 47, False)
    errors = recall_tasks.ridge_errors(ids)
    assert errors.shape == (4000, 16)
    mean = np.median(errors, axis=0)
    x = recall_tasks.value_of(np.arange(33, 67))
    assert abs(errors[:, 0].mean() / (2 * (x**2).mean()) - 1) < 0.1
    assert mean[15] < 2 * (6 / 99) ** 2 / 12 < mean[1]
    # Against the estimate written out for one row.
    points = recall_tasks.value_of(ids[0].reshape(-1, 3))
    X, y = points[:5, :2], points[:5, 2]
    w = np.linalg.inv(X.T @ X + (6 / 99) ** 2 / 12 * np.eye(2)) @ X.T @ y
    assert abs(errors[0, 5] - (points[5, :2] @ w - points[5, 2]) ** 2) < 1e-9


@pytest.mark.parametrize("name", TASKS)
def test_all_chance_is_the_generators(name: str):
    def draw(seed: int):
        return TASKS[name].make(np.random.default_rng(seed), 8, TASKS[name].length, False)

    assert all(np.array_equal(a, b) for a, b in zip(draw(1), draw(1), strict=True))
    assert not np.array_equal(draw(1)[0], draw(2)[0])


@pytest.mark.parametrize("name", TASKS)
def test_the_shortest_and_the_longest_row_can_be_made(name: str):
    chosen = TASKS[name]
    assert chosen.shortest <= chosen.length <= chosen.longest
    for length in (chosen.shortest, chosen.longest):
        assert all(scored for _, scored in rows_of(name, 20, length))


@pytest.mark.parametrize("name", TASKS)
def test_the_example_obeys_the_rule(name: str):
    example, tokenizer = TASKS[name].example, tokenizer_of(name)
    ids = tokenizer.encode_ids(example)
    assert max(ids) < len(TASKS[name].symbols)
    assert "".join(TASKS[name].symbols[i] for i in ids) == tokenizer.decode(ids) == example
    if name == "induction":
        half = len(example) // 2
        assert example[:half] == example[half:] and len(set(example[:half])) == half
    elif name in RULES:
        symbols = [TASKS[name].symbols[i] for i in ids]
        assert RULES[name](symbols) and RULES[name](symbols)[1]
    elif name == "modular_addition":
        assert len(ids) == 5
        a, b, c = map(int, re.split(r"[+=]", example))
        assert c == (a + b) % 97
    elif TASKS[name].floor is None:
        letters, answer = example.split(tasks.SEPARATOR)
        assert answer == ANSWERS[name](letters) + tasks.END


def test_noise_is_uniform_and_scored_everywhere():
    ids, scored = TASKS["noise"].make(np.random.default_rng(0), 2000, 31, False)
    assert scored.all() and scored.shape == (2000, 31)
    counts = np.bincount(ids.ravel(), minlength=26)
    expected = ids.size / 26
    assert ((counts - expected) ** 2 / expected).sum() < 52.6  # chi-square of 25 degrees of freedom, p = 0.001
    assert TASKS["noise"].floor == TASKS["known_noise"].floor == pytest.approx(math.log(26))


def test_known_noise_has_the_same_rows_in_training_and_others_in_the_evaluation():
    make = TASKS["known_noise"].make
    train = {tuple(row) for seed in range(20) for row in make(np.random.default_rng(seed), 50, 31, False)[0].tolist()}
    held = {tuple(row) for row in make(np.random.default_rng(0), 200, 31, True)[0].tolist()}
    assert len(train) == tasks.KNOWN_ROWS and len(held) == 200 and not train & held


def test_an_unknown_task_is_refused_with_those_that_exist():
    assert tasks.task("sort") is TASKS["sort"]
    with pytest.raises(
        InputError, match=r"Got: juggling\. Choose one of: induction, copy, .*modular_addition, noise, known_noise\."
    ):
        tasks.task("juggling")


# --- the vocabulary ---


@pytest.mark.parametrize("name", TASKS)
def test_token_i_is_symbol_i(name: str):
    tokenizer = tokenizer_of(name)
    assert [tokenizer.decode([i]) for i in range(len(TASKS[name].symbols))] == [*TASKS[name].symbols]
    assert [tokenizer.encode_ids(symbol) for symbol in TASKS[name].symbols] == [
        [i] for i in range(len(TASKS[name].symbols))
    ]


@pytest.mark.parametrize("name", TASKS)
def test_ids_are_those_of_the_tokenizers_library(name: str):
    dataset = data.task_dataset(name, TASKS[name])
    theirs = Tokenizer.from_str(dataset.tokenizer_json)
    assert theirs.get_vocab_size() == dataset.tokenizer.vocab_size
    texts = ["".join(text) for text, _ in rows_of(name, 20, TASKS[name].length)]
    for text in [*texts, TASKS[name].example]:
        assert dataset.tokenizer.encode_ids(text) == theirs.encode(text).ids
        assert dataset.tokenizer.decode(theirs.encode(text).ids) == text


def test_digits_join_in_twos():
    """Numbers are ids 0 to 99, "+" is 100 and "=" 101; a digit that is left over has an id of its own behind them."""
    dataset = data.task_dataset("modular_addition", TASKS["modular_addition"])
    assert dataset.tokenizer.encode_ids("17+95=15") == [17, 100, 95, 101, 15]
    theirs = Tokenizer.from_str(dataset.tokenizer_json)
    for text in ("1+2=3", "123+4567", "7", "+=+", "0001"):
        ids = dataset.tokenizer.encode_ids(text)
        assert ids == theirs.encode(text).ids
        assert dataset.tokenizer.decode(ids) == text
    assert dataset.tokenizer.encode_ids("123")[0] == 12 and dataset.tokenizer.encode_ids("123")[1] >= 102


def test_a_symbol_outside_the_vocabulary_is_refused():
    with pytest.raises(InputError, match=r"no token.*U\+0041"):
        tokenizer_of("copy").encode_ids("abA>")


# --- as a dataset ---


@pytest.mark.parametrize("name", TASKS)
def test_batches_are_the_rows_with_the_rest_masked(name: str):
    dataset, length = data.task_dataset(name, TASKS[name]), TASKS[name].length
    batch = dataset.train(np.random.default_rng(5), 7, length, 0.5)
    ids, scored = TASKS[name].make(np.random.default_rng(5), 7, length, False)
    assert batch.ids.dtype == batch.targets.dtype == np.int64
    assert np.array_equal(batch.ids, ids[:, :-1])
    assert np.array_equal(batch.targets[scored], ids[:, 1:][scored])
    assert (batch.targets[~scored] == IGNORE).all()


@pytest.mark.parametrize("name", TASKS)
def test_the_held_out_examples_never_change(name: str):
    dataset, length = data.task_dataset(name, TASKS[name], examples=20), TASKS[name].length
    whole = [*dataset.held_out[name](20, length)]
    assert len(whole) == 1 and whole[0].ids.shape == (20, length)
    parts = [*dataset.held_out[name](8, length)]
    assert [len(part.ids) for part in parts] == [8, 8, 4]
    assert np.array_equal(np.concatenate([part.ids for part in parts]), whole[0].ids)
    assert np.array_equal(np.concatenate([part.targets for part in parts]), whole[0].targets)
    other = data.task_dataset(name, TASKS[name], examples=20, seed=1)
    assert not np.array_equal(next(other.held_out[name](20, length)).ids, whole[0].ids)


def test_the_dataset_trains_on_one_part_of_the_sums_and_is_judged_by_the_other():
    dataset = data.task_dataset("modular_addition", TASKS["modular_addition"], examples=2000)
    train = {(a, b) for a, _, b, _ in dataset.train(np.random.default_rng(0), 20_000, 4, 0.0).ids.tolist()}
    held = {(a, b) for a, _, b, _ in next(dataset.held_out["modular_addition"](2000, 4)).ids.tolist()}
    assert not train & held
