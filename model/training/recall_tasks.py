"""Rows of the tasks that test different kinds of memory: recall, selective copying, counting and in-context
regression.

Each function draws rows of `length` + 1 tokens with the given sizes. The constants beside it list its symbols.
"""

from string import ascii_lowercase, ascii_uppercase

import numpy as np

Rows = tuple[np.ndarray, np.ndarray]  # ids [B, T + 1], and whether each of ids[:, 1:] is scored, [B, T]

SEPARATOR, END = ">", "."
NUMBERS = tuple(f"{number:02d}" for number in range(100))

# --- associative recall ---

RECALL = (*ascii_lowercase, *ascii_uppercase)  # the keys, then the values
KEYS = len(ascii_lowercase)


def most_pairs(length: int) -> int:
    """Return the maximum number of pairs that fit into half a row of `length` + 1 tokens, at most one for every key."""
    return max(1, min(KEYS, (length + 1) // 4))


def recall(rng: np.random.Generator, pairs: np.ndarray, length: int) -> Rows:
    """Draw distinct keys, each with its value, then repeated queries of these keys: "aQbRbRaQbR".

    The value after each repeated key is scored. Multi-query associative recall: Arora et al. 2023, "Zoology", but with
    queries at random positions instead of at power-law distances. pairs [B]
    """
    rows, slots = len(pairs), (length + 2) // 2
    keys = rng.permuted(np.tile(np.arange(KEYS), (rows, 1)), axis=1)
    values = KEYS + rng.integers(0, KEYS, size=(rows, KEYS))
    queried = rng.integers(0, pairs[:, None], size=(rows, slots))
    place = np.arange(slots)[None, :]
    # index of the pair in each slot, [B, slots]
    which = np.where(place < pairs[:, None], np.minimum(place, KEYS - 1), queried)
    both = np.stack([np.take_along_axis(part, which, axis=1) for part in (keys, values)], axis=-1)
    is_query = np.broadcast_to(place >= pairs[:, None], which.shape)
    scored = np.stack([np.zeros_like(is_query), is_query], axis=-1)
    return both.reshape(rows, -1)[:, : length + 1], scored.reshape(rows, -1)[:, 1 : length + 1]


# --- selective copying ---

SELECTIVE = (*ascii_lowercase, SEPARATOR, END)


def most_letters(length: int) -> int:
    """Return the maximum number of letters in selective copying: a quarter of the row, so at least half of it is
    noise.
    """
    return max(1, (length + 1) // 4)


def selective_copy(rng: np.random.Generator, letters: np.ndarray, length: int) -> Rows:
    """Draw letters at random positions among noise ".", then ">" and the letters without the noise: "..d.b...>db".

    The distances vary, so that a fixed filter cannot copy the letters. Gu & Dao 2023, "Mamba", 3.1. letters [B]
    """
    T, (separator, noise) = length + 1, (SELECTIVE.index(SEPARATOR), SELECTIVE.index(END))
    ids, scored = np.full((len(letters), T), noise), np.zeros((len(letters), T), dtype=bool)
    for row, n in enumerate(letters):
        front = T - 1 - n
        chosen = rng.integers(0, len(ascii_lowercase), size=n)
        ids[row, np.sort(rng.permutation(front)[:n])] = chosen
        ids[row, front:] = np.concatenate([[separator], chosen])
        scored[row, front + 1 :] = True
    return ids, scored[:, 1:]


# --- counting ---

COUNTED = tuple("abcd")
COUNTING = (*COUNTED, SEPARATOR, END, *NUMBERS)


def most_counted(length: int) -> int:
    """Return the maximum number of letters that leaves room for their counts."""
    return max(1, min(99, length - 2 * len(COUNTED)))


def counting(rng: np.random.Generator, letters: np.ndarray, length: int) -> Rows:
    """Draw letters, then the count of each of "abcd": "abca>a02b01c01d00". The counts are scored. letters [B]"""
    T, kinds = length + 1, len(COUNTED)
    separator, end = COUNTING.index(SEPARATOR), COUNTING.index(END)
    ids, scored = np.full((len(letters), T), end), np.zeros((len(letters), T), dtype=bool)
    for row, n in enumerate(letters):
        drawn = rng.integers(0, kinds, size=n)
        counts = end + 1 + np.bincount(drawn, minlength=kinds)
        answer = np.stack([np.arange(kinds), counts], axis=1).ravel()
        ids[row, : n + 1 + 2 * kinds] = np.concatenate([drawn, [separator], answer])
        scored[row, n + 2 : n + 1 + 2 * kinds : 2] = True
    return ids, scored[:, 1:]


# --- in-context linear regression ---

REGRESSION = (*NUMBERS, END)
DIMENSIONS = 2  # dimension of x
LARGEST = 3.0  # the numbers 00 .. 99 represent evenly spaced values from -3 to 3
STEP = 2 * LARGEST / (len(NUMBERS) - 1)
_INPUTS = (33, 66)  # range of the number tokens from which inputs are drawn, representing -1 to 1


def value_of(ids: np.ndarray) -> np.ndarray:
    """Decode number tokens to the values they represent."""
    return ids * STEP - LARGEST


def most_points(length: int) -> int:
    """Return the maximum number of points, of three numbers each, that fit into a row."""
    return max(1, (length + 1) // (DIMENSIONS + 1))


def regression(rng: np.random.Generator, points: np.ndarray, length: int) -> Rows:
    """Draw points x1 x2 y of one plane through the origin per row, y = w . x with w ~ N(0, 1): "50 41 55 62 ...". Each
    y is scored.

    Garg et al. 2022, "What Can Transformers Learn In-Context?", in two dimensions instead of twenty. The model's input
    is token ids, so every number is rounded to one of a hundred tokens instead of being a continuous input; y is
    clamped to 3 in absolute value. points [B]
    """
    rows, most, width = len(points), most_points(length), DIMENSIONS + 1
    x = rng.integers(_INPUTS[0], _INPUTS[1] + 1, size=(rows, most, DIMENSIONS))
    w = rng.standard_normal((rows, DIMENSIONS))
    y = np.rint((np.einsum("bpd,bd->bp", value_of(x), w) + LARGEST) / STEP).clip(0, len(NUMBERS) - 1).astype(int)
    valid = np.arange(most)[None, :, None] < points[:, None, None]
    end = REGRESSION.index(END)
    ids = np.full((rows, length + 1 + width), end)
    ids[:, : most * width] = np.where(valid, np.concatenate([x, y[..., None]], -1), end).reshape(rows, -1)
    scored = np.zeros(ids.shape, dtype=bool)
    scored[:, DIMENSIONS : most * width : width] = valid[..., 0]
    return ids[:, : length + 1], scored[:, 1 : length + 1]


def ridge_errors(ids: np.ndarray) -> np.ndarray:
    """Compute the squared error of ridge regression after 0, 1, ... previous points. ids [B, T] -> [B, points]

    w = (X'X + s I)^-1 X'y, where s is the variance of rounding, STEP^2 / 12 per number, over the variance 1 of w. This
    is the best linear estimate (Garg et al. 2022, 3.1), which a model trained on this task approaches from above.
    """
    width = DIMENSIONS + 1
    points = ids[:, : ids.shape[1] // width * width].reshape(len(ids), -1, width)
    values, errors = value_of(points), []
    for seen in range(points.shape[1]):
        x, y = values[:, :seen, :DIMENSIONS], values[:, :seen, DIMENSIONS]
        gram = np.einsum("bpi,bpj->bij", x, x) + STEP**2 / 12 * np.eye(DIMENSIONS)
        w = np.linalg.solve(gram, np.einsum("bpi,bp->bi", x, y)[..., None])[..., 0]
        errors.append((np.einsum("bi,bi->b", values[:, seen, :DIMENSIONS], w) - values[:, seen, DIMENSIONS]) ** 2)
    return np.stack(errors, axis=1)
