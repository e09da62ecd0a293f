"""What every view that declares itself keeps to: results are values, settings survive strangers, nothing is missing."""

import dataclasses
import multiprocessing
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from tests.support.models.helpers import byte_model, serving
from viz.page.pipeline import PageRequest, payloads, scene_of
from viz.seam import panels
from viz.seam.scene import SceneKey
from viz.seam.settings import Settings
from viz.seam.view import View
from viz.views.tabs import TABS
from viz.words import LANGUAGES, Words, words
from viz.work.playground import Options, Playground

DECLARED = [(tab.key, view) for tab in TABS for view in tab.all_views]
NAMES = [f"{tab}.{view.key}" for tab, view in DECLARED]
QUICK = [(tab, view, each) for tab, view in DECLARED for each in view.measures if not each.slow]
HOSTILE = [None, "", "No option", -1, 1e308, float("nan"), True, [], {"a": 1}, "\ud800", "x" * 10_000, "<b>"]


@pytest.fixture(scope="module")
def playground(tmp_path_factory):
    return serving(byte_model(tmp_path_factory.mktemp("bytes")))


def scene(playground: Playground, **selection):
    return scene_of(playground, PageRequest("tiny", "abcabd ab", selection or None, {}, {}, "en"))


def same(a: object, b: object, within: float = 0.0) -> bool:
    """Whether two results hold the same numbers: bit for bit, or fractions of one another off by `within`."""
    if isinstance(a, np.ndarray):
        if not isinstance(b, np.ndarray) or (a.dtype, a.shape) != (b.dtype, b.shape):
            return False
        return np.array_equal(a, b) if a.dtype.kind != "f" else np.allclose(a, b, within, within, equal_nan=True)
    if isinstance(a, float) and isinstance(b, float):
        return a == b or abs(a - b) <= within * (1 + abs(a)) or (a != a and b != b)
    if isinstance(a, pd.DataFrame):
        return isinstance(b, pd.DataFrame) and a.equals(b)
    if dataclasses.is_dataclass(a):
        # What a field's own declaration leaves out of comparisons, as times, is no part of the value.
        compared = [f.name for f in dataclasses.fields(a) if f.compare]
        return type(a) is type(b) and all(same(getattr(a, name), getattr(b, name), within) for name in compared)
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[key], b[key], within) for key in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(same(x, y, within) for x, y in zip(a, b, strict=True))
    return type(a) is type(b) and a == b


