"""All heads at a glance: every one's attention as a small picture, and its numbers on this prompt."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from model.tracing.head_metrics import HEAD_METRICS
from viz.charts.heatmap import overview
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, prompt_tokens
from viz.seam.scene import Scene
from viz.seam.settings import Settings
from viz.seam.view import Asking, Measure, Payload, Seen, View


@dataclass(frozen=True, eq=False)
class Heads:
    """Every head of the model on one prompt."""

    thumbnails: np.ndarray  # uint8 [L, H, t, t], square roots of the largest weights, 255 in the future
    metrics: pd.DataFrame  # indexed (layer, head), a column a metric


def measure(scene: Scene, settings: Settings) -> Heads:
    """Return the numbers of all heads that the run reduced while it went through the layers."""
    return Heads(scene.trace.thumbnails, scene.trace.head_metrics())


def heads(seen: Seen) -> Payload:
    """Return every head's small picture and numbers."""
    words, result = seen.all_words, seen.result
    unit = {"tokens": words["metric.unit_tokens"]}
    names = [
        {"key": key, "label": words[f"metric.{key}"], "help": words[f"metric_help.{key}"]}
        | {"unit": unit.get(metric.unit, "")}
        for key, metric in HEAD_METRICS.items()
    ]
    picture = overview(result.thumbnails, result.metrics, seen.facts.config.group_size)
    return picture | {"metric_names": names, "words": seen.here.plain(), "run": seen.facts.run}


# --- for programs ---


def head_metrics(scene: Scene) -> dict:
    """Return every head of the model in a few numbers on this prompt. They are: METRICS.

    Returns:
        heads: a record a head with layer, head and the metrics, in the units named above; null where the prompt has
        nothing to measure, as without a repeated token.
    """
    return {"tokens": prompt_tokens(scene), "heads": measured(VIEW, "main", scene).metrics}


head_metrics.__doc__ = head_metrics.__doc__.replace(
    "METRICS", ", ".join(f"{key} ({metric.unit})" for key, metric in HEAD_METRICS.items())
)


VIEW = View(
    "overview",
    measures=(Measure("main", measure, locks=False, keep=False),),  # the trace holds both
    layout=("heads",),
    # Order and filter belong to a link; the page applies them by itself.
    parts={"heads": Asking("heads", lambda value, scene: None, heads, of="main")},
    api=(Endpoint(head_metrics, ("attention.overview", "heads")),),
)
