"""Neurons: which ones of a layer are active, what one of them does, and all layers in a few numbers."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import gradio as gr

from model.activations.neurons import (
    ACTIVE,
    EDGES,
    ORDERS,
    Activations,
    Survey,
    activation,
    layer_activations,
    promoted,
    ranked,
    survey,
    write_lengths,
)
from model.progress import Progress
from viz.labels import shorten, visible
from viz.page import background
from viz.page.old_view import View
from viz.page.parts import choice, part, plot_words
from viz.page.picking import position_of, source
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.page.typed import quoted
from viz.theme import SIGNED_RAMPS
from viz.views.activations.neurons.figures import (
    Curve,
    bins_figure,
    curve_figure,
    map_figure,
    numbers,
    ordered_rows,
    outside,
    shares_figure,
    short,
    span,
    spread,
)
from viz.words import section, some

QUICK = 0.3  # seconds of a run up to which all layers are read without being asked
_LISTED, _MAPPED, _TOKENS = 12, 24, 8  # neurons in the list, in the map; tokens pushed either way
_TOP_WORDS = (
    "number",
    "column_neuron",
    "column_value",
    "column_peak",
    "column_toward",
    "row_name",
)
_ONE_WORDS = (
    "scale",
    "text",
    "token_name",
    "promotes",
    "suppresses",
    "pushes_about",
    "column_position",
    "column_token",
    "column_pre",
    "column_gate",
    "column_up",
    "column_post",
)
PARTS = (
    "neurons_form",
    "neurons_top",
    "neurons_one",
    "neurons_curve",
    "neurons_survey",
    "neurons_bins",
    "neurons_shares",
)


def build() -> dict[str, gr.HTML]:
    """The layer's neurons left and the chosen one right; below, all layers."""
    made = {"neurons_form": part("neurons_form", None, kind="controls", value={})}
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["neurons_top"] = part("neurons_top", None, kind="neurontop", value={})
        with gr.Column(min_width=320):
            made["neurons_one"] = part("neurons_one", None, kind="neuronone")
            made["neurons_curve"] = part("neurons_curve", None, kind="figure")
    made["neurons_survey"] = part("neurons_survey", None, kind="job", events=("start", "cancel"))
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["neurons_bins"] = part("neurons_bins", None, kind="figure")
        with gr.Column(min_width=320):
            made["neurons_shares"] = part("neurons_shares", None, kind="figure")
    return made


@dataclass(frozen=True, eq=False)
class Looked:
    """What is looked at: a layer, an order of its neurons, a position, and its activations once they are needed."""

    layer: int
    order: str  # of model.neurons.ORDERS
    at: int
    asked: int | None  # the neuron that was chosen, if one was
    found: Callable[[], tuple[Activations, list[int]]]  # and all its neurons in that order

    @property
    def neuron(self) -> int:
        """The chosen neuron, else the first of the order."""
        return self.found()[1][0] if self.asked is None else self.asked

    @property
    def post(self):
        """Activations of the layer. [T, M]"""
        return self.found()[0].post


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """All parts; the layer is read once, and only if one of them is drawn anew."""
    looked, n_layer = looked_at(scene, values), scene.model.config.n_layer
    one = (scene.run, looked.layer, looked.order if looked.asked is None else "", looked.at, looked.asked)
    pictures = {
        "neurons_form": Picture(n_layer, lambda: form_payload(scene)),
        "neurons_top": Picture((scene.run, looked.layer, looked.order, looked.at), lambda: top_payload(scene, looked)),
        "neurons_one": Picture(one, lambda: one_payload(scene, looked)),
        "neurons_curve": Picture(one, lambda: curve_payload(scene, looked)),
    }
    return pictures | _layers(scene)


