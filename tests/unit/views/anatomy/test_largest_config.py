"""The largest config that may be pasted: every view is drawn, and each visits its layers only a few times."""

import json
from pathlib import Path

import pytest

from model.anatomy import anatomy
from tests.support.models.helpers import byte_model, serving
from viz.page.pipeline import PageRequest, payloads
from viz.views.tabs import TABS
from viz.work.playground import Options

PUBLISHED = json.loads((Path(__file__).parents[3] / "data" / "configs" / "gpt2.json").read_text())
LARGEST = PUBLISHED | {"n_layer": anatomy.MOST_LAYERS, "n_head": 1 << 20, "n_embd": 1 << 20}
VIEWS = ("diagram", "parameters", "compute", "memory", "scaling_laws")
TIMES = 8  # most times a figure may list the weights of every layer


@pytest.fixture(scope="module")
def playground(tmp_path_factory):
    return serving(byte_model(tmp_path_factory.mktemp("bytes")), Options(model="tiny"))


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_lists_the_layers_of_the_largest_config_a_few_times(playground, view, monkeypatch):
    layers, block = [], anatomy._block

    def counted(config, layer):
        layers.append(layer)
        return block(config, layer)

    monkeypatch.setattr(anatomy, "_block", counted)
    values = {"anatomy_form": {"which": "pasted", "config": json.dumps(LARGEST)}, "anatomy_view": {"view": view}}
    parts, _ = payloads(playground, PageRequest("tiny", "abcab", None, values, {}, "en", tab="anatomy"))
    assert any(name.startswith(view) for name in parts) and not parts["notice"]
    assert len(layers) <= TIMES * anatomy.MOST_LAYERS


def test_these_are_views_of_the_tab():
    (tab,) = [tab for tab in TABS if tab.key == "anatomy"]
    assert all(any(part.startswith(view) for part in tab.parts) for view in VIEWS)
