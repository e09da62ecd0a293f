"""The reward model's view: trained on a page's pairs, read along the prompt, kept for the visitor who trained it."""

import dataclasses
import math

import pytest

from model.errors import InputError
from tests.support.views import no_holes, question
from viz.page.pipeline import payloads, scene_of
from viz.seam import panels
from viz.seam.jobs import background
from viz.server.processes.reward_shelf import KEPT
from viz.views.assistant.reward_model.view import VIEW

PAIRS = [[f"{n % 4}:", f"{n} yes!", f"{n} no", "person"] for n in range(24)]


def asked(form: dict, language: str = "en", pairs=PAIRS):
    page = question("assistant", "reward_model", {"source": "page", "steps": "20", **form}, language=language)
    return dataclasses.replace(page, values={**page.values, "reward_model_pairs": {"pairs": pairs}})


def trained(playground, form: dict, visitor: str = "me"):
    """Press the button and wait; the scene and the result, None where the training failed."""
    page = asked(form)
    scene = dataclasses.replace(scene_of(playground, page), visitor=visitor)
    settings = panels.settings_of(VIEW, scene, page.values)
    steps = list(background.perform(playground, panels.job_of(VIEW, "trained", scene, settings), "en"))
    result = panels.measured(VIEW, "trained", scene, settings)
    return scene, settings, result and result.value, steps


@pytest.mark.parametrize("learns", ["head", "body"])
def test_the_pairs_of_the_page_are_learned_and_the_prompt_is_read(playground, learns):
    scene, settings, found, _ = trained(playground, {"learns": learns, "word": "zz"})
    assert (found.pairs, found.by) == (24, "prompt") and len(found.margins) == found.held_out > 0
    assert found.looks[0].loss == pytest.approx(math.log(2)) and found.looks[-1].loss < 0.6
    read = panels.measured(VIEW, "prompt", scene, settings).value
    assert len(read.along) == len(scene.tokens) == len(read.pieces)
    assert read.along[-1] == pytest.approx(read.changed.reward, abs=1e-4)
    assert read.changed.words == ("abcabd", "ab")
    (kept,) = playground.rewards.of("me")
    reward = playground.rewards.load("me", kept.id, scene.model.model)
    assert float(reward.score_ids([scene.tokens.ids.tolist()])) == pytest.approx(read.along[-1], abs=1e-4)
    assert kept.body == (learns == "body") and kept.base == "tiny" and kept.nbytes > 0
    parts = {
        name: picture.make() for name, picture in panels.pictures(VIEW, scene, asked({"learns": learns}).values).items()
    }
    assert parts["reward_model_start"]["state"] == "done"
    no_holes({name: part for name, part in parts.items() if "figure" not in part})


def test_a_reward_model_is_its_visitors_own_and_goes_with_the_page(playground):
    _, _, found, _ = trained(playground, {"learns": "head"})
    assert playground.rewards.of("you") == []
    with pytest.raises(InputError, match="no longer there"):
        playground.rewards.find("you", found.id)
    folder = playground.rewards.find("me", found.id).folder
    playground.leave("me")
    assert not playground.rewards.of("me") and not folder.exists()


def test_a_visitor_keeps_the_last_few(playground):
    for seed in range(KEPT + 1):
        _, _, found, _ = trained(playground, {"learns": "head", "seed": seed})
    kept = playground.rewards.of("me")
    assert len(kept) == KEPT and kept[-1].id == found.id


def test_too_few_pairs_and_bad_rules_do_not_start(playground):
    few = payloads(playground, asked({}, pairs=PAIRS[:2]))[0]["reward_model_start"]
    assert few["state"] == "unready" and "at least 4" in few["text"]
    wrong = payloads(playground, asked({"source": "rule", "rule": "x"}))[0]["reward_model_start"]
    assert wrong["state"] == "unready" and "no such rule" in wrong["text"]


def test_a_rule_makes_the_pairs(playground):
    _, _, found, _ = trained(playground, {"source": "rule", "rule": "length: 4", "count": "10", "learns": "head"})
    assert found.pairs + found.ties == 120 and found.best[0].reward >= found.worst[0].reward


def test_where_training_is_switched_off_the_whole_model_does_not_learn(playground):
    playground.workshop.limits = dataclasses.replace(playground.workshop.limits, minutes=0.0)
    assert trained(playground, {"learns": "body"})[2] is None
    assert trained(playground, {"learns": "head"})[2] is not None
