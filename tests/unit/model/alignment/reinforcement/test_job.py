"""The job of the page: settings read, limits kept, and a job from its start to its end."""

import dataclasses
import json
import math

import pytest
import torch

from model.alignment.lora import MATRICES, Lora, learned
from model.alignment.preferences import Pair
from model.alignment.reinforcement import job as reinforcement
from model.alignment.reinforcement import run
from model.alignment.reinforcement.before_after import Look
from model.alignment.reinforcement.job import Practice, begin, check, course_of, practice
from model.alignment.reinforcement.presets import PRESETS, by_rules
from model.alignment.reinforcement.run import Report
from model.alignment.reinforcement.texts import Answers
from model.api import load_resolved
from model.errors import InputError
from model.gpt.transformer import Transformer
from model.loading.checkpoint import save_folder
from model.loading.sources import Resolved
from model.training.data import train_vocabulary
from model.training.jobs.job import Limits
from model.training.jobs.running_job import DIVERGED, Finished
from model.workshop import kind_of
from tests.support.models.helpers import tiny_config

SMALL = {"texts": 8, "group": 4, "new_tokens": 6, "steps": 3, "learning_rate": 1e-3}


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Resolved:
    """A folder of a fresh model with a vocabulary of 300 tokens."""
    folder = tmp_path_factory.mktemp("base")
    vocabulary = train_vocabulary(["a happy dog and a sad cat sat here. " * 30], 300)
    size = max(json.loads(vocabulary)["model"]["vocab"].values()) + 2
    torch.manual_seed(0)
    model = Transformer(tiny_config({"vocab_size": size, "tie_embeddings": False}))
    model.unembed.weight.data.mul_(15)  # far from even odds, as after a training
    save_folder(folder, model)
    (folder / "tokenizer.json").write_text(vocabulary, encoding="utf-8")
    return Resolved("folder", folder, "base", "Base")


def job(base: Resolved, method: str = "ppo", **changes) -> Practice:
    rules = changes.pop("rules", "length: 3")
    return practice(base, course_of(method, "happy", SMALL | changes), rules, "a happy\n\nthe dog")


def test_the_form_becomes_a_job(base):
    made = job(base, seed=4)
    assert made.prompts == ("a happy", "the dog") and made.rules[0].name == "length"
    assert (made.course.method, made.course.seed, made.course.clip) == ("ppo", 4, 0.2)
    assert practice(base, made.course, "full_stop", " \n ").prompts == reinforcement.PROMPTS
    free = course_of("grpo", "no_leash", {})
    assert (free.coefficient, free.learning_rate) == (0.0, 1e-3)
    with pytest.raises(InputError):
        course_of("ppo", "sad", {})


def test_limits_of_the_server_are_kept(base):
    check(job(base), Limits())
    for wrong in (
        job(base, texts=64, group=4, new_tokens=100),
        dataclasses.replace(job(base), prompts=()),
        dataclasses.replace(job(base), rules=()),
    ):
        with pytest.raises(InputError):
            check(wrong, Limits(batch=64))
    pairs = (Pair("a", "b", "c"),)
    check(dataclasses.replace(job(base, "dpo"), rules=(), pairs=pairs), Limits())


def test_a_model_too_large_is_refused(base):
    """All weights, adapters, and the best of n, which trains nothing, have bounds of their own."""
    small, adapted = Limits(full_parameters=1000), dataclasses.replace(job(base), lora=Lora(2))
    with pytest.raises(InputError, match=r"too large.*LoRA"):
        begin(job(base), small)
    with pytest.raises(InputError, match=r"too large.*smaller"):
        begin(adapted, Limits(adapted_parameters=1000))
    assert begin(adapted, small).started.n_learned == 1008
    assert begin(job(base, "best_of_n"), small).started.n_learned == 0


