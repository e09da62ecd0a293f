"""Calculations of generation: attention with a KV cache token by token, and online softmax in blocks."""

from collections.abc import Mapping
from dataclasses import replace

from model.by_hand.calculations.attention import AttentionOptions, attention
from model.by_hand.calculations.softmax import Softmax, softmax
from model.by_hand.numbers import Number, constant, dot, exp, largest, number, sqrt, total
from model.by_hand.steps import MatrixStep, Notation, step


def cache(inputs: Mapping[str, MatrixStep]) -> tuple[MatrixStep, ...]:
    """Compute attention with a KV cache, or online softmax if the inputs contain scores s."""
    return online(inputs) if "s" in inputs else cached(inputs)


def cached(inputs: Mapping[str, MatrixStep]) -> tuple[MatrixStep, ...]:
    """Compute causal attention of Q, K, V [T × d] one token at a time: o_t from one query and the first t keys and
    values.

    Only k_t and v_t are new at step t; the others are cached. The last steps compute all rows at once, with the same
    results (Pope et al. 2022, section 3.1).
    """
    q, k, v = (inputs[name] for name in "QKV")
    T, width = q.shape
    root = constant("√d", sqrt(number(width)))
    steps: list[MatrixStep] = []
    for t in range(T):
        n, names = t + 1, q.rows[: t + 1]
        for name, source in (("K", k), ("V", v)):
            notation = Notation(
                f"{name}_{n}",
                f"{name}^{n}",
                "kept",
                f"{name}^({n}) = [{name}^({t}); {name.lower()}_{n}]" if t else f"{name}^(1) = [{name.lower()}_1]",
                rf"{name}^{{({n})}} = {name}_{{1:{n}}}",
                f"{name}_{n} = {name}[:{n}]",
            )
            steps.append(step(notation, source.all_rows()[:n], names, (), (t,)))
        keys, values = steps[-2:]
        numbers = [dot(q.row(t), keys.row(j)) / root for j in range(n)]
        notation = Notation(
            f"s_{n}",
            f"s^{n}",
            "newest_scores",
            f"s_j = q_{n} · k_j / √d",
            rf"s = q_{n} K^{{({n})\top}} / \sqrt{{d}}",
            f"s_{n} = Q[[{t}]] @ K_{n}.T / np.sqrt({width})",
        )
        own = q.rows[t : t + 1]
        steps.append(step(notation, [numbers], own, names))
        steps += softmax(steps[-1], Softmax(), str(n), ("a", "a"))
        weights = steps[-1]
        notation = Notation(
            f"o_{n}",
            f"o^{n}",
            "newest_output",
            f"o_{n} = Σ_j a_j v_j",
            rf"o_{n} = a V^{{({n})}}",
            f"o_{n} = a_{n} @ V_{n}",
        )
        steps.append(step(notation, [[dot(weights.row(0), values.column(c)) for c in range(v.shape[1])]], own))
    at_once = (replace(each, about=f"once_{each.about}") for each in attention(inputs, AttentionOptions()))
    return (*steps, *at_once)


