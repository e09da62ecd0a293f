"""The map and the table of the parameters, without a browser."""

import json
from pathlib import Path

import pytest

from model.anatomy.anatomy import PARTS, config_of, n_params, weights
from model.anatomy.architectures import ARCHITECTURES
from model.api import LanguageModel
from model.gpt.presets import PRESETS
from tests.support.models.helpers import VARIANTS, byte_tokenizer, serving, tiny_config, tiny_model
from viz.numbers import whole
from viz.page.pipeline import PageRequest, payloads, scene_of
from viz.seam.settings import Settings
from viz.views.anatomy.parameters.figures import MOST_LAYERS, nodes, tree_figure
from viz.views.anatomy.parameters.view import measure
from viz.views.anatomy.subject import published_of
from viz.words import Words, words

CONFIGS = {f"variant {name}": tiny_config(changes) for name, changes in VARIANTS.items()} | {
    name: each.config for name, each in ARCHITECTURES.items()
}
PUBLISHED = Path(__file__).parents[3] / "data" / "configs"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return byte_tokenizer(tmp_path_factory.mktemp("bytes"))


def playground_of(tokenizer, variant):
    model = tiny_model({**VARIANTS[variant], "vocab_size": 256, "n_ctx": 300})
    return serving(LanguageModel("tiny", "Tiny", model, tokenizer))


@pytest.fixture(scope="module", params=list(VARIANTS))
def wired(request, tokenizer):
    return playground_of(tokenizer, request.param)


def page_request(form=None):
    sent = {"anatomy_view": {"view": "parameters"}, "anatomy_form": form}
    return PageRequest("tiny", "abcabd ab", None, sent, {}, "en", "anatomy")


def shown(playground, form=None):
    return payloads(playground, page_request(form))[0]


def tree_words():
    section = Words(words("en"), "parameters")
    return section.within("tree").plain() | section.within("components").plain()


def run_last_line(lines, lm, monkeypatch):
    """Run the lines and return the value of the last one."""
    monkeypatch.setattr("model.api.load_model", lambda name: lm)
    monkeypatch.chdir(PUBLISHED)
    *before, last = lines.replace("config.json", "gpt2.json").splitlines()
    scope = {}
    exec("\n".join(before), scope)
    return eval(last, scope)


@pytest.mark.parametrize("name", CONFIGS)
def test_the_tree_adds_up(name):
    config = CONFIGS[name]
    tensors = [(PARTS[each.part], each.layer, each.name, each.size) for each in weights(config)]
    tree = nodes(tensors, tree_words())
    sizes = {node[0]: node[3] for node in tree}
    assert len(sizes) == len(tree) and sizes["all"] == n_params(config)
    below: dict[str, int] = {}
    for _, _, parent, size, _ in tree:
        below[parent] = below.get(parent, 0) + size
    assert all(sizes[parent] == size for parent, size in below.items() if parent)
    assert set(below) - {""} <= set(sizes)
    trace = json.loads(tree_figure(tensors, tree_words()).to_json())["data"][0]
    assert trace["type"] == "treemap" and trace["values"][0] == n_params(config)


def test_layers_stand_in_their_order():
    sizes = {0: 5, 1: 9, 2: 5}  # the largest is not the first
    tensors = [("mlp", layer, f"blocks.{layer}.up.weight", size) for layer, size in sizes.items()]
    tensors += [("embedding", None, "embed.weight", 99), *(("attention", layer, "q.weight", 2) for layer in sizes)]
    ids = [node[0] for node in nodes(tensors, tree_words())]
    assert [each for each in ids if each.startswith("mlp/") and each.count("/") == 1] == ["mlp/0", "mlp/1", "mlp/2"]
    assert [each for each in ids if "/" not in each] == ["all", "embedding", "mlp", "attention"]


def test_a_deep_model_has_no_tensors_in_its_tree():
    for layers, levels in ((MOST_LAYERS, 3), (MOST_LAYERS + 1, 2)):
        tree = nodes([("mlp", layer, f"blocks.{layer}.mlp.up.weight", 5) for layer in range(layers)], tree_words())
        assert max(node[0].count("/") + 1 for node in tree) == levels
        assert tree[0][3] == 5 * layers


def test_what_is_measured(wired):
    lm = wired.opened("tiny")
    counted = measure(scene_of(wired, page_request()), Settings((("anatomy_form", ("loaded", "")),)))
    assert counted.total == counted.loaded == lm.n_params and counted.published is None and counted.same
    assert sum(size for *_, size in counted.tensors) == counted.total
    assert sum(share.whole for share in counted.parts.values()) == counted.total


def test_the_table_says_what_is_counted(wired):
    lm = wired.opened("tiny")
    table = shown(wired)["parameters_table"]
    assert table["same"] and whole(lm.n_params) in table["check"] and "exactly" in table["check"]
    assert sum(line[3] for line in table["lines"]) == lm.n_params
    assert table["rows"][-1][3] == whole(lm.n_params)
    published = shown(wired, {"which": "gpt2"})["parameters_table"]
    assert published["same"] and "124,439,808" in published["check"] and "Radford" in published["check"]
    unpublished = shown(wired, {"which": "gpt3-175b"})["parameters_table"]
    assert not unpublished["same"] and "No exact published" in unpublished["check"]


def test_another_count_is_not_hidden(tokenizer, monkeypatch):
    monkeypatch.setattr(LanguageModel, "n_params", 17)
    table = shown(playground_of(tokenizer, "llama"), {"which": "loaded"})["parameters_table"]
    assert not table["same"] and "a different number" in table["check"] and "17" in table["check"]


def test_a_loaded_model_of_a_known_config_has_its_published_count():
    assert published_of(PRESETS["llama"]) == (134_515_008, ARCHITECTURES["smollm2-135m"].source)
    assert published_of(tiny_config()) is None
    assert published_of(config_of((PUBLISHED / "qwen3-8b.json").read_text()))[0] == 8_190_735_360


@pytest.mark.parametrize("form", [{}, {"which": "gpt2-xl"}, {"which": "pasted"}])
def test_python_lines_of_the_parameters_run(tokenizer, form, monkeypatch):
    playground = playground_of(tokenizer, "llama")
    lm = playground.opened("tiny")
    if form.get("which") == "pasted":
        form = form | {"config": (PUBLISHED / "gpt2.json").read_text()}
    parts = shown(playground, form)
    total = n_params({"gpt2-xl": PRESETS["gpt2-xl"], "pasted": PRESETS["gpt2"]}.get(form.get("which"), lm.config))
    assert run_last_line(parts["parameters_table"]["python"], lm, monkeypatch) == total
    assert sum(size for _, size in run_last_line(parts["parameters_tree"]["python"], lm, monkeypatch)) == total
