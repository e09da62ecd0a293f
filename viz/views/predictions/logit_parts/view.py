"""Who wrote it: the parts of the model whose outputs add up to a token's logit, and what gradients say beside them."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import gradio as gr

from model.errors import InputError, PlaygroundError
from model.predictions.attribution import Attribution, Components, attribute, by_source, components, promoted
from model.predictions.gradients import MOST, gradients
from model.progress import Progress
from viz.charts.distribution import likeliest
from viz.labels import shorten, visible
from viz.page import background
from viz.page.old_view import View
from viz.page.parts import part, plot_words
from viz.page.picking import position_of, source
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.page.typed import quoted, typed_token
from viz.theme import SIGNED
from viz.views.predictions.logit_parts.figures import (
    layers_figure,
    map_figure,
    steps_of,
    strongest,
    token_rows,
    tokens_figure,
)
from viz.words import some

TOP = 10  # tokens promoted, and as many suppressed
_TOKENS = 4096  # tokens run forward and back along the path of integrated gradients, by which long prompts take fewer
_SIDE_WORDS = (
    "up",
    "up_about",
    "down",
    "down_about",
    "nothing",
    "inside",
    "inside_head",
    "inside_mlp",
    "part_head",
    "part_mlp",
    "part_embedding",
    "part_position",
    "part_o_bias",
    "part_mlp_bias",
    "part_norm1_bias",
    "part_norm2_bias",
    "part_final_bias",
    "part_value",
)
_FIGURE_WORDS = (
    "value",
    "unit",
    "mlp",
    "axis_layer",
    "axis_head",
    "axis_token",
    "axis_total",
    "total",
    "kind_embedding",
    "kind_position",
    "kind_attention",
    "kind_mlp",
    "kind_bias",
    "kind_final",
)
PARTS = (
    "wrote_form",
    "wrote_check",
    "wrote_map",
    "wrote_layers",
    "wrote_sources",
    "wrote_tokens",
    "wrote_job",
    "wrote_gradients",
)


def build() -> dict[str, gr.HTML]:
    """What is asked and whether it adds up; all parts; then one part from inside; then the gradients."""
    made = {
        "wrote_form": part("wrote_form", None, kind="controls", value={}),
        "wrote_check": part("wrote_check", None, kind="wrotecheck"),
        "wrote_map": part("wrote_map", None, kind="wrotemap", value={}),
        "wrote_layers": part("wrote_layers", None, kind="figure"),
    }
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["wrote_sources"] = part("wrote_sources", None, kind="figure")
        with gr.Column(min_width=320):
            made["wrote_tokens"] = part("wrote_tokens", None, kind="wrotetokens")
    made["wrote_job"] = part("wrote_job", None, kind="job", events=("start", "cancel"))
    made["wrote_gradients"] = part("wrote_gradients", None, kind="figure")
    return made


def fixed(words: Mapping[str, str]) -> dict[str, dict]:
    """The two tokens that a logit is asked of."""
    typed = {"kind": "text", "value": "", "help": words["effects.token_help"]}
    return {
        "wrote_form": {
            "controls": [
                {
                    "name": "token",
                    "label": words["effects.token"],
                    "placeholder": words["effects.token_empty"],
                    **typed,
                },
                {
                    "name": "distractor",
                    "label": words["effects.distractor"],
                    "placeholder": words["wrote.no_distractor"],
                    **typed,
                },
            ]
        }
    }


# --- what is asked ---


@dataclass(frozen=True)
class Watched:
    """The logit that is taken apart; with a distractor, the difference of two."""

    position: int
    token: int
    distractor: int | None = None

    @property
    def given(self) -> str:
        """The tokens as the arguments of a call."""
        return f"{self.token}" if self.distractor is None else f"{self.token}, {self.distractor}"


def watched_of(scene: Scene, asked: object) -> Watched:
    """What the form asks for; an empty target is the likeliest next token without edits, an empty distractor is none.

    Raises InputError, in the reader's language, where a text is not one token.
    """
    at = position_of(scene)
    token, other = (typed_token(scene, asked, name) for name in ("token", "distractor"))
    if token is None:
        token = likeliest(scene.unedited.logits_at(at), 1)[0]
    if other == token:
        raise InputError(scene.words["effects.same_token"])
    return Watched(at, token, other)


def inside_of(scene: Scene, asked: object) -> int | None:
    """The layer whose MLP is looked into, None for the main head: an MLP gives way once another head is picked."""
    found = asked if isinstance(asked, Mapping) else {}
    mlp, head = found.get("mlp"), found.get("head")
    fits = type(mlp) is int and 0 <= mlp < scene.model.config.n_layer
    return mlp if fits and head == list(scene.head) else None


def found_at(scene: Scene, at: int) -> Components:
    """What every part wrote at a position, worked out once for all target tokens."""

    def make() -> Components:
        with scene.playground.computing:
            return components(scene.trace, at)

    return background.kept(scene.playground, ("wrote", scene.trace.key, at), make)


@dataclass(frozen=True, eq=False)
class _Asked:
    """One drawing: what is asked, and the parts, worked out when the first picture needs them."""

    scene: Scene
    watched: Watched
    mlp: int | None
    parts: Callable[[], Attribution]


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """The parts of the logit, one of them from inside, and the gradients where they were asked for."""
    try:
        watched = watched_of(scene, values.get("wrote_form"))
    except PlaygroundError as error:
        return _nothing(scene, error)
    mlp = inside_of(scene, values.get("wrote_map"))
    what, inside = (scene.run, watched), (mlp if mlp is not None else scene.head)
    parts = functools.cache(
        lambda: attribute(found_at(scene, watched.position), scene.model.model, watched.token, watched.distractor)
    )
    asked = _Asked(scene, watched, mlp, parts)
    job = plan_gradients(scene, values)
    result = scene.playground.results.peek(job.key)
    state = (job.key, result is not None)
    count = scene.words["wrote.gradients_count"].format(most=_places(watched.position + 1))
    return {
        "wrote_check": Picture(what, lambda: check_payload(asked)),
        "wrote_map": Picture((*what, mlp), lambda: map_payload(asked)),
        "wrote_layers": Picture(what, lambda: layers_payload(asked)),
        "wrote_sources": Picture((*what, inside), lambda: sources_payload(asked)),
        "wrote_tokens": Picture((scene.run, watched.position, inside), lambda: tokens_payload(asked)),
        "wrote_job": Picture(
            state, lambda: background.button(scene.words["wrote.compare"], scene.words, result, count)
        ),
        "wrote_gradients": Picture(
            state,
            lambda: gradients_payload(asked, result) if result else _empty(scene, "gradients_empty", "gradients_hint"),
        ),
    }


def _nothing(scene: Scene, error: PlaygroundError) -> dict[str, Picture]:
    """Every part where the form cannot be read: the first one says why."""
    why = background.failed(error, scene.language)["text"]

    def refuse() -> dict:
        raise error

    rest = ("wrote_map", "wrote_layers", "wrote_sources", "wrote_tokens", "wrote_gradients")
    empty = {name: Picture("", lambda: _empty(scene, "no_target", "no_target_hint")) for name in rest}
    start = Picture(why, lambda: background.unready(scene.words, scene.words["wrote.compare"], why))
    return {"wrote_check": Picture(why, refuse), "wrote_job": start, **empty}


def _empty(scene: Scene, text: str, hint: str) -> dict:
    return {"empty": {"text": scene.words[f"wrote.{text}"], "hint": scene.words[f"wrote.{hint}"]}}


# --- the parts ---


def _measured(words: Mapping[str, str]) -> str:
    """The name of a column of contributions."""
    return f"{words['wrote.value']} ({words['wrote.unit']})"


def _told(asked: _Asked) -> str:
    """The logit as a title names it."""
    scene, watched = asked.scene, asked.watched
    names = {"token": quoted(scene, watched.token), "position": watched.position}
    if watched.distractor is None:
        return scene.words["wrote.of_logit"].format(**names)
    return scene.words["wrote.of_difference"].format(**names, distractor=quoted(scene, watched.distractor))


def check_payload(asked: _Asked) -> dict:
    """Which logit, that the parts add up to it, and what was frozen."""
    scene, parts, words = asked.scene, asked.parts(), asked.scene.words
    config, watched = scene.model.config, asked.watched
    names = {"position": watched.position, "token": quoted(scene, watched.token), "token_id": watched.token}
    if watched.distractor is not None:
        names |= {"distractor": quoted(scene, watched.distractor), "distractor_id": watched.distractor}
    frozen = "none" if not config.final_norm and config.norm_placement == "pre" else config.norm
    notes = [words[f"wrote.frozen_{frozen}"]]
    if config.norm_placement == "post":
        notes.append(words["wrote.frozen_post"])
    kind = "logit" if watched.distractor is None else "difference"
    return {
        "told": words[f"effects.watching_{kind}"].format(**names),
        "facts": [
            [words["wrote.check_sum"], f"{parts.total:.6f}"],
            [words[f"wrote.check_{kind}"], f"{parts.logit:.6f}"],
            [words["wrote.check_gap"], f"{parts.gap:+.1e}"],
        ],
        "note": " ".join(notes),
        "run": f"{scene.run} {watched}",
    }


def _common(asked: _Asked, name: str, lines: list[str], imports: tuple[str, ...] = ()) -> dict:
    """What every picture of this view has below it."""
    scene, watched = asked.scene, asked.watched
    made = [f"found = components(run, {watched.position})", f"parts = attribute(found, lm.model, {watched.given})"]
    names = ", ".join(sorted({"attribute", "components", *imports}))
    return {
        "source": source(scene),
        "file": f"{name}-{watched.position}-{watched.given.replace(', ', '-')}",
        "run": f"{scene.run} {watched}",
        "python": python_lines(scene, [*made, *lines], [f"from model.predictions.attribution import {names}"]),
    }


def map_payload(asked: _Asked) -> dict:
    """Every head and MLP on a map, and the strongest parts beside it."""
    scene, parts, words = asked.scene, asked.parts(), asked.scene.words
    said = some(words, "wrote", *_FIGURE_WORDS)
    return {
        "figure": map_figure(parts.heads, parts.mlps, said).to_json(),
        "title": words["wrote.map_title"].format(of=_told(asked)),
        "note": words["wrote.map_note"],
        "columns": [words["wrote.column_part"], said["axis_head"], said["axis_layer"], _measured(words)],
        "ranked": strongest(parts.parts()),
        "mlp": asked.mlp,
        "layers": scene.model.config.n_layer,
        "hues": [SIGNED[1], SIGNED[-2]],
        "words": plot_words(words) | some(words, "wrote", *_SIDE_WORDS),
        **_common(asked, "parts", ["parts.heads, parts.mlps  # [layer, head] and [layer]", "parts.total, parts.logit"]),
    }


def layers_payload(asked: _Asked) -> dict:
    """The logit being built."""
    parts, words = asked.parts(), asked.scene.words
    said = some(words, "wrote", *_FIGURE_WORDS)
    return {
        "figure": layers_figure(steps_of(parts.parts()), len(parts.mlps), said).to_json(),
        "title": words["wrote.layers_title"].format(of=_told(asked)),
        "note": words["wrote.layers_note"],
        "columns": [words["wrote.column_kind"], words["wrote.column_part"], _measured(words)],
        "words": plot_words(words),
        **_common(asked, "layers", ["parts.parts()  # every part, in the order in which they are written"]),
    }


# --- one part from inside ---


def sources_payload(asked: _Asked) -> dict:
    """The main head's part token by token; an MLP has none."""
    scene, words, watched = asked.scene, asked.scene.words, asked.watched
    if asked.mlp is not None:
        return _empty(scene, "mlp_sources", "mlp_sources_hint")
    (layer, head), parts = scene.head, asked.parts()
    with scene.playground.computing:
        values = by_source(scene.trace, layer, head, watched.position, parts.directions[layer])[: watched.position + 1]
    said = some(words, "wrote", *_FIGURE_WORDS)
    names = {"layer": layer, "head": head, "value": f"{parts.heads[layer, head]:+.4f}"}
    lines = [f"by_source(run, {layer}, {head}, {watched.position}, parts.directions[{layer}])  # [token]"]
    return {
        "figure": tokens_figure({"": values}, scene.trace.tokens.pieces, watched.position, said).to_json(),
        "title": words["wrote.sources_title"].format(**names),
        "note": words["wrote.sources_note"].format(**names),
        "columns": [said["axis_token"], words["wrote.column_position"], _measured(words)],
        "words": plot_words(words),
        **_common(asked, f"sources-{layer}-{head}", lines, ("by_source",)),
    }


