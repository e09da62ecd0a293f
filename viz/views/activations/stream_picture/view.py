"""The picture of the residual stream: all tokens at all layers, projected onto two principal components."""

from model.activations.principal_components import Space, principal, work
from model.gpt.config import ModelConfig
from model.progress import Progress
from viz.numbers import percent, whole
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, prompt_tokens
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.settings import Checkbox, Choice, Range, Settings
from viz.seam.view import Figure, Job, Measure, Payload, Seen, View
from viz.views.activations.stream_picture.figures import Drawn, space_figure
from viz.words import Words, joined

AXES = {"12": (0, 1), "23": (1, 2), "13": (0, 2)}  # option: components of the x and y axes, counted from 0
QUICK = 1.6e10  # maximum number of multiplications without a button, about half a second
MOST_PATHS = 8  # maximum number of paths, one per hue


def _axes(words: Words, option: str) -> str:
    return " – ".join(str(axis + 1) for axis in AXES[option])


def _last(scene: Scene) -> int:
    return scene.model.config.n_layer


LAYER = Range("layer", 0, _last, default=lambda scene: _last(scene) // 2)
STATES = Choice("states", ("unit", "raw"))
COMPONENTS = Choice("axes", tuple(AXES), label=_axes)
FIRST = Checkbox("first", default=True)
_MEASURED = ("states", "first")


def is_quick(config: ModelConfig, T: int) -> bool:
    """Return whether the components are computed automatically, without a button."""
    return work(config.n_layer + 1, T, config.d_model) <= QUICK


def _space(scene: Scene, settings: Settings) -> Space:
    return principal(scene.trace, scaled=settings.states == "unit", first=settings.first)


def measure_quick(scene: Scene, settings: Settings) -> Space | None:
    """Compute the principal components if that is quick, else return None. Raises InputError if they are undefined."""
    return _space(scene, settings) if is_quick(scene.model.config, len(scene.tokens)) else None


def measure_space(scene: Scene, settings: Settings, progress: Progress) -> Space:
    """Compute the principal components, however long it takes. Raises InputError if they are undefined."""
    progress(0, None, "")
    return _space(scene, settings)


# --- drawing ---


def job(seen: Seen) -> Payload:
    """Describe the cost of computing the components; no text if they are computed automatically."""
    quick = is_quick(seen.facts.config, len(seen.facts.tokens))
    return {"text": "", "done": True} if quick else {"text": seen.here["hint"]}


def paths(seen: Seen) -> tuple[int, ...]:
    """Return the tokens with a path: the selected ones, by default the token at the position and the first one."""
    tokens = seen.facts.picked or (seen.facts.position, 0)
    return tuple([at for at in dict.fromkeys(tokens) if at or seen.settings.first][-MOST_PATHS:])


def picture(seen: Seen) -> Payload:
    """Draw the tokens on two principal components, with a note on the explained variance."""
    words, settings = seen.here, seen.settings
    space: Space | None = seen.results["quick"] or seen.results["space"]
    if space is None:
        return {"empty": {"text": words["empty"], "hint": words["empty_hint"]}}
    shares, axes = space.shares.tolist(), AXES[settings.axes]
    a, b = (axis + 1 for axis in axes)
    layers, T = space.coordinates.shape[:2]
    held = {"shares": ", ".join(map(percent, shares)), "together": percent(sum(shares))}
    title = words["title_end" if settings.layer == seen.facts.config.n_layer else "title"]
    drawn = Drawn(space.coordinates, shares, space.start, settings.layer, axes, paths(seen))
    lines = [
        f"space = principal(run, scaled={settings.states == 'unit'}, first={settings.first})",
        f"space.coordinates[{settings.layer}][:, {list(axes)}]  # [token, component]",
    ]
    return {
        "figure": space_figure(drawn, seen.facts.pieces, words),
        "title": title.format(layer=settings.layer, a=a, b=b),
        "note": joined([words["note"], words["shares"].format(n=whole(layers * T), **held)]),
        "columns": [words["series"], words["tokens"], *(words["coordinate"].format(n=n) for n in (a, b))],
        "file": f"residual-stream-{settings.layer}-components-{a}-{b}",
        "python": script(seen.facts, lines, ["from model.activations.principal_components import principal"]),
    }


# --- for programs ---


def residual_space(scene: Scene, unit: bool = True, first: bool = True) -> dict:
    """Project all tokens of all layers onto the first three principal components of the residual stream.

    Args:
        unit: Whether every vector is first divided by its length.
        first: Whether to include the first token, which is often far from the others.

    Returns:
        coordinates: by layer (0: before the first block) and token, three numbers; shares: fraction of the variance
        that each component explains; start: position of the first token included.
    """
    settings = {"states": "unit" if unit else "raw", "first": first}
    space: Space = measured(VIEW, "quick", scene, **settings) or measured(VIEW, "space", scene, **settings)
    return {
        "tokens": prompt_tokens(scene)[space.start :],
        "start": space.start,
        "shares": space.shares,
        "coordinates": space.coordinates,
        "unit": unit,
    }


VIEW = View(
    "stream_picture",
    needs=(),
    settings=(LAYER, STATES, COMPONENTS, FIRST),
    form_depends=("model",),
    measures=(
        Measure("quick", measure_quick, settings=_MEASURED),
        Measure("space", measure_space, settings=_MEASURED, slow=True),
    ),
    layout=("form", "job", "map"),
    parts={
        "job": Job("space", job, depends=("run",), settings=()),
        "map": Figure(picture, of="quick", also=("space",), depends=("token", "tokens")),
    },
    api=(Endpoint(residual_space, long=True),),
)
