"""docs/mini_gpt.py, the model to read from top to bottom, is the project's own."""

import importlib.util
import math
from pathlib import Path

import pytest
import torch

from model.api import load_model
from tests.support.models.rounding import logits_within

ROOT = Path(__file__).parents[3]
FILE = ROOT / "docs" / "mini_gpt.py"
WORDS = "Once upon a time a cat and a dog went up the hill, and the dog and the cat came down again."


@pytest.fixture(scope="module")
def mini():
    spec = importlib.util.spec_from_file_location("mini_gpt", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def lm():
    return load_model("tinygpt", offline=True)


def test_it_can_be_read_in_one_go():
    assert len(FILE.read_text(encoding="utf-8").splitlines()) < 200


def test_its_logits_are_those_of_the_projects_model(mini, lm):
    ids = torch.from_numpy(lm.encode(WORDS).ids)[None]
    with torch.inference_mode():
        own, theirs = mini.tinygpt()(ids), lm.model(ids)
    assert own.shape == theirs.shape == (1, ids.shape[1], 8192)
    assert ((own - theirs).abs() <= 2 * logits_within(lm.model, ids)).all()  # each has errors of its own


def test_it_writes_what_the_projects_model_writes(mini, lm):
    ids = lm.encode("Once upon a time").ids.tolist()
    written = mini.write(mini.tinygpt(), ids, 12, temperature=0)
    expected = list(ids)
    for _ in range(12):
        with torch.inference_mode():
            expected.append(int(lm.model(torch.tensor([expected]))[0, -1].argmax()))
    assert written == expected


def test_an_untrained_model_knows_nothing_and_learns(mini):
    torch.manual_seed(0)
    model = mini.MiniGPT(mini.Shape(vocabulary=11, context=16, layers=2, heads=2, width=32))
    text = torch.arange(400) % 11  # what comes next is certain
    losses = mini.train(model, text, steps=200, rows=8, rate=3e-3)
    assert losses[0] == pytest.approx(math.log(11), abs=0.1)
    assert losses[-1] < 0.2
    assert mini.write(model, [4, 5, 6], 8, temperature=0) == [4, 5, 6, 7, 8, 9, 10, 0, 1, 2, 3]


def test_nothing_sees_what_comes_after_it(mini):
    torch.manual_seed(0)
    model = mini.MiniGPT(mini.Shape(vocabulary=7, context=8, layers=2, heads=2, width=16))
    ids = torch.tensor([[1, 2, 3, 4, 5]])
    other = torch.tensor([[1, 2, 3, 6, 0]])
    with torch.inference_mode():
        assert torch.equal(model(ids)[:, :3], model(other)[:, :3])
        assert not torch.equal(model(ids)[:, 3:], model(other)[:, 3:])


@pytest.mark.parametrize(
    ("top_k", "top_p", "allowed"),
    [
        (0, 1.0, {0, 1, 2, 3}),
        (2, 1.0, {0, 1}),
        (0, 0.5, {0}),
        (0, 0.51, {0, 1}),
        (3, 0.83, {0, 1}),
        (3, 0.84, {0, 1, 2}),
        (1, 1.0, {0}),
    ],
)
def test_what_may_be_chosen(mini, top_k, top_p, allowed):
    logits = torch.tensor([0.5, 0.25, 0.15, 0.10]).log()
    draw = torch.Generator().manual_seed(0)
    chosen = [mini.choose(logits, 1.0, top_k, top_p, draw) for _ in range(400)]
    assert set(chosen) == allowed


def test_the_temperature_sharpens(mini):
    logits = torch.tensor([0.6, 0.4]).log()
    draw = torch.Generator().manual_seed(0)
    share = sum(mini.choose(logits, 0.5, 0, 1.0, draw) == 0 for _ in range(2000)) / 2000
    assert share == pytest.approx(0.36 / 0.52, abs=0.04)  # p squared, by its sum: four standard errors
    assert mini.choose(logits, 0, 0, 1.0, draw) == 0
