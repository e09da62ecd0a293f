"""The view of routing without a browser: what is drawn is what the routers decide, and nothing without experts."""

import math

import numpy as np
import pytest

from model.activations.routing import routing
from model.api import LanguageModel
from model.errors import InputError
from tests.support.models.helpers import OWN_LAYERS, byte_model, byte_tokenizer, serving, tiny_model
from tests.support.models.mixtures import MIXTURES
from tests.support.views.activations import PROMPT, drawn, traces
from tests.support.views.endpoints import ask
from tests.support.views.views import array
from viz.words import LANGUAGES


def opened(folder, name):
    """A server with a mixture, and its run of the prompt."""
    model = tiny_model({"vocab_size": 256, "n_ctx": 300} | (MIXTURES | OWN_LAYERS)[name])
    lm = LanguageModel("tiny", "Tiny", model, byte_tokenizer(folder))
    return serving(lm), lm.trace(PROMPT)


@pytest.mark.parametrize("name", MIXTURES)
def test_the_pictures_have_the_routers_numbers(tmp_path, name):
    playground, run = opened(tmp_path, name)
    found, shown = routing(run), drawn("routing", playground, {"layer": "2"})
    at = found.layers.index(2)
    cells = array(traces(shown["routing_map"])[0]["customdata"])
    np.testing.assert_allclose(cells, found.probabilities[at].T, atol=1e-6)
    dots = traces(shown["routing_map"])[1]
    names = traces(shown["routing_map"])[0]["x"]
    marked = {(int(y), names.index(x)) for x, y in zip(dots["x"], dots["y"], strict=True)}
    assert marked == {(int(expert), t) for t, row in enumerate(found.experts[at]) for expert in row}
    np.testing.assert_allclose(array(traces(shown["routing_load"])[0]["customdata"]), found.load, atol=1e-6)
    path = traces(shown["routing_path"])
    np.testing.assert_allclose(array(path[0]["customdata"]), found.probabilities[:, -1], atol=1e-6)
    marked = {(found.layers.index(int(y)), int(x)) for x, y in zip(path[1]["x"], path[1]["y"], strict=True)}
    assert marked == {(row, int(expert)) for row, each in enumerate(found.experts[:, -1]) for expert in each}
    line = traces(shown["routing_entropy"])[0]
    np.testing.assert_allclose(array(line["y"]), found.entropy[at] / math.log(2), atol=1e-5)
    told = ask(playground, "expert_routing", prompt=PROMPT, layer=2)
    np.testing.assert_allclose(array(told["probabilities"]), found.probabilities[at], atol=1e-6)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mixtral", "divided by their sum"),
        ("qwen-moe", "as they are"),
        ("phi-moe", "near the chosen one"),
        ("lfm-moe", "the same number"),
        ("gemma4 26B-A4B", "learned number"),
    ],
)
def test_the_sum_of_the_weights_is_explained(tmp_path, name, said):
    playground, _ = opened(tmp_path, name)
    (about,) = [text for _, text in drawn("routing", playground)["routing_facts"]["items"] if said in text]
    assert about.split(":")[0].rstrip("%").replace(".", "").isdigit()


def test_layers_with_a_single_mlp_are_left_out(tmp_path):
    playground, run = opened(tmp_path, "qwen-moe")
    found = routing(run)
    assert found.layers == (1, 2)
    assert [option for option, _ in drawn("routing", playground)["routing_form"]["controls"][0]["options"]] == [
        "1",
        "2",
    ]
    # This model does not divide the chosen probabilities by their sum.
    chosen = np.take_along_axis(found.probabilities, found.experts, -1)
    np.testing.assert_allclose(found.weights, chosen, atol=1e-6)
    with pytest.raises(InputError, match="no experts"):
        ask(playground, "expert_routing", prompt=PROMPT, layer=0)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_model_without_experts_says_so(tmp_path, language):
    shown = drawn("routing", serving(byte_model(tmp_path)), language=language)
    for name in ("map", "path", "load", "entropy", "facts"):
        assert "Tiny" in shown[f"routing_{name}"]["empty"]["text"] and shown[f"routing_{name}"]["empty"]["hint"]
    assert shown["routing_map"]["empty"]["way"]["view"] == "experts"


def test_the_row_of_views_has_routing_for_a_mixture_and_neurons_for_other_models(tmp_path):
    mixture, _ = opened(tmp_path, "mixtral")
    for playground, absent in ((mixture, ["neurons"]), (serving(byte_model(tmp_path)), ["routing"])):
        assert drawn("sizes", playground)["activations_view"]["controls"][0]["absent"] == absent
