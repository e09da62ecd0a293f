"""A reward model as one piece of work: what is refused, how far it says it is, and what it leaves in its folder."""

import dataclasses

import numpy as np
import pytest

from model.alignment.preferences import Pair, PairSettings
from model.alignment.reward_folder import load_reward
from model.alignment.reward_lesson import WHOLE, WRITING, RewardLesson, check, learn
from model.alignment.reward_model import RewardRecipe
from model.alignment.rewards import parse_rules
from model.api import load_resolved
from model.errors import InputError
from model.training.jobs.job import Limits
from tests.support.models.small_models import save_tiny

PAIRS = tuple(Pair(f"{n % 4}:", f"{n} yes!", f"{n} no") for n in range(16))


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("base"))


def lesson(base, folder, **changes) -> RewardLesson:
    return RewardLesson(base, RewardRecipe(steps=5), folder, "mine", **({"pairs": PAIRS} | changes))


def test_the_folder_holds_what_was_learned(base, tmp_path):
    heard: list[int] = []
    found = learn(lesson(base, tmp_path / "kept"), heard.append)
    assert heard == sorted(heard) and heard[0] >= 0 and heard[-1] == WHOLE
    reward = load_reward(tmp_path / "kept", load_resolved(base).model)
    assert np.array_equal(reward.weight.numpy(), found.weight) and float(reward.bias) == found.bias
    assert (found.pairs, found.by, len(found.margins)) == (16, "prompt", found.held_out)
    assert found.best[0].reward >= found.best[-1].reward >= found.worst[-1].reward >= found.worst[0].reward
    lm = load_resolved(base)
    said = reward.score_ids([lm.encode(each.prompt + each.text).ids.tolist() for each in found.best])
    assert [each.reward for each in found.best] == pytest.approx(said.tolist(), abs=1e-4)


def test_rules_choose_between_texts_of_the_model(base, tmp_path):
    heard: list[int] = []
    by_rule = lesson(base, tmp_path / "kept", pairs=(), rules=parse_rules("length: 4"), ask=PairSettings(2, 6))
    found = learn(by_rule, heard.append)
    assert found.pairs + found.ties == 24
    assert heard == sorted(heard) and WRITING in heard and heard[-1] == WHOLE


def test_too_few_pairs_teach_nothing(base, tmp_path):
    with pytest.raises(InputError, match="too few pairs"):
        learn(lesson(base, tmp_path / "kept", pairs=PAIRS[:3]), lambda done: None)
    assert not (tmp_path / "kept").exists()


def test_a_server_bounds_the_model():
    head, body = RewardRecipe(), RewardRecipe(body=True)
    limits = dataclasses.replace(Limits(), full_parameters=100, adapted_parameters=200)
    check(body, 100, limits)
    check(head, 200, limits)
    with pytest.raises(InputError, match="trained in full"):
        check(body, 101, limits)
    with pytest.raises(InputError, match="too large to be trained"):
        check(head, 201, limits)
