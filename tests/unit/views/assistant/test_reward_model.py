"""The reward model's view: trained on a page's pairs, read along the prompt, kept for the visitor who trained it."""

import dataclasses
import math
import multiprocessing
import os
import signal
import tempfile
import threading
import time

import numpy as np
import pytest

from model.alignment.preferences import Pair, PairSettings
from model.alignment.reward_lesson import WHOLE, RewardLesson, learn
from model.alignment.reward_model import RewardRecipe
from model.alignment.rewards import parse_rules
from model.design.block_trials import one_thread
from model.errors import CheckpointError, InputError
from model.gpt import linear
from model.progress import silent
from tests.support.models.small_models import save_tiny
from tests.support.training.rehearsal import in_threads, until
from tests.support.training.reward_lessons import HALF, endless, plainly
from tests.support.views.views import no_holes, question
from viz.page.pipeline import payloads, scene_of
from viz.seam import panels
from viz.seam.jobs import background
from viz.views.assistant.reward_model import measure
from viz.views.assistant.reward_model.view import VIEW
from viz.work.playground import Options, Playground
from viz.work.processes.reward_shelf import KEPT
from viz.work.processes.training_process import CUT_SHORT, Workshop
from viz.work.processes.trial_process import side_by_side

PAIRS = [[f"{n % 4}:", f"{n} yes!", f"{n} no", "person"] for n in range(24)]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("base"), n_layer=2, d_model=32)


@pytest.fixture
def real(base):
    """A server whose only model is tiny."""
    ours = Playground(Options(model="tiny", max_tokens=40, local=base))
    yield ours
    ours.rewards.close()


@pytest.fixture
def playground(real):
    """The same, whose processes are threads."""
    with in_threads():
        yield real


def asked(form: dict, language: str = "en", pairs=PAIRS):
    page = question("assistant", "reward_model", {"source": "page", "steps": "20", **form}, language=language)
    return dataclasses.replace(page, values={**page.values, "reward_model_pairs": {"pairs": pairs}})


def trained(playground, form: dict, visitor: str = "me"):
    """Press the button and wait; the scene and the result, None where the training failed."""
    scene, settings, job = begun(playground, form, visitor)
    steps = list(background.perform(playground, job, "en"))
    result = panels.measured(VIEW, "trained", scene, settings)
    return scene, settings, result and result.value, steps


def begun(playground, form: dict, visitor: str = "me"):
    """What the button starts: the scene, its settings, the job."""
    page = asked(form)
    scene = dataclasses.replace(scene_of(playground, page), visitor=visitor)
    settings = panels.settings_of(VIEW, scene, page.values)
    return scene, settings, panels.job_of(VIEW, "trained", scene, settings)


@pytest.mark.parametrize("learns", ["head", "body"])
def test_the_pairs_of_the_page_are_learned_and_the_prompt_is_read(playground, learns):
    scene, settings, learned, _ = trained(playground, {"learns": learns, "word": "zz"})
    found = learned.outcome
    assert (found.pairs, found.by) == (24, "prompt") and len(found.margins) == found.held_out > 0
    assert found.looks[0].loss == pytest.approx(math.log(2)) and found.looks[-1].loss < 0.6
    shown = panels.measured(VIEW, "run", scene, settings).value
    read = shown.reading
    assert not shown.stored and shown.learned is learned and read.text == "abcabd ab"
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


def test_until_one_is_trained_the_stored_one_is_shown(playground):
    """On another model and another prompt, named as the default model's, with the code of the default settings."""
    parts, _ = payloads(playground, asked({"rule": "rhyme", "word": "zz"}, pairs=[]))
    glance = parts["reward_model_glance"]
    assert glance["note"].startswith("Stored run of TinyGPT on its own prompts: took ")
    assert [len(glance["glance"][name]) for name in ("numbers", "texts", "prompts")] == [3, 4, 4]
    figure = parts["reward_model_changes"]
    assert figure["source"] == glance["note"] and "load_model('tinygpt')" in figure["python"]
    assert "'sentiment'" in figure["python"] and "zz" not in figure["python"]
    assert not [name for name, part in parts.items() if "empty" in part or "problem" in part]


def test_a_reward_model_is_its_visitors_own_and_goes_with_the_page(playground):
    _, _, found, _ = trained(playground, {"learns": "head"})
    assert playground.rewards.of("you") == []
    with pytest.raises(InputError, match="no longer on the server"):
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
    assert wrong["state"] == "unready" and "No rule" in wrong["text"]


