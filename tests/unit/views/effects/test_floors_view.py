"""The view of the model built up part by part: the picture, the table and the sentences follow from the numbers."""

import math

import numpy as np
import pytest
import torch

from model.predictions.floors import ladder_losses, parts_of
from tests.support.models.helpers import VARIANTS, byte_model
from tests.support.views.endpoints import ask
from tests.support.views.views import array, drawn, no_holes, perform, playground_of, run_lines, traces
from viz.views.effects.floors import view as floors
from viz.views.effects.floors.view import VIEW
from viz.words import LANGUAGES

TEXT = "abcabd abc"
WORTH = ("positions", "attention lowers it", "MLP lowers it", "the part raises it")


@pytest.fixture(scope="module")
def playground(tmp_path_factory):
    tokenizer = byte_model(tmp_path_factory.mktemp("bytes")).tokenizer
    return playground_of(tokenizer, changes={"n_layer": 2})


def shown(playground, form=None, language="en", prompt=TEXT):
    perform(playground, "effects", VIEW, "main", form, prompt=prompt)
    return drawn(playground, "effects", "floors", form, language=language, prompt=prompt)


def expected(playground, how="mean", ids=None):
    lm = playground.opened("tiny")
    return ladder_losses(lm.model, ids or floors.held_out_ids(lm), how)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("how", ["mean", "zero"])
@pytest.mark.parametrize("on", ["text", "prompt"])
def test_the_ladder_shows_the_losses_and_each_bar_the_change_of_its_part(playground, language, how, on):
    parts = shown(playground, {"how": how, "on": on}, language)
    no_holes(parts)
    losses = expected(playground, how, list(TEXT.encode()) if on == "prompt" else None)
    drawn_lines = traces(parts["ladder"])
    *bars, line, guess = drawn_lines
    assert np.allclose(array(line["x"]), losses, rtol=1e-4) and len(line["y"]) == len(losses) == 2 + 2 * 2
    assert np.allclose(array(guess["x"]), math.log(256), rtol=1e-4)
    found = {}
    for each in bars:
        for name, start, change in zip(each["y"], each["base"], array(each["x"]), strict=True):
            found[name] = (start, change)
    assert list(found) != line["y"] and set(found) == set(line["y"][1:])  # every part but the first has one bar
    for n, name in enumerate(line["y"][1:]):
        assert found[name][0] == pytest.approx(losses[n], rel=1e-4)
        assert found[name][1] == pytest.approx(losses[n + 1] - losses[n], rel=1e-3, abs=1e-6)
    rises = [each for each in bars if (array(each["x"]) > 0).any()]
    assert all((array(each["x"]) > 0).all() for each in rises) and len(rises) <= 1  # in a series of their own


def test_the_sentences_name_the_part_worth_most_and_those_that_raise_the_loss(playground):
    parts = shown(playground, {"how": "zero"})
    losses, worth = expected(playground, "zero"), -np.diff(expected(playground, "zero"))
    names = ["positions", "attention 0", "MLP 0", "attention 1", "MLP 1"]
    bigram, best, kinds, raising = (text for _, text in parts["facts"]["items"])
    assert bigram.startswith(f"{losses[0]:.3f} nats") and best.startswith(names[int(worth.argmax())])
    assert f"{worth[1] + worth[3]:.3f} nats" in kinds.replace("−", "-") and f"{losses[-1]:.3f} nats" in kinds
    up = [names[n] for n in worth.argsort() if worth[n] < 0]
    assert raising.startswith(f"{', '.join(up[:3])} ({len(up)} in all" if up else "None")


def test_a_prompt_of_one_token_has_texts_but_no_loss(playground):
    parts = shown(playground, {"on": "prompt"}, prompt="a")
    assert parts["ladder"]["empty"] and parts["facts"]["empty"] and len(parts["texts"]["rows"]) == 6
    assert {row[1] for row in parts["texts"]["rows"]} == {"–"}


def test_its_python_lines_give_the_numbers_of_the_page(playground):
    for on in ("text", "prompt"):
        parts = shown(playground, {"on": on})
        ids = list(TEXT.encode()) if on == "prompt" else None
        _, values = run_lines(parts["ladder"]["python"], playground.opened("tiny"))
        assert np.allclose(values[-1], expected(playground, ids=ids), rtol=1e-5)
        _, values = run_lines(parts["texts"]["python"], playground.opened("tiny"))
        assert values[-1].shape == (6, 20)


def test_the_endpoint_has_a_record_for_every_part(playground):
    found = ask(playground, "floor_losses", prompt=TEXT, how="zero")
    model = playground.opened("tiny")
    assert [each["part"] for each in found["parts"]] == [part.kind for part in parts_of(model.config)]
    assert [each["layer"] for each in found["parts"]] == [None, None, 0, 0, 1, 1]
    assert np.allclose([each["loss"] for each in found["parts"]], expected(playground, "zero"), rtol=1e-5)
    last = found["parts"][-1]
    n_bytes = len(model.tokenizer.decode_bytes(floors.held_out_ids(model)[1:]))
    assert last["bits_per_byte"] == pytest.approx(last["loss"] * found["tokens"] / math.log(2) / n_bytes)
    ids = list(TEXT.encode())
    for _ in range(20):
        ids.append(int(model.model(torch.tensor([ids]))[0, -1].argmax()))
    assert last["text"] == model.tokenizer.decode(ids[-20:])


def test_rotary_models_have_no_part_for_positions(tmp_path):
    playground = playground_of(byte_model(tmp_path).tokenizer, "llama", {**VARIANTS["llama"], "n_layer": 1})
    parts = shown(playground)
    assert [row[0] for row in parts["texts"]["rows"]] == ["embedding", "attention 0", "MLP 0"]
