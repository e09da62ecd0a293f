"""Biases that depend only on the distance between two tokens: ALiBi (fixed) and T5's (learned, by bucket)."""

from collections.abc import Mapping

from model.by_hand.numbers import MINUS_INFINITY, Number, holds, number, power, total
from model.by_hand.steps import MatrixStep, Notation, step
from model.errors import InputError, say


def _integer(inputs: Mapping[str, MatrixStep], name: str) -> int:
    return int(inputs[name].cells[0][0].value)


def _apart(rows: int) -> str:
    """Return the code for the distances i − j."""
    return f"(np.arange({rows})[:, None] - np.arange({rows}))"


def alibi(inputs: Mapping[str, MatrixStep]) -> tuple[MatrixStep, ...]:
    """Compute ALiBi's slope of every head, m_h = 2^(−8h / H), and the biases −m (i − j) of one head for j ≤ i, added to
    its scores (Press et al. 2022); −∞ for j > i, as in the causal mask.

    Inputs: N, heads and head, all [1 × 1]. Raises InputError for a head out of range.
    """
    rows, heads, head = (_integer(inputs, name) for name in ("N", "heads", "head"))
    if head > heads:
        raise InputError("No head has this number.", str(head), say("Heads run from 1 to {}.", heads))
    notation = Notation(
        "slopes",
        "m",
        "slopes",
        "m_h = 1 / 2^(8h / H)",
        "m_h = 2^{-8h/H}",
        f"slopes = 1 / 2 ** (8 * np.arange(1, {heads} + 1)[None] / {heads})",
    )
    one, eight, all_heads = number(1), number(8), number(heads)
    slopes = step(notation, [[one / power(number(2), eight * number(h) / all_heads) for h in range(1, heads + 1)]])
    slope = slopes.at(0, head - 1)
    notation = Notation(
        "B",
        "B",
        "alibi_biases",
        f"B_ij = −m_{head} (i − j),  j ≤ i;  −∞,  j > i",
        rf"B_{{ij}} = -m_{{{head}}} (i - j),\ j \le i",
        f"B = np.where(np.tri({rows}, dtype=bool), -slopes[0, {head - 1}] * {_apart(rows)}, -np.inf)",
    )
    cells = [[-(slope * number(i - j)) if j <= i else MINUS_INFINITY for j in range(rows)] for i in range(rows)]
    return slopes, step(notation, cells)


def t5(inputs: Mapping[str, MatrixStep]) -> tuple[MatrixStep, ...]:
    """Compute T5's bucket of every distance, and the learned bias that it adds to the scores for j ≤ i (Raffel et al.
    2020, section 2.1).

    Half of the n buckets, e = n / 2, are single distances; the others grow by a constant factor up to `far`, and the
    last takes everything beyond: b(d) = e + Σ_k [(far / e)^k ≤ (d / e)^(n − e)], k = 1 … n − e − 1. Inputs: N, far
    [1 × 1], learned [1 × n]. Raises InputError for an odd n, or if far is not above n / 2.
    """
    rows, far, learned = _integer(inputs, "N"), _integer(inputs, "far"), inputs["learned"]
    count = learned.shape[1]
    single = count // 2
    if count % 2 or far <= single:
        hint = "Use an even number of buckets, and a distance above half of it."
        raise InputError("These buckets do not fit.", f"{count}, {far}", hint)
    edge, growth = number(single), number(far) / number(single)

    def bucket(distance: int) -> Number:
        if distance < single:
            return number(distance)
        reached = power(number(distance) / edge, number(count - single))
        return edge + total(holds(power(growth, number(k)), "≤", reached) for k in range(1, count - single))

    names = tuple(str(distance) for distance in range(rows))
    growing = f"(np.arange({rows})[:, None] / {single}) ** {count - single}"
    past = f"(({far} / {single}) ** np.arange(1, {count - single}) <= {growing} * (1 + 1e-12)).sum(1)"
    notation = Notation(
        "buckets",
        "b",
        "t5_buckets",
        f"b_d = d,  d < {single};  {single} + Σ_k [({far}/{single})^(k) ≤ (d/{single})^{count - single}]",
        rf"b_d = d,\ d < {single};\ {single} + \sum_k [({far}/{single})^k \le (d/{single})^{{{count - single}}}]",
        f"buckets = np.where(np.arange({rows}) < {single}, np.arange({rows}), {single} + {past})[None]",
    )
    buckets = step(notation, [[bucket(distance) for distance in range(rows)]], (), names)
    which = [int(cell.value) for cell in buckets.cells[0]]
    notation = Notation(
        "B",
        "B",
        "t5_biases",
        "B_ij = β_b(i−j),  j ≤ i;  −∞,  j > i",
        r"B_{ij} = \beta_{b_{i-j}},\ j \le i",
        f"B = np.where(np.tri({rows}, dtype=bool), learned[0, buckets[0].astype(int)[abs({_apart(rows)})]], -np.inf)",
    )
    cells = [[learned.at(0, which[i - j]) if j <= i else MINUS_INFINITY for j in range(rows)] for i in range(rows)]
    return buckets, step(notation, cells)