def looked_at(scene: Scene, values: Values) -> Looked:
    """What the page asks for; the layer of the main head and the first neuron where it asks for none."""
    config, at = scene.model.config, position_of(scene)
    form, chosen = values.get("neurons_form"), values.get("neurons_top")
    asked = choice(form, "layer", ("", *map(str, range(config.n_layer))))
    layer, order = int(asked) if asked else scene.head[0], choice(form, "order", ORDERS)
    chosen = chosen if isinstance(chosen, Mapping) else {}
    number, neuron = chosen.get("neuron"), None
    whole = isinstance(number, int) and not isinstance(number, bool)
    if chosen.get("of") == _of(scene, layer) and whole and 0 <= number < config.d_mlp:
        neuron = number

    @functools.cache
    def found() -> tuple[Activations, list[int]]:
        with scene.playground.computing:
            read = layer_activations(scene.trace, layer)
            return read, ranked(read.post, write_lengths(scene.model.model, layer), order, at).tolist()

    return Looked(layer, order, at, neuron, found)


def _of(scene: Scene, layer: int) -> str:
    """The layer that a neuron's number is of."""
    return f"{scene.model.id} {layer}"


def form_payload(scene: Scene) -> dict:
    """Layer and order."""
    said = scene.words
    layers = [["", said["neurons.layer_auto"]], *([str(n), str(n)] for n in range(scene.model.config.n_layer))]
    orders = [[key, said[f"neurons.order_{key}"], said[f"neurons.order_help_{key}"]] for key in ORDERS]
    return {
        "controls": [
            {"name": "layer", "kind": "choice", "label": said["neurons.layer"], "value": "", "options": layers},
            {"name": "order", "kind": "choice", "label": said["neurons.order"], "value": ORDERS[0], "options": orders},
        ]
    }


def _token(scene: Scene, at: int, most: int = 24) -> str:
    """A token of the prompt as the page shows it."""
    return shorten(visible(scene.trace.tokens.pieces[at]), most)


def _pushed(scene: Scene, layer: int, neurons: list[int], most: int):
    """What the neurons write towards, of the tokens that the vocabulary has."""
    with scene.playground.computing:
        return promoted(scene.model.model, layer, neurons, most, scene.model.tokenizer.vocab_size)


# --- the layer ---


def top_payload(scene: Scene, looked: Looked) -> dict:
    """The list of the first neurons, and more of them on all tokens."""
    words, order = scene.words, looked.found()[1]
    rows = ordered_rows(looked.post, order[:_LISTED], None if looked.order == "prompt" else looked.at)
    pushed = _pushed(scene, looked.layer, order[:_LISTED], 1)
    for n, row in enumerate(rows):
        toward = (pushed.down if row["value"] < 0 else pushed.up)[n, 0]
        row |= {"token": _token(scene, row["at"]), "toward": quoted(scene, int(toward))}
    title = "neurons.top_title" if looked.order == "here" else f"neurons.top_title_{looked.order}"
    return {
        "title": words[title].format(layer=looked.layer, token=_token(scene, looked.at), position=looked.at),
        "note": words["neurons.top_about"],
        "rows": rows,
        "of": _of(scene, looked.layer),
        "last": scene.model.config.d_mlp - 1,
        "map": _map_payload(scene, looked, order[:_MAPPED]),
        "run": f"{scene.run} {looked.layer} {looked.order} {looked.at}",
        "words": some(words, "neurons", *_TOP_WORDS),
    }


def _map_payload(scene: Scene, looked: Looked, neurons: list[int]) -> dict:
    said = section(scene.words, "neurons")
    lines = [
        f"layer = layer_activations(run, {looked.layer})",
        f"order = ranked(layer.post, write_lengths(run.model, {looked.layer}), {looked.order!r}, {looked.at})",
        f"layer.post[:, order[:{_MAPPED}]].T  # [neuron, token]",
    ]
    imports = ["from model.activations.neurons import layer_activations, ranked, write_lengths"]
    return {
        "figure": map_figure(looked.post[:, neurons].T, neurons, scene.trace.tokens.pieces, said).to_json(),
        "neurons": neurons,
        "title": said["map_title"].format(n=len(neurons)),
        "note": said["map_about"],
        "source": source(scene),
        "file": f"neurons-{looked.layer}-{looked.order}",
        "run": f"{scene.run} {looked.layer} {looked.order} {looked.at}",
        "columns": [said["neuron"], said["axis_token"], said["activation"]],
        "python": python_lines(scene, lines, imports),
        "words": plot_words(scene.words),
    }


