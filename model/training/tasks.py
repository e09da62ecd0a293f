"""Synthetic tasks: small languages with a known rule, so that one can observe how a model learns it.

Each row of a batch is one example. Only the tokens that the rule determines are scored; the others are masked.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from string import ascii_letters, ascii_lowercase, digits

import numpy as np

from model.errors import InputError, say
from model.training import recall_tasks
from model.training.recall_tasks import END, NUMBERS, SEPARATOR, Rows

IGNORE = -100  # the target at a position that is not scored, as in torch's cross-entropy


@dataclass(frozen=True)
class TaskSizes:
    """The range of sizes of a task's examples: `at(rng, sizes [B], length)` draws rows of these sizes."""

    at: Callable[[np.random.Generator, np.ndarray, int], Rows]
    most: Callable[[int], int]  # maps a length to the largest size
    least: Callable[[int], int] = lambda length: 1

    def any(self, rng: np.random.Generator, rows: int, length: int, held_out: bool) -> Rows:
        """Draw rows of all sizes with equal probability; has the signature of `Task.make`."""
        return self.at(rng, rng.integers(self.least(length), self.most(length) + 1, size=rows), length)


@dataclass(frozen=True)
class Task:
    """A language with a rule. `make(rng, rows, length, held_out)` draws examples of `length` + 1 tokens."""

    label: str
    about: str
    symbols: tuple[str, ...]  # symbols[i] is the token with id i
    length: int  # default context length
    shortest: int
    longest: int
    example: str
    make: Callable[[np.random.Generator, int, int, bool], Rows]
    sizes: TaskSizes | None = None  # the sizes of a task with adjustable difficulty
    floor: float | None = None  # lower bound on the loss for new examples, in nats per scored token, if not 0


_LETTERS = tuple(ascii_letters + digits)  # 62
_MARKED = (*ascii_lowercase, SEPARATOR, END)  # 28
MODULUS = 97
_HELD_OUT_SUMS = 0.3  # fraction of all pairs that is excluded from training


def _induction(rng: np.random.Generator, period: np.ndarray, length: int) -> Rows:
    """Draw distinct random symbols, repeated to the end of the row. Olsson et al. 2022, "repeated random".

    The period differs from row to row, so that the position alone does not give the answer and the model must match
    tokens. Scored from the second token of the second period on, where the answer is certain. period [B]
    """
    T, rows = length + 1, len(period)
    once = rng.permuted(np.tile(np.arange(len(_LETTERS)), (rows, 1)), axis=1)  # [B, 62]
    place = np.arange(T)[None, :] % period[:, None]
    ids = np.take_along_axis(once, place, axis=1)
    return ids, np.arange(1, T)[None, :] > period[:, None]


