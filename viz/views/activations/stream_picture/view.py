"""The picture of the residual stream: all tokens of all layers in two of their principal components."""

from dataclasses import dataclass

import gradio as gr

from model.activations.principal_components import Space, principal, work
from model.progress import Progress
from viz.page import background
from viz.page.old_view import View
from viz.page.parts import choice, number, part, plot_words
from viz.page.picking import position_of, source
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.views.activations.stream_picture.figures import Drawn, percent, space_figure
from viz.words import section

STATES = ("unit", "raw")
AXES = {"12": (0, 1), "23": (1, 2), "13": (0, 2)}
QUICK = 1.6e10  # multiplications up to which the components are worked out without being asked: half a second
MOST_PATHS = 8  # one hue each
PARTS = ("space_form", "space_job", "space_map")


def build() -> dict[str, gr.HTML]:
    """The settings, and the picture over the full width."""
    return {
        "space_form": part("space_form", None, kind="controls", value={}),
        "space_job": part("space_job", None, kind="job", events=("start", "cancel")),
        "space_map": part("space_map", None, kind="figure"),
    }


@dataclass(frozen=True)
class Shown:
    """What is asked for of the picture."""

    scaled: bool
    first: bool
    axes: tuple[int, int]
    layer: int  # 0 .. n_layer


def shown_of(scene: Scene, asked: object) -> Shown:
    """The settings that a page sent, or the usual ones."""
    n_layer = scene.model.config.n_layer
    first = asked.get("first", True) if isinstance(asked, dict) else True
    layer = round(number(asked, "layer", 0, n_layer, n_layer // 2))
    axes = AXES[choice(asked, "axes", tuple(AXES))]
    return Shown(choice(asked, "states", STATES) == "unit", first is not False, axes, layer)


def form_payload(scene: Scene) -> dict:
    """Which states, which components, and which layer."""
    said, last = section(scene.words, "space"), scene.model.config.n_layer
    states = [[key, said[f"states_{key}"], said[f"states_help_{key}"]] for key in STATES]
    axes = [[key, " – ".join(str(axis + 1) for axis in pair)] for key, pair in AXES.items()]
    return {
        "controls": [
            {
                "name": "layer",
                "kind": "range",
                "label": said["layer"],
                "min": 0,
                "max": last,
                "step": 1,
                "value": last // 2,
            },
            {"name": "states", "kind": "choice", "label": said["states"], "value": STATES[0], "options": states},
            {"name": "axes", "kind": "choice", "label": said["axes"], "value": next(iter(AXES)), "options": axes},
            {"name": "first", "kind": "check", "label": said["first"], "value": True},
        ]
    }


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """The form and the picture; a wide model is asked about first."""
    shown, words = shown_of(scene, values.get("space_form")), scene.words
    followed = paths_of(scene, shown)
    done = scene.playground.results.peek(space_key(scene, shown))
    ready = done is not None or work(scene.trace) <= QUICK
    waited = done if done is not None and done.seconds else None
    button = background.button(words["space.run"], words, waited, words["space.run_hint"])
    button |= {"state": "done", "text": button["text"] if waited else ""} if ready else {}
    empty = {"empty": {"text": words["space.run_empty"], "hint": words["space.run_empty_hint"]}}
    return {
        "space_form": Picture(scene.model.config.n_layer, lambda: form_payload(scene)),
        "space_job": Picture((ready, waited is not None, space_key(scene, shown)), lambda: button),
        "space_map": Picture(
            (scene.run, ready, shown, followed), lambda: map_payload(scene, shown, followed) if ready else empty
        ),
    }


def paths_of(scene: Scene, shown: Shown) -> tuple[int, ...]:
    """The tokens whose paths are drawn: those picked, else the one looked at and the first."""
    wanted = scene.picked.tokens or (position_of(scene), 0)
    found = [at for at in dict.fromkeys(wanted) if at or shown.first]
    return tuple(found[-MOST_PATHS:])


def space_key(scene: Scene, shown: Shown) -> tuple:
    """All that decides the components."""
    return ("space", scene.trace.key, shown.scaled, shown.first)


def plan_space(scene: Scene, values: Values) -> background.Job:
    """Work out the components that the form asks for."""
    shown, trace = shown_of(scene, values.get("space_form")), scene.trace

    def components(progress: Progress) -> Space:
        progress(0, None, "")
        return principal(trace, scaled=shown.scaled, first=shown.first)

    return background.Job(space_key(scene, shown), components)


def _space(scene: Scene, shown: Shown) -> Space:
    """The components, worked out once. Raises InputError where there are none."""

    def make() -> Space:
        with scene.playground.computing:
            return principal(scene.trace, scaled=shown.scaled, first=shown.first)

    return background.kept(scene.playground, space_key(scene, shown), make)


def map_payload(scene: Scene, shown: Shown, followed: tuple[int, ...]) -> dict:
    """The picture, and how much of the variance it holds."""
    said, last = section(scene.words, "space"), scene.model.config.n_layer
    found = _space(scene, shown)
    shares = found.shares.tolist()
    drawn = Drawn(found.coordinates, shares, found.start, shown.layer, shown.axes, followed)
    a, b = (axis + 1 for axis in shown.axes)
    layers, T = found.coordinates.shape[:2]
    told = said["shares"].format(n=layers * T, shares=", ".join(map(percent, shares)), together=percent(sum(shares)))
    return {
        "figure": space_figure(drawn, scene.trace.tokens.pieces, said).to_json(),
        "title": said["title_end" if shown.layer == last else "title"].format(layer=shown.layer, a=a, b=b),
        "note": f"{said['note']} {told}",
        "source": source(scene),
        "file": f"residual-stream-{shown.layer}-components-{a}-{b}",
        "run": f"{scene.run} {shown} {followed}",
        "columns": [said["column_series"], said["column_token"], *(said["column_x"].format(n=n) for n in (a, b))],
        "python": _lines(scene, shown),
        "words": plot_words(scene.words),
    }


def _lines(scene: Scene, shown: Shown) -> str:
    lines = [
        f"space = principal(run, scaled={shown.scaled}, first={shown.first})",
        f"space.coordinates[{shown.layer}][:, {list(shown.axes)}]  # [token, component]",
    ]
    return python_lines(scene, lines, ["from model.activations.principal_components import principal"])


VIEW = View("space", build, draw, parts=PARTS, asks=("space_form",), jobs={"space_job": plan_space})
