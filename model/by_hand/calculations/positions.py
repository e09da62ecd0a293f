"""Position encodings by hand: sinusoids and the linear map between positions, and rotation in two layouts."""

from collections.abc import Mapping

from model.by_hand.calculations.distance_biases import alibi, t5
from model.by_hand.numbers import Number, cosine, dot, number, power, sine
from model.by_hand.steps import MatrixStep, Notation, step
from model.errors import InputError


def positions(inputs: Mapping[str, MatrixStep]) -> tuple[MatrixStep, ...]:
    """Compute the rotation of a vector if the inputs contain x, ALiBi for heads, T5's biases for learned ones,
    otherwise sinusoids. Raises InputError for odd widths, and for biases that do not fit.
    """
    if "x" in inputs:
        return rotary(inputs)
    if "heads" in inputs:
        return alibi(inputs)
    return t5(inputs) if "learned" in inputs else sinusoids(inputs)


def _integer(inputs: Mapping[str, MatrixStep], name: str) -> int:
    return int(inputs[name].cells[0][0].value)


def _half(width: int) -> int:
    if width % 2:
        raise InputError("Positions need an even width.", str(width), "Choose an even number of dimensions.")
    return width // 2


def frequencies(inputs: Mapping[str, MatrixStep], half: int, name: str, symbol: str, latex: str) -> MatrixStep:
    """Compute base^(−2i/d) for i = 0 … d/2 − 1 [1 × d/2], in radians per position."""
    base = inputs["base"].at(0, 0)
    numbers = [number(1) / power(base, number(i) / number(half)) for i in range(half)]
    notation = Notation(
        name,
        symbol,
        "frequencies",
        f"{symbol}_i = 1 / base^(2(i−1)/d)",
        rf"{latex}_i = \mathrm{{base}}^{{-2(i-1)/d}}",
        f"{name} = 1 / base ** (np.arange({half})[None] / {half})",
    )
    return step(notation, [numbers])


def sinusoids(inputs: Mapping[str, MatrixStep]) -> tuple[MatrixStep, ...]:
    """Compute PE [N × d], and the matrix A [d × d] that maps the encoding of any position to that of the position k
    later.

    PE(p)_2i = sin(p ω_i), PE(p)_2i+1 = cos(p ω_i) (Vaswani et al. 2017, section 3.5). By the angle sum identities, PE(p
    + k) = A PE(p), where A rotates each pair by k ω_i and does not depend on p. Inputs: N, d, base, p, k, all [1 × 1];
    p is counted from 0.
    """
    rows, width, p, k = (_integer(inputs, name) for name in ("N", "d", "p", "k"))
    half = _half(width)
    rate = frequencies(inputs, half, "omega", "ω", r"\omega")
    place = tuple(str(n) for n in range(rows))

    def vector(position: Number) -> list[Number]:
        return [f(position * rate.at(0, i)) for i in range(half) for f in (sine, cosine)]

    line = "np.stack([np.sin({0} * omega), np.cos({0} * omega)], 2).reshape({1}, -1)"
    formula, latex = (
        "PE_p = [sin(p ω_1), cos(p ω_1), sin(p ω_2), …]",
        r"PE_{p,2i} = \sin(p\,\omega_i),\ PE_{p,2i+1} = \cos(p\,\omega_i)",
    )
    notation = Notation(
        "PE", "PE", "sinusoids", formula, latex, "PE = " + line.format(f"np.arange({rows})[:, None]", rows)
    )
    steps = [rate, step(notation, [vector(number(n)) for n in range(rows)], place)]
    zero = number(0)
    turn = [[zero] * width for _ in range(width)]
    for i in range(half):
        angle = number(k) * rate.at(0, i)
        a, b = 2 * i, 2 * i + 1
        turn[a][a], turn[a][b] = cosine(angle), sine(angle)
        turn[b][a], turn[b][b] = -sine(angle), cosine(angle)
    line_a = (
        f"A = np.zeros(({width}, {width})); e = 2 * np.arange({half}); "
        f"A[e, e] = A[e + 1, e + 1] = np.cos({k} * omega); "
        f"A[e, e + 1] = np.sin({k} * omega); A[e + 1, e] = -A[e, e + 1]"
    )
    notation = Notation(
        "A",
        "A",
        "shift_map",
        "A_i = [cos kω_i, sin kω_i; −sin kω_i, cos kω_i]",
        r"A_i = \begin{bmatrix}\cos k\omega_i & \sin k\omega_i\\-\sin k\omega_i & \cos k\omega_i\end{bmatrix}",
        line_a,
    )
    shift = step(notation, turn)
    notation = Notation("f", "f", "here", "f = PE(p)", "f = PE(p)", "f = " + line.format(f"np.array([[{p}]])", 1))
    origin = step(notation, [vector(number(p))])
    notation = Notation("g", "g", "mapped", "g = A · PE(p)", r"g = A\,PE(p)", "g = f @ A.T")
    mapped = step(notation, [[dot(shift.row(i), origin.row(0)) for i in range(width)]])
    notation = Notation(
        "t", "t", "there", "t = PE(p + k)", "t = PE(p + k)", "t = " + line.format(f"np.array([[{p + k}]])", 1)
    )
    return (*steps, shift, origin, mapped, step(notation, [vector(number(p + k))]))


