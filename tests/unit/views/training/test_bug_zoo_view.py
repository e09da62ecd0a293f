"""The bug zoo's view, without a browser: curves, cards and verdicts follow from the numbers."""

import math

import numpy as np
import pytest

from model.progress import silent
from model.training.bug_zoo import BUGS, Specimen, Zoo, ZooTrial
from tests.support.models.helpers import byte_model, serving
from tests.support.scripts import words_read
from tests.support.views.endpoints import ask
from tests.support.views.views import array, drawn, no_holes, opened, traces
from viz.seam import panels
from viz.seam.jobs import background
from viz.views.training.bug_zoo import view as bug_zoo
from viz.views.training.bug_zoo.view import VIEW
from viz.words import LANGUAGES

ENDS = {  # reported and true loss at the end, and the verdict that follows
    "correct": (2.0, 2.1, "correct"),
    "no_mask": (0.1, 6.4, "illusion"),
    "mask_01": (2.0, 3.0, "harmful"),
    "no_shift": (0.0, 11.0, "illusion"),
    "no_scale": (1.9, 2.0, "better"),
    "no_positions": (2.1, 2.2, "slight"),
    "post_cold": (2.0, 2.11, "harmless"),
    "rate": (math.nan, math.nan, "diverged"),
}


@pytest.fixture
def playground(tmp_path):
    return serving(byte_model(tmp_path))


def made() -> Zoo:
    runs = []
    for bug, (reported, true, _) in ENDS.items():
        words = math.nan if bug == "no_shift" else 0.25
        text = "She   " if bug == "no_shift" else "She ran\nhome"
        losses, held_out = np.full(30, reported), np.linspace(4, true, 4)
        runs.append(Specimen(bug, losses, np.array([0, 10, 20, 30]), held_out, text, words))
    return Zoo(ZooTrial(30), tuple(runs), 4.0)


def show(playground, language="en") -> dict[str, dict]:
    scene = opened(playground, "training", "bug_zoo")
    job = panels.job_of(VIEW, "zoo", scene, panels.settings_of(VIEW, scene, {}))
    playground.results.put(job.key, background.Result(made(), 1.0))
    return drawn(playground, "training", "bug_zoo", language=language)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_training_run_has_its_curves_and_its_card(playground, language):
    parts = show(playground, language)
    no_holes(parts)
    lines = traces(parts["curves"])
    assert len(lines) == 2 * (len(BUGS) + 1)  # one for each run and one for guessing, on either side
    left, right = lines[: len(BUGS)], lines[len(BUGS) + 1 : -1]
    for n, (reported, true, _) in enumerate(ENDS.values()):
        if math.isfinite(true):
            assert array(left[n]["y"])[-1] == pytest.approx(max(reported, 1e-3))
            assert array(right[n]["y"])[-1] == pytest.approx(true) and list(right[n]["x"]) == [0, 10, 20, 30]
    assert np.allclose(array(lines[-1]["y"]), 4) and parts["cards"]["cards"][1]["facts"][0][1] == "0.100"
    assert len({card["name"] for card in parts["cards"]["cards"]}) == len(BUGS)
    assert words_read("views/training/bug_cards") <= set(parts["cards"]["words"])


def test_a_card_has_the_line_of_code_the_text_and_its_verdict(playground):
    cards = dict(zip(BUGS, show(playground)["cards"]["cards"], strict=True))
    for bug, (wrong, right) in BUGS.items():
        assert (cards[bug]["wrong"], cards[bug]["right"]) == (wrong, right)
        assert cards[bug]["bad"] == (ENDS[bug][2] in ("illusion", "harmful", "diverged"))
        assert cards[bug]["text"] == ("She···" if bug == "no_shift" else "She ran↵home")
    assert cards["no_mask"]["verdict"].startswith("Reports a loss of 0.100, but on new text its loss is 6.400")
    assert cards["mask_01"]["verdict"].startswith("0.900 nats worse")
    assert cards["no_scale"]["verdict"].startswith("0.100 nats better")
    assert (
        "writes no word at all" in cards["no_shift"]["verdict"] and cards["no_shift"]["facts"][2][1] == "none written"
    )


def test_the_measure_hands_a_run_of_each_bug_to_processes(playground, monkeypatch):
    asked = []

    def here(workshop, tasks, steps, progress):
        asked.append((workshop, steps, [arguments for _, arguments in tasks]))
        return list(made().runs)

    monkeypatch.setattr(bug_zoo, "side_by_side", here)
    scene = opened(playground, "training", "bug_zoo")
    found = panels.job_of(VIEW, "zoo", scene, panels.settings_of(VIEW, scene, {})).work(silent)
    assert asked == [(playground.workshop, 800, [(ZooTrial(800), bug) for bug in BUGS])]
    assert [run.bug for run in found.runs] == list(BUGS) and found.trial == ZooTrial(800)
    told = ask(playground, "bug_zoo")
    assert [run["verdict"] for run in told["runs"][1:]] == [verdict for *_, verdict in list(ENDS.values())[1:]]
    assert told["runs"][3]["words"] is None and told["runs"][1]["held_out"][-1] == pytest.approx(6.4)


def test_the_button_says_how_much_it_trains(playground):
    start = drawn(playground, "training", "bug_zoo", {"steps": "200"})["start"]
    assert start["state"] == "idle" and start["text"].startswith("8 training runs of 200 steps")
