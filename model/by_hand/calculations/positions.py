"""Positions by hand: the sinusoids and the map from one position to another; rotation in two layouts."""

from collections.abc import Mapping

from model.by_hand.numbers import Number, cosine, dot, number, power, sine
from model.by_hand.steps import Said, Step, step
from model.errors import InputError


def positions(given: Mapping[str, Step]) -> tuple[Step, ...]:
    """Return the steps of sinusoids where no vector is given, else those of the rotation. Raises InputError for odd
    widths.
    """
    return rotary(given) if "x" in given else sinusoids(given)


def _whole(given: Mapping[str, Step], name: str) -> int:
    return int(given[name].cells[0][0].value)


def _half(width: int) -> int:
    if width % 2:
        raise InputError("Positions need an even width.", str(width), "Choose an even number of dimensions.")
    return width // 2


def frequencies(given: Mapping[str, Step], half: int, name: str, symbol: str, latex: str) -> Step:
    """Compute base^(−2i/d) for i = 0 … d/2 − 1 [1 × d/2], in radians per position."""
    base = given["base"].at(0, 0)
    numbers = [number(1) / power(base, number(i) / number(half)) for i in range(half)]
    said = Said(
        name,
        symbol,
        "frequencies",
        f"{symbol}_i = 1 / base^(2(i−1)/d)",
        rf"{latex}_i = \mathrm{{base}}^{{-2(i-1)/d}}",
        f"{name} = 1 / base ** (np.arange({half})[None] / {half})",
    )
    return step(said, [numbers])


def sinusoids(given: Mapping[str, Step]) -> tuple[Step, ...]:
    """Compute PE [N × d], and the map A from the vector of any position to that of the one k further on [d × d].

    PE(p)_2i = sin(p ω_i), PE(p)_2i+1 = cos(p ω_i) (Vaswani et al. 2017, section 3.5). By the sum formulas of sine and
    cosine PE(p + k) = A PE(p), where A turns every pair by k ω_i and does not depend on p. Given: N, d, base, p, k, all
    [1 × 1]; p is counted from 0.
    """
    rows, width, p, k = (_whole(given, name) for name in ("N", "d", "p", "k"))
    half = _half(width)
    rate = frequencies(given, half, "omega", "ω", r"\omega")
    place = tuple(str(n) for n in range(rows))

    def vector(position: Number) -> list[Number]:
        return [f(position * rate.at(0, i)) for i in range(half) for f in (sine, cosine)]

    line = "np.stack([np.sin({0} * omega), np.cos({0} * omega)], 2).reshape({1}, -1)"
    formula, latex = (
        "PE_p = [sin(p ω_1), cos(p ω_1), sin(p ω_2), …]",
        r"PE_{p,2i} = \sin(p\,\omega_i),\ PE_{p,2i+1} = \cos(p\,\omega_i)",
    )
    said = Said("PE", "PE", "sinusoids", formula, latex, "PE = " + line.format(f"np.arange({rows})[:, None]", rows))
    steps = [rate, step(said, [vector(number(n)) for n in range(rows)], place)]
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
    said = Said(
        "A",
        "A",
        "shift_map",
        "A_i = [cos kω_i, sin kω_i; −sin kω_i, cos kω_i]",
        r"A_i = \begin{bmatrix}\cos k\omega_i & \sin k\omega_i\\-\sin k\omega_i & \cos k\omega_i\end{bmatrix}",
        line_a,
    )
    shift = step(said, turn)
    said = Said("f", "f", "here", "f = PE(p)", "f = PE(p)", "f = " + line.format(f"np.array([[{p}]])", 1))
    here = step(said, [vector(number(p))])
    said = Said("g", "g", "mapped", "g = A · PE(p)", r"g = A\,PE(p)", "g = f @ A.T")
    mapped = step(said, [[dot(shift.row(i), here.row(0)) for i in range(width)]])
    said = Said("t", "t", "there", "t = PE(p + k)", "t = PE(p + k)", "t = " + line.format(f"np.array([[{p + k}]])", 1))
    return (*steps, shift, here, mapped, step(said, [vector(number(p + k))]))


def rotary(given: Mapping[str, Step]) -> tuple[Step, ...]:
    """Compute RoPE of x [1 × d] at position m, in both layouts, and the permutation that turns one into the other.

    Adjacent pairs turn (x_1, x_2), (x_3, x_4), … (Su et al. 2021, section 3.2.2); the half-split layout turns (x_i,
    x_(i + d/2)), as most code does. With x' = the odd places of x and then the even ones, half(x') is adjacent(x) in
    that same order.
    """
    x = given["x"]
    width = x.shape[1]
    half = _half(width)
    rate = frequencies(given, half, "theta", "θ", r"\theta")
    m = given["m"].at(0, 0)
    said = Said("phi", "φ", "angles", "φ_i = m θ_i", r"\varphi_i = m\,\theta_i", "phi = m * theta")
    angle = step(said, [[m * rate.at(0, i) for i in range(half)]])
    cos = step(
        Said("c", "c", "cosines", "c_i = cos φ_i", r"c_i = \cos\varphi_i", "c = np.cos(phi)"),
        [[cosine(each) for each in angle.row(0)]],
    )
    sin = step(
        Said("s", "s", "sines", "s_i = sin φ_i", r"s_i = \sin\varphi_i", "s = np.sin(phi)"),
        [[sine(each) for each in angle.row(0)]],
    )

    def turned(vector: Step, pairs: list[tuple[int, int]]) -> list[Number]:
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
    y = step(Said("y", "y", "adjacent", formula, tex, line), [turned(x, adjacent)])
    said = Said(
        "x_h",
        "x_h",
        "permuted",
        "x_h = [x_1, x_3, …, x_2, x_4, …]",
        r"x_h = [x_1, x_3, \dots, x_2, x_4, \dots]",
        f"x_h = x[:, {order}]",
    )
    permuted = step(said, [[x.at(0, n) for n in order]])
    formula, tex = (
        f"(y_i, y_i+{half}) = (x_i c_i − x_i+{half} s_i, x_i s_i + x_i+{half} c_i)",
        rf"(y_i, y_{{i+{half}}}) = (x_i c_i - x_{{i+{half}}} s_i,\ x_i s_i + x_{{i+{half}}} c_i)",
    )
    first, second = f"x_h[:, :{half}]", f"x_h[:, {half}:]"
    line = f"y_h = np.concatenate([{first} * c - {second} * s, {first} * s + {second} * c], 1)"
    y_half = step(
        Said("y_h", "y_h", "half_split", formula, tex, line), [turned(permuted, [(i, i + half) for i in range(half)])]
    )
    back = [order.index(n) for n in range(width)]
    said = Said("y_b", "y_b", "put_back", "y_b = P⁻¹ y_h = y", r"y_b = P^{-1} y_h = y", f"y_b = y_h[:, {back}]")
    return (rate, angle, cos, sin, y, permuted, y_half, step(said, [[y_half.at(0, n) for n in back]]))
