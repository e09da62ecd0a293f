"""The page without a browser: every figure is there, in the page's numbers and in the colors asked for."""

import json

import numpy as np
import plotly.graph_objects as go
import pytest

from model.errors import InputError
from model.gpt.edits import Edit
from viz.charts.packed import unpacked_figure
from viz.page.notebook import FIGURES, _chooser, _kinds, page_of
from viz.page.pipeline import payloads
from viz.views.tabs import TABS

PROMPT = "abcabd ab"
# What each of these needs first is measured by a job.
JOBS = {
    "logit_parts_gradients": "logit_parts_job",
    "turns_rests": "turns_job",
    "sweep_map": "sweep_job",
    "floors_ladder": "floors_job",
    "probe_curve": "probe_job",
    "head_circuits_scores": "head_circuits_scores_job",
    "steering_gain": "steering_job",
    "steering_cost": "steering_job",
    "steering_along": "steering_job",
    "corpus_kinds": "corpus_job",
    "corpus_distances": "corpus_job",
    "corpus_histogram": "corpus_job",
    "corpus_jobs": "corpus_job",
    "prompt_set_map": "prompt_set_job",
    "prompt_set_cell": "prompt_set_job",
    "bug_zoo_curves": "bug_zoo_start",
    "kv_cache_times": "kv_cache_job",
    "speculative_times": "speculative_job",
    "speculative_calls": "speculative_job",
    "speculative_sweep": "speculative_job",
    "many_samples_plot": "many_samples_job",
    "many_samples_entropy": "many_samples_job",
    "prompts_accuracies": "prompts_job",
    "prompts_curve": "prompts_curve_job",
    "norm_swap_sizes": "norm_swap_job",
    "lens_map": "lens_job",
    "patching_map": "patching_job",
    "patching_heads": "patching_job",
    "compute_times_prompt": "compute_job",
    "compute_times_step": "compute_job",
    "past_length_figure": "past_length_job",
    "norms_residuals_depths": "norms_residuals_depths_job",
    "norms_residuals_loss": "norms_residuals_train_job",
    "norms_residuals_heat": "norms_residuals_train_job",
    "mlps_loss": "mlps_job",
    "attention_ways_times": "attention_ways_job",
    "attention_ways_memory": "attention_ways_job",
    "formats_maps": "formats_job",
    "layer_sweep_heat": "layer_sweep_job",
    "layer_sweep_line": "layer_sweep_job",
    "rounding_errors": "rounding_job",
    "rounding_power": "rounding_job",
    "rounding_columns": "rounding_job",
    "forget_text": "forget_text_job",
    "forget_loss": "forget_job",
    "forget_lost": "forget_job",
    "forget_timeline": "forget_job",
    "budget_figure": "budget_job",
    "savings_times": "savings_job",
    "approximations_losses": "approximations_job",
    **dict.fromkeys((f"which_mixer_{each}" for each in ("scores", "memory", "loss", "seconds")), "which_mixer_start"),
    **dict.fromkeys(
        (f"experts_{each}" for each in ("loads", "entropy", "held_out", "dropped", "tokens")), "experts_start"
    ),
    **dict.fromkeys(
        (f"reward_model_{each}" for each in ("loss", "accuracies", "calibrated", "changes")), "reward_model_start"
    ),
}
OF_A_VISITOR = {"scaling_laws_mine"}  # whose trained models they are
OF_A_MIXTURE = {f"routing_{each}" for each in ("map", "path", "load", "entropy")}
OF_A_STATE = {f"state_{each}" for each in ("share", "kept", "decay", "delta", "written", "read")}  # Mamba's


@pytest.fixture(scope="module")
def page(lm):
    return page_of(lm, PROMPT, heads=[(1, 2)], tokens=[4])


def test_a_figure_has_the_numbers_of_the_run(page, lm):
    figure = page.figure("map_plot")
    assert type(figure) is go.Figure
    assert np.array_equal(
        figure.data[0].z,
        np.where(np.triu(np.ones((9, 9), bool), 1), np.nan, lm.trace(PROMPT).pattern(1, 2)),
        equal_nan=True,
    )
    assert "1.2" in figure.layout.title.text and "float32" in figure.layout.title.text


def test_edits_and_picked_heads_are_those_of_the_page(lm):
    page = page_of(lm, PROMPT, heads=[(1, 2)], edits=[Edit("uniform", 1, 2)])
    assert np.allclose(page.figure("map_plot").data[0].z[3, :4], 0.25)


@pytest.mark.long
def test_every_figure_of_every_view_is_drawn(page):
    names = page.figures()
    assert set(names) == {name for name, kind in _kinds().items() if kind in FIGURES}
    assert len(names) > 40 and names["lens_curve"] == "Predictions / When it appears"
    drawn = []
    for name in names:
        try:
            drawn.append(page.figure(name))
        except InputError as error:
            assert error.hint and (name in JOBS or name in OF_A_VISITOR | OF_A_MIXTURE | OF_A_STATE), name
            assert name not in JOBS or f'"{JOBS[name]}"' in error.hint or name.startswith("patching_"), name
    assert all(figure.data and figure.layout.title.text for figure in drawn) and len(drawn) >= 68


@pytest.mark.long
def test_no_part_that_has_a_figure_is_left_out(page):
    """Every view as the page draws it: what has a figure in its payload is offered."""
    with_figure = set()
    for tab in TABS:
        for view in _chooser(tab)[2] or [""]:
            parts, _ = payloads(page.playground, page._request(tab, view, {}))
            with_figure |= {name for name, part in parts.items() if "figure" in part}
    assert with_figure <= set(page.figures())


@pytest.mark.parametrize("name", ["logit_parts_gradients", "sweep_map"])
def test_a_slow_measure_is_run_when_it_is_asked_for(lm, name):
    page = page_of(lm, PROMPT)
    with pytest.raises(InputError, match="has not been measured"):
        page.figure(name)
    assert page.run(JOBS[name]) is not None
    assert page.figure(name).data


def test_light_and_dark(page):
    light, dark = page.figure("map_plot"), page.figure("map_plot", theme="dark")
    assert light.layout.coloraxis.colorscale != dark.layout.coloraxis.colorscale
    assert (light.layout.paper_bgcolor, dark.layout.paper_bgcolor) == ("#ffffff", "#14171f")
    with pytest.raises(ValueError, match="theme"):
        page.figure("map_plot", theme="blue")


def test_what_does_not_fit_is_said(page):
    with pytest.raises(InputError, match="No figure"):
        page.figure("header")
    with pytest.raises(InputError, match="No measurement"):
        page.run("map_plot")
    with pytest.raises(InputError, match="settings"):
        page.figure("map_plot", lens_form={})


def test_packed_arrays_come_back():
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    text = go.Figure(go.Heatmap(z=values)).to_json()
    assert "bdata" in text
    found = unpacked_figure(text)["data"][0]["z"]
    assert found.dtype == np.float32 and np.array_equal(found, values)
    assert unpacked_figure(json.dumps({"data": [{"x": [1, 2]}]})) == {"data": [{"x": [1, 2]}]}
