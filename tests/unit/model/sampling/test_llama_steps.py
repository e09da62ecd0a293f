"""DRY, XTC, dynamic temperature and windowed penalties against slow references that follow llama.cpp step by step, on
random histories; smoothing and top-a against text-generation-webui's formulas; and numbers worked by hand.

Compared once with llama.cpp itself, the library in llama-cpp-python 0.3.36 (its build takes minutes, so it is no
dependency): each step on 400 random histories with vocabularies of up to 32,000 tokens, and on 400 with up to 1,000.
Where both keep the same tokens, the largest differences of a logit, relative to it, are 0 for top-k, top-p, min-p,
typical, top-n-sigma, XTC and temperature, 2.4e-7 for the penalties, 1.4e-5 for DRY and 2.6e-4 for the dynamic
temperature (4.5e-5 up to 1,000 tokens), whose entropy llama.cpp adds up in float32. The tokens are the same in all
cases for top-k, min-p and XTC; its float32 sums end elsewhere, by at most 7 tokens, in 3 of the 800 cases for top-p, 33
for typical and 2 for top-n-sigma. A DRY penalty beyond float32 (9 cases) excludes a token there, not here. In a chain,
a probability that is 0 in float32 makes its typical step NaN.
"""

import math
import random

import numpy as np
import pytest
import torch

from model.sampling.dry import since_breaker
from model.sampling.pipeline import Context, Step, softmax
from model.sampling.warps import run_steps
from tests.support.models.helpers import assert_close

OUT = -math.inf


def warped(warp: str, values: dict[str, float], logits, context: Context | None = None, phrases=()) -> torch.Tensor:
    step = Step(warp, tuple(values.items()), phrases=tuple(map(tuple, phrases)))
    return run_steps(torch.as_tensor(logits, dtype=torch.float32), (step,), context or Context())


# --- the references ---


def reference_dry(logits, text, multiplier, base, allowed, last_n, breakers):
    """The four steps of llama.cpp's DRY: -1 is the whole text; a breaker is (first token, the tokens after it)."""
    logits, size = list(logits), len(text)
    window = min(size, size if last_n == -1 else last_n)
    if multiplier == 0 or base < 1 or last_n == 0 or window <= allowed:
        return logits

    def back(i):  # the i-th token from the end
        return text[size - 1 - i]

    limit = window
    for i in range(window):
        longest = -1
        for head, tail in breakers:
            fits = head == back(i) and len(tail) <= i
            if fits and len(tail) > longest and all(tail[k] == back(i - k - 1) for k in range(len(tail))):
                longest = len(tail)
        if longest >= 0:
            limit = i - longest
            break
    if limit < allowed:
        return logits
    counts = [0] * window  # of the suffix of the text that ends at each place, by comparing token after token
    for k in range(1, window):
        n = 0
        while n + k < window and back(n) == back(n + k):
            n += 1
        counts[window - 1 - k] = min(n, limit)
    repeated = {}
    for i in range(window - 1):
        if counts[i] >= allowed:
            token = back(window - 2 - i)
            repeated[token] = max(repeated.get(token, 0), counts[i])
    most = int(88.7228391 / math.log(base)) if base > 1.000001 else 0
    for token, length in repeated.items():
        if token < len(logits) and (token, ()) not in breakers:
            exponent = length - allowed
            logits[token] -= multiplier * base ** (min(exponent, most) if most > 0 else exponent)
    return logits


def reference_xtc(logits, probability, threshold, chance):
    """Sorted by probability; all but the last of the tokens that reach the threshold are cut off the front."""
    if probability <= 0 or threshold > 0.5 or len(logits) < 2 or chance >= probability:
        return set(range(len(logits)))
    p = softmax(np.array(logits))
    ranked = sorted(range(len(logits)), key=lambda i: -p[i])
    last = 0
    for place, i in enumerate(ranked):
        if p[i] >= threshold:
            last = place
        else:
            break
    return set(ranked[last:])


def reference_dynamic(logits, t, delta, exponent):
    low, high = max(0.0, t - delta), t + delta
    p = softmax(np.array(logits))
    entropy = -sum(x * math.log(x) for x in p if x > 0)
    certain = entropy / -math.log(1 / len(logits))
    return [x / (low + (high - low) * certain**exponent) for x in logits]


