"""The answers of the lessons against NumPy alone: TinyGPT from its file of weights in float64, in textbook form.

Nothing here is the project's but the vocabulary that makes token ids of a text. The lesson on prompts is not among
them, its answers are counts of right answers; those of the lessons that train are held in bands where they are walked.
"""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from model.api import load_model
from viz.lessons.check import start
from viz.lessons.library import library
from viz.lessons.values import value_of
from viz.work.playground import Options, Playground

WEIGHTS = Path(__file__).parents[3] / "model" / "weights" / "tinygpt" / "model.safetensors"
LAYERS, HEADS, SIZE, WIDTH = 8, 8, 32, 256
GIRL = "Once upon a time, there was a little girl named"
CAT = "The cat sat on the mat because it was tired"
DOG = "Lily had a red dog. Lily took it to the park. Everybody liked the red"
FIZZ = "Lily had a fox named Fizz. Tom had a ball. Lily had a fox named"
W = {name.removeprefix("transformer."): each.astype(np.float64) for name, each in load_file(WEIGHTS).items()}


@cache
def vocabulary():
    return load_model("tinygpt", offline=True)


def ids_of(text: str) -> np.ndarray:
    return vocabulary().encode(text).ids


def id_of(text: str) -> int:
    (one,) = ids_of(text)
    return int(one)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def norm(x, name: str):
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5) * W[f"{name}.weight"] + W[f"{name}.bias"]


def linear(x, name: str):
    return x @ W[f"{name}.weight"] + W[f"{name}.bias"]


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def run(text: str, off=(), sight=None, push=None) -> dict[str, np.ndarray]:
    """A forward: `off` heads write nothing, `sight` [T, T] is what may be seen, `push` is added after layer 4.

    pre, mid [L, T, D], scores and pattern [L, H, T, T], v [L, H, T, E], wrote [L, H, T, D], mlp [L, T, D],
    final [T, D] before the last norm, logits [T, V].
    """
    ids = ids_of(text)
    T = len(ids)
    seen = np.tril(np.ones((T, T), bool)) if sight is None else sight
    x, kept = W["wte.weight"][ids] + W["wpe.weight"][:T], {}
    for layer in range(LAYERS):
        h = f"h.{layer}"
        parts = np.split(linear(norm(x, f"{h}.ln_1"), f"{h}.attn.c_attn"), 3, -1)
        q, k, v = (part.reshape(T, HEADS, SIZE).swapaxes(0, 1) for part in parts)
        scores = np.where(seen, q @ k.swapaxes(1, 2) / np.sqrt(SIZE), -np.inf)
        pattern = softmax(scores)
        z = pattern @ v
        z[[head for at, head in off if at == layer]] = 0
        wrote = z @ W[f"{h}.attn.c_proj.weight"].reshape(HEADS, SIZE, WIDTH)
        mid = x + wrote.sum(0) + W[f"{h}.attn.c_proj.bias"]
        mlp = linear(gelu(linear(norm(mid, f"{h}.ln_2"), f"{h}.mlp.c_fc")), f"{h}.mlp.c_proj")
        row = {"pre": x, "mid": mid, "scores": scores, "pattern": pattern, "v": v, "wrote": wrote, "mlp": mlp}
        for name, each in row.items():
            kept.setdefault(name, []).append(each)
        x = mid + mlp
        if push is not None and layer == 4:
            x = x + push
    return {name: np.array(each) for name, each in kept.items()} | {"final": x, "logits": read(x)}


def read(x):
    """Logits of a stream: the last norm, and the embedding again."""
    return norm(x, "ln_f") @ W["wte.weight"].T


def piece(token: int) -> str:
    return vocabulary().decode([int(token)])


def first(x) -> str:
    return piece(np.argmax(x))


def choices(p) -> float:
    return float(np.exp(-(p * np.log(p)).sum()))


