"""The lines that compute the steps from two vectors to one attention weight: the model's own, those of
`model.attention.cell`, which repeat the computation for a single cell, and those of docs/mini_gpt.py.
"""

from collections.abc import Callable

from model.attention.cell import explain
from model.gpt.layers import attention_pattern, attention_scores, capped, future, mix, rotate, rotate_adjacent
from model.gpt.mixers.projection import project
from model.gpt.mixers.scoring import Scoring
from model.source_code.excerpts import Code, Sizes, Span, excerpts
from model.source_code.mini import Lines, like_mini, mini_spans
from model.source_code.parts import Wiring, sizes_of


def code_of_step(wiring: Wiring, step: str, T: int, query: int) -> Code:
    """Find the lines of one of STEPS, with the shapes for T tokens and for the row of one query."""
    sizes = _sizes(wiring, T, query)
    mini = mini_spans(MINI_STEPS[step]) if like_mini(wiring.config) else []
    return Code(excerpts(STEPS[step](wiring), sizes), excerpts(mini, sizes))


def _sizes(wiring: Wiring, T: int, query: int) -> Sizes:
    """Compute the shapes of a run's tensors, and of arrays of one row: `row` [n], `row_products` [n, E], `one` [E],
    `part` [D].
    """
    config, n = wiring.config, query + 1
    row = {"row": (n,), "row_products": (n, config.d_head), "one": (config.d_head,), "part": (config.d_model,)}
    return {**sizes_of(config, T), **row}


def _vectors(w: Wiring) -> list[Span]:
    c = w.config
    lines = ["split_heads", *(["_normed"] if c.qk_norm else []), *(["if q_factor"] if c.query_factor != 1 else [])]
    spans = [
        Span(
            project,
            (*lines, *(["rotated"] if c.positions == "rope" else [])),
            (("split_heads", "q"), ("split_heads", "k")),
        )
    ]
    turn = rotate_adjacent if c.rope_pairs == "adjacent" else rotate
    return [*spans, Span(turn)] if c.positions == "rope" else spans


def _products(w: Wiring) -> list[Span]:
    return [
        Span(attention_scores, ("=grouped", "=scores"), (("=scores", "scores"),)),
        Span(explain, ("=products",), (("=products", "row_products"),)),
    ]


def _score(w: Wiring) -> list[Span]:
    cap = [Span(Scoring.changed, ("capped",)), Span(capped)] if w.config.score_cap is not None else []
    return [
        Span(attention_scores, ("=scores",), (("=scores", "scores"),)),
        *cap,
        Span(explain, ("=dots", "=scores"), (("=dots", "row"), ("=scores", "row"))),
    ]


def _mask(w: Wiring) -> list[Span]:
    own = [Span(attention_scores, ("return",), (("return", "scores"),)), Span(future)]
    lines = [*(["if slopes"] if w.config.positions == "alibi" else []), *(["=hidden", "return"] if w.window else [])]
    rules = [Span(Scoring.changed, ("=distance", *lines))] if lines else []
    return [*own, *rules, Span(explain, ("=v",))]


def _softmax(w: Wiring) -> list[Span]:
    sinks = [Span(Scoring.pattern, ("=sink", "return"))] if w.config.sinks else []
    return [
        *sinks,
        Span(attention_pattern, (), (("return", "pattern"),)),
        Span(explain, ("=peak", "=exponentials", "=weights"), (("=exponentials", "row"), ("=weights", "row"))),
    ]


def _value(w: Wiring) -> list[Span]:
    return [
        Span(mix, (), (("return", "z"),)),
        Span(w.mixer.forward, ("return",)),
        Span(explain, ("=w_o", "=weighted", "=output"), (("=weighted", "one"), ("=output", "part"))),
    ]


def _check(w: Wiring) -> list[Span]:
    return [Span(explain, ("=model_score", "=model_weight"))]


STEPS: dict[str, Callable[[Wiring], list[Span]]] = {
    "vectors": _vectors,
    "products": _products,
    "score": _score,
    "mask": _mask,
    "softmax": _softmax,
    "value": _value,
    "check": _check,
}
_ATTENTION = "Attention.forward"
MINI_STEPS: dict[str, Lines] = {
    "vectors": ((_ATTENTION, ("qkv",)),),
    "products": ((_ATTENTION, ("=scores",)),),
    "score": ((_ATTENTION, ("=scores",)),),
    "mask": ((_ATTENTION, ("=future", "=pattern")),),
    "softmax": ((_ATTENTION, ("=pattern",)),),
    "value": ((_ATTENTION, ("=mixed", "return")),),
    "check": (),
}
