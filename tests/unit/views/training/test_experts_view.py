"""The view of a mixture's balance, without a browser: what is drawn and said follows from the numbers."""

import numpy as np
import pytest

from model.design.expert_trial import LAYERS, ExpertTrial, Mixtures, train_mixtures
from model.progress import silent
from tests.support.models.helpers import byte_model, serving
from tests.support.views.endpoints import ask
from tests.support.views.views import array, drawn, no_holes, opened, run_lines, traces
from viz.seam import panels
from viz.seam.jobs import background
from viz.views.training.experts import view as experts
from viz.views.training.experts.view import VIEW


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return byte_model(tmp_path_factory.mktemp("bytes"))


@pytest.fixture(scope="module")
def found() -> Mixtures:
    return train_mixtures(ExpertTrial(steps=3))


@pytest.fixture
def playground(model):
    return serving(model)


def show(playground, found, form=None, language: str = "en") -> dict[str, dict]:
    scene = opened(playground, "training", "experts", form)
    job = panels.job_of(VIEW, "trial", scene, panels.settings_of(VIEW, scene, {"experts_form": form}))
    playground.results.put(job.key, background.Result(found, 1.0))
    return drawn(playground, "training", "experts", form, language=language)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("layer", range(LAYERS))
def test_both_trainings_are_drawn(playground, found, language, layer):
    parts = show(playground, found, {"layer": str(layer)}, language)
    no_holes(parts)
    loads = traces(parts["loads"])
    assert len(loads) == 2 * (4 + 1)  # four experts and the even share, for each training
    for at, run in enumerate(found.runs):
        for expert in range(4):
            shown = loads[5 * at + expert]
            assert np.allclose(array(shown["y"]), run.load[:, layer, expert], rtol=1e-5)
        entropy = traces(parts["entropy"])[at]
        assert np.allclose(array(entropy["y"]), run.entropy[:, layer] / np.log(2), rtol=1e-5)
        assert np.allclose(array(traces(parts["dropped"])[at]["y"]), run.dropped[:, layer], rtol=1e-5)
        assert np.allclose(array(traces(parts["held_out"])[at]["y"]), run.held_out, rtol=1e-5)
    assert array(traces(parts["entropy"])[2]["y"])[0] == 2  # log2 of four experts
    assert len(parts["table"]["rows"]) == 2 * LAYERS


def test_every_token_stands_with_its_expert(playground, found):
    parts = show(playground, found)
    placed = {}
    for trace in traces(parts["tokens"]):
        for x, y, symbol in zip(trace["x"], trace["y"], trace["marker"]["symbol"], strict=True):
            placed[y, x] = (trace["name"], symbol)
    assert len(placed) == 2 * LAYERS * len(found.pieces)
    rows = [row for row, _ in placed]
    for at, run in enumerate(found.runs):
        for layer in range(LAYERS):
            ours = [row for row in dict.fromkeys(rows) if row.startswith(f"layer {layer},")]
            name = sorted(ours, key=lambda row: "without" not in row)[at]
            for token, expert in enumerate(run.experts[layer, :, 0]):
                symbol = "x" if run.lost[layer, token, 0] else "square"
                assert placed[name, token] == (f"expert {expert}", symbol)


def test_on_a_narrow_page_the_rows_are_named_on_two_lines(playground, found):
    for language in ("en", "zh"):
        layout = show(playground, found, language=language)["tokens"]["figure"]["layout"]
        narrow = layout["meta"]["stacked"]
        assert all(text.count(",<br>") == 1 for text in narrow["yaxis"]["ticktext"])
        assert narrow["yaxis"]["tickvals"] == layout["yaxis"]["tickvals"] and len(narrow["xaxis"]["tickvals"]) <= 12


def test_what_is_said_follows_from_the_loads(playground, found):
    facts = dict(show(playground, found)["facts"]["items"])
    busy = [run.load[-1].max(-1).mean() for run in found.runs]
    assert ("makes the load more even" in facts["Load"]) == (busy[1] < busy[0])
    assert f"{100 * busy[0]:.1f}" in facts["Load"] and "25.0" in facts["Load"]
    assert f"{found.n_active:,}" in facts["Parameters"]


def test_the_measure_trains_both_in_processes(playground, monkeypatch, found):
    def here(workshop, tasks, steps, progress):
        assert workshop is playground.workshop and [arguments[1] for _, arguments in tasks] == [0.0, 0.1]
        return list(found.runs)

    monkeypatch.setattr(experts, "side_by_side", here)
    scene = opened(playground, "training", "experts")
    form = {"n_expert": "8", "k": "2", "balance": "0.1", "capacity": "2"}
    job = panels.job_of(VIEW, "trial", scene, panels.settings_of(VIEW, scene, {"experts_form": form}))
    assert not job.locks and job.work(silent).trial == ExpertTrial(8, 2, (0.0, 0.1), 2.0)


def test_programs_get_the_numbers_and_the_lines_run(playground, found, model, monkeypatch):
    monkeypatch.setattr(experts, "side_by_side", lambda *given: list(found.runs))
    answer = ask(playground, "expert_balance")
    assert np.allclose(array(answer["runs"][1]["load"]), found.runs[1].load)
    assert answer["active"] == found.n_active and answer["pieces"] == list(found.pieces)
    text = show(playground, found)["entropy"]["python"]
    _, values = run_lines(text, model)
    assert np.array_equal(values[0][0], found.runs[0].entropy[:, LAYERS - 1])