def reference_penalties(logits, text, last_n, repeat, frequency, present):
    """llama.cpp's penalties: the last n tokens, the prompt included, each divided or multiplied, then subtracted."""
    logits = list(logits)
    counted = {token: text[-last_n:].count(token) for token in text[-last_n:]}
    for token, count in counted.items():
        logits[token] = logits[token] * repeat if logits[token] <= 0 else logits[token] / repeat
        logits[token] -= count * frequency + (count > 0) * present
    return logits


# --- equal to them on random histories ---


@pytest.mark.parametrize("seed", range(60))
def test_dry_is_that_of_llama_on_random_histories(seed):
    rng = random.Random(seed)
    size = rng.choice([2, 3, 5, 12])
    text = [rng.randrange(size) for _ in range(rng.randrange(1, 60))]
    if rng.random() < 0.5:
        text += text[rng.randrange(len(text)) :] * rng.randrange(1, 3)
    logits = torch.randn(size, generator=torch.Generator().manual_seed(seed))
    breakers = [
        (rng.randrange(size), tuple(rng.randrange(size) for _ in range(rng.choice([0, 0, 1, 2]))))
        for _ in range(rng.randrange(3))
    ]
    for allowed, last_n in ((1, -1), (2, -1), (2, 20), (4, 9), (20, -1)):
        multiplier, base = rng.choice([0.0, 0.8, 5.0]), rng.choice([1.0, 1.2, 1.75, 4.0])
        wanted = reference_dry(logits.tolist(), text, multiplier, base, allowed, last_n, breakers)
        values = {"multiplier": multiplier, "base": base, "allowed": allowed, "window": max(last_n, 0)}
        found = warped("dry", values, logits, Context(tuple(text)), [(head, *tail) for head, tail in breakers])
        assert_close(found, torch.tensor(wanted), 1e-5 * max(1, max(map(abs, wanted))))


@pytest.mark.parametrize("seed", range(40))
def test_xtc_is_that_of_llama_on_random_logits(seed):
    rng = random.Random(seed)
    logits = [rng.gauss(0, rng.choice([0.3, 2])) for _ in range(rng.choice([1, 2, 5, 40]))]
    for threshold, probability, chance in (
        (0.1, 0.5, 0.2),
        (0.05, 0.5, 0.5),
        (0.01, 1, 0.99),
        (0.5, 1, 0),
        (0.2, 0, 0),
    ):
        left = warped("xtc", {"threshold": threshold, "xtc_probability": probability}, logits, Context(chance=chance))
        wanted = reference_xtc(torch.tensor(logits).tolist(), probability, threshold, chance)
        assert set(torch.isfinite(left).nonzero()[:, 0].tolist()) == wanted


@pytest.mark.parametrize("seed", range(20))
def test_a_dynamic_temperature_is_that_of_llama(seed):
    rng = random.Random(seed)
    logits = [rng.gauss(0, 2) for _ in range(rng.choice([2, 5, 40]))]
    t, delta, exponent = rng.uniform(0.2, 3), rng.uniform(0.01, 3), rng.choice([0.5, 1, 3])
    found = warped("dynamic_temperature", {"dynamic": t, "spread": delta, "exponent": exponent}, logits)
    wanted = torch.tensor(reference_dynamic(logits, t, delta, exponent))
    assert_close(found, wanted, 1e-5 * float(wanted.abs().max()))


@pytest.mark.parametrize("seed", range(20))
def test_penalties_over_a_window_are_those_of_llama(seed):
    rng = random.Random(seed)
    text = [rng.randrange(6) for _ in range(30)]
    logits = [rng.gauss(0, 2) for _ in range(6)]
    n, repeat, frequency, present = rng.choice([1, 4, 64]), rng.uniform(0.5, 2), rng.uniform(-2, 2), rng.uniform(-2, 2)
    steps = (
        Step("repetition_penalty", (("penalty", repeat), ("window", n))),
        Step("frequency_penalty", (("frequency", frequency), ("window", n))),
        Step("presence_penalty", (("presence", present), ("window", n))),
    )
    found = run_steps(torch.tensor(logits), steps, Context(tuple(text), 25))
    assert_close(found, torch.tensor(reference_penalties(logits, text, n, repeat, frequency, present)), 1e-5)


