"""Slips of the weights of causal attention."""

from decimal import Decimal

from model.by_hand.claims import functions as f
from model.by_hand.claims.arrays import Array, divide, matmul, multiply, transpose
from model.by_hand.slips.records import Calculation, Field, Inputs, Slip, Step

_NEVER = Decimal("-Infinity")


def _scores(n: Inputs) -> Array:
    return matmul(n["Q"], transpose(n["K"]))


def _scaled(n: Inputs, by: Decimal | None = None) -> Array:
    return divide(_scores(n), by or f.sqrt(_width(n)))


def _width(n: Inputs) -> Decimal:
    return Decimal(len(n["K"][0]))


def _masked(x: Array, hidden: Decimal = _NEVER, ahead: int = 1) -> Array:
    """Replace the scores of later tokens."""
    return tuple(tuple(hidden if j >= i + ahead else s for j, s in enumerate(row)) for i, row in enumerate(x))


def _steps(n: Inputs) -> list[Step]:
    return [
        Step("S = Q Kᵀ", _scores(n)),
        Step("S / √d", _scaled(n)),
        Step("M: −∞ ahead", _masked(_scaled(n))),
        Step("softmax, row by row", f.softmax(_masked(_scaled(n)))),
    ]


def _by_column(x: Array) -> Array:
    return transpose(f.softmax(transpose(x)))


ATTENTION = Calculation(
    {
        "Q": Field("matrix", "0.8 0.6 0.4 0.2; 0.3 0.9 0.5 0.3; 0.4 0.3 0.8 0.6"),
        "K": Field("matrix", "0.9 0.7 0.5 0.3; 0.4 0.8 0.6 0.2; 0.5 0.4 0.9 0.7"),
        "d_model": Field("number", "768", Decimal(1)),
    },
    _steps,
    {
        "not_scaled": Slip("softmax(S + M)", lambda n: f.softmax(_masked(_scores(n)))),
        "by_d": Slip("softmax(S / d + M)", lambda n: f.softmax(_masked(_scaled(n, _width(n))))),
        "by_d_model": Slip("softmax(S / √d_model + M)", lambda n: f.softmax(_masked(_scaled(n, f.sqrt(n["d_model"]))))),
        "times_root": Slip(
            "softmax(S × √d + M)", lambda n: f.softmax(_masked(multiply(_scores(n), f.sqrt(_width(n)))))
        ),
        "mask_zero": Slip("softmax(S / √d × (0 or 1))", lambda n: f.softmax(_masked(_scaled(n), Decimal(0)))),
        "future_seen": Slip("softmax(S / √d)", lambda n: f.softmax(_scaled(n))),
        "future_not_scaled": Slip("softmax(S)", lambda n: f.softmax(_scores(n))),
        "masked_late": Slip("softmax(S / √d), then 0 ahead", lambda n: _masked(f.softmax(_scaled(n)), Decimal(0))),
        "by_column": Slip("softmax over a column", lambda n: _by_column(_scaled(n))),
        "transposed": Slip("softmax((K Qᵀ) / √d + M)", lambda n: f.softmax(_masked(transpose(_scaled(n))))),
        "by_tokens": Slip(
            "softmax(S / √n + M)", lambda n: f.softmax(_masked(_scaled(n, f.sqrt(Decimal(len(n["K"]))))))
        ),
        "score_only": Slip("S / √d", _scaled),
        "raw_score": Slip("S", _scores),
    },
    "0.40, 0.39, 0.21",
)