def kept(p, share: float) -> int:
    return int((np.cumsum(np.sort(p)[::-1]) < share).sum()) + 1


def drawn(p: float, count: int, seed: int) -> int:
    """How many of the first random numbers fall on the first part of the bar: a Philox generator a step."""
    numbers = [
        np.random.Generator(np.random.Philox(key=[seed, 0], counter=[0, 0, 0, step])).random() for step in range(count)
    ]
    return int((np.array(numbers) < p).sum())


def tokens() -> dict:
    pieces, chinese = [piece(each) for each in ids_of("internationalization")], "机器学习很有趣"
    (twice,) = {each for each in pieces if pieces.count(each) == 2}
    assert "".join(pieces) == "internationalization"
    size = len(chinese.encode())
    return {"pieces": len(pieces), "twice": twice, "chinese": size, "characters": 7, "bytes": size / 7}


def one_guess() -> dict:
    p = softmax(run(GIRL)["logits"])
    more = "more" if choices(p[7]) > choices(p[-1]) else "less"
    second = np.sort(p[-1])[-2]
    return {
        "first": first(p[-1]), "second_share": second, "choices": choices(p[-1]), "earlier": choices(p[7]),
        "compared": more,
    }  # fmt: skip


def dice() -> dict:
    p = softmax(run(GIRL)["logits"][-1]).max()
    came, other = drawn(p, 1000, 0), drawn(p, 1000, 1)
    return {"came": came, "other": other, "many": drawn(p, 10_000, 0), "again": "more" if other > came else "less"}


def cuts() -> dict:
    logits, p = run(GIRL)["logits"][-1], softmax(run(CAT)["logits"])
    own, cold = softmax(logits).max(), softmax(logits / 0.5).max()
    sharper = "more" if cold > own else "less"
    return {"own": own, "cold": cold, "sharper": sharper, "sure": kept(p[-1], 0.9), "unsure": kept(p[0], 0.9)}


def cell() -> dict:
    there = run(CAT)
    pattern = there["pattern"][7, 5, 7]
    read_ = piece(ids_of(CAT)[pattern.argmax()])
    score = there["scores"][7, 5, 7, 1]
    return {"read": read_, "weight": pattern[1], "sum": pattern.sum(), "scale": np.sqrt(SIZE), "score": score}


def many_heads() -> dict:
    pattern = run(CAT)["pattern"]
    order, tired = np.argsort(-pattern[:, :, 7, 1].ravel()), pattern[4, 1, 9]
    previous = piece(ids_of(CAT)[tired.argmax()])
    over = int((pattern[:, :, 7, 1] > 0.5).sum())
    return {"over": over, "second": list(divmod(int(order[1]), HEADS)), "previous": previous, "share": tired.max()}


def sinks() -> dict:
    there = run(library().lesson("sinks", "en").state["prompt"])
    pattern = there["pattern"][6, 2]
    lengths = np.linalg.norm(there["v"][6, 2] @ W["h.6.attn.c_proj.weight"].reshape(HEADS, SIZE, WIDTH)[2], axis=-1)
    passed = pattern[13] * lengths
    return {
        "weight": pattern[13, 0], "near": pattern[13, 12], "passed": passed[0], "all_passed": passed.sum(),
        "near_passed": passed[12], "share": passed[0] / passed.sum(), "length": lengths[0], "near_length": lengths[12],
        "shorter": "less" if lengths[0] < lengths[12] else "more", "mean": pattern[1:, 0].mean(),
    }  # fmt: skip


def repetition() -> dict:
    text = library().lesson("repetition", "en").state["prompt"]
    there, ids = run(text), ids_of(text)
    p = softmax(there["logits"])
    one, two = p[4, ids[5]], p[17, ids[18]]
    head = list(divmod(int(there["pattern"][:, :, 17, 5].argmax()), HEADS))
    return {"first": one, "second": two, "times": two / one, "head": head}