@pytest.mark.parametrize("curve", [1, 2, 3, 6])
def test_smoothing_is_that_of_text_generation_webui(curve):
    logits = torch.tensor([3.0, 2.5, -1, OUT, -20])
    d, factor = (logits - 3).double(), 0.4
    wanted = -((3 - curve) / 2 * factor * d**2) + (curve - 1) / 2 * factor * d**3 + 3
    found = warped("smoothing", {"factor": factor, "curve": curve}, logits)
    assert found[3] == OUT
    assert_close(found[[0, 1, 2, 4]], wanted[[0, 1, 2, 4]].float(), 1e-3)
    assert torch.equal(warped("smoothing", {"factor": 0, "curve": curve}, logits), logits)


# --- worked by hand ---


def test_dry_by_hand():
    """A b c x A b c: x would make a repetition of 3 tokens one of 4."""
    logits, text = [0.0] * 5, Context((1, 2, 3, 4, 1, 2, 3))
    half = {"multiplier": 0.5, "base": 2, "allowed": 2}
    assert warped("dry", half, logits, text).tolist() == [0, 0, 0, 0, -1.0]  # 0.5 * 2^(3 - 2)
    assert warped("dry", half | {"allowed": 1}, logits, text).tolist() == [0, 0, 0, 0, -2.0]
    assert warped("dry", half | {"allowed": 3}, logits, text).tolist() == [0, 0, 0, 0, -0.5]
    assert warped("dry", half | {"allowed": 4}, logits, text).tolist() == [0] * 5
    assert warped("dry", half | {"window": 6}, logits, text).tolist() == [0, 0, 0, 0, -0.5]  # sees 2 3 4 1 2 3
    assert warped("dry", half | {"window": 4}, logits, text).tolist() == [0] * 5
    assert warped("dry", half, logits, text, [(2,)]).tolist() == [0] * 5  # one token since the breaker
    assert warped("dry", half | {"allowed": 1}, logits, text, [(2,)]).tolist() == [0, 0, 0, 0, -0.5]
    assert warped("dry", half, logits, text, [(4,)]).tolist() == [0] * 5  # a breaker is never penalized
    assert warped("dry", half, logits, text, [(4, 1)]).tolist() == [0, 0, 0, 0, -0.5]  # two tokens since


def test_dry_of_the_example_in_llama():
    """Its comment: after a b c c b c y a b c, c continues 3 tokens, b one and y two."""
    a, b, c, y = range(4)
    text = Context((a, b, c, c, b, c, y, a, b, c))
    found = warped("dry", {"multiplier": 1, "base": 2, "allowed": 1}, [0.0] * 4, text)
    assert found.tolist() == [0, -1, -4, -2]


def test_a_long_loop_is_penalized_at_most_as_float32_holds():
    text = Context((0, 1) * 400)
    found = warped("dry", {"multiplier": 5, "base": 4, "allowed": 2}, [0.0, 0, 0], text)
    assert found[1] == 0 and found[2] == 0 and found[0] == torch.finfo(torch.float32).min


def test_the_last_breaker_counts_and_the_longest_with_its_first_token():
    assert since_breaker((7, 1, 2, 3), ((7,),)) == 3
    assert since_breaker((7, 1, 2, 3), ((7,), (7, 1))) == 2
    assert since_breaker((7, 1, 7, 3), ((7, 1), (7,))) == 1
    assert since_breaker((1, 2, 3), ((7,),)) == since_breaker((1, 2, 3), ()) == 3


P = [0.4, 0.3, 0.2, 0.1]


@pytest.mark.parametrize(
    ("threshold", "chance", "ids"),
    [
        (0.15, 0.0, [2, 3]),  # 0.4 and 0.3 are out: 0.2 is the least likely above
        (0.25, 0.49, [1, 2, 3]),
        (0.25, 0.5, [0, 1, 2, 3]),  # the number is not below the probability
        (0.35, 0.0, [0, 1, 2, 3]),  # one is above
        (0.45, 0.0, [0, 1, 2, 3]),  # none is
        (0.01, 0.0, [3]),
        (0.15, None, [0, 1, 2, 3]),  # without a number it never acts
    ],
)
def test_xtc_by_hand(threshold, chance, ids):
    logits = torch.tensor(P).log()
    left = warped("xtc", {"threshold": threshold, "xtc_probability": 0.5}, logits, Context(chance=chance))
    assert torch.isfinite(left).nonzero()[:, 0].tolist() == ids
    assert torch.equal(left[ids], logits[ids])


