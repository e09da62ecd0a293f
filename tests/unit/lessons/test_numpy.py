"""The answers of the lessons against NumPy alone: TinyGPT from its file of weights in float64, in textbook form.

Nothing here is the project's but the vocabulary that makes token ids of a text. The lesson on prompts is not among
them, its answers are counts of right answers; those of the lessons that train are held in bands where they are walked,
and the numbers of By hand are compared with NumPy in their own tests.
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
from viz.views.effects.steering.sources import EXAMPLE as PAIRS
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
    after = {f"after_{name}": choices(p[at]) for name, at in (("once", 0), ("time", 3), ("little", 8), ("girl", 9))}
    return after | {
        "first": first(p[-1]), "second_share": second, "choices": choices(p[-1]), "earlier": choices(p[7]),
        "compared": more, "open": max(after, key=after.get),
    }  # fmt: skip


def dice() -> dict:
    two, p = np.sort(softmax(run(GIRL)["logits"][-1]))[-2:]
    came, other, many = drawn(p, 1000, 0), drawn(p, 1000, 1), drawn(p, 10_000, 0)
    return {
        "came": came, "other": other, "many": many, "again": "more" if other > came else "less",
        "third": drawn(p, 1000, 2), "second_many": drawn(p + two, 10_000, 0) - many,
    }  # fmt: skip


def cuts() -> dict:
    logits, p = run(GIRL)["logits"][-1], softmax(run(CAT)["logits"])
    own, cold = softmax(logits).max(), softmax(logits / 0.5).max()
    sharper = "more" if cold > own else "less"
    return {
        "own": own, "cold": cold, "sharper": sharper, "sure": kept(p[-1], 0.9), "unsure": kept(p[0], 0.9),
        "after_cat": kept(p[1], 0.9), "warm": softmax(logits / 1.5).max(),
    }  # fmt: skip


def cell() -> dict:
    there = run(CAT)
    pattern = there["pattern"][7, 5, 7]
    read_ = piece(ids_of(CAT)[pattern.argmax()])
    score = there["scores"][7, 5, 7, 1]
    tired = there["pattern"][7, 5, 9, 1]
    return {"read": read_, "weight": pattern[1], "scale": np.sqrt(SIZE), "score": score, "tired": tired}


def many_heads() -> dict:
    pattern = run(CAT)["pattern"]
    order, tired = np.argsort(-pattern[:, :, 7, 1].ravel()), pattern[4, 1, 9]
    previous = piece(ids_of(CAT)[tired.argmax()])
    over = int((pattern[:, :, 7, 1] > 0.5).sum())
    near = list(divmod(int(pattern[:, :, 8, 7].argmax()), HEADS))
    return {
        "over": over, "second": list(divmod(int(order[1]), HEADS)), "previous": previous, "share": tired.max(),
        "near": near, "on": pattern[4, 1, 3, 2],
    }  # fmt: skip


def sinks() -> dict:
    there = run(library().lesson("sinks", "en").state["prompt"])
    pattern = there["pattern"][6, 2]
    lengths = np.linalg.norm(there["v"][6, 2] @ W["h.6.attn.c_proj.weight"].reshape(HEADS, SIZE, WIDTH)[2], axis=-1)
    passed = pattern[13] * lengths
    return {
        "weight": pattern[13, 0], "near": pattern[13, 12], "passed": passed[0], "all_passed": passed.sum(),
        "near_passed": passed[12], "share": passed[0] / passed.sum(), "length": lengths[0], "near_length": lengths[12],
        "shorter": "less" if lengths[0] < lengths[12] else "more", "mean": pattern[1:, 0].mean(),
        "behind": pattern[8, 0], "p_passed": passed[1], "the_passed": passed[9],
        "most": ("passed", "p_passed", "the_passed", "near_passed")[passed[[0, 1, 9, 12]].argmax()],
    }  # fmt: skip


def repetition() -> dict:
    text = library().lesson("repetition", "en").state["prompt"]
    there, ids = run(text), ids_of(text)
    p = softmax(there["logits"])
    one, two = p[4, ids[5]], p[17, ids[18]]
    head = list(divmod(int(there["pattern"][:, :, 17, 5].argmax()), HEADS))
    next_head = list(divmod(int(there["pattern"][:, :, 18, 6].argmax()), HEADS))
    named = p[16, ids[17]]
    return {"first": one, "second": two, "times": two / one, "head": head, "named": named, "next_head": next_head}


def norms() -> dict:
    x = run(CAT)["pre"]
    size = np.sqrt((x[:, 1] ** 2).mean(-1))
    divisor, sat = (np.sqrt(x[7, at].var() + 1e-5) for at in (1, 2))
    growth = size[7] / size[0]
    return {"start": size[0], "end": size[7], "growth": growth, "divisor": divisor, "after_one": size[1], "sat": sat}


INDUCTION = ((7, 0), (7, 1), (7, 3), (7, 5))


def chance(text: str, token: str, **changes) -> float:
    return softmax(run(text, **changes)["logits"][-1])[id_of(token)]


def switch_off() -> dict:
    layer = tuple((7, head) for head in range(HEADS))
    dog, four, none = (chance(DOG, " dog", off=off) for off in ((), INDUCTION, layer))
    return {
        "after": chance(FIZZ, " F", off=((7, 1),)), "dog": dog, "dog_four": four, "dog_layer": none,
        "fell": dog - four, "rest": four - none, "further": "more" if four - none > dog - four else "less",
        "other_name": softmax(run(FIZZ, off=((7, 1),))["logits"][-1]).max(),
    }  # fmt: skip


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

    def read_by(reader: int) -> list[int]:
        q, k, _, _ = matrices(7, reader)
        scores = {}
        for layer in range(7):
            for head in range(HEADS):
                _, _, v, o = matrices(layer, head)
                size = np.linalg.norm(q @ k.T) * np.linalg.norm(v @ o)
                scores[layer, head] = np.linalg.norm(v @ (o @ k) @ q.T) / size
        return list(max(scores, key=scores.get))

    worse = "previous" if three < four else "induction"
    return {
        "induction": four, "previous": three, "worse": worse, "reads": read_by(3), "reads_other": read_by(1),
        "one": chance(text, " behind", off=((5, 7),)),
    }  # fmt: skip


def when_known() -> dict:
    early, late = run("Once upon a time, there was a little"), run(FIZZ)
    answer = late["logits"][-1].argmax()

    def rank(x) -> int:
        logits = read(x)
        return int((logits > logits[answer]).sum()) + 1

    one, end = softmax(read(early["pre"][1, -1])).max(), softmax(early["logits"][-1]).max()
    return {
        "early": first(read(early["pre"][1, -1])), "late": rank(late["pre"][7, -1]), "rank6": rank(late["pre"][6, -1]),
        "early_share": one, "end_share": end, "surer": "more" if end > one else "less",
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
    total = there["logits"][-1, answer]
    return {
        "heads": heads.sum(), "mlps": mlps.sum(), "more": "heads" if heads.sum() > mlps.sum() else "mlps",
        "total": total, "logit": total, "largest": heads.max(), "mlp": int(mlps.argmax()),
        "without": total - heads.sum(), "left": total - heads.sum() - mlps.sum(),
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

    of = weight.reshape(-1, 32)
    step = np.abs(of).max(1, keepdims=True) / 127  # Q8_0: rounded with the exact step, stored with a float16 one
    error8 = np.linalg.norm(of - np.round(of / step) * step.astype(np.float16)) / np.linalg.norm(of)
    groups = "more" if error(128) > error(32) else "less"
    return {
        "float": floats, "int8": int8, "times": floats / int8, "error4": error(32), "error4wide": error(128),
        "groups": groups, "error8in32": error8, "bits4": 4 + 16 / 32,
    }  # fmt: skip


def positions() -> dict:
    def alike(table, distance: int) -> float:
        unit = table / np.linalg.norm(table, axis=1, keepdims=True)
        return (unit[:-distance] * unit[distance:]).sum(1).mean()

    angles = np.arange(64)[:, None] / 10_000 ** (np.arange(0, WIDTH, 2) / WIDTH)
    sines, learned = np.concatenate([np.sin(angles), np.cos(angles)], 1), W["wpe.weight"][:64]
    one, two = alike(learned, 1), alike(learned, 2)
    order = "more" if one > two else "less"
    three, four = alike(learned, 3), alike(learned, 4)
    return {
        "one": one, "two": two, "order": order, "sine_one": alike(sines, 1), "sine_five": alike(sines, 5),
        "three": three, "four": four, "farther": "three" if three > four else "four",
    }  # fmt: skip


def forgetting() -> dict:
    text = library().lesson("forgetting", "en").state["prompt"]
    ids, T = ids_of(text), len(ids_of(text))
    back = np.arange(T)[:, None] - np.arange(T)
    whole, window = run(text), run(text, sight=(back >= 0) & (back < 16))
    sighted, few = (run(text, sight=(back >= 0) & ((back < n) | (np.arange(T) == 0))) for n in (15, 7))
    wide = run(text, sight=(back >= 0) & (back < 32))

    def loss(there) -> float:
        return -np.log(softmax(there["logits"][:-1])[np.arange(T - 1), ids[1:]]).mean()

    agree = (whole["logits"].argmax(-1) == window["logits"].argmax(-1)).mean()
    better = "less" if loss(sighted) < loss(window) else "more"
    return {
        "agree": agree, "window": loss(window), "with_first": loss(sighted), "better": better,
        "window_32": loss(wide), "eight": loss(few),
    }  # fmt: skip


def steering() -> dict:
    text = "Tom found a new toy. Tom was very"
    along = W["wte.weight"][982]
    unit = along / np.linalg.norm(along)
    pushes = (("sad", 30), ("half", 15), ("twenty", 20))
    happy = chance(text, " happy", push=30 * unit)
    pairs = [line.split(" | ") for line in PAIRS.splitlines()]
    after = [[run(each)["pre"][5][-1] for each in pair] for pair in pairs]
    mood = np.mean([glad - sad for glad, sad in after], 0)
    drawn = np.random.default_rng(0).normal(size=(4, WIDTH))
    drawn *= np.linalg.norm(mood) / np.linalg.norm(drawn, axis=1, keepdims=True)
    control = {"mood": chance(text, " sad", push=-mood), "usual": chance(text, " sad")}
    control["chance"] = max(chance(text, " sad", push=-each) for each in drawn)
    return {"happy": happy} | control | {name: chance(text, " sad", push=factor * unit) for name, factor in pushes}


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


@pytest.mark.long
@pytest.mark.parametrize("by_hand", BY_HAND, ids=lambda each: each.__name__)
def test_every_answer_is_numpy_s(playground, by_hand):
    lesson, expected = library().lesson(by_hand.__name__, "en"), by_hand()
    got = {name: value_of(playground, lesson, name, start(lesson)) for name in asked(lesson)}
    numbers = {name for name, value in got.items() if isinstance(value, int | float)}
    assert set(got) <= set(expected), json.dumps(got)
    assert {name: got[name] for name in numbers} == pytest.approx({name: expected[name] for name in numbers}, rel=2e-4)
    assert {n: v for n, v in got.items() if n not in numbers} == {n: expected[n] for n in set(got) - numbers}
