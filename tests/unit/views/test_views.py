"""Every view of the tabs that are rows of views: drawn for every way to wire a block, short prompts and edited runs."""

from functools import partial
from typing import get_args

import plotly.graph_objects as go
import pytest
import torch

from model.api import LanguageModel
from model.gpt.config import CHOICES
from model.gpt.rope_scaling import Kind, RopeScaling
from model.gpt.transformer import Block, Transformer
from model.loading.checkpoint import build, load_folder, save_folder
from model.loading.halves import halved
from model.loading.stored import leave_stored
from tests.support.models.helpers import MORE_VARIANTS, VARIANTS, byte_tokenizer, serving, tiny_model
from viz.page.parts import packed
from viz.page.pipeline import PageRequest, payloads
from viz.theme import scale_of
from viz.views.tabs import TABS
from viz.words import LANGUAGES, words

OURS = {
    tab.key: [name.removesuffix("_about") for name in tab.parts if name.endswith("_about")]
    for tab in TABS
    if f"{tab.key}_view" in tab.parts
}
VIEWS = [(tab, view) for tab, views in OURS.items() for view in views]
EDIT = {"kind": "zero", "layer": 1, "head": 2}


@pytest.fixture(scope="module")
def playgrounds(tmp_path_factory):
    tokenizer = byte_tokenizer(tmp_path_factory.mktemp("bytes"))

    def of(variant):
        model = tiny_model({**VARIANTS[variant], "vocab_size": 256, "n_ctx": 300})
        return serving(LanguageModel("tiny", "Tiny", model, tokenizer))

    return {variant: of(variant) for variant in VARIANTS}


def drawn(playground, tab, view, prompt="abcabd ab", language="en", **selection):
    """The parts of a view by name, and the notice."""
    asked = PageRequest("tiny", prompt, selection or None, {f"{tab}_view": {"view": view}}, {}, language, tab)
    parts = payloads(playground, asked)[0]
    packed(parts)  # as it is sent
    fixed = next(t for t in TABS if t.key == tab).fixed(words(language))
    names = (
        dict(fixed[f"{tab}_view"]["shows"])[view]
        if f"{tab}_view" in fixed
        else [name for name in parts if name.startswith(tab)]
    )
    return {name: parts[name] for name in names if name in parts}, parts["notice"]


def test_every_tab_has_views():
    assert len(VIEWS) > 40 and len(OURS) > 8 and all(OURS.values())


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("tab", "view"), VIEWS)
def test_every_view_is_drawn_for_every_wiring(playgrounds, tab, view, variant):
    parts, notice = drawn(playgrounds[variant], tab, view)
    assert not notice
    assert not [name for name, part in parts.items() if "problem" in part]
    ours = next(t for t in TABS if t.key == tab).fixed(words("en"))[f"{tab}_view"]["shows"][view]
    assert set(parts) == set(ours)  # all that is shown is filled


@pytest.mark.parametrize(("tab", "view"), VIEWS)
def test_every_grid_of_layers_has_layer_0_on_top(playgrounds, tab, view):
    parts, _ = drawn(playgrounds["gpt2"], tab, view)
    for figure in [go.Figure(part["figure"]) for part in parts.values() if part.get("figure")]:
        if not any(trace.type == "heatmap" for trace in figure.data):
            continue
        assert not [axis for axis in figure.select_xaxes() if "layer" in (axis.title.text or "")]
        for axis in figure.select_yaxes():
            upward = axis.autorange != "reversed" and not (axis.range and axis.range[0] > axis.range[1])
            assert "layer" not in (axis.title.text or "") or not upward


@pytest.mark.parametrize(("tab", "view"), VIEWS)
def test_every_view_draws_an_edited_run_and_one_token(playgrounds, tab, view):
    parts, notice = drawn(playgrounds["gpt2"], tab, view, edits=[EDIT])
    assert not notice and not [name for name, part in parts.items() if "problem" in part]
    parts, notice = drawn(playgrounds["post"], tab, view, prompt="a", language="zh")
    problems = [part["problem"]["text"] for part in parts.values() if "problem" in part]
    assert not notice and all(problems)  # one token may be too little, which is then said


@pytest.fixture(scope="module", params=["stored", "bfloat16"])
def kept(request, tmp_path_factory):
    """The same of a model whose weights stay in their file, in 16 bits, and of one whose products are of 16 bits."""
    folder, tokenizer = tmp_path_factory.mktemp("stored"), byte_tokenizer(tmp_path_factory.mktemp("bytes"))
    save_folder(folder, tiny_model({**VARIANTS["llama"], "vocab_size": 256, "n_ctx": 300}), torch.bfloat16)
    keep = leave_stored if request.param == "stored" else partial(halved, dtype=torch.bfloat16)
    model = keep(build(*load_folder(folder, stored=True)))
    return serving(LanguageModel("tiny", "Tiny", model, tokenizer, request.param))


@pytest.mark.long
@pytest.mark.parametrize(("tab", "view"), VIEWS)
def test_every_view_is_drawn_of_weights_of_another_type(kept, tab, view):
    parts, notice = drawn(kept, tab, view, edits=[EDIT])
    assert not notice and not [name for name, part in parts.items() if "problem" in part]


