"""Views that measure without the edits of the run say so below their figures, and never "edited run"."""

import pytest

from tests.support.models.helpers import byte_tokenizer
from tests.support.views.views import drawn, perform, playground_of
from viz.views.activations.probe.view import VIEW as PROBE
from viz.views.anatomy.vocabulary.view import VIEW as VOCABULARY
from viz.views.effects.shuffled.view import VIEW as SHUFFLED
from viz.views.effects.steering.view import VIEW as STEERING
from viz.views.heads.circuits.view import VIEW as CIRCUITS

EDITED = {"heads": [[1, 1]], "edits": [{"kind": "zero", "layer": 0, "head": 0}]}
LABELED = "\n".join(f"{name}: {word} {n}" for n in range(6) for name, word in (("up", "aaa"), ("down", "zzz")))
VIEWS = {  # the tab, the view, its form, its slow measures, and parts with numbers
    "steering": ("effects", STEERING, None, ("main",), ("gain", "cost", "tokens", "along", "layers")),
    "circuits": ("heads", CIRCUITS, None, (), ("row", "values", "directions")),
    "vocabulary": ("anatomy", VOCABULARY, None, (), ("near", "places")),
    "shuffled": ("effects", SHUFFLED, None, (), ("table", "weights", "distance")),
    "probe": ("activations", PROBE, {"set": "own", "own": LABELED}, ("probes",), ("curve", "cells", "examples")),
}


@pytest.fixture(scope="module")
def playground(tmp_path_factory):
    return playground_of(byte_tokenizer(tmp_path_factory.mktemp("bytes")), "gpt2")


@pytest.mark.parametrize("name", VIEWS)
def test_a_figure_without_the_edits_is_not_called_that_of_an_edited_run(playground, name: str):
    tab, view, form, slow, names = VIEWS[name]
    for each in slow:
        perform(playground, tab, view, each, form, **EDITED)
    parts = drawn(playground, tab, view.key, form, **EDITED)
    sources = {part: parts[part]["source"] for part in names}
    assert all("without the edits" in text or "weights alone" in text for text in sources.values()), sources


def test_a_figure_of_the_edited_run_is_called_so_and_none_without_edits(playground):
    assert drawn(playground, "predictions", "lens", **EDITED)["table"]["source"].endswith(" · edited run")
    for tab, view in (("predictions", "lens"), ("effects", "shuffled")):
        assert "edit" not in str([part.get("source") for part in drawn(playground, tab, view).values()])