# --- one neuron ---


def one_payload(scene: Scene, looked: Looked) -> dict:
    """One neuron on the text, its numbers at the position, and the tokens it writes towards."""
    words, neuron = scene.words, looked.neuron
    read, order = looked.found()
    pushed = _pushed(scene, looked.layer, [neuron], _TOKENS)
    sides = {"up": (pushed.up[0], pushed.up_scores[0]), "down": (pushed.down[0], pushed.down_scores[0])}
    columns = {"pre": read.pre[:, neuron], "post": read.post[:, neuron]}
    columns |= {} if read.up is None else {"up": read.up[:, neuron]}
    pieces = scene.trace.tokens.pieces
    vocab = scene.model.tokenizer.vocab_size
    lines = [
        f"layer = layer_activations(run, {looked.layer})",
        f"layer.post[:, {neuron}]  # a number a token",
        f"promoted(run.model, {looked.layer}, [{neuron}], {_TOKENS}, {vocab})",
    ]
    return {
        "title": words["neurons.one_title"].format(neuron=neuron, layer=looked.layer),
        "note": words["neurons.one_about"],
        "tokens": [visible(piece) for piece in pieces],
        "breaks": [at for at, piece in enumerate(pieces) if "\n" in piece],
        "at": looked.at,
        "columns": {name: numbers(column) for name, column in columns.items()},
        "facts": _facts(scene, looked, columns, order.index(neuron) + 1 if looked.order == "here" else None),
        "pushes": {
            side: [[quoted(scene, int(token)), float(score)] for token, score in zip(*found, strict=True)]
            for side, found in sides.items()
        },
        "ramps": {name: list(stops) for name, stops in SIGNED_RAMPS.items()},
        "source": source(scene),
        "file": f"neuron-{looked.layer}-{neuron}",
        "run": f"{scene.run} {looked.layer} {neuron} {looked.at}",
        "python": python_lines(scene, lines, ["from model.activations.neurons import layer_activations, promoted"]),
        "words": some(words, "neurons", *_ONE_WORDS) | plot_words(words),
    }


def _facts(scene: Scene, looked: Looked, columns: Mapping, rank: int | None) -> list[list[str]]:
    """Label and number of what the neuron does at the position, and where it does most."""
    words, at = scene.words, looked.at
    names = (
        {"pre": "fact_gate", "up": "fact_up", "post": "fact_post"}
        if "up" in columns
        else {"pre": "fact_pre", "post": "fact_post"}
    )
    facts = [[words["neurons.fact_position"].format(token=_token(scene, at), position=at), ""]]
    facts += [[words[f"neurons.{label}"], short(columns[name][at])] for name, label in names.items()]
    peak = int(abs(columns["post"]).argmax())
    most = {"value": short(columns["post"][peak]), "token": _token(scene, peak), "position": peak}
    facts.append([words["neurons.fact_largest"], words["neurons.fact_largest_at"].format(**most)])
    if rank is not None:
        label = words["neurons.fact_rank"].format(n=scene.model.config.d_mlp)
        facts.append([label, words["neurons.fact_rank_of"].format(rank=rank)])
    return facts


def curve_payload(scene: Scene, looked: Looked) -> dict:
    """The activation function with the neuron's tokens on it and the layer's pre-activations below."""
    said, config, neuron = section(scene.words, "neurons"), scene.model.config, looked.neuron
    pre = looked.found()[0].pre
    own, name = pre[:, neuron], said[f"function_{config.mlp}"]
    x = spread(*span(pre, own))
    drawn = Curve(x, activation(config, x), pre, own, activation(config, own), name, neuron)
    beyond = outside(pre, x)
    notes = [said["curve_about"]] + ([said["curve_outside"].format(share=f"{100 * beyond:.2g} %")] if beyond else [])
    notes += [said["curve_gated"]] if config.mlp == "swiglu" else []
    lines = [f"pre = layer_activations(run, {looked.layer}).pre", f"activation(run.config, pre[:, {neuron}])"]
    return {
        "figure": curve_figure(drawn, scene.trace.tokens.pieces, said).to_json(),
        "title": said["curve_title"].format(name=name, layer=looked.layer, neuron=neuron),
        "note": " ".join(notes),
        "source": source(scene),
        "file": f"activation-function-{looked.layer}-{neuron}",
        "run": f"{scene.run} {looked.layer} {neuron}",
        "columns": [scene.words["plot.series"], said["axis_token"], said["axis_pre"], "f(x)"],
        "python": python_lines(scene, lines, ["from model.activations.neurons import activation, layer_activations"]),
        "words": plot_words(scene.words),
    }


