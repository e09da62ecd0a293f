"""Slips of activations, losses and positions."""

from decimal import Decimal

from model.by_hand.claims import functions as f
from model.by_hand.claims.arrays import CONTEXT, Array, each, total
from model.by_hand.numbers import pi
from model.by_hand.slips.records import Calculation, Field, Inputs, Slip, Step

_TWO, _TEN = Decimal(2), Decimal(10)


def _each(function):
    return lambda n: each(function, n["x"])


GELU = Calculation(
    {"x": Field("list", "-2, -1, 0.7, 2")},
    lambda n: [Step("Φ(x)", each(f.phi, n["x"])), Step("x Φ(x)", each(f.gelu_erf, n["x"]))],
    {
        "relu": Slip("max(0, x)", _each(f.relu)),
        "silu": Slip("x σ(x)", _each(f.silu)),
        "gelu_sigmoid": Slip("x σ(1.702 x)", _each(f.gelu_sigmoid)),
        "gelu_tanh": Slip("x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2", _each(f.gelu_tanh)),
        "phi_only": Slip("Φ(x)", _each(f.phi)),
        "sigmoid": Slip("σ(x)", _each(f.sigmoid)),
        "tanh": Slip("tanh x", _each(f.tanh)),
        "erf_not_scaled": Slip(
            "x (1 + erf x) / 2", _each(lambda x: CONTEXT.multiply(x, f.phi(CONTEXT.multiply(x, f.sqrt(_TWO)))))
        ),
    },
    "-0.24, -0.27, 0.47, 1.76",
)


def _inverse(n: Inputs) -> list[Step]:
    p = n["p"]
    return [
        Step("−ln p", each(lambda x: CONTEXT.minus(f.ln(x)), p)),
        Step("−p ln p", each(lambda x: CONTEXT.minus(CONTEXT.multiply(x, f.ln(x))), p)),
        Step("H = −Σ p ln p", f.entropy(p)),
    ]


ENTROPY = Calculation(
    {"p": Field("list", "0.5, 0.25, 0.125, 0.125", Decimal("1e-12"))},
    _inverse,
    {
        "log2": Slip("−Σ p log₂ p", lambda n: f.entropy(n["p"], f.log2)),
        "log10": Slip("−Σ p log₁₀ p", lambda n: f.entropy(n["p"], f.log10)),
        "sign": Slip("Σ p ln p", lambda n: CONTEXT.minus(f.entropy(n["p"]))),
        "exponential": Slip("e^H", lambda n: f.exp(f.entropy(n["p"]))),
        "not_weighted": Slip("−Σ ln p", lambda n: CONTEXT.minus(total(each(f.ln, n["p"])))),
        "plain_mean": Slip("−Σ ln p / n", lambda n: CONTEXT.minus(f.mean(each(f.ln, n["p"])))),
        "largest_only": Slip("−ln max p", lambda n: CONTEXT.minus(f.ln(max(n["p"])))),
    },
    "1.75",
)


def _target(n: Inputs, shift: int = 0) -> int:
    return (int(n["target"]) - 1 + shift) % len(n["z"])


def _loss(n: Inputs, log=f.ln) -> Decimal:
    return CONTEXT.minus(log(f.softmax(n["z"])[_target(n)]))


