"""Checked pages: each kind of statement, right and wrong, what is left alone, and hostile texts."""

import time

import pytest

from model.by_hand.claims.check import LONGEST, check_tutorial
from model.errors import InputError


def said(text):
    """The verdicts on the numbers of a text, in order: {stated: verdict}."""
    return [(each.stated, each.verdict) for each in check_tutorial(text).claims]


RIGHT = {
    "softmax": ("softmax([1, 2, 3]) = [0.09, 0.24, 0.67]", 3),
    "softmax with T": ("softmax([1, 2, 3], T=2) = [0.19, 0.31, 0.51]", 3),
    "softmax, divided": ("softmax([2, 1] / 0.5) → [0.88, 0.12]", 2),
    "softmax of numbers": ("softmax(2, 1, 0) = (0.665, 0.245, 0.090)", 3),
    "scores, an arrow": ("The scores [1, 2, 3] → softmax → [0.09, 0.24, 0.67]", 3),
    "softmax in words": ("The softmax of [1, 2, 3] at T = 2 is [0.19, 0.31, 0.51].", 3),
    "temperatures": ("x = [2, 1, 0]\nT=1.0: [0.67, 0.24, 0.09]\nT=2.0: [0.51, 0.31, 0.19]", 6),
    "statistics": ("The list [2, 4, 6] has mean 4 and std 1.63.", 2),
    "statistics below": ("x = [2, 4, 6]\nmean = 4\nmin: 2 | max: 6 | range: 4", 4),
    "variance of": ("The variance of [1, 2, 3, 4] = 1.25", 1),
    "Chinese statistics": ("x = [2, 4, 6]\n均值：4，标准差：1.63", 2),
    "columns": ("[[1, 2], [3, 4]]\nmean = [2, 3]", 2),
    "LayerNorm": ("LayerNorm([1, 2, 3, 4]) = [-1.34, -0.45, 0.45, 1.34]", 4),
    "standardized": ("marks: 30, 40, 35\nstandardized:\nmarks: [-1.22, 1.22, 0]", 3),
    "RMSNorm": ("RMSNorm([3, 4]) = [0.85, 1.13]", 2),
    "dot product": ("[1, 2] · [3, 4] = 11, np.dot([1, 2], [3, 4]) = 11", 2),
    "dot product of names": ("q = [1, 2]\nk = [3, 4]\nscore = q · k = 1×3 + 2×4 = 11", 1),
    "term by term": ("s = 0.3×0.9 + 0.9×0.7 = 0.27 + 0.63 = 0.90", 3),
    "scores": ("1.4 / √64 = 0.175", 1),
    "NumPy": ("y = np.array([1, 2]) @ np.array([[1, 0], [0, 1]])  # [1, 2]", 2),
    "matrices": ("Q = [[1, 0], [0, 1]]\nK = [[1, 2], [3, 4]]\nS = Q @ K^T\nS = [[1, 3], [2, 4]]", 4),
    "LaTeX": (r"$\begin{bmatrix} 1 & 2 \\ 3 & 4 \end{bmatrix} \cdot \begin{bmatrix} 1 \\ 1 \end{bmatrix}"
              r" = \begin{bmatrix} 3 \\ 7 \end{bmatrix}$, $\frac{3}{4} = 0.75$, $\sqrt{2} \approx 1.41$", 4),
    "activations": ("GELU(1) = 0.84, ReLU(-3) = 0, sigmoid(0) = 0.5, tanh(1) = 0.76", 4),
    "activations of a list": ("ReLU(x) = max(0, x)\n\ninput: [-2, 0, 3]\noutput: [0, 0, 3]", 3),
    "exponentials": ("[2.0, 1.0]\n ↓ e^x\n[7.39, 2.72]\n ↓ divided by the sum\n[0.73, 0.27]", 4),
    "logarithms": ("exp(2.3) = 9.97, ln 50257 = 10.82, −ln 0.25 = 1.386, log(8) = 3, e^2 = 7.39", 5),
    "entropy": ("entropy([0.5, 0.25, 0.25]) = 1.04", 1),
    "sum of probabilities": ("probabilities: [0.5, 0.3, 0.2]", 1),
    "perplexity": ("A loss of 2.3 is a perplexity of 9.97.", 1),
    "perplexity in Chinese": ("损失为 2.3，困惑度为 9.97", 1),
    "a uniform guess": ("With a vocabulary of 50,257 tokens, a uniform guess has loss 10.82.", 1),
    "share": ("3 of 12 heads is 25%", 1),
    "share in Chinese": ("40 个里有 10 个，占 25%", 1),
    "share of named things in Chinese": ("12 个头里有 3 个，占 25%", 1),
    "shares of a list": ("- A: 60M (60%)\n- B: 40M (40%)", 2),
    "total of a table": ("| Q | 16.8M |\n| K | 4.2M |\n| Total | 21.0M |", 1),
    "products": ("12 × 64 = 768 and 151,936 × 4,096 = 622M", 2),
    "Chinese signs": ("１２ × 64 ＝ 768（即 151936 × 4096 ≈ 6.2亿）", 2),
    "power": ("0.9^12 = 0.28, 0.9 ** 12 = 0.28, 2^10 = 1024", 3),
    "decay": ("0.9 per layer, 12 layers leave 0.28", 1),
    "known width": ("d = 768\n4d² = 2,359,296", 1),
    "linear layer": ("nn.Linear(768, 3072) has 2,362,368 parameters", 1),
    "attention": ("attention with d = 768 has 2.36M parameters", 1),
    "MLP": ("An MLP with d = 768 has 4.72M parameters", 1),
    "memory": ("7B parameters in FP16 take 14 GB", 1),
    "GiB": ("7B parameters in FP16 take 13.04 GB", 1),
    "cache": ("2 × 32 × 8 × 128 × 4096 × 2 bytes = 0.54 GB", 1),
    "price": ("5,000 tokens at $0.03 per 1K cost $0.15", 1),
    "price in Chinese": ("5000 个词元，每 1K 词元 0.03 美元，共 0.15 美元", 1),
    "position": ("PE(1) = [0.84, 0.54, 0.01, 1.00]", 4),
    "int8": ("scale = 2.54 / 127 = 0.02\nround(0.31 / 0.02) = 16\nround(-(-1.28) / 0.02) = 64", 3),
    "rounding": ("4,718,592 ≈ 4.7M", 1),
    "code": ("```python\nx = np.array([2.0, 1.0])\np = softmax(x / 0.5)\nprint(p)  # [0.88, 0.12]\n```", 2),
    "mask": ("m = [[0.66, -inf], [0.62, 0.60]]\nw = softmax(m)\nw = [[1.00, 0.00], [0.51, 0.49]]", 4),
    "a tag and a full stop": ("Each is a head. <b>12 × 64 = 768</b> in all. 3 × 4 = 12", 2),
    "an arrow parts": ("n = 4K → n² = 16M\nn = 32K → n² = 1B", 2),
}  # fmt: skip
WRONG = {
    "softmax([1, 2, 3]) = [0.10, 0.24, 0.66]": ["0.10"],
    "softmax([1000, 1000.1, 1000.2]) = [0.090, 0.245, 0.665]": ["0.090", "0.245", "0.665"],
    "x = [1, 2, 3, 4, 5]\nT = 2: [0.105, 0.141, 0.191, 0.258, 0.305]": ["0.105", "0.141", "0.191", "0.258", "0.305"],
    "x = [0.1, 0.3, 98.5]\nmean = 32.97\nstd = 50.0": ["50.0"],
    "LayerNorm([1, 2, 3, 4]) = [0, 0.33, 0.67, 1]": ["0", "0.33", "0.67"],
    "GELU(0.7) = 0.68": ["0.68"],
    "12 × 64 = 769": ["769"],
    "[1, 2] · [3, 4] = 12": ["12"],
    "151,936 × 4,096 = 632M": ["632M"],
    "probabilities: [0.50, 0.30, 0.30]": ["0.50, 0.30, 0.30"],
    "3 of 12 heads is 30%": ["30%"],
    "A loss of 2.3 is a perplexity of 12.": ["12"],
    "5,000 tokens at $0.03 per 1K cost $0.18": ["0.18"],
    "- A: 60M (70%)\n- B: 40M (30%)": ["70%", "30%"],
    "| Q | 16.8M |\n| K | 4.2M |\n| Total | 24.0M |": ["24.0M"],
    "4096 × 4096 = 16.7M FLOPs/token": ["16.7M"],
    "7B parameters in FP16 take 7 GB": ["7 GB"],
    "0.9^12 = 0.31": ["0.31"],
    "PE(1) = [0.84, 0.54, 0.10, 0.99]": ["0.10"],
}
ALONE = [
    "GPT-2 has 12 layers, 12 heads and a width of 768.",
    "a + 3 × 4 = 15",
    "f(3) = 5, x[0] = 2, P(x) = 0.5",
    "mean = 3 and std = 2",
    "softmax([1, 2, ..., 9]) = [0.1, 0.2, 0.3]",
    "Weights are in [0, 1]. The table has shape [3, 4].\nWith softmax it has shape [5, 6].",
    "input: [0.5, 0.3, 0.8]\nThe MLP changes them.\noutput: [0.9, 0.1, 0.6]",
    "x = [1, 2, 3]\nx = Block(x)\ny = x + x\ny = [1, 1, 1]",
    "exp(1000) = inf",
    "See section 3.2, figure 4 (2017), pages 18-27.",
    "T = 2 * d\nT = 100",
    "- A: 60M (60%)\n- B: 20M (5%)",
    "| 1 | Totals of rows |\n| 2 | 8 |\n| 7 | total of both |",
    "5,000 + 500 tokens = $0.18",
    "16.8/4.2/4.2 = 42M",
]


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_statement_of_each_kind(name):
    text, many = RIGHT[name]
    assert [verdict for _, verdict in said(text)] == ["right"] * many