def values_only(value: object) -> bool:
    """Whether a result is made of arrays, frames and plain values; exact numbers are such, too."""
    if dataclasses.is_dataclass(value):
        frozen = type(value).__dataclass_params__.frozen
        return frozen and all(values_only(getattr(value, each.name)) for each in dataclasses.fields(value))
    if isinstance(value, dict):
        return all(map(values_only, value.keys())) and all(map(values_only, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(values_only, value))
    plain = (
        type(None),
        bool,
        int,
        float,
        str,
        bytes,
        np.ndarray,
        np.generic,
        pd.DataFrame,
        pd.Series,
        Fraction,
        Decimal,
    )
    return isinstance(value, plain)


def measure_elsewhere(folder: str, jobs: list[tuple[bytes, str, str]], answers) -> None:
    """In a process of its own: open each pickled scene and measure there."""
    import pathlib

    import torch

    from tests.support.models.helpers import byte_model, serving

    torch.set_num_threads(1)
    playground = serving(byte_model(pathlib.Path(folder)))
    views = {view.key: view for tab in TABS for view in tab.all_views}
    for scene_bytes, key, name in jobs:
        key_scene, settings = pickle.loads(scene_bytes)
        opened = key_scene.open(playground)
        result = panels.measured(views[key], name, opened, settings)
        answers.put(pickle.dumps(result.value))


def settings_of(view: View, opened) -> Settings:
    return panels.settings_of(view, opened, {})


@pytest.mark.long
def test_results_are_values_and_the_same_in_another_process(playground, tmp_path_factory):
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    opened, here, jobs = scene(playground, heads=[[1, 2]], tokens=[5]), [], []
    for _, view, measure in QUICK:
        settings = settings_of(view, opened)
        result = panels.measured(view, measure.name, opened, settings).value
        assert values_only(result), f"{view.key}.{measure.name} holds more than values"
        assert same(pickle.loads(pickle.dumps(result)), result), f"{view.key}.{measure.name} does not survive pickling"
        here.append(result)
        jobs.append((pickle.dumps((opened.key, settings)), view.key, measure.name))
    context = multiprocessing.get_context("spawn")
    answers = context.SimpleQueue()
    folder = str(tmp_path_factory.mktemp("elsewhere"))
    child = context.Process(target=measure_elsewhere, args=(folder, jobs, answers))
    child.start()
    there = [pickle.loads(answers.get()) for _ in jobs]
    child.join(60)
    torch.set_num_threads(threads)
    wrong = [
        f"{view.key}.{each.name}" for (_, view, each), a, b in zip(QUICK, here, there, strict=True) if not same(a, b)
    ]
    assert not wrong and child.exitcode == 0


def test_a_scene_is_a_value(playground):
    key = scene(playground, heads=[[1, 2]], edits=[{"kind": "zero", "layer": 1, "head": 2}]).key
    assert isinstance(key, SceneKey) and pickle.loads(pickle.dumps(key)) == key and hash(key) == hash(key)
    assert len(pickle.dumps(key)) < 2000
    assert key.open(playground).key == key


@pytest.mark.parametrize(("tab", "view"), DECLARED, ids=NAMES)
def test_settings_survive_strangers(playground, tab, view):
    opened = scene(playground)
    declared = (*view.tab_settings, *view.settings)
    usual = panels.read_all(declared, None, opened)
    for value in HOSTILE:
        read = panels.read_all(declared, {each.name: value for each in declared}, opened)
        hash(read)
        assert list(read) == list(usual)
        for each in declared:
            assert type(read[each.name]) is type(usual[each.name]), (each.name, value)


@pytest.mark.parametrize(("tab", "view"), DECLARED, ids=NAMES)
def test_a_view_is_whole(playground, tab, view):
    """Its measures and parts name each other, its layout holds every part once, its words are there."""
    named = {measure.name for measure in view.measures}
    settings = {each.name for each in (*view.tab_settings, *view.settings)}
    settings |= {name for name, part in view.parts.items() if part.read}
    for name, part in view.parts.items():
        assert {*part.of, *part.also} <= named, name
        assert set(part.settings or ()) <= settings, name
    for measure in view.measures:
        assert set(measure.settings) <= settings, measure.name
        assert set(measure.uses) <= named, measure.name
    placed = panels.names_of(view)
    expected = {view.part_name(name) for name in view.parts} | ({f"{view.key}_form"} if view.settings else set())
    elsewhere = {"pipeline"} if view.key == "beam_tree" else set()  # it reads the steps that The distribution shows
    assert set(placed) == expected - elsewhere and len(placed) == len(set(placed))
    chosen = f"{view.key}_howto" in next(each for each in TABS if each.key == tab).parts  # not what stands beside them
    for language in LANGUAGES:
        said = Words(words(language), view.key)
        for key in ("view", "about", "howto.body", "howto.formula", "howto.caveat", "howto.try") if chosen else ():
            assert said.catalogue[f"{view.key}.{key}"], key
        panels.form(view.settings, said.within("settings"), scene(playground))


@pytest.mark.parametrize(("tab", "view"), DECLARED, ids=NAMES)
def test_every_figure_can_be_exported(playground, tab, view):
    """It has a title, a file's name, a source, names of its columns, and Python lines."""
    asked = PageRequest("tiny", "abcabd ab", None, {f"{tab}_view": {"view": view.key}}, {}, "en", tab)
    parts = payloads(playground, asked)[0]
    for name in panels.names_of(view):
        payload = parts[name]
        if "figure" in payload:
            assert all(payload.get(each) for each in ("title", "file", "source", "columns", "run")), name
            assert compile(payload.get("python", ""), name, "exec"), name


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_view_that_was_measured_is_drawn_in_every_language(playground, language):
    opened = scene(playground)
    for tab, view in DECLARED:
        asked = PageRequest("tiny", opened.prompt.text, None, {f"{tab}_view": {"view": view.key}}, {}, language, tab)
        parts, _ = payloads(playground, asked)
        assert not parts["notice"], view.key
        assert not [name for name in panels.names_of(view) if "problem" in parts[name]], view.key


def test_a_playground_is_not_part_of_a_scene_key():
    assert {field.name for field in dataclasses.fields(SceneKey)} == {
        "model_id",
        "prompt",
        "ids",
        "selection",
        "language",
    }
    assert Options().model
