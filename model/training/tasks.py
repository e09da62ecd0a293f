"""Synthetic tasks: small languages with a known rule, so that one can watch a model find it.

Each row of a batch is one example. Only the tokens that the rule determines are scored; the rest is masked.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from string import ascii_letters, ascii_lowercase, digits

import numpy as np

from model.errors import InputError, say

IGNORE = -100  # the target of an unscored position, as in torch's cross entropy

Rows = tuple[np.ndarray, np.ndarray]  # ids [B, T + 1] and whether each of ids[:, 1:] is scored, [B, T]


@dataclass(frozen=True)
class Task:
    """A language with a rule. `make(rng, rows, length, held_out)` draws examples of `length` + 1 tokens."""

    label: str
    about: str
    symbols: tuple[str, ...]  # the token of id i
    length: int  # default context length
    shortest: int
    longest: int
    example: str
    make: Callable[[np.random.Generator, int, int, bool], Rows]


SEPARATOR, END = ">", "."
_LETTERS = tuple(ascii_letters + digits)  # 62
_MARKED = (*ascii_lowercase, SEPARATOR, END)  # 28
MODULUS = 97
_NUMBERS = tuple(f"{number:02d}" for number in range(100))
_HELD_OUT_SUMS = 0.3  # share of all pairs excluded from training


def _induction(rng: np.random.Generator, rows: int, length: int, held_out: bool) -> Rows:
    """Different random symbols, repeated to the end of the row. Olsson et al. 2022, "repeated random".

    The period differs from row to row, so that the position alone does not give the answer: the model must match
    tokens. Scored from the second token of the second round on, where the answer is certain.
    """
    T = length + 1
    period = rng.integers(min(max(2, T // 4), len(_LETTERS) // 2), min(T // 2, len(_LETTERS)) + 1, size=rows)  # [B]
    once = rng.permuted(np.tile(np.arange(len(_LETTERS)), (rows, 1)), axis=1)  # [B, 62]
    place = np.arange(T)[None, :] % period[:, None]
    ids = np.take_along_axis(once, place, axis=1)
    return ids, np.arange(1, T)[None, :] > period[:, None]


def _answered(rule: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.random.Generator, int, int, bool], Rows]:
    """Rows "letters > answer ....", with the answer `rule(letters)`; its tokens and the first "." are scored."""
    separator, end = _MARKED.index(SEPARATOR), _MARKED.index(END)

    def make(rng: np.random.Generator, rows: int, length: int, held_out: bool) -> Rows:
        T = length + 1
        ids, scored = np.full((rows, T), end), np.zeros((rows, T), dtype=bool)
        for row, n in enumerate(rng.integers(1, (T - 2) // 2 + 1, size=rows)):
            letters = rng.integers(0, len(ascii_lowercase), size=n)
            ids[row, : 2 * n + 1] = np.concatenate([letters, [separator], rule(letters)])
            scored[row, n + 1 : 2 * n + 2] = True
        return ids, scored[:, 1:]

    return make


def _sums(rng: np.random.Generator, rows: int, length: int, held_out: bool) -> Rows:
    """a + b = c modulo 97; held-out pairs never appear in training. Power et al. 2022, "Grokking"."""
    pairs = np.random.default_rng(MODULUS).permutation(MODULUS**2)  # one fixed split
    cut = int(len(pairs) * _HELD_OUT_SUMS)
    chosen = rng.choice(pairs[:cut] if held_out else pairs[cut:], size=rows)
    a, b = chosen // MODULUS, chosen % MODULUS
    plus, equals = 100, 101
    ids = np.stack([a, np.full(rows, plus), b, np.full(rows, equals), (a + b) % MODULUS], axis=1)
    return ids, np.array([[False, False, False, True]]).repeat(rows, axis=0)


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
        _induction,
    ),
    "copy": Task(
        "Copy", "Letters, then the same letters.", _MARKED, 32, 4, 128, "dbca>dbca.", _answered(lambda letters: letters)
    ),
    "reverse": Task(
        "Reverse",
        "Letters, then the same letters from the last to the first.",
        _MARKED,
        32,
        4,
        128,
        "dbca>acbd.",
        _answered(lambda letters: letters[::-1]),
    ),
    "sort": Task(
        "Sort",
        "Letters, then the same letters in alphabetical order.",
        _MARKED,
        32,
        4,
        128,
        "dbca>abcd.",
        _answered(np.sort),
    ),
    "modular_addition": Task(
        "Modular addition",
        "a + b = c modulo 97; three pairs in ten are kept for the test and never trained on.",
        (*_NUMBERS, "+", "="),
        4,
        4,
        4,
        "17+95=15",
        _sums,
    ),
}


def task(name: str) -> Task:
    """The task of that name; raises InputError with the list of names for an unknown one."""
    if name not in TASKS:
        raise InputError("There is no task of that name.", str(name)[:40], say("Choose one of: {}.", ", ".join(TASKS)))
    return TASKS[name]


def symbol_vocabulary(symbols: tuple[str, ...]) -> str:
    """A tokenizer.json whose token i is `symbols[i]`: single ASCII characters, or two digits, which join to one."""
    vocab = {symbol: index for index, symbol in enumerate(symbols)}
    merges = [list(symbol) for symbol in symbols if len(symbol) == 2]
    for part in (part for pair in merges for part in pair):
        vocab.setdefault(part, len(vocab))
    pattern = r"\d\d|[\s\S]" if merges else r"[\s\S]"  # means the same to every regex engine
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return json.dumps(
        {
            "version": "1.0",
            "added_tokens": [],
            "normalizer": None,
            "post_processor": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]},
            "decoder": level,
            "model": {"type": "BPE", "vocab": vocab, "merges": merges},
        }
    )
