"""Every calculation against NumPy and PyTorch, its formulas evaluated, and what it is written as run."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model.by_hand.calculations.exercises import EXERCISE_SHEETS
from model.by_hand.calculations.rounding import SCHEMES
from model.by_hand.mistakes import MISTAKES, answer, exercise
from model.by_hand.numbers import Constant, Ref
from model.by_hand.sheets import SHEETS, Typed, example, worked
from model.by_hand.writing import as_latex, as_numpy
from model.errors import InputError

OPTIONS = {
    "attention": [{}, {"heads": 2}, {"scaled": False, "causal": False}, {"stable": False}],
    "norms": [{}, {"norm": "all"}],
    "mlp": [{"activation": each} for each in ("gelu", "gelu_tanh", "gelu_sigmoid", "relu", "silu")]
    + [{"residual": False}],
    "block": [{}, {"placement": "post"}, {"norms": "rms", "activation": "relu"}],
    "rounding": [{"scheme": each} for each in SCHEMES],
}
UNFIT = [("dictionary", {"heads": 2}), ("overflow", {"stable": False})]  # one column of V; beyond any float
UNFIT += [(name, {"norm": "all"}) for name in ("one_to_four", "undone")]  # one token has no spread over tokens
CASES = [
    (sheet, name, options)
    for sheet in SHEETS
    for name in SHEETS[sheet].examples
    for options in OPTIONS.get(sheet, [{}])
    if (name, options) not in UNFIT
]


def array(step) -> np.ndarray:
    return np.array([[float(cell.value) for cell in row] for row in step.cells])


def of(sheet, name, **options):
    given_, steps = worked(SHEETS[sheet], example(SHEETS[sheet], name), options)
    return {name: array(step) for name, step in given_.items()} | {step.name: array(step) for step in steps}


def typed(tables, names=()):
    return Typed("", tuple((key, tuple(tuple(map(str, row)) for row in rows)) for key, rows in tables.items()), names)


# --- against others ---


@pytest.mark.parametrize("causal", [True, False])
def test_attention_is_pytorchs(causal):
    n = of("attention", "cat_sat_on", causal=causal)
    q, k, v = (torch.tensor(n[name])[None] for name in "QKV")
    theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)[0]
    assert np.allclose(n["O"], theirs, atol=1e-14)


def test_the_worked_example_has_the_right_scores():
    n = of("attention", "cat_sat_on", scaled=False)
    assert np.allclose(n["S"], [[1.40, 1.08, 1.14], [1.24, 1.20, 1.17], [1.15, 1.00, 1.46]], atol=1e-12)


def test_heads_split_and_put_together_are_the_whole():
    """Two heads of block-diagonal work: each half on its own."""
    n = of("attention", "two_heads", heads=2)
    for h, columns in enumerate((slice(0, 2), slice(2, 4)), 1):
        q, k, v = (torch.tensor(n[name][:, columns])[None] for name in "QKV")
        theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)[0]
        assert np.allclose(n[f"O_{h}"], theirs, atol=1e-14) and np.allclose(n["C"][:, columns], theirs, atol=1e-14)
    assert np.allclose(n["Y"], n["C"] @ n["W_O"], atol=1e-14)


def test_without_the_maximum_a_float_overflows():
    fine, broken = (of("attention", "overflow", kind="float32", stable=stable) for stable in (True, False))
    assert np.isfinite(fine["A"]).all() and np.allclose(fine["A"].sum(1), 1)
    assert np.isinf(broken["E"]).any() and np.isnan(broken["A"]).any()
    assert np.isfinite(of("attention", "overflow", stable=False)["A"]).all()  # exact numbers have no largest one


def test_norms_are_pytorchs():
    n = of("norms", "three_tokens", norm="all")
    x = torch.tensor(n["X"])
    assert np.allclose(n["result_layer"], torch.nn.functional.layer_norm(x, (4,), eps=1e-5), atol=1e-13)
    assert np.allclose(n["result_rms"], torch.nn.functional.rms_norm(x, (4,), eps=1e-5), atol=1e-13)
    batch = torch.nn.functional.batch_norm(x, None, None, training=True, eps=1e-5)
    assert np.allclose(n["result_batch"], batch, atol=1e-13)
    assert np.allclose(of("norms", "one_to_four")["scaled_layer"], [[-1.3416, -0.4472, 0.4472, 1.3416]], atol=1e-4)
    assert np.allclose(of("norms", "six_numbers")["spread_layer"], 76.97, atol=0.005)
    undone = of("norms", "undone")
    assert np.array_equal(undone["result_layer"], undone["X"])


@pytest.mark.parametrize(
    ("kind", "theirs"),
    [
        ("gelu", torch.nn.functional.gelu),
        ("gelu_tanh", lambda x: torch.nn.functional.gelu(x, approximate="tanh")),
        ("gelu_sigmoid", lambda x: x * torch.sigmoid(1.702 * x)),
        ("relu", torch.nn.functional.relu),
        ("silu", torch.nn.functional.silu),
    ],
)
def test_activations_are_pytorchs(kind, theirs):
    n = of("mlp", "curve", activation=kind)
    assert np.allclose(n["a"], theirs(torch.tensor(n["h"])), atol=1e-14)


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_a_whole_layer_is_pytorchs(placement):
    n = of("block", "three_tokens", placement=placement)
    x, F = torch.tensor(n["X"]), torch.nn.functional

    def attention(x):
        q, k, v = (x @ torch.tensor(n[name]) for name in ("W_Q", "W_K", "W_V"))
        return F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0] @ torch.tensor(n["W_O"])

    def mlp(x):
        return F.gelu(x @ torch.tensor(n["W_1"])) @ torch.tensor(n["W_2"])

    def norm(x):
        return F.layer_norm(x, (4,), eps=1e-5)

    if placement == "pre":
        middle = x + attention(norm(x))
        theirs = middle + mlp(norm(middle))
    else:
        middle = norm(x + attention(x))
        theirs = norm(middle + mlp(middle))
    assert np.allclose(n["y" if placement == "pre" else "result_2"], theirs, atol=1e-12)


def test_a_cast_wraps_around_as_in_numpy():
    n = of("rounding", "bytes", scheme="wrapped")
    assert np.array_equal(n["q"][0], np.array([0, 100, 127, 128, 200, 255]).astype(np.int8))
    assert of("rounding", "one_number", scheme="float16")["h"][0, 0] == np.float16(0.123456789)


def test_biases_by_distance():
    n = of("positions", "alibi")  # Press et al. 2022: 1/2, 1/4 ... 1/256 for eight heads
    assert np.array_equal(n["slopes"][0], [1 / 2**h for h in range(1, 9)])
    assert n["B"][5, 2] == -1.5 and np.isneginf(n["B"][2, 5]) and n["B"][3, 3] == 0
    tables = {"N": [["16"]], "learned": [[str(i) for i in range(16)]], "far": [["128"]]}
    _, steps = worked(SHEETS["positions"], typed(tables))
    assert array(steps[0])[0].tolist() == [*range(8), 8, 8, 8, 8, 9, 9, 9, 9]
    with pytest.raises(InputError):
        worked(SHEETS["positions"], typed({"N": [["4"]], "heads": [["2"]], "head": [["3"]]}))
    with pytest.raises(InputError):
        worked(SHEETS["positions"], typed(tables | {"learned": [["1", "2", "3"]]}))


def test_probabilities_can_be_typed():
    n = of("logits", "probabilities")
    assert np.allclose(n["P"][0], [0.45, 0.25, 0.15, 0.08, 0.05, 0.01, 0.01]) and np.allclose(n["K"][0, 5:], 0)
    twice = {"shares": [["2", "1", "1"]], "k": [["8"]], "p": [["0.7"]]}
    _, steps = worked(SHEETS["logits"], typed(twice))
    assert np.allclose(array(steps[0]), [[0.5, 0.25, 0.25]]) and np.allclose(array(steps[-1]), [[2 / 3, 1 / 3, 0]])


def test_a_layer_with_typed_parts_adds_them():
    assert np.allclose(of("block", "typed")["y"], [[1.18, 2.35, 3.27, 4.45]], atol=1e-14)
    assert np.allclose(of("block", "sum")["y"], [[1.1, 2.2, 3.15]], atol=1e-14)


def test_tables_have_up_to_sixteen_columns():
    n = of("mlp", "wide")
    assert n["W_1"].shape == (4, 16)
    assert np.allclose(n["a"], torch.nn.functional.gelu(torch.tensor(n["h"])), atol=1e-14)
    row = [["1"] * 17]
    with pytest.raises(InputError, match="1 to 16 rows and columns"):
        worked(SHEETS["block"], typed({"X": row, "from_layer": row}))


def test_mlps_by_hand():
    n = of("mlp", "mlp", activation="relu")
    assert np.allclose(n["y"], n["x"] + np.maximum(n["x"] @ n["W_1"] + n["b_1"], 0) @ n["W_2"] + n["b_2"])
    n = of("mlp", "swiglu", activation="relu")
    gate = n["x"] @ n["W_G"]
    assert np.allclose(n["f"], (gate / (1 + np.exp(-gate)) * (n["x"] @ n["W_1"])) @ n["W_2"])
    assert np.array_equal(of("mlp", "linear")["y"], [[12.5, 5, 7]])


@pytest.mark.parametrize(
    ("name", "shares"),
    [
        ("one_to_five", [0.058, 0.096, 0.158, 0.260, 0.429]),
        ("two_one_zero", [0.867, 0.117, 0.016]),
        ("four_scores", [0.557, 0.041, 0.250, 0.152]),
        ("thousand", [0.301, 0.332, 0.367]),
    ],
)
def test_temperature_by_hand(name, shares):
    n = of("logits", name)
    assert np.allclose(n["P"], shares, atol=6e-4)
    assert np.isclose(n["L"], -math.log(n["P"][0, 0])) and np.isclose(n["PPL"], 1 / n["P"][0, 0])


def test_top_k_then_top_p():
    n = of("logits", "cuts")
    p = torch.softmax(torch.tensor(n["z"][0]) / 0.8, 0).numpy()
    kept = p[:5] / p[:5].sum()
    before = np.cumsum(kept) - kept
    drawn = np.where(before < 0.8, kept, 0)
    assert np.allclose(n["D"][0], [*(drawn / drawn.sum()), 0, 0]) and 0 < (n["D"] > 0).sum() < 5


def test_a_text_is_a_product():
    n = of("logits", "text")
    assert np.isclose(n["W"][0, -1], 0.2 * 0.1 * 0.5 * 0.8) and np.isclose(n["s"], -math.log(n["W"][0, -1]))
    _, steps = worked(SHEETS["logits"], example(SHEETS["logits"], "text"))
    assert steps[0].cells[0][-1].value == Fraction(1, 125)


def test_positions_shift_by_a_map_and_both_layouts_agree():
    n = of("positions", "eight_wide")
    assert np.allclose(n["g"], n["t"], atol=1e-14) and np.allclose(n["g"], n["PE"][1], atol=1e-14)
    assert np.allclose(n["PE"][1, :4], [np.sin(1), np.cos(1), np.sin(0.1), np.cos(0.1)])
    n = of("positions", "rope")
    assert np.allclose(n["y_b"], n["y"], atol=1e-14)
    turned = (n["x"][0, ::2] + 1j * n["x"][0, 1::2]) * np.exp(1j * 2 * np.array([1, 0.01]))
    assert np.allclose(n["y"][0, ::2], turned.real) and np.allclose(n["y"][0, 1::2], turned.imag)


def test_rounding_is_pytorchs():
    n = of("rounding", "int8", scheme="affine")
    scale, zero = n["s"].item(), int(n["z"].item())
    theirs = torch.fake_quantize_per_tensor_affine(torch.tensor(n["x"][0]), scale, zero, 0, 255)
    assert np.allclose(n["x_q"][0], theirs, atol=1e-12)
    for scheme in ("affine", "symmetric"):
        n = of("rounding", "int4", scheme=scheme)
        assert n["w"].item() <= n["s"].item() / 2 + 1e-15
    assert of("rounding", "int8", scheme="affine")["e"][0, 2] == 0  # zero stays zero


def test_the_cache_gives_the_rows_of_the_whole():
    n = of("cache", "cat_sat_on")
    assert np.array_equal(np.concatenate([n[f"o_{t}"] for t in (1, 2, 3)]), n["O"])
    n = of("cache", "online")
    assert np.allclose(n["y"], n["Y"], atol=1e-15)


@pytest.mark.parametrize(
    ("sheet", "tables"),
    [
        ("rounding", {"x": [[0, 0]], "bits": [[8]]}),
        ("logits", {"z": [[1, 2]], "T": [[1]], "k": [[1]], "p": [[1]], "target": [[3]]}),
        ("positions", {"x": [[1, 2, 3]], "m": [[1]], "base": [[100]]}),
    ],
)
def test_what_cannot_be_computed_is_said(sheet, tables):
    with pytest.raises(InputError) as refused:
        worked(SHEETS[sheet], typed(tables))
    assert refused.value.hint


def test_widths_that_cannot_be_split_are_said():
    with pytest.raises(InputError, match="3 heads"):
        of("attention", "cat_sat_on", heads=3)


# --- formulas and texts ---

_NAMES = {
    "√": lambda x: math.sqrt(x),
    "exp": math.exp,
    "ln": math.log,
    "max": lambda *x: max(x),
    "min": lambda *x: min(x),
    "abs": abs,
    "round": round,
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "float16": lambda x: float(np.float16(x)),
    "Φ": lambda x: (1 + math.erf(x / math.sqrt(2))) / 2,
}


def literal(value) -> str:
    """The value as Python reads it; a fraction stays one."""
    return f"Fraction({str(value)!r})" if isinstance(value, Fraction) else f"({float(value)!r})"


def evaluated(made, steps) -> float:
    """The formula of a cell, computed from the cells that it names."""
    text = ""
    for piece in made:
        if isinstance(piece, Ref):
            text += literal(steps[piece.name].cells[piece.row][piece.column].value)
        elif isinstance(piece, Constant):
            text += literal(piece.value)
        else:
            text += piece
    for ours, python in (
        ("×", "*"),
        ("−∞", "-inf"),
        ("−", "-"),
        ("²", "**2"),
        ("^", "**"),
        ("≤", "<="),
        ("[", "("),
        ("]", ")"),
    ):
        text = text.replace(ours, python)
    return float(
        eval(text.replace("√(", "root("), {**_NAMES, "root": math.sqrt, "inf": math.inf, "Fraction": Fraction})
    )


@pytest.mark.parametrize(("sheet", "name", "options"), CASES)
def test_every_cell_is_what_its_formula_says(sheet, name, options):
    given_, steps = worked(SHEETS[sheet], example(SHEETS[sheet], name), options)
    known = dict(given_)
    for step in steps:
        for row in step.cells:
            for cell in row:
                assert cell.made, step.name
                value = float(cell.value)
                assert math.isclose(evaluated(cell.made, known), value, rel_tol=1e-9, abs_tol=1e-12), (step.name, cell)
        assert step.name not in known
        known[step.name] = step  # a formula names only what came before


@pytest.mark.parametrize(("sheet", "name", "options"), CASES)
def test_numpy_lines_give_the_same_numbers(sheet, name, options):
    given_, steps = worked(SHEETS[sheet], example(SHEETS[sheet], name), options)
    made: dict = {}
    exec(as_numpy(given_, steps), made)
    for step in steps:
        assert np.shape(made[step.name]) == step.shape, step.name
        assert np.allclose(made[step.name], array(step), rtol=1e-9, atol=1e-13), step.name


def test_latex_has_every_matrix():
    given_, steps = worked(SHEETS["norms"], example(SHEETS["norms"], "one_to_four"))
    texts = {each.name: [["1/3"] * each.shape[1]] * each.shape[0] for each in (*given_.values(), *steps)}
    written = as_latex(given_, steps, texts)
    assert written.count(r"\begin{bmatrix}") == len(given_) + len(steps) and r"\frac{1}{3}" in written
    assert written.count("{") == written.count("}") and r"\hat{x}" in written


@pytest.mark.parametrize("name", MISTAKES)
def test_the_mistake_is_where_it_was_put_and_nowhere_else(name):
    made = exercise(name)
    found = set()
    for line, shown in enumerate(made.rows):
        for column in range(len(shown.texts)):
            told = answer(made, line, column)
            if told.wrong:
                found.add((told.step, told.row, told.column))
    assert found == set(MISTAKES[name].wrong)
    with pytest.raises(InputError):
        answer(made, len(made.rows), 0)


def shown(name: str) -> dict[str, np.ndarray]:
    """The rows of an exercise as they ought to be: step -> its numbers."""
    made = exercise(name)
    return {each.name: array(each) for each in (*made.given, *made.steps)}


def test_the_exercises_of_their_own_sheets_against_numpy():
    """Qwen3-8B's config.json: 4,096 and 12,288; speculative sampling gives p; Kaplan et al. 2020, equation 1.5."""
    sizes = shown("mlp_width")
    assert sizes["d_mlp"] == 12_288 and sizes["parameters"] == 3 * 4096 * 12_288 == 150_994_944
    draft = shown("rejected")
    p, q = draft["large"][0], draft["draft"][0]
    excess = np.maximum(0, p - q)
    assert np.allclose(draft["kept_share"], np.minimum(1, p / q)) and np.allclose(draft["again"], excess / excess.sum())
    assert np.allclose(draft["out"], p)
    law = shown("law")
    by_hand = ((88e12 / 1.5e9) ** (0.076 / 0.095) + 54e12 / 22e9) ** 0.095
    assert np.allclose(law["loss_law"], by_hand)


