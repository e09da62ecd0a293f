"""The functions that a page may name: softmax, norms, statistics, activations, logarithms and the like."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal

from model.by_hand import numbers
from model.by_hand.claims.arrays import (
    CONTEXT,
    Array,
    UnfitError,
    both,
    cells,
    divide,
    each,
    exactly,
    is_list,
    is_matrix,
    matmul,
    multiply,
    power,
    subtract,
    total,
    transpose,
)

_HALF, _ONE, _TWO = Decimal("0.5"), Decimal(1), Decimal(2)
exp, ln, sqrt = exactly(numbers.exp), exactly(numbers.ln), exactly(numbers.sqrt)
sin, cos, tanh, phi = (
    exactly(numbers.sine),
    exactly(numbers.cosine),
    exactly(numbers.tanh),
    exactly(numbers.normal_below),
)


@dataclass(frozen=True)
class Reading:
    """The reading of notations that have several meanings: the base of log, the form of GELU, 1 GB, and n − 1."""

    log: str = "ln"
    gelu: str = "erf"
    binary: bool = False
    sample: bool = False


def log2(x: Decimal) -> Decimal:
    """Compute the logarithm to base 2."""
    return CONTEXT.divide(ln(x), ln(_TWO))


def log10(x: Decimal) -> Decimal:
    """Compute the logarithm to base 10."""
    return CONTEXT.divide(ln(x), ln(Decimal(10)))


LOGS = {"ln": ln, "log2": log2, "log10": log10}


def sigmoid(x: Decimal) -> Decimal:
    """Compute 1 / (1 + e^−x)."""
    return CONTEXT.divide(_ONE, CONTEXT.add(_ONE, exp(CONTEXT.minus(x))))


def silu(x: Decimal) -> Decimal:
    """Compute x σ(x)."""
    return CONTEXT.multiply(x, sigmoid(x))


def relu(x: Decimal) -> Decimal:
    """Compute max(0, x)."""
    return max(x, Decimal(0))


def gelu_erf(x: Decimal) -> Decimal:
    """Compute x Φ(x) (Hendrycks & Gimpel 2016); 0 below −12, where it is smaller than 10⁻³¹."""
    if x < -12:
        return Decimal(0)
    return CONTEXT.multiply(x, phi(x))


def gelu_tanh(x: Decimal) -> Decimal:
    """Compute GELU's approximation by tanh."""
    inner = CONTEXT.add(x, CONTEXT.multiply(Decimal("0.044715"), CONTEXT.power(x, 3)))
    scale = CONTEXT.sqrt(CONTEXT.divide(_TWO, numbers.pi()))
    return CONTEXT.multiply(CONTEXT.multiply(_HALF, x), CONTEXT.add(_ONE, tanh(CONTEXT.multiply(scale, inner))))


def gelu_sigmoid(x: Decimal) -> Decimal:
    """Compute GELU's approximation x σ(1.702 x)."""
    return CONTEXT.multiply(x, sigmoid(CONTEXT.multiply(Decimal("1.702"), x)))


GELUS = {"erf": gelu_erf, "tanh": gelu_tanh, "sigmoid": gelu_sigmoid}


def softmax(x: Array, temperature: Decimal = _ONE) -> Array:
    """Compute the softmax of x / T, along the rows of a matrix."""
    if is_matrix(x):
        return tuple(softmax(row, temperature) for row in x)
    if not is_list(x) or not temperature:
        raise UnfitError
    scaled = divide(x, temperature)
    top = max(scaled)
    return share(each(exp, tuple(CONTEXT.subtract(one, top) for one in scaled)))


def share(x: Array) -> Array:
    """Divide a list by its sum."""
    return divide(x, total(x))


def mean(x: Array) -> Decimal:
    """Compute the mean of all numbers."""
    return CONTEXT.divide(total(x), Decimal(len(list(cells(x))) or 1))


def variance(x: Array, less: int = 0) -> Decimal:
    """Compute the variance, dividing by n − `less`."""
    away = subtract(x, mean(x))
    return CONTEXT.divide(total(multiply(away, away)), Decimal(len(list(cells(x))) - less))


def std(x: Array, less: int = 0) -> Decimal:
    """Compute the standard deviation, dividing by n − `less`."""
    return sqrt(variance(x, less))


def rms(x: Array) -> Decimal:
    """Compute the root mean square."""
    return sqrt(mean(multiply(x, x)))


def layer_norm(x: Array) -> Array:
    """Compute (x − mean) / std, along the rows of a matrix, with ε = 0."""
    if is_matrix(x):
        return tuple(layer_norm(row) for row in x)
    return divide(subtract(_listed(x), mean(x)), std(x))


def rms_norm(x: Array) -> Array:
    """Compute x / RMS, along the rows of a matrix, with ε = 0."""
    return tuple(rms_norm(row) for row in x) if is_matrix(x) else divide(_listed(x), rms(x))


def min_max(x: Array) -> Array:
    """Compute (x − min) / (max − min)."""
    low, high = min(_listed(x)), max(x)
    return divide(subtract(x, low), CONTEXT.subtract(high, low))


def entropy(x: Array, log: Callable[[Decimal], Decimal] = ln) -> Decimal:
    """Compute −Σ p log p; 0 log 0 is 0."""
    return CONTEXT.minus(total(tuple(CONTEXT.multiply(p, log(p)) if p else p for p in _listed(x))))