def tokens_payload(asked: _Asked) -> dict:
    """The tokens that one head or MLP promotes and suppresses most."""
    scene, words, at = asked.scene, asked.scene.words, asked.watched.position
    layer, head = scene.head if asked.mlp is None else (asked.mlp, None)
    tokenizer = scene.model.tokenizer
    result = promoted(found_at(scene, at), scene.model.model, layer, head, TOP, tokenizer.vocab_size)
    sides = {"up": (result.ids, result.values), "down": (result.low_ids, result.low_values)}
    rows = {
        side: token_rows(ids, values, [tokenizer.piece(int(number)) for number in ids])
        for side, (ids, values) in sides.items()
    }
    name = words["wrote.part_mlp" if head is None else "wrote.part_head"].format(layer=layer, head=head)
    token = shorten(visible(scene.trace.tokens.pieces[at]), 40)
    lines = [f"promoted(found, lm.model, {layer}, {head}, {TOP}, lm.tokenizer.vocab_size)"]
    return {
        "title": words["wrote.tokens_title"].format(part=name),
        "note": words["wrote.tokens_note"].format(position=at, token=token, mean=f"{result.mean:+.3f}"),
        "hues": [SIGNED[1], SIGNED[-2]],
        "columns": [words["wrote.column_id"], words["wrote.axis_token"], _measured(words)],
        "words": plot_words(words) | some(words, "wrote", "promoted", "suppressed"),
        **rows,
        **_common(asked, f"promoted-{layer}{'' if head is None else f'-{head}'}", lines, ("promoted",)),
    }