def norms() -> dict:
    x = run(CAT)["pre"]
    size = np.sqrt((x[:, 1] ** 2).mean(-1))
    divisor = np.sqrt(x[7, 1].var() + 1e-5)
    return {"start": size[0], "end": size[7], "growth": size[7] / size[0], "divisor": divisor}


INDUCTION = ((7, 0), (7, 1), (7, 3), (7, 5))


def chance(text: str, token: str, **changes) -> float:
    return softmax(run(text, **changes)["logits"][-1])[id_of(token)]


def switch_off() -> dict:
    return {"after": chance(FIZZ, " F", off=((7, 1),)), "dog_four": chance(DOG, " dog", off=INDUCTION)}


def circuit() -> dict:
    text = library().lesson("circuit", "en").state["prompt"]
    four = chance(text, " behind", off=INDUCTION)
    three = chance(text, " behind", off=((5, 7), (4, 1), (3, 7)))

    def matrices(layer: int, head: int):  # W_Q, W_K, W_V with the norm's gain [D, E], W_O [E, D]
        gain = W[f"h.{layer}.ln_1.weight"][:, None]
        whole = np.split(gain * W[f"h.{layer}.attn.c_attn.weight"], 3, 1)
        at = slice(head * SIZE, (head + 1) * SIZE)
        center = np.eye(WIDTH) - 1 / WIDTH  # the norm takes the mean away
        return [center @ each[:, at] for each in whole] + [W[f"h.{layer}.attn.c_proj.weight"][at]]

    q, k, _, _ = matrices(7, 3)
    scores = {}
    for layer in range(7):
        for head in range(HEADS):
            _, _, v, o = matrices(layer, head)
            size = np.linalg.norm(q @ k.T) * np.linalg.norm(v @ o)
            scores[layer, head] = np.linalg.norm(v @ (o @ k) @ q.T) / size
    worse = "previous" if three < four else "induction"
    return {"induction": four, "previous": three, "worse": worse, "reads": list(max(scores, key=scores.get))}


def when_known() -> dict:
    early, late = run("Once upon a time, there was a little"), run(FIZZ)
    answer = late["logits"][-1].argmax()

    def rank(x) -> int:
        logits = read(x)
        return int((logits > logits[answer]).sum()) + 1

    half = softmax(read(early["pre"][4, -1])).max()
    return {
        "early": first(read(early["pre"][1, -1])), "half": half, "late": rank(late["pre"][7, -1]),
        "last": rank(late["mid"][7, -1]),
    }  # fmt: skip


def who_wrote() -> dict:
    there = run(FIZZ)
    x = there["final"][-1]
    answer = there["logits"][-1].argmax()
    along = W["ln_f.weight"] * W["wte.weight"][answer] / np.sqrt(x.var() + 1e-5)

    bias = np.array([W[f"h.{layer}.mlp.c_proj.bias"] for layer in range(LAYERS)])  # a part of its own

    def part(vector):
        return (vector - vector.mean(-1, keepdims=True)) @ along

    heads, mlps = part(there["wrote"][:, :, -1]), part(there["mlp"][:, -1] - bias)
    best = list(divmod(int(heads.argmax()), HEADS))
    return {
        "heads": heads.sum(), "mlps": mlps.sum(), "more": "heads" if heads.sum() > mlps.sum() else "mlps", "best": best,
        "total": there["logits"][-1, answer], "largest": heads.max(),
    }  # fmt: skip


