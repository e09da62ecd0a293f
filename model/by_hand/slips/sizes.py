"""Slips of parameter counts, operations, memory and prices."""

from decimal import Decimal

from model.by_hand.claims.arrays import CONTEXT
from model.by_hand.slips.records import Calculation, Field, Inputs, Slip, Step

_ONE = Decimal(1)
_GIB, _GB = Decimal(2**30), Decimal(10**9)


def _whole(usual: str) -> Field:
    return Field("number", usual, _ONE, True)


def _square(n: Inputs) -> Decimal:
    return n["d"] * n["d"]


LINEAR = Calculation(
    {"d_in": _whole("768"), "d_out": _whole("3072")},
    lambda n: [
        Step("W = d_in × d_out", n["d_in"] * n["d_out"]),
        Step("b = d_out", n["d_out"]),
        Step("W + b", n["d_in"] * n["d_out"] + n["d_out"]),
    ],
    {
        "no_bias": Slip("d_in × d_out", lambda n: n["d_in"] * n["d_out"]),
        "bias_in": Slip("d_in × d_out + d_in", lambda n: n["d_in"] * n["d_out"] + n["d_in"]),
        "added": Slip("d_in + d_out", lambda n: n["d_in"] + n["d_out"]),
        "square_in": Slip("d_in² + d_in", lambda n: n["d_in"] * (n["d_in"] + 1)),
        "square_out": Slip("d_out² + d_out", lambda n: n["d_out"] * (n["d_out"] + 1)),
        "factor_two": Slip("2 × d_in × d_out", lambda n: 2 * n["d_in"] * n["d_out"]),
    },
    "2359296",
)
ATTENTION_SIZE = Calculation(
    {"d": _whole("768"), "heads": _whole("12")},
    lambda n: [
        Step("W_Q, W_K, W_V, W_O = 4 d²", 4 * _square(n)),
        Step("b = 4 d", 4 * n["d"]),
        Step("4 d² + 4 d", 4 * _square(n) + 4 * n["d"]),
    ],
    {
        "no_bias": Slip("4 d²", lambda n: 4 * _square(n)),
        "no_output": Slip("3 d² + 3 d", lambda n: 3 * _square(n) + 3 * n["d"]),
        "no_output_bias": Slip("3 d²", lambda n: 3 * _square(n)),
        "times_heads": Slip("heads × (4 d² + 4 d)", lambda n: n["heads"] * (4 * _square(n) + 4 * n["d"])),
        "per_head": Slip("(4 d² + 4 d) / heads", lambda n: CONTEXT.divide(4 * _square(n) + 4 * n["d"], n["heads"])),
        "one_matrix": Slip("d²", _square),
    },
    "1769472",
)
MLP_SIZE = Calculation(
    {"d": _whole("768")},
    lambda n: [
        Step("W₁ = d × 4d", 4 * _square(n)),
        Step("W₂ = 4d × d", 4 * _square(n)),
        Step("b₁ + b₂ = 5 d", 5 * n["d"]),
        Step("8 d² + 5 d", 8 * _square(n) + 5 * n["d"]),
    ],
    {
        "no_bias": Slip("8 d²", lambda n: 8 * _square(n)),
        "one_layer": Slip("4 d²", lambda n: 4 * _square(n)),
        "one_layer_bias": Slip("4 d² + 4 d", lambda n: 4 * _square(n) + 4 * n["d"]),
        "not_wider": Slip("2 d² + 2 d", lambda n: 2 * _square(n) + 2 * n["d"]),
        "gated": Slip("12 d²", lambda n: 12 * _square(n)),
        "wide_square": Slip("(4 d)²", lambda n: 16 * _square(n)),
    },
    "2359296",
)
FLOPS = Calculation(
    {"d_in": _whole("4096"), "d_out": _whole("4096"), "tokens": _whole("1")},
    lambda n: [
        Step("d_in × d_out × tokens", n["d_in"] * n["d_out"] * n["tokens"]),
        Step("2 × d_in × d_out × tokens", 2 * n["d_in"] * n["d_out"] * n["tokens"]),
    ],
    {
        "no_factor_two": Slip("d_in × d_out × tokens", lambda n: n["d_in"] * n["d_out"] * n["tokens"]),
        "one_token": Slip("2 × d_in × d_out", lambda n: 2 * n["d_in"] * n["d_out"]),
        "backward": Slip("6 × d_in × d_out × tokens", lambda n: 6 * n["d_in"] * n["d_out"] * n["tokens"]),
        "tokens_squared": Slip("2 × d_in × d_out × tokens²", lambda n: 2 * n["d_in"] * n["d_out"] * n["tokens"] ** 2),
    },
    "16777216",
)


