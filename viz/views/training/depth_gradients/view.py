"""The depth view: gradients in an untrained stack of layers, with and without residual connections."""

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
from viz.views.training.depth_gradients.figures import GradientLine, lengths_figure
from viz.words import Words
from viz.work.playground import Playground

DEEPEST = 64
GAINS = (0.1, 2.0)
EVEN = 0.02  # tolerance: a factor per layer this close to 1 counts as preserving the gradient norm
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
    """The selected stacks, and the norms of their gradients at each layer."""

    stacks: tuple[Stack, ...]
    lengths: tuple[np.ndarray, ...]  # [seeds, L + 1] each: gradient norms before every layer, and 1 at the end


def measure(scene: Scene, settings: Settings) -> Ways:
    """Compute the gradient norms of the selected stacks. The loaded model is not involved."""
    shared = {name: settings[name] for name in ("depth", "norm", "activation", "gain")}
    stacks = tuple(Stack(residual=residual, **shared) for residual in BOTH[settings.residual])
    return Ways(stacks, tuple(map(by_layer, stacks)))


# --- parts ---


def _name(words: Words, stack: Stack) -> str:
    return words["with"] if stack.residual else words["without"]


def _factor(lengths: np.ndarray) -> float:
    """Compute the factor by which one layer scales the gradient norm in backpropagation, as a geometric mean over the
    layers.
    """
    first = float(lengths.mean(0)[0])
    return first ** (1 / (lengths.shape[1] - 1))


def draw(seen: Seen) -> Payload:
    """Draw the gradient norm before each layer."""
    words, result = seen.here, seen.result
    ways = [
        GradientLine(_name(seen.words, stack), stack.residual, lengths, stack.predicted)
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
    """Describe for each stack whether its gradient shrinks, grows or keeps its norm, and why."""
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
    """Compute the gradient norm before each layer of an untrained stack, with and without residual connections.

    Args:
        depth: Number of layers.
        norm: Position of the layer normalization: none, pre or post.
        activation: linear, relu, gelu or tanh.
        gain: Scale of every weight matrix, which is otherwise orthogonal.

    Returns:
        with_residuals and without: for each stack lengths, one list per random initialization with the gradient norm
        before every layer and, at the end, 1; predicted: the chain rule's result for a linear stack without norms,
        otherwise null.
    """
    shared = {"depth": depth, "norm": norm, "activation": activation, "gain": gain}
    ways: Ways = measured(VIEW, "main", unprompted(playground), residual="both", **shared)
    rows = [
        {"lengths": lengths, "predicted": stack.predicted}
        for stack, lengths in zip(ways.stacks, ways.lengths, strict=True)
    ]
    return {"without": rows[0], "with_residuals": rows[1]}


VIEW = View(
    "depth_gradients",
    needs=(),
    settings=SETTINGS,
    measures=(Measure("main", measure, depends=(), settings=tuple(each.name for each in SETTINGS), locks=False),),
    layout=("form", "lengths", "facts"),
    parts={"lengths": Figure(draw), "facts": Custom("normfacts", facts)},
    api=(Endpoint(depth_gradients, reads="server"),),
)