CROSS_ENTROPY = Calculation(
    {"z": Field("list", "2, 1, 0.5"), "target": Field("number", "1", Decimal(1), True)},
    lambda n: [
        Step("softmax(z)", f.softmax(n["z"])),
        Step("p of the target", f.softmax(n["z"])[_target(n)]),
        Step("−ln p", _loss(n)),
    ],
    {
        "log2": Slip("−log₂ p", lambda n: _loss(n, f.log2)),
        "log10": Slip("−log₁₀ p", lambda n: _loss(n, f.log10)),
        "sign": Slip("ln p", lambda n: CONTEXT.minus(_loss(n))),
        "probability": Slip("p", lambda n: f.softmax(n["z"])[_target(n)]),
        "one_less": Slip("1 − p", lambda n: CONTEXT.subtract(Decimal(1), f.softmax(n["z"])[_target(n)])),
        "no_softmax": Slip("−z", lambda n: CONTEXT.minus(n["z"][_target(n)])),
        "next_target": Slip("−ln p, counted from 0", lambda n: _shifted(n, 1)),
        "before_target": Slip("−ln p, one place before", lambda n: _shifted(n, -1)),
        "twice": Slip("−ln softmax(softmax(z))", lambda n: _twice(n)),
        "mean_all": Slip("−Σ ln p / n", lambda n: CONTEXT.minus(f.mean(each(f.ln, f.softmax(n["z"]))))),
        "exponential": Slip("1 / p", lambda n: f.exp(_loss(n))),
    },
    "0.67",
)


def _shifted(n: Inputs, by: int) -> Decimal:
    return CONTEXT.minus(f.ln(f.softmax(n["z"])[_target(n, by)]))


def _twice(n: Inputs) -> Decimal:
    return CONTEXT.minus(f.ln(f.softmax(f.softmax(n["z"]))[_target(n)]))


PERPLEXITY = Calculation(
    {"loss": Field("number", "2.3")},
    lambda n: [Step("e^loss", f.exp(n["loss"]))],
    {
        "base_two": Slip("2^loss", lambda n: CONTEXT.power(_TWO, n["loss"])),
        "base_ten": Slip("10^loss", lambda n: CONTEXT.power(_TEN, n["loss"])),
        "sign": Slip("e^−loss", lambda n: f.exp(CONTEXT.minus(n["loss"]))),
        "log2": Slip("loss / ln 2", lambda n: CONTEXT.divide(n["loss"], f.ln(_TWO))),
    },
    "4.92",
)


def _angles(n: Inputs, exponent, first: int = 0) -> Array:
    """Return the sines and cosines of a position, with the exponent of 10,000 for dimension i."""
    width, place = int(n["d"]), CONTEXT.add(n["pos"], Decimal(first))
    angles = [CONTEXT.divide(place, CONTEXT.power(Decimal(10_000), exponent(i, width))) for i in range(width)]
    return tuple((f.cos if i % 2 else f.sin)(angle) for i, angle in enumerate(angles))


def _pairs(i: int, d: int) -> Decimal:
    return CONTEXT.divide(Decimal(i - i % 2), Decimal(d))


def _degrees(n: Inputs) -> Array:
    turned = CONTEXT.divide(CONTEXT.multiply(n["pos"], pi()), Decimal(180))
    return _angles({**n, "pos": turned}, _pairs)


POSITION = Calculation(
    {"pos": Field("number", "1", Decimal(0), True), "d": Field("number", "4", Decimal(1), True)},
    lambda n: [
        Step("2⌊i/2⌋ / d", tuple(_pairs(i, int(n["d"])) for i in range(int(n["d"])))),
        Step("sin and cos of pos / 10000^(2⌊i/2⌋ / d)", _angles(n, _pairs)),
    ],
    {
        "own_exponent": Slip(
            "10000^(i / d)", lambda n: _angles(n, lambda i, d: CONTEXT.divide(Decimal(i), Decimal(d)))
        ),
        "no_two": Slip(
            "10000^(⌊i/2⌋ / d)", lambda n: _angles(n, lambda i, d: CONTEXT.divide(Decimal(i // 2), Decimal(d)))
        ),
        "degrees": Slip("sin and cos of degrees", _degrees),
        "from_one": Slip("pos + 1", lambda n: _angles(n, _pairs, 1)),
        "swapped": Slip("cos before sin", lambda n: _swapped(_angles(n, _pairs))),
    },
    "0.02, 1.00, 0.00, 1.00",
)


def _swapped(x: Array) -> Array:
    return tuple(x[i ^ 1] if i ^ 1 < len(x) else x[i] for i in range(len(x)))