def test_a_rule_makes_the_pairs(playground):
    _, _, learned, _ = trained(playground, {"source": "rule", "rule": "length: 4", "count": "10", "learns": "head"})
    found = learned.outcome
    assert found.pairs + found.ties == 120 and found.best[0].reward >= found.worst[0].reward


def test_where_training_is_switched_off_nothing_learns(playground):
    playground.workshop.limits = dataclasses.replace(playground.workshop.limits, minutes=0.0)
    for learns in ("body", "head"):
        *_, result, steps = trained(playground, {"learns": learns})
        assert result is None and steps[-1][0]["text"].startswith("Training is disabled on this server.")
    assert playground.rewards.of("me") == []


def test_a_model_too_large_for_this_server_does_not_learn(playground):
    playground.workshop.limits = dataclasses.replace(playground.workshop.limits, full_parameters=10)
    *_, result, steps = trained(playground, {"learns": "body"})
    assert result is None and steps[-1][0]["text"].startswith(
        "This model is too large to be trained in full on this server."
    )


def test_one_training_at_a_time(playground):
    with playground.workshop.trial():
        *_, result, steps = trained(playground, {"learns": "head"})
    assert result is None and steps[-1][0]["text"].startswith("Another training run is in progress on this server.")


def test_what_is_no_reward_model_is_not_kept(playground):
    with pytest.raises(CheckpointError), playground.rewards.place() as folder:
        folder.mkdir()
        playground.rewards.keep("me", folder, "mine", 1.0)
    assert playground.rewards.of("me") == [] and not folder.exists()


# --- in real processes -------------------------------------------------------------------------------


def exact(value: object) -> object:
    """To be compared bit for bit."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if dataclasses.is_dataclass(value):
        return {name: exact(each) for name, each in vars(value).items()}
    return [exact(each) for each in value] if isinstance(value, tuple) else value


def test_a_process_finds_the_very_numbers_that_are_found_here(base, tmp_path, monkeypatch):
    head, body = RewardRecipe(steps=6, seed=3), RewardRecipe(body=True, steps=6, seed=3)
    rules, pairs = parse_rules("length: 4"), tuple(Pair(*each) for each in PAIRS)
    lessons = [
        RewardLesson(base, head, tmp_path / "head", "mine", rules=rules, ask=PairSettings(2, 6, 1.0, 3)),
        RewardLesson(base, body, tmp_path / "body", "mine", pairs),
    ]
    there = side_by_side(Workshop(workers=1), [(plainly, (each,)) for each in lessons], WHOLE, silent)
    monkeypatch.setattr(linear, "tune", lambda model, *_: {})
    for lesson, found in zip(lessons, there, strict=True):
        with one_thread():
            here = learn(dataclasses.replace(lesson, folder=tmp_path / "here" / lesson.folder.name), lambda done: None)
        assert exact(found) == exact(here)
    written = {path.relative_to(tmp_path / "here") for path in (tmp_path / "here").rglob("*") if path.is_file()}
    assert len(written) == 2 * 2 + 2  # the body has two files more
    assert all((tmp_path / name).read_bytes() == (tmp_path / "here" / name).read_bytes() for name in written)


@pytest.mark.parametrize("how", ["killed", "cancelled", pytest.param("left", marks=pytest.mark.long)])
def test_a_process_that_ends_before_its_time_leaves_nothing(real, tmp_path, monkeypatch, how):
    monkeypatch.setattr(measure, "learn", endless)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    stop = threading.Event()
    steps = background.perform(real, begun(real, {"learns": "head"})[2], "en", stop)
    next(steps)
    until(lambda: any(path.read_text() for path in tmp_path.rglob(HALF)))
    (half,) = tmp_path.rglob(HALF)
    process, began = int(half.read_text()), time.monotonic()
    if how == "killed":
        os.kill(process, signal.SIGKILL)
    elif how == "cancelled":
        stop.set()
    else:
        steps.close()
    told = [part for part, _ in steps]
    until(lambda: not half.parent.exists(), 10)
    assert time.monotonic() - began < 5 and all(child.pid != process for child in multiprocessing.active_children())
    if how == "killed":
        assert told[-1]["state"] == "failed"
        assert told[-1]["text"].strip() == f"{CUT_SHORT} Nothing was saved. Start it again."
    assert real.rewards.of("me") == []
    with real.workshop.trial():  # and the place is free again
        pass
