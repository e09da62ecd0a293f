"""Ways to round one matrix of a model to few bits."""

import dataclasses
from typing import Annotated

from model.api import LanguageModel
from model.errors import InputError, say
from model.quantization.experiments import KINDS
from model.quantization.rounding import matrices_of
from viz.api.arguments import OneOf
from viz.api.reading import check_head, done, unprompted
from viz.page.playground import Playground
from viz.page.selection import Selection
from viz.views.quantization.rounding import view as rounding


def round_matrix(
    playground: Playground,
    model: LanguageModel,
    layer: int = 0,
    matrix: Annotated[str, OneOf(KINDS)] = "v",
    bits: Annotated[str, OneOf(rounding.BITS)] = "3",
    group: Annotated[str, OneOf(rounding.GROUPS)] = "64",
    tokens: Annotated[str, OneOf(rounding.TOKENS)] = "2048",
) -> dict:
    """One matrix rounded to few bits in four ways, each measured by what the matrix gives out.

    Args:
        matrix: q, k, v, o of the attention; up, down and, where there is one, gate of the MLP.
        bits: Bits of a weight.
        group: So many weights of a row share a scale and a zero point; or row.
        tokens: Tokens of the bundled text that the methods see. They are measured on others.

    Returns:
        outcomes: for nearest, scaled (the idea of AWQ), compensated (the idea of GPTQ) and both, the error of the
        output on the text that was seen (fit) and on other text (held_out), of the weights (weight), KL in nats and
        agreement of the model's next token, seconds to round; powers and errors of the search for a scaling; nbytes.
    """
    check_head(model, layer, 0)
    if matrix not in matrices_of(model.config):
        hint = say("Choose one of: {}.", ", ".join(matrices_of(model.config)))
        raise InputError("The model has no such matrix.", matrix, hint)
    scene = dataclasses.replace(unprompted(playground, model), picked=Selection(heads=((layer, 0),)))
    form = {"matrix": matrix, "bits": bits, "group": group, "tokens": tokens}
    found = done(playground, rounding.plan(scene, {"rounding_form": form}))
    return {
        "name": found.name,
        "shape": found.shape,
        "nbytes": found.nbytes,
        "outcomes": [vars(each) for each in found.outcomes],
        "power": found.power,
        "powers": found.powers,
        "errors": found.errors,
        "fit_tokens": found.fit_tokens,
        "held_out_tokens": found.held_out_tokens,
    }
