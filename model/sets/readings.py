"""Values of a run without a replacement, for the two answers of a pair: the logit lens, direct logit attribution by
head and by layer, and integrated gradients by token.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from model.predictions.attribution import attribute, components
from model.predictions.gradients import affordable, gradients
from model.tracing.logit_lens import lens_logits
from model.tracing.trace import Trace

ATTRIBUTIONS = ("direct_heads", "direct_layers", "slots")  # parts of the logit difference
READINGS = ("lens", *ATTRIBUTIONS)
PARTS = ("attention", "mlp")  # columns of "direct_layers"


@torch.inference_mode()
def lens_difference(run: Trace, token: int, distractor: int, measured: str) -> np.ndarray:
    """Read the logit lens after the last token, before each layer and after the last one: the token minus the
    distractor, as logits or as probabilities. float32 [L + 1, 1]

    The last entry is the model's own. Source: nostalgebraist 2020.
    """
    logits = lens_logits(run.model, run.residuals[:, -1], run.tap)
    values = logits.double().softmax(-1) if measured == "probability" else logits
    return (values[:, token] - values[:, distractor]).float().numpy()[:, None]


def attributed(
    run: Trace, token: int, distractor: int, effect: str, tell: Callable[..., None]
) -> tuple[np.ndarray, bool]:
    """Split the logit difference after the last token. float32 [L, H], [L, 2] by PARTS, or [1, T] for the tokens

    Also returns whether the sum of integrated gradients misses its total by so much that no single one can be trusted.
    The biases of a sublayer and of its norms count as its own. Sources: see model.predictions.attribution and
    model.predictions.gradients.
    """
    if effect == "slots":
        found = gradients(run, -1, token, distractor, affordable(len(run.tokens)), tell)
        return found.integrated.astype(np.float32)[None], found.rough
    parts = attribute(components(run), run.model, token, distractor)
    if effect == "direct_heads":
        return parts.heads.astype(np.float32), False
    attention = sum(_present(parts.o_bias, parts.after1_bias, parts.norm1_bias), parts.heads.sum(1))
    mlp = sum(_present(parts.mlp_bias, parts.after2_bias, parts.norm2_bias), parts.mlps)
    return np.stack((attention, mlp), 1).astype(np.float32), False


def _present(*biases: np.ndarray | None) -> list[np.ndarray]:
    """Return the biases that the model has. [L] each"""
    return [each for each in biases if each is not None]


def random_answers(answers: Sequence[tuple[int, int]], rng: np.random.Generator) -> tuple[int, int]:
    """Draw two different tokens among all targets and distractors of a set, as a control of a pair's own."""
    tokens = sorted({token for pair in answers for token in pair})
    first, second = rng.permutation(len(tokens))[:2]
    return tokens[first], tokens[second]
