"""All heads at a glance: a thumbnail of each head's attention map, and its metrics on this prompt."""

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
    """Thumbnails and metrics of every head of the model on one prompt."""

    thumbnails: np.ndarray  # uint8 [L, H, t, t], square root of each block's largest weight, 255 in the future
    metrics: pd.DataFrame  # index (layer, head), one column per metric


def measure(scene: Scene, settings: Settings) -> Heads:
    """Return the thumbnails and metrics that were computed during the run."""
    return Heads(scene.trace.thumbnails, scene.trace.head_metrics())


def heads(seen: Seen) -> Payload:
    """Build the overview: thumbnails and metrics of all heads, and the names of the metrics."""
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
    """Return summary metrics of every head of the model on this prompt. They are: METRICS.

    Returns:
        heads: one record per head with layer, head and the metrics, in the units above; null for a metric that is
        undefined on this prompt, for example because no token is repeated.
    """
    return {"tokens": prompt_tokens(scene), "heads": measured(VIEW, "main", scene).metrics}


head_metrics.__doc__ = head_metrics.__doc__.replace(
    "METRICS", ", ".join(f"{key} ({metric.unit})" for key, metric in HEAD_METRICS.items())
)


VIEW = View(
    "overview",
    needs=(),
    measures=(Measure("main", measure, locks=False, keep=False),),  # the trace caches both
    layout=("heads",),
    # Links store the sort order and the filter, but only the page applies them.
    parts={"heads": Asking("heads", lambda value, scene: None, heads, of="main")},
    api=(Endpoint(head_metrics, ("attention.overview", "heads")),),
)