def few_bits() -> dict:
    shapes = [each.shape for name, each in W.items() if ".h." in f".{name}" and each.ndim == 2]
    floats = sum(4 * rows * columns for rows, columns in shapes)
    int8 = sum(rows * columns + 4 * columns for rows, columns in shapes)  # a float32 scale for each output
    weight = W["h.0.mlp.c_proj.weight"].T

    def error(group: int) -> float:
        of = weight.reshape(-1, group)
        exact = np.abs(of).max(1, keepdims=True) / 7
        half = exact.astype(np.float16)
        up = np.where(half < exact, np.nextafter(half, np.float16(np.inf)), half)  # rounded up, as in files
        scale = up.astype(np.float64)
        return np.linalg.norm(of - np.clip(np.round(of / scale), -7, 7) * scale) / np.linalg.norm(of)

    groups = "more" if error(128) > error(32) else "less"
    return {
        "float": floats, "int8": int8, "times": floats / int8, "error4": error(32), "error4wide": error(128),
        "groups": groups,
    }  # fmt: skip


def positions() -> dict:
    def alike(table, distance: int) -> float:
        unit = table / np.linalg.norm(table, axis=1, keepdims=True)
        return (unit[:-distance] * unit[distance:]).sum(1).mean()

    angles = np.arange(64)[:, None] / 10_000 ** (np.arange(0, WIDTH, 2) / WIDTH)
    sines, learned = np.concatenate([np.sin(angles), np.cos(angles)], 1), W["wpe.weight"][:64]
    one, two = alike(learned, 1), alike(learned, 2)
    order = "more" if one > two else "less"
    return {"one": one, "two": two, "order": order, "sine_one": alike(sines, 1), "sine_two": alike(sines, 2)}


def forgetting() -> dict:
    text = library().lesson("forgetting", "en").state["prompt"]
    ids, T = ids_of(text), len(ids_of(text))
    back = np.arange(T)[:, None] - np.arange(T)
    whole, window = run(text), run(text, sight=(back >= 0) & (back < 16))
    sighted = run(text, sight=(back >= 0) & ((back < 15) | (np.arange(T) == 0)))

    def loss(there) -> float:
        return -np.log(softmax(there["logits"][:-1])[np.arange(T - 1), ids[1:]]).mean()

    agree = (whole["logits"].argmax(-1) == window["logits"].argmax(-1)).mean()
    better = "less" if loss(sighted) < loss(window) else "more"
    return {"agree": agree, "window": loss(window), "with_first": loss(sighted), "better": better}


def steering() -> dict:
    text = "Tom found a new toy. Tom was very"
    along = W["wte.weight"][982]
    unit = along / np.linalg.norm(along)
    return {name: chance(text, " sad", push=factor * unit) for name, factor in (("sad", 30), ("half", 15))}


BY_HAND = (tokens, one_guess, dice, cuts, cell, many_heads, sinks, repetition, norms, switch_off, circuit, when_known,
           who_wrote, few_bits, positions, forgetting, steering)  # fmt: skip


@pytest.fixture(scope="module")
def playground():
    return Playground(Options(offline=True))


def asked(lesson) -> set[str]:
    """The values that are answers, with those that they are made of, and the striking one."""
    names = {lesson.band.of} | {q.answer for step in lesson.steps for q in (step.ask, step.check) if q}
    while more := {each for name in names for each in lesson.values[name].of} - names:
        names |= more
    return names


def test_no_lesson_is_left_out():
    assert {each.__name__ for each in BY_HAND} == {
        each.key for each in library().path("en") if not each.runs and each.key != "prompts"
    }


@pytest.mark.long
@pytest.mark.parametrize("by_hand", BY_HAND, ids=lambda each: each.__name__)
def test_every_answer_is_numpy_s(playground, by_hand):
    lesson, expected = library().lesson(by_hand.__name__, "en"), by_hand()
    got = {name: value_of(playground, lesson, name, start(lesson)) for name in asked(lesson)}
    numbers = {name for name, value in got.items() if isinstance(value, int | float)}
    assert set(expected) == set(got), json.dumps(got)
    assert {name: got[name] for name in numbers} == pytest.approx({name: expected[name] for name in numbers}, rel=2e-4)
    assert {n: v for n, v in got.items() if n not in numbers} == {n: v for n, v in expected.items() if n not in numbers}
