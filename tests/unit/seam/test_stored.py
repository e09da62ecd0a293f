"""Stored results: read back as they were, used for the default page, and no view of it waits for a button."""

import contextlib
import dataclasses
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from model.api import load_model
from model.errors import PlaygroundError
from viz.page.examples import FIRST
from viz.page.notebook import page_of
from viz.page.pipeline import payloads
from viz.page.store.results import NEVER
from viz.seam import panels
from viz.seam.jobs import stored
from viz.seam.jobs.background import Result
from viz.seam.settings import Settings
from viz.seam.tasks import MeasureTask
from viz.views.checks.claims.measure import key_of as claims_key
from viz.views.heads.heads.view import VIEW as HEADS
from viz.views.tabs import TABS


@pytest.fixture(scope="module")
def page():
    return page_of(load_model("tinygpt"), FIRST)


def same(a: object, b: object) -> bool:
    """Return whether two values are equal, in type, too; NaN equals NaN."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray | torch.Tensor):
        return a.dtype == b.dtype and np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True)
    if isinstance(a, pd.DataFrame):
        return a.equals(b) and a.index.names == b.index.names
    if dataclasses.is_dataclass(a):
        return all(same(getattr(a, each.name), getattr(b, each.name)) for each in dataclasses.fields(a))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, frozenset):
        return a == b
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b or (a != a and b != b)


VALUES = {
    "numbers": (1, True, None, "text ☃", 0.1, float("nan"), float("inf"), [1, [2.5]]),
    "arrays": {(0, 1): np.array([[1.5, np.nan]], np.float32), "empty": np.zeros((0, 3), np.int64)},
    "a set": frozenset({(1, 2), (0, 3)}),
    "a tensor": torch.arange(6).view(2, 3),
    "a frame": pd.DataFrame(
        {"score": [0.5, float("nan")]}, index=pd.MultiIndex.from_tuples([(0, 0), (0, 1)], names=["layer", "head"])
    ),
    "a class": Result((1.0, "x"), 2.0, at=3.0),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_read_as_it_was_written(name):
    assert same(stored.decode(stored.encode(VALUES[name])), VALUES[name])


@pytest.mark.parametrize("value", [{1, 2}, object(), 1j, dataclasses.make_dataclass("Other", ["x"])(1)])
def test_a_value_of_another_type_is_refused(value):
    with pytest.raises(TypeError, match="cannot be stored"):
        stored.encode(value)


@pytest.mark.parametrize(
    ("module", "name"), [("subprocess", "Popen"), ("viz.page.store.results", "main"), ("model.store", "ByteLRU")]
)
def test_a_file_names_only_our_dataclasses(module, name):
    with pytest.raises(TypeError, match="cannot be read"):
        stored.decode(["class", module, name, {}])


def test_no_job_of_the_default_page_waits_for_its_button(page):
    assert {job for job in page.jobs() if page.waits(job)} == NEVER


def test_every_stored_file_is_of_a_job_that_takes_long(page):
    names = set()
    for job in page.jobs():
        with contextlib.suppress(PlaygroundError):
            planned = page.planned(job)
            if result := stored.stored(planned.key):
                names.add(stored.name_of(planned.key))
                assert result.threads > 0 and result.seconds > 0 and result.at == stored.AT, job
    assert names | others() == stored.names() and len(names) > 15


def others() -> set[str]:
    """Return the names of the files of the built-in models other than the default."""
    return {stored.name_of(key(model)) for model in stored.MODELS[1:] for key in (survey_key, claims_key)}


def survey_key(model: str) -> tuple:
    """Return the key of a model's survey of heads, of any prompt."""
    scene = SimpleNamespace(model=SimpleNamespace(id=model))
    return panels.key_of(MeasureTask(HEADS, HEADS.measure("survey"), scene, Settings()))


@pytest.mark.parametrize("model", stored.MODELS)
def test_the_names_of_heads_are_stored(model):
    value, (n_layer, n_head) = stored.stored(survey_key(model)).value, {"tinygpt": (8, 8)}.get(model, (30, 9))
    assert len(value.random.mean) == n_layer * n_head and value.copying.shape == (n_layer, n_head)
    named = {(*head, name) for head, names in value.names.items() for name, _, _ in names}
    assert len(named) > 20 and set(value.examples) == named
    for (layer, head, _), example in value.examples.items():
        assert 0 <= layer < n_layer and 0 <= head < n_head and 0 < example.weight <= 1
        assert max(*example.keys, example.query) < len(value.sentence_tokens[example.text])


def test_the_stored_results_are_of_the_present_weights():
    keys = (survey_key, claims_key)
    other = {stored.name_of(key(model)): model for model in stored.MODELS[1:] for key in keys}
    for name in stored.names():
        model = other.get(name, stored.MODELS[0])
        assert stored.content_of(name)["weights"] == stored.weights_of(model), (name, model)
    assert len({stored.weights_of(model) for model in stored.MODELS}) == len(stored.MODELS)


def test_the_names_of_heads_are_there_on_arrival_with_any_prompt(page):
    for prompt in (FIRST, "Another prompt"):
        request = dataclasses.replace(page.request, prompt=prompt, tab="start")
        names = payloads(page.playground, request)[0]["header"]["head_names"]
        assert len(names) > 20 and names["7.3"][0][0] == "induction"


def test_a_stored_result_says_so_until_it_is_measured_here(page):
    assert "TinyGPT · float32 · stored result" in page.figure("past_length_figure").layout.title.text
    planned = page.planned("past_length_job")
    (tab,) = [tab for tab in TABS if "past_length_job" in tab.jobs]
    job = page.payload(tab, "past_length", "past_length_job", {})
    assert job["text"].startswith(("Stored result: took ", "Stored result. To measure it here: "))
    assert job["again"] == job["start"]
    page.playground.results.put(planned.key, Result(stored.stored(planned.key).value, 12.0))
    assert "stored" not in page.figure("past_length_figure").layout.title.text
    job = page.payload(tab, "past_length", "past_length_job", {})
    assert job["text"].startswith("Measured here in 12.0 s") and job["state"] == "done"


def test_the_line_of_a_stored_result_says_one_time(page):
    told = [
        each
        for tab in TABS
        for view in tab.all_views
        for name in tab.jobs
        if name.startswith(f"{view.key}_")
        and (each := page.payload(tab, view.key, name, {}).get("text", "")).startswith("Stored result")
    ]
    assert len(told) > 3
    assert [text for text in told if "took" in text and re.search(r"about [\d,.–]+ (s|min)", text)] == []
