"""Quantization of a few numbers to integers: scale, zero point, and error (Jacob et al. 2018, section 2.1)."""

from collections.abc import Mapping
from fractions import Fraction

from model.by_hand.numbers import Number, largest, number, round_to_even, size, smallest, stored
from model.by_hand.steps import MatrixStep, Notation, step
from model.errors import InputError
from model.public import one_of, public

SCHEMES = ("symmetric", "affine", "wrapped", "float16")


@public(scheme=one_of(SCHEMES))
def rounding(inputs: Mapping[str, MatrixStep], scheme: str) -> tuple[MatrixStep, ...]:
    """Quantize x [1 × n] to integers of `bits` bits and dequantize it, with all steps in exact fractions.

    Scheme `symmetric`: s = max |x| / (2^(b−1) − 1), and 0 maps to 0. Scheme `affine`: s = (high − low) / (2^b − 1) for
    a range that includes 0, with the zero point z = round(−low / s), so that 0 is represented exactly. Then q =
    clamp(round(x / s) + z), and the dequantized value is s (q − z). The error is at most s / 2. Raises InputError if
    all numbers are 0. The other schemes have no scale, see `_cast`.
    """
    if scheme in ("wrapped", "float16"):
        return _cast(inputs, scheme)
    x, bits = inputs["x"], int(inputs["bits"].cells[0][0].value)
    numbers = x.row(0)
    if all(each.value == 0 for each in numbers):
        raise InputError("Every number is 0: there is nothing to scale.", "", "Type a number other than 0.")
    steps: list[MatrixStep] = []

    def add(name: str, symbol: str, about: str, formula: str, latex: str, line: str, cells: list[Number]) -> MatrixStep:
        steps.append(step(Notation(name, symbol, about, formula, latex, f"{name} = {line}"), [cells]))
        return steps[-1]

    if scheme == "symmetric":
        low, high = 1 - 2 ** (bits - 1), 2 ** (bits - 1) - 1
        top = add(
            "a",
            "a",
            "widest",
            "a = max |x|",
            r"a = \max_i |x_i|",
            "np.abs(x).max(keepdims=True)",
            [largest([size(each) for each in numbers])],
        )
        scale = add(
            "s", "s", "scale", f"s = a / {high}", f"s = a / {high}", f"a / {high}", [top.at(0, 0) / number(high)]
        )
        zero = number(0)
        line = f"np.clip(np.round(x / s), {low}, {high})"
        formula, tex = f"q_i = clamp(round(x_i / s), {low}, {high})", r"q_i = \mathrm{clamp}(\mathrm{round}(x_i / s))"
        levels = [round_to_even(each / scale.at(0, 0)) for each in numbers]
    else:
        low, high = 0, 2**bits - 1
        bottom = add(
            "lo",
            "lo",
            "low",
            "lo = min(x, 0)",
            r"lo = \min(0, \min_i x_i)",
            "np.minimum(x.min(keepdims=True), 0)",
            [smallest([*numbers, number(0)])],
        )
        top = add(
            "hi",
            "hi",
            "high",
            "hi = max(x, 0)",
            r"hi = \max(0, \max_i x_i)",
            "np.maximum(x.max(keepdims=True), 0)",
            [largest([*numbers, number(0)])],
        )
        scale = add(
            "s",
            "s",
            "scale",
            f"s = (hi − lo) / {high}",
            rf"s = (hi - lo) / {high}",
            f"(hi - lo) / {high}",
            [(top.at(0, 0) - bottom.at(0, 0)) / number(high)],
        )
        point = add(
            "z",
            "z",
            "zero_point",
            "z = round(−lo / s)",
            r"z = \mathrm{round}(-lo / s)",
            "np.round(-lo / s)",
            [round_to_even(-bottom.at(0, 0) / scale.at(0, 0))],
        )
        zero = point.at(0, 0)
        line = f"np.clip(np.round(x / s) + z, {low}, {high})"
        formula, tex = (
            f"q_i = clamp(round(x_i / s) + z, {low}, {high})",
            r"q_i = \mathrm{clamp}(\mathrm{round}(x_i / s) + z)",
        )
        levels = [round_to_even(each / scale.at(0, 0)) + zero for each in numbers]
    q = add("q", "q", "levels", formula, tex, line, [_clamp(each, low, high) for each in levels])
    restored = [scale.at(0, 0) * (each - zero) if scheme == "affine" else scale.at(0, 0) * each for each in q.row(0)]
    minus = " − z" if scheme == "affine" else ""
    back = add(
        "x_q",
        "x_q",
        "restored",
        f"x_q = s · (q{minus})",
        f"x_q = s (q{minus.replace('−', '-')})",
        "s * (q - z)" if minus else "s * q",
        restored,
    )
    error = add(
        "e",
        "e",
        "error",
        "e = x_q − x",
        "e = x_q - x",
        "x_q - x",
        [b - a for a, b in zip(numbers, back.row(0), strict=True)],
    )
    add(
        "w",
        "w",
        "worst",
        "w = max |e| ≤ s / 2",
        r"w = \max_i |e_i| \le s / 2",
        "np.abs(e).max(keepdims=True)",
        [largest([size(each) for each in error.row(0)])],
    )
    return tuple(steps)


def _clamp(x: Number, low: int, high: int) -> Number:
    """Clamp x to [low, high]."""
    return largest([smallest([x, number(high)]), number(low)])


def _cast(inputs: Mapping[str, MatrixStep], scheme: str) -> tuple[MatrixStep, ...]:
    """Compute what a cast without a scale stores.

    Scheme `wrapped`: the lowest b bits of the nearest integer r, q = r − 2^b round((r + 1/2) / 2^b), from
    −2^(b−1) to 2^(b−1) − 1 (two's complement). Scheme `float16`: the nearest number with 11 significant bits (IEEE
    754).
    """
    x, count = inputs["x"], 2 ** int(inputs["bits"].cells[0][0].value)
    if scheme == "float16":
        notation = Notation(
            "h", "h", "as_float16", "h = float16(x)", r"h = \text{float16}(x)", "h = x.astype(np.float16) * 1.0"
        )
        steps = [step(notation, [[stored(each, "float16") for each in x.row(0)]])]
    else:
        notation = Notation("r", "r", "nearest_integer", "r = round(x)", r"r = \mathrm{round}(x)", "r = np.round(x)")
        steps = [step(notation, [[round_to_even(each) for each in x.row(0)]])]
        formula = f"q = r − {count} round((r + 1/2) / {count})"
        tex = rf"q = r - {count}\,\mathrm{{round}}((r + 1/2) / {count})"
        line = f"q = r - {count} * np.round((r + 0.5) / {count})"
        half, turns = number(Fraction(1, 2)), number(count)
        kept = [each - turns * round_to_even((each + half) / turns) for each in steps[0].row(0)]
        steps.append(step(Notation("q", "q", "wrapped", formula, tex, line), [kept]))
    last = steps[-1]
    notation = Notation("e", "e", "error", f"e = {last.symbol} − x", f"e = {last.symbol} - x", f"e = {last.name} - x")
    return (*steps, step(notation, [[b - a for a, b in zip(x.row(0), last.row(0), strict=True)]]))