def test_a_lesson_looks_reports_and_leaves_a_model(base):
    made = job(base)
    kind = kind_of(made)
    running = begin(made, Limits())
    assert 0 < running.started.prompt < len(running.started.probe) <= 32
    messages = list(running.messages)
    assert [type(message) for message in messages] == [Look, Report, Look, Report, Look, Report, Report, Look]
    assert [message.step for message in messages] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert all(isinstance(message, kind.report | kind.snapshot) for message in messages)
    assert running.look().step == 3 and running.model() is not None
    assert set(running.files) == {"tokenizer.json"}
    assert kind.name(made) == "Base, PPO"


def test_a_lesson_that_goes_astray_ends_with_the_last_good_model(base):
    made = job(base, "reinforce", learning_rate=10.0, steps=9)
    running = begin(made, Limits())
    *before, last = running.messages
    assert isinstance(last, Finished) and last.reason == DIVERGED
    look = running.look()
    assert look.step < max(message.step for message in before if isinstance(message, Report)) + 1
    assert all(torch.isfinite(tensor).all() for tensor in running.model().state_dict().values())


@pytest.mark.parametrize("lora", [None, Lora(2)], ids=["full", "lora"])
@pytest.mark.parametrize("method", ["reinforce", "ppo", "grpo", "dpo"])
def test_a_weight_that_is_no_number_ends_a_lesson_with_the_last_good_model(base, monkeypatch, method, lora):
    """The second update leaves a NaN, which the look after it meets: what was before that update comes back."""
    made = dataclasses.replace(job(base, method), lora=lora)
    good = []

    def broken(update):
        def spoil(learner, *rest):
            done = update(learner, *rest)
            if learner.step == 1:
                good.extend(kept.clone() for kept in learner.good)
                with torch.no_grad():
                    learned(learner.policy)[-1].fill_(math.nan)
            return done

        return spoil

    monkeypatch.setattr(run, "dpo", broken(run.dpo))
    for name, update in run.UPDATES.items():
        monkeypatch.setitem(run.UPDATES, name, broken(update))
    running = begin(made, Limits())
    *before, last = running.messages
    assert isinstance(last, Finished) and last.reason == DIVERGED
    assert [message.step for message in before if isinstance(message, Report)] == [0, 1]
    assert running.look().step == 1 and good
    kept = running.model().state_dict()
    assert all(torch.isfinite(tensor).all() for tensor in kept.values())
    if lora is None:
        names = [name for name, _ in running.model().named_parameters()]
        assert all(torch.equal(kept[name], tensor) for name, tensor in zip(names, good, strict=True))


def test_adapters_are_rewarded_and_leave_a_model(base):
    made = dataclasses.replace(job(base, "reinforce", learning_rate=0.05), lora=Lora(2, matrices="all"))
    running = begin(made, Limits())
    reports = [message for message in running.messages if isinstance(message, Report)]
    assert reports[0].measured.kl == pytest.approx(0, abs=1e-6) and reports[-1].measured.kl > 1e-3
    assert 0 < running.started.n_learned < running.started.n_params / 2
    before, after = load_resolved(base).model.state_dict(), running.model().state_dict()
    assert before.keys() == after.keys()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed and all(name.split(".")[-2] in MATRICES["all"] for name in changed)


def test_pairs_of_a_person_are_learned_without_rules(base):
    pairs = tuple(Pair("a happy", f" dog {n}", f" cat {n}") for n in range(3))
    made = dataclasses.replace(job(base, "dpo"), rules=(), pairs=pairs)
    running = begin(made, Limits())
    reports = [message for message in running.messages if isinstance(message, Report)]
    assert running.started.pairs == 3
    assert reports[2].update.margin > 0.01 and reports[2].update.accuracy == 1


def test_best_of_n_leaves_no_model(base):
    running = begin(job(base, "best_of_n", texts=16, group=8, steps=5), Limits())
    reports = list(running.messages)
    assert [report.step for report in reports] == [0, 1, 2, 3]
    assert running.model() is None and running.look().step == 0


def test_the_presets_pay_for_what_they_say():
    reward = by_rules(PRESETS["happy"].rules)
    assert reward(Answers([], ["He was happy.", "He was sad."])).tolist() == [1, 0]
    hacked = by_rules(PRESETS["no_leash"].rules)
    assert hacked(Answers([], ["love love love", "I love you so"])).tolist() == [1, 0.25]