def rotary(inputs: Mapping[str, MatrixStep]) -> tuple[MatrixStep, ...]:
    """Compute RoPE of x [1 × d] at position m in both layouts, and the permutation that converts one to the other.

    The adjacent layout rotates the pairs (x_1, x_2), (x_3, x_4), … (Su et al. 2021, section 3.2.2); the half-split
    layout rotates (x_i, x_(i + d/2)), as in most implementations. If x' is x permuted so that odd-numbered entries
    precede even-numbered ones, half(x') is adjacent(x) with the same permutation.
    """
    x = inputs["x"]
    width = x.shape[1]
    half = _half(width)
    rate = frequencies(inputs, half, "theta", "θ", r"\theta")
    m = inputs["m"].at(0, 0)
    notation = Notation("phi", "φ", "angles", "φ_i = m θ_i", r"\varphi_i = m\,\theta_i", "phi = m * theta")
    angle = step(notation, [[m * rate.at(0, i) for i in range(half)]])
    cos = step(
        Notation("c", "c", "cosines", "c_i = cos φ_i", r"c_i = \cos\varphi_i", "c = np.cos(phi)"),
        [[cosine(each) for each in angle.row(0)]],
    )
    sin = step(
        Notation("s", "s", "sines", "s_i = sin φ_i", r"s_i = \sin\varphi_i", "s = np.sin(phi)"),
        [[sine(each) for each in angle.row(0)]],
    )

    def turned(vector: MatrixStep, pairs: list[tuple[int, int]]) -> list[Number]:
        result = [number(0)] * width
        for i, (a, b) in enumerate(pairs):
            first, second = vector.at(0, a), vector.at(0, b)
            result[a] = first * cos.at(0, i) - second * sin.at(0, i)
            result[b] = first * sin.at(0, i) + second * cos.at(0, i)
        return result

    adjacent = [(2 * i, 2 * i + 1) for i in range(half)]
    order = [a for a, _ in adjacent] + [b for _, b in adjacent]
    formula, tex = (
        "(y_1, y_2) = (x_1 c_1 − x_2 s_1, x_1 s_1 + x_2 c_1), …",
        r"(y_{2i-1}, y_{2i}) = (x_{2i-1} c_i - x_{2i} s_i,\ x_{2i-1} s_i + x_{2i} c_i)",
    )
    line = "y = np.stack([x[:, ::2] * c - x[:, 1::2] * s, x[:, ::2] * s + x[:, 1::2] * c], 2).reshape(1, -1)"
    y = step(Notation("y", "y", "adjacent", formula, tex, line), [turned(x, adjacent)])
    notation = Notation(
        "x_h",
        "x_h",
        "permuted",
        "x_h = [x_1, x_3, …, x_2, x_4, …]",
        r"x_h = [x_1, x_3, \dots, x_2, x_4, \dots]",
        f"x_h = x[:, {order}]",
    )
    permuted = step(notation, [[x.at(0, n) for n in order]])
    formula, tex = (
        f"(y_i, y_i+{half}) = (x_i c_i − x_i+{half} s_i, x_i s_i + x_i+{half} c_i)",
        rf"(y_i, y_{{i+{half}}}) = (x_i c_i - x_{{i+{half}}} s_i,\ x_i s_i + x_{{i+{half}}} c_i)",
    )
    first, second = f"x_h[:, :{half}]", f"x_h[:, {half}:]"
    line = f"y_h = np.concatenate([{first} * c - {second} * s, {first} * s + {second} * c], 1)"
    y_half = step(
        Notation("y_h", "y_h", "half_split", formula, tex, line),
        [turned(permuted, [(i, i + half) for i in range(half)])],
    )
    back = [order.index(n) for n in range(width)]
    notation = Notation("y_b", "y_b", "put_back", "y_b = P⁻¹ y_h = y", r"y_b = P^{-1} y_h = y", f"y_b = y_h[:, {back}]")
    return (rate, angle, cos, sin, y, permuted, y_half, step(notation, [[y_half.at(0, n) for n in back]]))