# --- gradients ---


def _places(tokens: int) -> int:
    """Gradients along the path, at most: fewer for a long prompt, where each takes longer."""
    return min(MOST, max(16, _TOKENS // tokens))


def plan_gradients(scene: Scene, values: Values) -> background.Job:
    """The comparison with gradients for what the form asks; raises InputError."""
    watched = watched_of(scene, values.get("wrote_form"))
    trace, most = scene.trace, _places(watched.position + 1)

    def work(progress: Progress) -> object:
        return gradients(trace, watched.position, watched.token, watched.distractor, most, progress)

    return background.Job(("wrote gradients", trace.key, watched, most), work)


def gradients_payload(asked: _Asked, result: background.Result) -> dict:
    """Two bars a token, and how far integrated gradients are from adding up."""
    scene, words, watched, found = asked.scene, asked.scene.words, asked.watched, result.value
    said = some(words, "wrote", *_FIGURE_WORDS)
    series = {
        words["wrote.gradient_x_activation"]: found.gradient_x_activation,
        words["wrote.integrated"]: found.integrated,
    }
    told = words["wrote.gradients_gap"].format(
        sum=f"{found.integrated.sum():.3f}",
        change=f"{found.value - found.baseline:.3f}",
        value=f"{found.value:.3f}",
        baseline=f"{found.baseline:.3f}",
        gap=f"{found.gap:+.3f}",
        taken=found.taken,
    )
    rough = abs(found.gap) > 0.1 * max(1.0, abs(found.value - found.baseline))
    given = f"{watched.token}, {watched.distractor}, {_places(watched.position + 1)}"
    lines = [f"gradients(run, {watched.position}, {given})"]
    return {
        "figure": tokens_figure(series, scene.trace.tokens.pieces, watched.position, said).to_json(),
        "title": words["wrote.gradients_title"].format(of=_told(asked)),
        "note": " ".join([words["wrote.gradients_note"], told, *([words["wrote.gradients_rough"]] if rough else [])]),
        "source": source(scene),
        "file": f"gradients-{watched.position}-{watched.given.replace(', ', '-')}",
        "run": f"{scene.run} {watched}",
        "columns": [words["wrote.column_way"], said["axis_token"], words["wrote.column_position"], _measured(words)],
        "python": python_lines(scene, lines, ["from model.predictions.gradients import gradients"]),
        "words": plot_words(words),
    }


VIEW = View(
    "wrote", build, draw, parts=PARTS, fixed=fixed, asks=("wrote_form", "wrote_map"), jobs={"wrote_job": plan_gradients}
)