def online(inputs: Mapping[str, MatrixStep]) -> tuple[MatrixStep, ...]:
    """Compute the softmax-weighted sum of values v [1 × n] for one row of scores s [1 × n], `block` scores at a time.

    The state consists of a maximum m, a sum l and an output o. If a new block changes the maximum, l and o are scaled
    by e^(m_old − m_new) (Milakov & Gimelshein 2018; Dao et al. 2022). The last steps are the softmax of the complete
    row.
    """
    s, v, size = inputs["s"], inputs["v"], int(inputs["block"].cells[0][0].value)
    n = s.shape[1]
    steps: list[MatrixStep] = []
    last: tuple[MatrixStep, MatrixStep, MatrixStep] | None = None

    def add(name: str, symbol: str, about: str, formula: str, latex: str, line: str, cells: list[Number]) -> MatrixStep:
        steps.append(step(Notation(name, symbol, about, formula, latex, f"{name} = {line}"), [cells]))
        return steps[-1]

    for b, start in enumerate(range(0, n, size), 1):
        own = range(start, min(start + size, n))
        span = f"[:, {own.start}:{own.stop}]"
        scores = [s.at(0, j) for j in own]
        if last is None:
            top = add(
                f"m_{b}",
                f"m^{b}",
                "block_peak",
                "m^(1) = max_j s_j",
                r"m^{(1)} = \max_j s_j",
                f"s{span}.max(keepdims=True)",
                [largest(scores)],
            )
        else:
            top = add(
                f"m_{b}",
                f"m^{b}",
                "block_peak",
                f"m^({b}) = max(m^({b - 1}), s_j)",
                rf"m^{{({b})}} = \max(m^{{({b - 1})}}, \max_j s_j)",
                f"np.maximum(m_{b - 1}, s{span}.max(keepdims=True))",
                [largest([last[0].at(0, 0), *scores])],
            )
        powers = add(
            f"e_{b}",
            f"e^{b}",
            "block_exponentials",
            f"e_j = exp(s_j − m^({b}))",
            rf"e_j = e^{{s_j - m^{{({b})}}}}",
            f"np.exp(s{span} - m_{b})",
            [exp(each - top.at(0, 0)) for each in scores],
        )
        part = total(powers.row(0))
        weighted = dot(powers.row(0), [v.at(0, j) for j in own])
        if last is None:
            sums = add(
                f"l_{b}",
                f"l^{b}",
                "block_sum",
                "l = Σ e_j",
                r"l^{(1)} = \sum_j e_j",
                f"e_{b}.sum(keepdims=True)",
                [part],
            )
            out = add(
                f"o_{b}",
                f"o^{b}",
                "block_output",
                "o = Σ e_j v_j",
                r"o^{(1)} = \sum_j e_j v_j",
                f"(e_{b} * v{span}).sum(keepdims=True)",
                [weighted],
            )
        else:
            old = add(
                f"c_{b}",
                f"c^{b}",
                "correction",
                f"c = exp(m^({b - 1}) − m^({b}))",
                rf"c = e^{{m^{{({b - 1})}} - m^{{({b})}}}}",
                f"np.exp(m_{b - 1} - m_{b})",
                [exp(last[0].at(0, 0) - top.at(0, 0))],
            ).at(0, 0)
            sums = add(
                f"l_{b}",
                f"l^{b}",
                "block_sum",
                f"l^({b}) = l^({b - 1}) c + Σ e_j",
                rf"l^{{({b})}} = c\,l^{{({b - 1})}} + \sum_j e_j",
                f"l_{b - 1} * c_{b} + e_{b}.sum()",
                [last[1].at(0, 0) * old + part],
            )
            out = add(
                f"o_{b}",
                f"o^{b}",
                "block_output",
                f"o^({b}) = o^({b - 1}) c + Σ e_j v_j",
                rf"o^{{({b})}} = c\,o^{{({b - 1})}} + \sum_j e_j v_j",
                f"o_{b - 1} * c_{b} + (e_{b} * v{span}).sum()",
                [last[2].at(0, 0) * old + weighted],
            )
        last = top, sums, out
    assert last is not None
    add(
        "y",
        "y",
        "online_result",
        "y = o / l",
        "y = o / l",
        f"{last[2].name} / {last[1].name}",
        [last[2].at(0, 0) / last[1].at(0, 0)],
    )
    full_row = softmax(s, Softmax(), "", ("A", "A"))
    notation = Notation(
        "Y", "Y", "whole_result", "Y = Σ_j A_j v_j", r"Y = \sum_j A_j v_j", "Y = (A * v).sum(keepdims=True)"
    )
    return (*steps, *full_row, step(notation, [[dot(full_row[-1].row(0), v.row(0))]]))
