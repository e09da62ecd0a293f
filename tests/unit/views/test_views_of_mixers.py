"""Every view on a model whose layers are not all attention: drawn, or in plain words what it lacks."""

import pytest

from model.api import LanguageModel
from tests.support.models.helpers import OWN_LAYERS, byte_tokenizer, serving, tiny_model
from viz.page.parts import packed
from viz.page.pipeline import PageRequest, payloads
from viz.views.tabs import TABS

VIEWS = [
    (tab.key, name.removesuffix("_about"))
    for tab in TABS
    if f"{tab.key}_view" in tab.parts
    for name in tab.parts
    if name.endswith("_about")
]
LAYER = {"attention": 0, "linear": 1, "state": 2}
LACKING = {  # view: the layers of whose heads it says what is missing
    "diagram": LAYER,
    "compute": LAYER,
    "kv_heads": LAYER,
    "formats": LAYER,
    "forget": LAYER,
    "approximations": LAYER,
    "shuffled": LAYER,
    "cell": ("linear", "state"),
    "distance": ("linear", "state"),
    "attention_ways": ("linear", "state"),
    "score_scaling": ("linear", "state"),
    "turns": ("linear", "state"),
    "rope": ("state",),
    "heads": ("linear", "state"),  # the compositions of the head, not the table
    "head_circuits": ("linear", "state"),
}


SSM = {"ssm_heads": 8, "ssm_groups": 2, "d_state": 5, "norm": "rmsnorm", "vocab_size": 256, "n_ctx": 300}
HYBRIDS = {  # as Nemotron-H and Falcon-H1
    "among": SSM | {"mixer": ("mamba2", "softmax", "mamba2"), "without_mlp": (1,), "positions": "none"},
    "beside": SSM | {"ssm_beside": True, "positions": "rope"},
}
LACKED = {
    "among": {
        *("cell", "turns", "logit_parts", "neurons", "shuffled", "rope", "distance"),
        *("kv_heads", "attention_ways", "score_scaling", "forget", "approximations", "formats"),
        *("heads", "head_circuits"),
    },
    "beside": {
        *("turns", "logit_parts", "shuffled", "kv_heads", "forget"),
        *("approximations", "formats"),
    },
}


@pytest.fixture(scope="module")
def playground(tmp_path_factory):
    model = tiny_model(
        {"mixer": ("sliding_window", "retention", "mamba"), "window": 4, "vocab_size": 256, "n_ctx": 300}
    )
    return serving(LanguageModel("tiny", "Tiny", model, byte_tokenizer(tmp_path_factory.mktemp("bytes"))))


@pytest.mark.parametrize("kind", LAYER)
@pytest.mark.parametrize(("tab", "view"), VIEWS)
def test_every_view_is_drawn_or_says_what_is_missing(playground, tab: str, view: str, kind: str):
    chosen = {"heads": [[LAYER[kind], 1]]}
    asked = PageRequest("tiny", "abcabd ab", chosen, {f"{tab}_view": {"view": view}}, {}, "en", tab)
    parts = payloads(playground, asked)[0]
    packed(parts)
    problems = [part["problem"]["text"] for part in parts.values() if isinstance(part, dict) and "problem" in part]
    assert not parts["notice"]
    if view != "logit_parts":  # it looks at the head with the largest part
        assert bool(problems) == (kind in LACKING.get(view, ())), problems
    said = "attention in every", "full attention", "from token to token", "one kind of mixer"
    assert all(any(each in text for each in said) for text in problems)


SEEN = (
    *("map", "rope", "cell", "parameters", "edits", "sizes", "lens", "distribution", "memory", "logit_parts"),
    *("neurons", "side_by_side", "beam_tree", "many_samples", "prompts", "kv_cache", "floors"),
)


def test_views_of_layers_of_different_sizes_are_drawn_or_say_in_one_sentence_why_not(tmp_path):
    model = tiny_model(OWN_LAYERS["gemma4 E2B"] | {"vocab_size": 256, "n_ctx": 300})
    playground = serving(LanguageModel("tiny", "Tiny", model, byte_tokenizer(tmp_path)))
    lacking = {}
    for tab, view in VIEWS:
        if view in (*SEEN, "diagram"):
            asked = PageRequest(
                "tiny", "abcabd ab", {"heads": [[3, 1]]}, {f"{tab}_view": {"view": view}}, {}, "en", tab
            )
            parts = [each for each in payloads(playground, asked)[0].values() if isinstance(each, dict)]
            lacks = [each["empty"]["text"] for each in parts if each.get("empty", {}).get("lacks")]
            lacking[view] = set(lacks + [each["problem"]["text"] for each in parts if "problem" in each])
    assert {view for view, said in lacking.items() if said} == {"logit_parts", "rope"}  # the gradients of the former
    assert all("whose layers differ in size" in text for said in lacking.values() for text in said)


@pytest.fixture(scope="module", params=HYBRIDS)
def hybrid(request, tmp_path_factory):
    model = tiny_model(HYBRIDS[request.param])
    lm = LanguageModel("tiny", "Tiny", model, byte_tokenizer(tmp_path_factory.mktemp("bytes")))
    return request.param, serving(lm)


@pytest.mark.long
@pytest.mark.parametrize(("tab", "view"), VIEWS)
def test_every_view_of_a_hybrid_is_drawn_or_says_what_is_missing(hybrid, tab: str, view: str):
    name, playground = hybrid
    asked = PageRequest("tiny", "abcabd ab", {"heads": [[0, 1]]}, {f"{tab}_view": {"view": view}}, {}, "en", tab)
    parts = payloads(playground, asked)[0]
    packed(parts)
    assert not parts["notice"]
    problems = [part["problem"]["text"] for part in parts.values() if isinstance(part, dict) and "problem" in part]
    assert bool(problems) == (view in LACKED[name]), problems