@pytest.mark.parametrize("text", WRONG)
def test_the_wrong_numbers_of_a_statement(text):
    assert [stated for stated, verdict in said(text) if verdict == "wrong"] == WRONG[text]


@pytest.mark.parametrize("text", ALONE)
def test_what_cannot_be_tied_to_its_inputs_is_left_alone(text):
    found = check_tutorial(text)
    assert not found.claims and (found.left or text == "exp(1000) = inf")


def test_loose_is_between_right_and_wrong():
    verdicts = dict(said("1 / 3 = 0.33\n2 / 3 = 0.66\n1 / 3 = 0.36\n50257 × 768 ≈ 39M\n2 × 3 = 6.1"))
    assert verdicts == {"0.33": "right", "0.66": "loose", "0.36": "wrong", "39M": "right", "6.1": "wrong"}
    assert said("49020.8 / 1 ≈ 50K") == [("50K", "loose")] and said("49020.8 / 1 = 50K") == [("50K", "loose")]


def test_a_claim_says_where_it_stands_and_what_is_right():
    text = "First,\nx = [1, 2, 3, 4, 5]\nT = 2: [0.058, 0.105, 0.158, 0.260, 0.429]"
    found = check_tutorial(text)
    wrong = next(each for each in found.claims if each.verdict == "wrong")
    assert text[wrong.start : wrong.end] == wrong.stated == "0.105"
    assert float(wrong.right) == pytest.approx(0.0956, abs=1e-4) and wrong.formula == "softmax([1, 2, 3, 4, 5] / 2)"
    assert found.count("right") == 4 and found.inputs == 5 and found.left == 1  # the temperature