PERIODS = TaskSizes(
    _induction,
    most=lambda length: min((length + 1) // 2, len(_LETTERS)),
    least=lambda length: min(max(2, (length + 1) // 4), len(_LETTERS) // 2),
)


def _answered(rule: Callable[[np.ndarray], np.ndarray]) -> TaskSizes:
    """Build a task with rows "letters > answer ....", where the answer is `rule(letters)`; its tokens and the first
    "." are scored.
    """
    separator, end = _MARKED.index(SEPARATOR), _MARKED.index(END)

    def at(rng: np.random.Generator, sizes: np.ndarray, length: int) -> Rows:
        T = length + 1
        ids, scored = np.full((len(sizes), T), end), np.zeros((len(sizes), T), dtype=bool)
        for row, n in enumerate(sizes):
            letters = rng.integers(0, len(ascii_lowercase), size=n)
            ids[row, : 2 * n + 1] = np.concatenate([letters, [separator], rule(letters)])
            scored[row, n + 1 : 2 * n + 2] = True
        return ids, scored[:, 1:]

    return TaskSizes(at, most=lambda length: (length - 1) // 2)


_COPY, _REVERSE, _SORT = (_answered(rule) for rule in (lambda letters: letters, lambda letters: letters[::-1], np.sort))
_RECALL = TaskSizes(recall_tasks.recall, recall_tasks.most_pairs)
_SELECTIVE = TaskSizes(recall_tasks.selective_copy, recall_tasks.most_letters)
_COUNTING = TaskSizes(recall_tasks.counting, recall_tasks.most_counted)
_REGRESSION = TaskSizes(recall_tasks.regression, recall_tasks.most_points, recall_tasks.most_points)


def _sums(rng: np.random.Generator, rows: int, length: int, held_out: bool) -> Rows:
    """Draw a + b = c modulo 97; held-out pairs never appear in training. Power et al. 2022, "Grokking"."""
    pairs = np.random.default_rng(MODULUS).permutation(MODULUS**2)  # one fixed split
    cut = int(len(pairs) * _HELD_OUT_SUMS)
    chosen = rng.choice(pairs[:cut] if held_out else pairs[cut:], size=rows)
    a, b = chosen // MODULUS, chosen % MODULUS
    plus, equals = 100, 101
    ids = np.stack([a, np.full(rows, plus), b, np.full(rows, equals), (a + b) % MODULUS], axis=1)
    return ids, np.array([[False, False, False, True]]).repeat(rows, axis=0)


NOISE = tuple(ascii_lowercase)
KNOWN_ROWS = 32  # number of noise rows that are repeated in training


def _noise(rng: np.random.Generator, rows: int, length: int, held_out: bool) -> Rows:
    """Draw letters uniformly and independently, each of them scored: the optimal prediction is 1/V for every letter.

    By Gibbs' inequality, the expected loss of any model on fresh rows is at least ln V: -sum (1/V) ln q_i >= ln V.
    """
    return rng.integers(0, len(NOISE), size=(rows, length + 1)), np.ones((rows, length), dtype=bool)


def _known_noise(rng: np.random.Generator, rows: int, length: int, held_out: bool) -> Rows:
    """Draw the same few rows of noise in every training batch, and fresh ones for evaluation."""
    if held_out:
        return _noise(rng, rows, length, held_out)
    known, scored = _noise(np.random.default_rng(KNOWN_ROWS), KNOWN_ROWS, length, held_out)
    chosen = rng.integers(0, KNOWN_ROWS, size=rows)
    return known[chosen], scored[chosen]


TASKS: dict[str, Task] = {
    "induction": Task(
        "Repeated random sequence",
        "Random symbols, then the same symbols again: only a head that finds the earlier "
        "copy and reads what came next can tell.",
        _LETTERS,
        64,
        8,
        256,
        "qT7bqT7b",
        PERIODS.any,
        PERIODS,
    ),
    "copy": Task("Copy", "Letters, then the same letters.", _MARKED, 32, 4, 128, "dbca>dbca.", _COPY.any, _COPY),
    "recall": Task(
        "Associative recall",
        "Keys (small letters), each with its value (a capital), then the keys again in any order: what was its value?",
        recall_tasks.RECALL,
        64,
        4,
        256,
        "aQbRbRaQbR",
        _RECALL.any,
        _RECALL,
    ),
    "selective_copy": Task(
        "Selective copying",
        "Letters at random places among dots, then the letters without the dots.",
        recall_tasks.SELECTIVE,
        64,
        8,
        256,
        "..d.b...>db",
        _SELECTIVE.any,
        _SELECTIVE,
    ),
    "reverse": Task(
        "Reverse",
        "Letters, then the same letters from the last to the first.",
        _MARKED,
        32,
        4,
        128,
        "dbca>acbd.",
        _REVERSE.any,
        _REVERSE,
    ),
    "sort": Task(
        "Sort",
        "Letters, then the same letters in alphabetical order.",
        _MARKED,
        32,
        4,
        128,
        "dbca>abcd.",
        _SORT.any,
        _SORT,
    ),
    "counting": Task(
        "Counting",
        "Letters, then how often each of a, b, c and d is among them.",
        recall_tasks.COUNTING,
        32,
        12,
        128,
        "abca>a02b01c01d00",
        _COUNTING.any,
        _COUNTING,
    ),
    "regression": Task(
        "Linear regression in the context",
        "Points x1 x2 y of one plane through 0, as numbers from 00 (-3) to 99 (3). Each row has another plane.",
        recall_tasks.REGRESSION,
        47,
        8,
        191,
        "664066384138",
        _REGRESSION.any,
        _REGRESSION,
    ),
    "modular_addition": Task(
        "Modular addition",
        "a + b = c modulo 97; three pairs in ten are kept for the test and never trained on.",
        (*NUMBERS, "+", "="),
        4,
        4,
        4,
        "17+95=15",
        _sums,
    ),
    "noise": Task(
        "Uniform noise",
        "Letters drawn at random, each as likely as the others. There is nothing to learn.",
        NOISE,
        32,
        4,
        256,
        "qkzvbdmwth",
        _noise,
        floor=math.log(len(NOISE)),
    ),
    "known_noise": Task(
        "Noise, learned by heart",
        f"The same {KNOWN_ROWS} rows of random letters in every step, fresh ones for the test.",
        NOISE,
        32,
        4,
        256,
        "qkzvbdmwth",
        _known_noise,
        floor=math.log(len(NOISE)),
    ),
}


def task(name: str) -> Task:
    """Return the task with the given name. Raises InputError with the list of names for an unknown one."""
    if name not in TASKS:
        raise InputError("No task has this name.", str(name)[:40], say("Choose one of: {}.", ", ".join(TASKS)))
    return TASKS[name]


def symbol_vocabulary(symbols: tuple[str, ...]) -> str:
    """Build a tokenizer.json whose token i is `symbols[i]`: single ASCII characters, or two digits that merge into one
    token.
    """
    vocab = {symbol: index for index, symbol in enumerate(symbols)}
    merges = [list(symbol) for symbol in symbols if len(symbol) == 2]
    for part in (part for pair in merges for part in pair):
        vocab.setdefault(part, len(vocab))
    return bpe_file(vocab, merges, r"\d\d|[\s\S]" if merges else ONE_CHARACTER)


ONE_CHARACTER = r"[\s\S]"  # has the same meaning in every regex engine


def bpe_file(vocab: dict[str, int], merges: list[list[str]], pattern: str, added: Sequence[dict] = ()) -> str:
    """Build a tokenizer.json of byte-level BPE within the matches of the pattern; `added` are its added tokens."""
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return json.dumps(
        {
            "version": "1.0",
            "added_tokens": list(added),
            "normalizer": None,
            "post_processor": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]},
            "decoder": level,
            "model": {"type": "BPE", "vocab": vocab, "merges": merges},
        }
    )