def test_what_stands_in_an_exercise_is_the_mistake_that_it_names():
    scores = shown("mask")["S"]
    for row in (0, 1):
        powers = np.exp(scores[row] * np.tri(3)[row])  # multiplied by a mask of 0 and 1
        stands = [float(MISTAKES["mask"].wrong["A", row, column]) for column in range(3)]
        assert np.allclose(stands, powers / powers.sum(), atol=0.005)
    stands = [float(text) for text in MISTAKES["rejected"].wrong.values()]
    assert np.allclose(stands, shown("rejected")["large"][0])
    added = (88e12 / 1.5e9) ** 0.076 + (54e12 / 22e9) ** 0.095
    assert float(MISTAKES["law"].wrong["loss_law", 0, 0]) == pytest.approx(added, abs=0.005)


@pytest.mark.parametrize("name", EXERCISE_SHEETS)
def test_numpy_lines_of_the_exercises_make_the_same_numbers(name):
    sheet = EXERCISE_SHEETS[name]
    given_, steps = worked(sheet, example(sheet, next(iter(sheet.examples))))
    made: dict = {}
    exec(as_numpy(given_, steps), made)
    for step in steps:
        assert np.allclose(made[step.name], array(step), rtol=1e-9, atol=1e-13), step.name


# --- properties ---