def test_a_step_from_a_wrong_number_is_right():
    text = "x = [0.1, 0.3, 98.5]\nmean = 32.97\nstd = 50.0\n(98.5 - 32.97) / 50.0 = 1.31"
    assert said(text) == [("32.97", "right"), ("50.0", "wrong"), ("1.31", "right")]


def test_a_heading_forgets_names_and_a_new_value_replaces_them():
    names = "Q = [1, 2]\nK = [3, 4]\n{}S = Q · K = 12"
    assert said(names.format("")) == [("12", "wrong")] and said(names.format("## Next\n")) == []
    assert said("Q = [1, 2]\nQ = [1, 1]\nQ · [3, 4] = 7") == [("7", "right")]


def test_a_long_page_is_refused_and_nonsense_is_not():
    with pytest.raises(InputError):
        check_tutorial("1" * (LONGEST + 1))
    with pytest.raises(InputError):
        check_tutorial(3)  # type: ignore[arg-type]
    for text in ("", "\ud800", "\x00 = \x00", "= = =", "[[[", "√√√√ = 2", "1/0 = 3", "0/0 = 1", "\\frac{1}{0} = 2"):
        assert not check_tutorial(text).claims


def test_a_page_has_a_limit_of_checked_numbers():
    assert len(check_tutorial("2 × 2 = 4\n" * 6_000).claims) == 5_000


HOSTILE = {
    "digits": "9" * 20_000,
    "brackets": "[" * 20_000,
    "nested": ("(" * 50 + ")" * 50) * 200,
    "signs": "1=1=" * 5_000,
    "sum": "1+" * 10_000,
    "powers": "9^9^9^9=1\n" * 2_000,
    "exponentials": "exp(exp(exp(exp(9))))=1\n" * 800,
    "sines": "sin(99999999999)=1\n" * 1_000,
    "small": "tanh(1e-90)=1\n" * 1_000,
    "tails": "GELU(-15.123)=1\n" * 1_200,
    "list": "[" + "1," * 9_000 + "1]",
    "prices": "5 tokens at 5 per 5 " * 1_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_page_takes_no_longer_than_others(name):
    began = time.process_time()
    check_tutorial(HOSTILE[name])
    assert time.process_time() - began < 4  # seconds, a tenth of the longest page