def _cache(n: Inputs) -> Decimal:
    return 2 * n["layers"] * n["kv_heads"] * n["d_head"] * n["tokens"] * n["bytes"]


CACHE_SIZE = Calculation(
    {
        "layers": _whole("32"),
        "kv_heads": _whole("8"),
        "d_head": _whole("128"),
        "tokens": _whole("4096"),
        "bytes": _whole("2"),
        "heads": _whole("32"),
    },
    lambda n: [
        Step("2 × layers × kv_heads × d_head", 2 * n["layers"] * n["kv_heads"] * n["d_head"]),
        Step("× tokens × bytes", _cache(n)),
        Step("/ 10⁹ = GB", CONTEXT.divide(_cache(n), _GB)),
    ],
    {
        "gib": Slip("/ 2³⁰", lambda n: CONTEXT.divide(_cache(n), _GIB)),
        "no_factor_two": Slip("layers × kv_heads × d_head × …", lambda n: CONTEXT.divide(_cache(n), 2 * _GB)),
        "all_heads": Slip(
            "2 × layers × heads × …", lambda n: CONTEXT.divide(_cache(n) / n["kv_heads"] * n["heads"], _GB)
        ),
        "one_layer_only": Slip("2 × kv_heads × …", lambda n: CONTEXT.divide(_cache(n) / n["layers"], _GB)),
        "no_bytes": Slip("2 × layers × … × tokens", lambda n: CONTEXT.divide(_cache(n) / n["bytes"], _GB)),
        "bits": Slip("× 8", lambda n: CONTEXT.divide(_cache(n) * 8, _GB)),
    },
    "2.15",
)


def _memory(n: Inputs) -> Decimal:
    return n["params"] * n["bytes"]


MEMORY = Calculation(
    {"params": Field("number", "7e9", _ONE), "bytes": Field("number", "2", Decimal("0.1"))},
    lambda n: [Step("params × bytes", _memory(n)), Step("/ 10⁹ = GB", CONTEXT.divide(_memory(n), _GB))],
    {
        "gib": Slip("/ 2³⁰", lambda n: CONTEXT.divide(_memory(n), _GIB)),
        "bits": Slip("× 8", lambda n: CONTEXT.divide(8 * _memory(n), _GB)),
        "no_bytes": Slip("params / 10⁹", lambda n: CONTEXT.divide(n["params"], _GB)),
        "four_bytes": Slip("params × 4", lambda n: CONTEXT.divide(4 * n["params"], _GB)),
        "adam": Slip("params × 16", lambda n: CONTEXT.divide(16 * n["params"], _GB)),
    },
    "13.04",
)
PRICE = Calculation(
    {
        "tokens_in": _whole("5000"),
        "price_in": Field("number", "0.03", Decimal(0)),
        "tokens_out": _whole("500"),
        "price_out": Field("number", "0.06", Decimal(0)),
        "unit": _whole("1000"),
    },
    lambda n: [
        Step("tokens_in / unit × price_in", _paid(n, "in")),
        Step("tokens_out / unit × price_out", _paid(n, "out")),
        Step("sum", _paid(n, "in") + _paid(n, "out")),
    ],
    {
        "per_million": Slip("/ 1 000 000", lambda n: _total(n, Decimal(10**6))),
        "per_thousand": Slip("/ 1 000", lambda n: _total(n, Decimal(1000))),
        "only_in": Slip("tokens_in / unit × price_in", lambda n: _paid(n, "in")),
        "only_out": Slip("tokens_out / unit × price_out", lambda n: _paid(n, "out")),
        "prices_swapped": Slip("tokens_in × price_out + tokens_out × price_in", lambda n: _swapped(n)),
        "one_price": Slip("(tokens_in + tokens_out) / unit × price_in", lambda n: _one_price(n)),
        "no_unit": Slip("tokens × price", lambda n: _total(n, _ONE)),
    },
    "0.315",
)


def _paid(n: Inputs, side: str) -> Decimal:
    return CONTEXT.divide(n[f"tokens_{side}"] * n[f"price_{side}"], n["unit"])


def _total(n: Inputs, unit: Decimal) -> Decimal:
    return _paid({**n, "unit": unit}, "in") + _paid({**n, "unit": unit}, "out")


def _swapped(n: Inputs) -> Decimal:
    return _total({**n, "price_in": n["price_out"], "price_out": n["price_in"]}, n["unit"])


def _one_price(n: Inputs) -> Decimal:
    return _total({**n, "price_out": n["price_in"]}, n["unit"])