def test_xtc_keeps_ties_with_the_token_that_it_keeps():
    left = warped("xtc", {"threshold": 0.2}, torch.tensor([0.5, 0.25, 0.25]).log(), Context(chance=0.0))
    assert torch.isfinite(left).tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("a", "ids"), [(0, [0, 1, 2, 3]), (0.5, [0, 1, 2, 3]), (0.63, [0, 1, 2]), (1, [0, 1, 2])]
)  # 0.4^2 = 0.16
def test_top_a_by_hand(a, ids):
    left = warped("top_a", {"a": a}, torch.tensor(P).log())
    assert torch.isfinite(left).nonzero()[:, 0].tolist() == ids


def test_a_certain_model_is_cut_harder_by_top_a():
    left = warped("top_a", {"a": 0.2}, torch.tensor([0.9, 0.1]).log())  # 0.2 * 0.81 = 0.162
    assert torch.isfinite(left).tolist() == [True, False]


def test_a_dynamic_temperature_by_hand():
    flat = warped("dynamic_temperature", {"dynamic": 1, "spread": 0.5}, [2.0, 2, 2])
    assert_close(flat, [2 / 1.5] * 3, 1e-6)  # as uncertain as can be: the highest
    alone = warped("dynamic_temperature", {"dynamic": 1, "spread": 0.5}, [2.0, OUT, OUT])
    assert alone.tolist() == [2, OUT, OUT]
    sure = warped("dynamic_temperature", {"dynamic": 1, "spread": 2}, [200.0, 0, -5])
    assert softmax(sure.numpy()).tolist() == [1, 0, 0]  # the lowest is 0: nearly greedy
    half = [math.log(x) for x in (1 / 2, 1 / 4, 1 / 8, 1 / 8)]  # 7/4 bits of 2
    found = warped("dynamic_temperature", {"dynamic": 1, "spread": 0.5, "exponent": 2}, half)
    assert_close(found, [x / (0.5 + (7 / 8) ** 2) for x in half], 1e-6)
    assert_close(warped("dynamic_temperature", {"dynamic": 2, "spread": 0}, half), [x / 2 for x in half], 1e-6)


@pytest.mark.parametrize(
    ("text", "ids"),
    [((), [0, 1, 2]), ((1,), [0, 1, 2]), ((1, 2), [0, 2]), ((2, 1), [0, 1, 2]), ((1, 2, 0), [0, 1, 2])],
)
def test_banned_words_by_hand(text, ids):
    """3 alone, and 1 after 1 2."""
    left = warped("banned_words", {}, [0.0] * 4, Context(text), [(3,), (1, 2, 1)])
    assert torch.isfinite(left).nonzero()[:, 0].tolist() == ids
    everything = warped("banned_words", {}, [0.0, 0], Context(), [(0,), (1,), (7,)])
    assert everything.tolist() == [0, 0]  # nothing would be left


def test_windows_by_hand():
    text, logits = Context((0, 1, 1, 2), 1), [4.0, 4, 4, 4]
    assert warped("repetition_penalty", {"penalty": 2, "window": 1}, logits, text).tolist() == [4, 4, 2, 4]
    assert warped("repetition_penalty", {"penalty": 2, "window": 0}, logits, text).tolist() == [2, 2, 2, 4]
    assert warped("frequency_penalty", {"frequency": 1, "window": 4}, logits, text).tolist() == [3, 2, 3, 4]
    assert warped("frequency_penalty", {"frequency": 1}, logits, text).tolist() == [4, 2, 3, 4]
    assert warped("presence_penalty", {"presence": 1, "window": 2}, logits, text).tolist() == [4, 3, 3, 4]
    again = Context((1, 2, 3, 1, 2, 0, 1))
    assert torch.isfinite(warped("no_repeat_ngram", {"ngram": 2}, logits, again)).tolist() == [True, True, False, True]
    assert torch.isfinite(warped("no_repeat_ngram", {"ngram": 2, "window": 3}, logits, again)).all()