# --- all layers ---


def survey_key(scene: Scene) -> tuple:
    """All that decides what a survey finds."""
    return ("neurons", scene.trace.key)


def plan_survey(scene: Scene, values: Values) -> background.Job:
    """Read every layer of this prompt."""
    trace = scene.trace

    def work(progress: Progress) -> Survey:
        return survey(trace, progress)

    return background.Job(survey_key(scene), work)


def _layers(scene: Scene) -> dict[str, Picture]:
    """The pictures of all layers: at once where the run was quick, else once the button was pressed."""
    words, key = scene.words, survey_key(scene)
    done = scene.playground.results.peek(key)
    quick = done is None and scene.trace.seconds <= QUICK

    def found() -> Survey:
        return background.kept(scene.playground, key, lambda: _surveyed(scene))

    state = (scene.run, done is not None or quick)
    if not state[1]:
        nothing = {"empty": {"text": words["neurons.survey_empty"], "hint": words["neurons.survey_empty_hint"]}}
        start = background.button(words["neurons.survey"], words, None, words["neurons.survey_hint"])
        return {
            "neurons_survey": Picture(state, lambda: start),
            **{name: Picture(state, lambda: nothing) for name in ("neurons_bins", "neurons_shares")},
        }
    waited = done if done is not None and done.seconds else None
    over = background.button(words["neurons.survey"], words, waited) | {"state": "done"}
    return {
        "neurons_survey": Picture((state, waited is not None), lambda: over),
        "neurons_bins": Picture(state, lambda: bins_payload(scene, found())),
        "neurons_shares": Picture(state, lambda: shares_payload(scene, found())),
    }


def _surveyed(scene: Scene) -> Survey:
    with scene.playground.computing:
        return survey(scene.trace)


def bins_payload(scene: Scene, found: Survey) -> dict:
    """Histograms of the activations, a column a layer."""
    said = section(scene.words, "neurons")
    lines = ["survey(run).counts  # [layer, bin]; the bins lie between EDGES"]
    return {
        "figure": bins_figure(found.counts, EDGES, said).to_json(),
        "title": said["bins_title"],
        "note": said["bins_about"],
        "source": source(scene),
        "file": "neurons-by-layer",
        "run": scene.run,
        "columns": [said["column_bin"], said["column_layer"], said["column_share"]],
        "python": python_lines(scene, lines, ["from model.activations.neurons import EDGES, survey"]),
        "words": plot_words(scene.words),
    }


def shares_payload(scene: Scene, found: Survey) -> dict:
    """How many neurons are active, by layer, and what that means for this activation function."""
    said = section(scene.words, "neurons")
    exact = scene.model.config.mlp == "relu"
    lines = {said["line_never"]: found.never, said["line_quiet"]: found.quiet, said["line_active"]: found.active}
    note = said["shares_relu"] if exact else said["shares_smooth"].format(percent=f"{100 * ACTIVE:g}")
    asked = ["found = survey(run)", "found.never, found.quiet, found.active  # [layer] each"]
    return {
        "figure": shares_figure(lines, said).to_json(),
        "title": said["shares_title"],
        "note": note,
        "source": source(scene),
        "file": "neurons-active",
        "run": scene.run,
        "columns": [scene.words["plot.series"], said["column_layer"], said["column_share"]],
        "python": python_lines(scene, asked, ["from model.activations.neurons import survey"]),
        "words": plot_words(scene.words),
    }


VIEW = View(
    "neurons",
    build,
    draw,
    parts=PARTS,
    asks=("neurons_form", "neurons_top"),
    jobs={"neurons_survey": plan_survey},
)