def norm(x: Array) -> Decimal:
    """Compute the length of a list."""
    return sqrt(total(multiply(_listed(x), x)))


def rounded(x: Decimal) -> Decimal:
    """Round to the nearest integer, halves to even."""
    return x.quantize(_ONE, ROUND_HALF_EVEN) if x.is_finite() and abs(x.adjusted()) < 25 else x


def _listed(x: Array) -> Array:
    if not is_list(x):
        raise UnfitError
    return x


def _attention(q: Array, k: Array, v: Array) -> Array:
    return matmul(softmax(divide(matmul(q, transpose(k)), sqrt(Decimal(len(k[0]))))), v)


_CELLWISE = {
    "exp": exp, "ln": ln, "log2": log2, "log10": log10, "sqrt": sqrt, "sin": sin, "cos": cos, "tanh": tanh,
    "sigmoid": sigmoid, "silu": silu, "swish": silu, "relu": relu, "abs": abs, "round": rounded, "phi": phi, "Φ": phi,
    "σ": sigmoid, "rint": rounded, "float": lambda x: x, "int": lambda x: x.to_integral_value("ROUND_DOWN"),
}  # fmt: skip
_OF_LIST: dict[str, Callable[[Array], Array]] = {
    "mean": mean, "average": mean, "avg": mean, "rms": rms, "sum": total, "layernorm": layer_norm, "ln_": layer_norm,
    "layer_norm": layer_norm, "rmsnorm": rms_norm, "rms_norm": rms_norm, "norm": norm, "range": lambda x:
    CONTEXT.subtract(max(_listed(x)), min(x)), "prod": lambda x: _product(x), "transpose": transpose,
    "array": lambda x: x, "tensor": lambda x: x, "floattensor": lambda x: x, "minmax": min_max,
    "perplexity": lambda x: exp(x) if not isinstance(x, tuple) else exp(entropy(x)), "ppl": lambda x: exp(x),
}  # fmt: skip
NAMES = {*_CELLWISE, *_OF_LIST, "softmax", "log", "gelu", "std", "var", "variance", "entropy", "max", "min", "dot",
         "matmul", "frac", "pow", "attention", "power"}  # fmt: skip
UNSURE = {"log": "log", "entropy": "log", "gelu": "gelu", "std": "sample", "var": "sample", "variance": "sample"}
_TEMPERATURES = {"T", "temperature", "temp", "τ", "t"}
_IGNORED = {"dim", "axis", "keepdim", "keepdims", "dtype", "eps", "unbiased", "ddof", "correction"}


def _product(x: Array) -> Decimal:
    result = _ONE
    for one in cells(x):
        result = CONTEXT.multiply(result, one)
    return result


def call(name: str, given: list[Array], named: Mapping[str, Array], reading: Reading) -> Array:
    """Apply a function by its lower-case name. Raises UnfitError for arguments that it does not understand."""
    if not given or not set(named) <= _IGNORED | (_TEMPERATURES if name == "softmax" else set()):
        raise UnfitError
    x = given[0]
    if name in _CELLWISE and len(given) == 1:
        return each(_CELLWISE[name], x)
    if name == "softmax":
        return _softmax(given, named)
    if name == "log" and len(given) == 1:
        return each(LOGS[reading.log], x)
    if name == "gelu" and len(given) == 1:
        return each(GELUS[reading.gelu], x)
    if name in {"std", "var", "variance"}:
        less = int(reading.sample or named.get("ddof") == 1 or named.get("correction") == 1)
        many = _many(given)
        if isinstance(many, tuple) and len(many) < 2:
            raise UnfitError
        return std(many, less) if name == "std" else variance(many, less)
    if name == "entropy":
        return entropy(_many(given), LOGS[reading.log])
    if name in {"max", "min"}:
        if name == "max" and len(given) == 2 and isinstance(given[1], tuple) != isinstance(x, tuple):
            return both(max, x, given[1])
        return (max if name == "max" else min)(cells(_many(given)))
    return _of_two(name, given) if name in {"dot", "matmul", "frac", "pow", "power", "attention"} else _one(name, given)


def _softmax(given: list[Array], named: Mapping[str, Array]) -> Array:
    along = named.get("dim", named.get("axis"))
    temperature = next((value for key, value in named.items() if key in _TEMPERATURES), _ONE)
    x = _many(given)
    if isinstance(temperature, tuple) or (is_matrix(x) and along == 0):
        raise UnfitError
    return softmax(x, temperature)


def _of_two(name: str, given: list[Array]) -> Array:
    if name == "attention" and len(given) == 3 and all(is_matrix(x) for x in given):
        return _attention(*given)
    if len(given) != 2:
        raise UnfitError
    return {"dot": matmul, "matmul": matmul, "frac": divide}.get(name, power)(*given)


def _one(name: str, given: list[Array]) -> Array:
    x = _many(given)
    if name not in _OF_LIST or (name in {"mean", "rms", "sum"} and not isinstance(x, tuple)):
        raise UnfitError
    return _OF_LIST[name](x)


def _many(given: list[Array]) -> Array:
    """Return the only argument, or several numbers as a list."""
    if len(given) > 1 and any(isinstance(x, tuple) for x in given):
        raise UnfitError
    return tuple(given) if len(given) > 1 else given[0]


def minus(x: Array) -> Array:
    """Compute −x."""
    return each(CONTEXT.minus, x)
