"""The numbers of quantization: bytes and errors of weights in fewer bits, and what becomes of the output."""

from typing import Annotated

from model.api import LanguageModel
from model.attention.measures import check_layer
from model.errors import InputError, say
from model.quantization.experiments import Outcome, Reading, kinds_of, layer_of, total_bytes, usable
from model.quantization.formats import FORMATS, WeightError, stored, weight_error
from viz.api.arguments import OneOf
from viz.api.reading import done
from viz.page.playground import Playground
from viz.page.scene import Scene
from viz.views.quantization.formats import view as formats_view
from viz.views.quantization.formats.figures import mean_moved, most_moved

Matrix = Annotated[str, OneOf(("q", "k", "v", "o", "gate", "up", "down"))]


def weight_errors(playground: Playground, model: LanguageModel, layer: int = 0, matrix: Matrix = "down") -> dict:
    """Bytes of the model's matrices in every number format, and the error of one matrix rounded to it.

    Args:
        matrix: q, k, v, o of the attention, up, down and, where there is one, gate of the MLP.

    Returns:
        formats: format, bits (a weight, scales included), bytes (of all linear layers of the blocks); of the one matrix
        relative (Frobenius error), largest, snr (decibels; null without error). Formats whose blocks do not fit the
        rows of a matrix keep it in float16; a format that fits no matrix is left out.
    """
    check_layer(layer, model.config.n_layer)
    if matrix not in kinds_of(model.model):
        raise InputError(
            "An argument is none of its names.",
            f"matrix: {matrix}",
            say("Choose one of: {}.", ", ".join(kinds_of(model.model))),
        )
    weight, rows = layer_of(model.model.blocks[layer], matrix).weight, []
    for kind in FORMATS.values():
        if usable(model.model, kind):
            nbytes, weights = total_bytes(model.model, kind)
            error = weight_error(weight, *stored(weight, kind))
            rows.append({"format": kind.key, "bits": 8 * nbytes / weights, "bytes": nbytes} | _error(error))
    return {"layer": layer, "matrix": matrix, "shape": list(weight.shape), "formats": rows}


def quantization_formats(
    scene: Scene, which: Annotated[str, OneOf(("usual", "all"))] = "usual", head: bool = False
) -> dict:
    """What rounding all linear layers to each number format does to weights, predictions and attention.

    Args:
        which: usual: ten common formats. all: every format there is.
        head: Round embedding and output head, too.

    Returns:
        formats: format, bits, bytes, relative, largest and snr of the weights; prompt and text (a held-out text): mean
        kl to the float32 model in nats, agree (share of positions with the same likeliest token), loss and before
        (mean -log p of the next token, null for one token); moved: mean total variation distance of the attention rows
        on the prompt; most_moved: layer, head and its distance; speed: measured tokens a second, null where the format
        is only simulated.
    """
    found = done(scene.playground, formats_view.plan(scene, {"formats_form": {"which": which, "head": head}}))
    return {"text_tokens": found.text, "formats": [_told(each) for each in found.outcomes.values()]}


def _error(error: WeightError) -> dict:
    return {"relative": error.relative, "largest": error.largest, "snr": error.snr}


def _reading(found: Reading) -> dict:
    return {
        "tokens": found.positions,
        "kl": found.kl,
        "agree": found.agree,
        "loss": found.loss,
        "before": found.before,
    }


def _told(found: Outcome) -> dict:
    layer, head, moved = most_moved(found.moved)
    return {
        "format": found.key,
        "bits": found.error.bits,
        "bytes": found.error.nbytes,
        **_error(found.error),
        "prompt": _reading(found.prompt),
        "text": _reading(found.text),
        "moved": mean_moved(found.moved),
        "most_moved": {"layer": layer, "head": head, "moved": moved},
        "speed": found.speed,
    }