@pytest.mark.parametrize(("tab", "view"), VIEWS)
def test_what_was_read_once_is_not_run_again(playgrounds, tab, view, monkeypatch):
    """Drawing a view again needs no forward of the model, at most one block of it."""
    playground, ran, whole = playgrounds["llama"], [], Block.forward
    drawn(playground, tab, view, tokens=[3])
    monkeypatch.setattr(Block, "forward", lambda self, *given: (ran.append(given[1]), whole(self, *given))[1])
    monkeypatch.setattr(Transformer, "trunk", lambda *given, **named: pytest.fail("the whole model was run"))
    drawn(playground, tab, view, tokens=[3])
    assert len(ran) <= 1


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_view_says_how_to_read_it(language):
    said = words(language)
    for _, view in VIEWS:
        howto = f"{view}.howto" if f"{view}.howto.body" in said else f"howto_{view}"
        for key in (f"{view}.view", f"{view}.about", *(f"{howto}.{k}" for k in ("body", "formula", "caveat", "try"))):
            assert said[key], key


def test_a_view_that_is_not_chosen_is_not_drawn(playgrounds):
    asked = PageRequest(
        "tiny", "abcabd ab", None, {"activations_view": {"view": "stream_picture"}}, {}, "en", "activations"
    )
    parts = payloads(playgrounds["gpt2"], asked)[0]
    assert "stream_picture_map" in parts
    assert "neurons_top" not in parts


def figures(part):
    """The figures of a payload, wherever they are in it."""
    if isinstance(part, go.Figure):
        return [part]
    inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return [figure for each in inner for figure in figures(each)]


def colored(trace: dict) -> bool:
    """Whether a trace says its colors itself."""
    look = [trace, *(trace.get(of, {}) for of in ("line", "marker", "textfont"))]
    return any({"color", "colors", "coloraxis", "colorscale"} & each.keys() for each in look if each)


@pytest.mark.parametrize(("tab", "view"), VIEWS)
def test_figures_say_their_colors_and_carry_no_look_of_plotlys(playgrounds, tab, view):
    """Plotly's template would be copied into every figure, and its colors are not the page's."""
    parts, _ = drawn(playgrounds["gpt2"], tab, view, tokens=[1, 3])
    for figure in figures(parts):
        plain = figure.to_dict()
        assert len(str(plain["layout"]["template"])) < 60  # as good as nothing
        assert all(map(colored, plain["data"])), [trace for trace in plain["data"] if not colored(trace)]
        ramps = plain["layout"]["meta"].get("scales", {})
        assert ("coloraxis" in plain["layout"]) == bool(ramps) and all(map(scale_of, ramps.values()))


MORE = {
    **MORE_VARIANTS,
    "experts": {**VARIANTS["llama"], "n_expert": 3, "experts_per_token": 2, "dense": (1,)},
    "yarn": {
        **VARIANTS["llama"],
        "rope_scaling": RopeScaling(
            kind="yarn", factor=4.0, beta_fast=4.0, beta_slow=0.5, original_n_ctx=32, amplitude=1.3
        ),
    },
}
# What a visitor sees first, and the views whose words or numbers depend on the rules of later families
TELLING = (
    "start",
    "logit_parts",
    "one_norm",
    "norm_swap",
    "neurons",
    "diagram",
    "rope",
    "position_vectors",
    "past_length",
)
# Words of the reasons for which a view may refuse such a model
REASONS = ("experts", "full attention", "q.k / sqrt(d_head) alone", "Keys cannot be merged")


@pytest.fixture(scope="module")
def more_playgrounds(tmp_path_factory):
    tokenizer = byte_tokenizer(tmp_path_factory.mktemp("bytes"))

    def of(changes):
        return serving(
            LanguageModel("tiny", "Tiny", tiny_model({**changes, "vocab_size": 256, "n_ctx": 300}), tokenizer)
        )

    return {variant: of(changes) for variant, changes in MORE.items()}


def test_every_kind_of_mlp_and_position_has_its_words():
    for language in LANGUAGES:
        catalogue = words(language)
        assert all(catalogue[f"neurons.function_{kind}"] for kind in CHOICES["mlp"] if kind != "none")
        for scheme in CHOICES["positions"]:
            assert (
                catalogue[f"position_vectors.settings.scheme_{scheme}"]
                and catalogue[f"past_length.facts.model_{scheme}"]
            )
        assert all(catalogue[f"position_vectors.sources.scaling_{kind}"] for kind in get_args(Kind))


def refusals(playground, tab, view, **selection):
    """What the parts of a view say in place of a drawing."""
    parts, notice = drawn(playground, tab, view, **selection)
    return [part["problem"]["text"] for part in parts.values() if "problem" in part] + (
        [notice["text"]] if notice else []
    )


@pytest.mark.parametrize("variant", MORE)
@pytest.mark.parametrize("view", TELLING)
def test_views_that_know_the_later_rules(more_playgrounds, variant, view):
    tab = "start" if view == "start" else next(tab for tab, each in VIEWS if each == view)
    told = refusals(more_playgrounds[variant], tab, view, heads=[[1, 2]])
    assert all("experts" in text for text in told) and bool(told) == (variant == "experts" and view == "neurons")


@pytest.mark.long
@pytest.mark.parametrize("variant", MORE)
@pytest.mark.parametrize(("tab", "view"), VIEWS)
def test_every_view_is_drawn_for_the_later_rules_or_says_why_not(more_playgrounds, tab, view, variant):
    for text in refusals(more_playgrounds[variant], tab, view, heads=[[1, 2]]):
        assert any(reason in text for reason in REASONS), text