small = st.integers(-30, 30).map(lambda n: n / 10)


def tables(rows, columns):
    return st.lists(st.lists(small, min_size=columns, max_size=columns), min_size=rows, max_size=rows)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 4).flatmap(lambda t: st.tuples(tables(t, 4), tables(t, 4), tables(t, 4))), st.sampled_from([1, 2, 4])
)
def test_rows_sum_to_one_and_cached_is_uncached(qkv, heads):
    sheet = typed(dict(zip("QKV", qkv, strict=True)))
    _, steps = worked(SHEETS["attention"], sheet, {"heads": heads})
    for step in steps:
        if step.about == "weights":
            assert np.allclose(array(step).sum(1), 1, atol=1e-14) and not np.triu(array(step), 1).any()
    _, kept = worked(SHEETS["cache"], sheet)
    by_name = {step.name: array(step) for step in kept}
    assert np.allclose(np.concatenate([by_name[f"o_{t + 1}"] for t in range(len(qkv[0]))]), by_name["O"], atol=1e-14)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(small, small), min_size=1, max_size=8), st.integers(1, 8))
def test_online_softmax_is_softmax(pairs, block):
    s, v = zip(*pairs, strict=True)
    _, steps = worked(SHEETS["cache"], typed({"s": [s], "v": [v], "block": [[block]]}))
    by_name = {step.name: array(step) for step in steps}
    assert np.allclose(by_name["y"], by_name["Y"], atol=1e-13)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4).flatmap(lambda n: tables(1, 2 * n)), st.integers(0, 4096))
def test_layouts_agree_after_the_permutation_and_keep_the_length(x, m):
    _, steps = worked(SHEETS["positions"], typed({"x": x, "m": [[m]], "base": [[10000]]}))
    by_name = {step.name: array(step) for step in steps}
    assert np.allclose(by_name["y_b"], by_name["y"], atol=1e-14)
    assert np.isclose(np.linalg.norm(by_name["y"]), np.linalg.norm(x))


@settings(max_examples=60, deadline=None)
@given(st.lists(small, min_size=1, max_size=8).filter(any), st.integers(2, 8), st.sampled_from(["affine", "symmetric"]))
def test_rounding_is_at_most_half_a_step_off(x, bits, scheme):
    _, steps = worked(SHEETS["rounding"], typed({"x": [x], "bits": [[bits]]}), {"scheme": scheme})
    by_name = {step.name: step.cells[0] for step in steps}
    assert by_name["w"][0].value <= by_name["s"][0].value / 2  # fractions: no tolerance
    low, high = (0, 2**bits - 1) if scheme == "affine" else (1 - 2 ** (bits - 1), 2 ** (bits - 1) - 1)
    assert all(low <= cell.value <= high and cell.value.denominator == 1 for cell in by_name["q"])
