"""All heads at a glance: a thumbnail of each head's attention map, and its metrics on this prompt."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from model.attention.measures import outside_window
from model.attention.span_heads import span_heads
from model.gpt.config import ModelConfig
from model.tracing.head_metrics import HEAD_METRICS, MASKED, pool_size
from viz.charts.heatmap import overview
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, prompt_tokens
from viz.seam.scene import Scene
from viz.seam.settings import Settings
from viz.seam.view import Asking, Measure, Payload, Seen, View
from viz.views.attention.units import UNIT
from viz.words import section


@dataclass(frozen=True, eq=False)
class Heads:
    """Thumbnails and metrics of every head of the model on one prompt."""

    thumbnails: np.ndarray  # uint8 [L, H, t, t], square root of each block's largest weight, 255 where hidden
    metrics: pd.DataFrame  # index (layer, head), one column per metric


def measure(scene: Scene, settings: Settings) -> Heads:
    """Return the thumbnails and metrics that were computed during the run, or compute those by words or sentences."""
    found = span_heads(scene.trace, settings.unit)
    windows = [scene.model.config.mixer_of(layer) == "sliding_window" for layer in range(scene.model.config.n_layer)]
    if settings.unit != "tokens" or not any(windows):
        return Heads(found.thumbnails, found.metrics)
    return Heads(_in_windows(scene, found.thumbnails, np.array(windows)), found.metrics)


def _in_windows(scene: Scene, thumbnails: np.ndarray, layers: np.ndarray) -> np.ndarray:
    """Return a copy in which the cells outside a layer's sliding window are blank, except where an edit has put weight.
    [L, H, t, t]; `layers` says which have one. [L]
    """
    config, T, t = scene.model.config, len(scene.tokens), thumbnails.shape[-1]
    k = pool_size(T)
    padded = np.ones((t * k, t * k), bool)
    padded[:T, :T] = outside_window(config, T)
    hidden = padded.reshape(t, k, t, k).all((1, 3))
    return np.where(layers[:, None, None, None] & hidden & (thumbnails == 0), np.uint8(MASKED), thumbnails)


def is_summed(settings: Settings) -> bool:
    """Return whether the numbers are computed after the run. They are then cached; the trace has those of tokens."""
    return settings.unit != "tokens"


def heads(seen: Seen) -> Payload:
    """Build the overview: thumbnails and metrics of all heads, and the names of the metrics."""
    words, result, unit = seen.all_words, seen.result, seen.settings.unit
    counted = {"tokens": words[f"metric.unit_{unit}"]}

    def text(place: str, key: str) -> str:
        return words.get(f"{place}_by.{unit}.{key}", words[f"{place}.{key}"])

    names = [
        {"key": key, "label": text("metric", key), "help": text("metric_help", key)}
        | {"unit": counted.get(metric.unit, "")}
        for key, metric in HEAD_METRICS.items()
    ]
    config = seen.facts.config
    several = isinstance(config, ModelConfig) and config.n_kv_head_local  # two sizes of groups, which no caption tells
    picture = overview(result.thumbnails, result.metrics, 1 if several else config.group_size)
    here = seen.here.plain() | (section(words, f"overview.{unit}") if unit != "tokens" else {})
    return picture | {"metric_names": names, "words": here, "run": seen.facts.run}


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
    tab_settings=(UNIT,),
    measures=(Measure("main", measure, settings=("unit",), locks=False, keep=is_summed),),
    layout=("heads",),
    # Links store the sort order and the filter, but only the page applies them.
    parts={"heads": Asking("heads", lambda value, scene: None, heads, of="main")},
    api=(Endpoint(head_metrics, ("attention.overview", "heads.heads")),),
)
