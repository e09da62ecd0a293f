"""Slips of the softmax, of norms and of statistics."""

from decimal import Decimal

from model.by_hand.claims import functions as f
from model.by_hand.claims.arrays import CONTEXT, Array, divide, each, multiply, power, subtract, total
from model.by_hand.slips.records import Calculation, Field, Inputs, Slip, Step

_TWO = Decimal(2)
_LIST = Field("list", "1, 2, 3, 4")


def _scaled(n: Inputs) -> Array:
    return divide(n["z"], n["T"])


def _softmax_steps(n: Inputs) -> list[Step]:
    scaled = _scaled(n)
    shifted = subtract(scaled, max(scaled))
    exps = each(f.exp, shifted)
    return [
        Step("z / T", scaled),
        Step("z / T − max", shifted),
        Step("e^(z / T − max)", exps),
        Step("Σ", total(exps)),
        Step("e^(z / T − max) / Σ", f.share(exps)),
    ]


SOFTMAX = Calculation(
    {"z": Field("list", "1, 2, 3, 4, 5"), "T": Field("number", "2", Decimal("0.001"))},
    _softmax_steps,
    {
        "t_multiplied": Slip("softmax(z × T)", lambda n: f.softmax(multiply(n["z"], n["T"]))),
        "t_forgotten": Slip("softmax(z)", lambda n: f.softmax(n["z"])),
        "t_afterwards": Slip("softmax(z) / T", lambda n: divide(f.softmax(n["z"]), n["T"])),
        "base_two": Slip("2^(z / T) / Σ", lambda n: f.share(each(lambda x: CONTEXT.power(_TWO, x), _scaled(n)))),
        "no_exponential": Slip("z / Σ z", lambda n: f.share(n["z"])),
        "min_max": Slip("(z − min) / (max − min)", lambda n: f.min_max(n["z"])),
        "no_sum": Slip("e^(z / T)", lambda n: each(f.exp, _scaled(n))),
        "by_largest": Slip("e^(z / T) / max", lambda n: _by_largest(_scaled(n))),
        "sigmoid": Slip("σ(z / T)", lambda n: each(f.sigmoid, _scaled(n))),
        "twice": Slip("softmax(softmax(z / T))", lambda n: f.softmax(f.softmax(_scaled(n)))),
        "log_softmax": Slip("ln softmax(z / T)", lambda n: each(f.ln, f.softmax(_scaled(n)))),
        "ranks": Slip("softmax(0, 1, 2, …)", lambda n: f.softmax(tuple(map(Decimal, range(len(n["z"])))))),
    },
    "0.000, 0.002, 0.016, 0.117, 0.865",
)


def _by_largest(x: Array) -> Array:
    exps = each(f.exp, subtract(x, max(x)))
    return divide(exps, max(exps))


def _away(n: Inputs) -> Array:
    return subtract(n["x"], f.mean(n["x"]))


def _spread_steps(n: Inputs) -> list[Step]:
    away = _away(n)
    return [
        Step("mean = Σ x / n", f.mean(n["x"])),
        Step("x − mean", away),
        Step("(x − mean)²", multiply(away, away)),
        Step("variance = Σ (x − mean)² / n", f.variance(n["x"])),
        Step("std = √variance", f.std(n["x"])),
    ]


LAYER_NORM = Calculation(
    {"x": _LIST},
    lambda n: [*_spread_steps(n), Step("(x − mean) / std", f.layer_norm(n["x"]))],
    {
        "sample": Slip("(x − mean) / √(Σ (x − mean)² / (n − 1))", lambda n: divide(_away(n), f.std(n["x"], 1))),
        "min_max": Slip("(x − min) / (max − min)", lambda n: f.min_max(n["x"])),
        "by_variance": Slip("(x − mean) / variance", lambda n: divide(_away(n), f.variance(n["x"]))),
        "no_mean": Slip("x / RMS", lambda n: f.rms_norm(n["x"])),
        "mean_kept": Slip("x / std", lambda n: divide(n["x"], f.std(n["x"]))),
        "no_std": Slip("x − mean", _away),
        "by_length": Slip("(x − mean) / ‖x − mean‖", lambda n: divide(_away(n), f.norm(_away(n)))),
        "by_largest": Slip("x / max |x|", lambda n: divide(n["x"], max(abs(x) for x in n["x"]))),
        "no_exponential": Slip("x / Σ x", lambda n: f.share(n["x"])),
        "softmaxed": Slip("softmax(x)", lambda n: f.softmax(n["x"])),
    },
    "0, 0.33, 0.67, 1",
)
RMS_NORM = Calculation(
    {"x": Field("list", "1, 2, 3")},
    lambda n: [
        Step("x²", multiply(n["x"], n["x"])),
        Step("RMS = √(Σ x² / n)", f.rms(n["x"])),
        Step("x / RMS", f.rms_norm(n["x"])),
    ],
    {
        "mean_taken": Slip("(x − mean) / std", lambda n: f.layer_norm(n["x"])),
        "by_length": Slip("x / √(Σ x²)", lambda n: divide(n["x"], f.norm(n["x"]))),
        "no_root": Slip("x / (Σ x² / n)", lambda n: divide(n["x"], power(f.rms(n["x"]), _TWO))),
        "by_mean": Slip("x / mean", lambda n: divide(n["x"], f.mean(n["x"]))),
        "mean_kept": Slip("x / std", lambda n: divide(n["x"], f.std(n["x"]))),
        "sample": Slip("x / √(Σ x² / (n − 1))", lambda n: _rms_of_sample(n["x"])),
        "by_largest": Slip("x / max |x|", lambda n: divide(n["x"], max(abs(x) for x in n["x"]))),
    },
    "0.27, 0.53, 0.80",
)


def _rms_of_sample(x: Array) -> Array:
    return divide(x, f.sqrt(CONTEXT.divide(total(multiply(x, x)), Decimal(len(x) - 1))))


STD = Calculation(
    {"x": _LIST},
    _spread_steps,
    {
        "sample": Slip("√(Σ (x − mean)² / (n − 1))", lambda n: f.std(n["x"], 1)),
        "no_root": Slip("Σ (x − mean)² / n", lambda n: f.variance(n["x"])),
        "sample_no_root": Slip("Σ (x − mean)² / (n − 1)", lambda n: f.variance(n["x"], 1)),
        "absolute": Slip("Σ |x − mean| / n", lambda n: f.mean(each(abs, _away(n)))),
        "no_mean": Slip("√(Σ x² / n)", lambda n: f.rms(n["x"])),
        "not_divided": Slip("√(Σ (x − mean)²)", lambda n: f.norm(_away(n))),
        "range": Slip("max − min", lambda n: CONTEXT.subtract(max(n["x"]), min(n["x"]))),
        "by_mean": Slip("Σ x / n", lambda n: f.mean(n["x"])),
    },
    "1.29",
)
