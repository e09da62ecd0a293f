"""Every view on a model whose layers are not all attention: drawn, or in plain words what it lacks."""

import pytest

from model.api import LanguageModel
from tests.support.models.helpers import byte_tokenizer, serving, tiny_model
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
    "memory": LAYER,
    "kv_heads": LAYER,
    "formats": LAYER,
    "forget": LAYER,
    "approximations": LAYER,
    "shuffled": LAYER,
    "cell": ("linear", "state"),
    "distance": ("linear", "state"),
    "attention_ways": ("linear", "state"),
    "score_scaling": ("linear", "state"),
    "rope": ("state",),
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
    assert all("full attention" in text or "from token to token" in text for text in problems)
