"""Which slow measures start by themselves: by what they cost on the model at hand, whichever model it is."""

import dataclasses
from types import SimpleNamespace

import pytest

from tests.support.views.views import drawn
from viz.seam.jobs.at_once import MOST_SECONDS, PER_LAYER, PER_SECOND, estimate, starts_itself
from viz.seam.settings import Settings
from viz.seam.tasks import MeasureTask
from viz.seam.view import Measure, View
from viz.views.tabs import TABS
from viz.work.playground import Options


def scene_of(n_layer=10, n_params=1_000_000, public=False):
    config = SimpleNamespace(n_layer=n_layer)
    playground = SimpleNamespace(options=Options(public=public))
    return SimpleNamespace(model=SimpleNamespace(config=config, n_params=n_params), playground=playground)


def measure(runs, tokens):
    return Measure("main", lambda *_: None, slow=True, cost=lambda scene, settings: (runs, tokens))


def asked(measure, scene):
    return MeasureTask(View("v", (), {}, (measure,)), measure, scene, Settings())


def test_time_is_that_of_the_blocks_and_of_the_weights():
    assert estimate(7, 0, 10, 1_000_000) == pytest.approx(70 * PER_LAYER)
    assert estimate(0, 50, 10, 3000) == pytest.approx(300_000 / PER_SECOND)


def test_what_is_quick_starts_by_itself_and_on_a_larger_model_it_does_not():
    most = MOST_SECONDS / (10 * PER_LAYER)  # runs of ten blocks
    assert starts_itself(asked(measure(most, 0), scene_of()))
    assert not starts_itself(asked(measure(most * 1.01, 0), scene_of()))
    assert not starts_itself(asked(measure(most, 0), scene_of(n_layer=11)))
    assert not starts_itself(asked(measure(1, 1e6), scene_of(n_params=10**9)))
    assert not starts_itself(asked(dataclasses.replace(measure(1, 1), cost=None), scene_of()))
    assert not starts_itself(asked(measure(1, 1), scene_of(public=True)))


def test_a_button_says_so(playground):
    views = [view for tab in TABS for view in tab.views if any(each.cost for each in view.measures)]
    assert len(views) >= 5
    for view in views:
        if view.key in (
            "turns",
            "patching",
            "kv_heads",
            "prompt_set",
        ):  # of a conversation, of two runs, done at once, or of prompts that this model's tokenizer cannot align
            continue
        tab = next(tab.key for tab in TABS if view in tab.views)
        names = [name for name, part in view.parts.items() if part.job and view.measure(part.job).cost]
        parts = drawn(playground, tab, view.key)
        assert names and all((parts[name]["state"], parts[name].get("auto")) == ("idle", True) for name in names), (
            view.key
        )
    assert "auto" not in drawn(playground, "checks", "checks")["job"]  # a measure without a cost waits for a click
