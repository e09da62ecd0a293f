"""Does the gradient reach the first layer? A stack of layers before any training, with and without residuals."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from model.design.depth_gradients import ACTIVATIONS, NORMS, ROWS, SEEDS, WIDTH, Stack, by_layer
from viz.numbers import decimals, number, whole
from viz.seam.programs.arguments import OneOf, Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, unprompted
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Range, Settings
from viz.seam.view import Custom, Figure, Measure, Payload, Seen, View
from viz.views.training.depth_gradients.figures import Way, lengths_figure
from viz.words import Words
from viz.work.playground import Playground

DEEPEST = 64
GAINS = (0.1, 2.0)
EVEN = 0.02  # a factor a layer so near to 1 is said to keep the gradient
BOTH = {"both": (False, True), "without": (False,), "with": (True,)}
SETTINGS = (
    Range("depth", 2, DEEPEST, default=12),
    Choice("residual", tuple(BOTH)),
    Choice("norm", NORMS),
    Choice("activation", tuple(ACTIVATIONS)),
    Range("gain", *GAINS, step=0.05, default=0.9),
)


@dataclass(frozen=True, eq=False)
class Ways:
    """The stacks that were asked for, and the lengths of their gradients."""

    stacks: tuple[Stack, ...]
    lengths: tuple[np.ndarray, ...]  # [seeds, L + 1] each: before every layer, and 1 at the end


def measure(scene: Scene, settings: Settings) -> Ways:
    """Return every wiring that was asked for; the model on the page has no part in it."""
    of = {name: settings[name] for name in ("depth", "norm", "activation", "gain")}
    stacks = tuple(Stack(residual=residual, **of) for residual in BOTH[settings.residual])
    return Ways(stacks, tuple(map(by_layer, stacks)))


# --- what is drawn ---


def _name(words: Words, stack: Stack) -> str:
    return words["with"] if stack.residual else words["without"]


def _factor(lengths: np.ndarray) -> float:
    """What a layer multiplies the gradient's length by on its way back: the geometric mean. 1 at the end."""
    first = float(lengths.mean(0)[0])
    return first ** (1 / (lengths.shape[1] - 1))


def draw(seen: Seen) -> Payload:
    """Return the length of the gradient before each layer."""
    words, result = seen.here, seen.result
    ways = [
        Way(_name(seen.words, stack), stack.residual, lengths, stack.predicted)
        for stack, lengths in zip(result.stacks, result.lengths, strict=True)
    ]
    calls = ", ".join(f"by_layer({stack!r})" for stack in result.stacks)
    return {
        "figure": lengths_figure(ways, words.plain()),
        "title": words["title"].format(depth=whole(result.stacks[0].depth)),
        "note": words["note"].format(seeds=whole(SEEDS)),
        "source": words["source_text"].format(seeds=whole(SEEDS), rows=whole(ROWS), width=whole(WIDTH)),
        "columns": [words["series"], words["range"], words["layer"], words["length"]],
        "python": f"from model.design.depth_gradients import Stack, by_layer\n\n{calls}  # [seed, layer] each",
    }


def facts(seen: Seen) -> Payload:
    """What becomes of the gradient, in a sentence for each wiring, and why."""
    words, items = seen.here, []
    for stack, lengths in zip(seen.result.stacks, seen.result.lengths, strict=True):
        factor = _factor(lengths)
        kind = "even" if abs(factor - 1) < EVEN else "falls" if factor < 1 else "grows"
        values = {
            "first": number(float(lengths.mean(0)[0])),
            "factor": decimals(factor, 3),
            "depth": whole(stack.depth),
        }
        items.append([_name(seen.words, stack), words[kind].format(**values)])
        path = "without" if not stack.residual else "post" if stack.norm == "post" else "with"
        items.append([words["why"], words[f"why_{path}"]])
    if seen.result.stacks[0].norm == "pre":
        items.append([words["norm"], words["norm_pre"]])
    return {"title": words["title"], "items": items}


# --- for programs ---


def depth_gradients(
    playground: Playground,
    depth: Annotated[int, Within(2, DEEPEST)] = 12,
    norm: Annotated[str, OneOf(NORMS)] = "none",
    activation: Annotated[str, OneOf(tuple(ACTIVATIONS))] = "linear",
    gain: Annotated[float, Within(*GAINS)] = 0.9,
) -> dict:
    """How long a gradient is before each layer of an untrained stack, with and without residual connections.

    Args:
        depth: Layers of the stack.
        norm: Where layer normalization stands: none, pre or post.
        activation: linear, relu, gelu or tanh.
        gain: Every matrix is orthogonal times this number.

    Returns:
        with_residuals and without: for each draw of the weights a list of lengths, before every layer and, at the end,
        1; predicted: what the chain rule gives for a linear stack without norms, else null.
    """
    of = {"depth": depth, "norm": norm, "activation": activation, "gain": gain}
    found: Ways = measured(VIEW, "main", unprompted(playground), residual="both", **of)
    rows = [
        {"lengths": lengths, "predicted": stack.predicted}
        for stack, lengths in zip(found.stacks, found.lengths, strict=True)
    ]
    return {"without": rows[0], "with_residuals": rows[1]}


VIEW = View(
    "depth_gradients",
    settings=SETTINGS,
    measures=(Measure("main", measure, depends=(), settings=tuple(each.name for each in SETTINGS), locks=False),),
    layout=("form", "lengths", "facts"),
    parts={"lengths": Figure(draw), "facts": Custom("normfacts", facts)},
    api=(Endpoint(depth_gradients, reads="server"),),
)
