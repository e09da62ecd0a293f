"""The numbers of shared KV heads, of the ways to compute attention, and of its scaling."""

import math
from typing import Annotated

from model.design.kv_sharing import MERGES, group_counts, survey
from model.progress import Progress
from viz.api.arguments import OneOf, Within
from viz.api.reading import at, done, on, prompt_tokens
from viz.page import background
from viz.page.scene import Scene
from viz.views.design.attention_ways import view as attention_ways
from viz.views.design.kv_heads import view as sharing_view

Block = Annotated[int, Within(1, 128)]


def shared_heads(scene: Scene, merge: Annotated[str, OneOf(("all", *MERGES))] = "all", details: bool = False) -> dict:
    """The model's KV heads merged into fewer (GQA, MQA) without retraining: what that saves and what it breaks.

    Args:
        merge: mean: average of a group's heads. first: its first head. random: a new one. all: every one of them.
        details: Whether the divergence at every position is told.

    Returns:
        kv_heads: those that the model can have, its own first; loss: of the model on this prompt (nats a token).
        variants: for each kv_heads, merge, cache_a_token (bytes), parameters, kl (mean KL of the next token, nats),
        agree (share of positions with the same likeliest token) and loss; with details divergences, one a token.
    """
    playground, key, model = scene.playground, sharing_view.survey_key(scene), scene.model.model
    ids = sharing_view.ids_of(scene)

    def work(progress: Progress) -> object:
        return survey(model, ids, progress)

    found = done(playground, background.Job(key, work))
    own, variants = found.variants[0].groups, []
    for each in found.variants:
        if merge not in ("all", each.merge) and each.groups != own:
            continue
        row = {"kv_heads": each.groups, "merge": each.merge, "cache_a_token": each.cache}
        row |= {name: getattr(each, name) for name in ("parameters", "kl", "agree", "loss")}
        variants.append(row | ({"divergences": each.divergences} if details else {}))
    return {"kv_heads": group_counts(scene.model.config), "loss": found.loss, "variants": variants}


def attention_kernels(scene: Scene, layer: int = 0, costs: bool = True) -> dict:
    """The same attention computed in four ways: how far each is from float64, its time and its memory, measured now.

    Args:
        costs: Whether time and memory are measured, too, on random numbers at growing contexts; about 20 seconds.

    Returns:
        exact: for each way (naive, rows, chunked: online softmax in blocks, fused: PyTorch's kernel) on this layer and
        prompt the largest difference from float64 (gap), and as a share of the bound of float32 rounding. costs: for
        each way and context (length) seconds, peak bytes of tensors (null if not told), scores_held: bytes by formula.
    """
    exact = [vars(each) for each in attention_ways.exact_of(on(scene, layer, 0))]
    found = {"layer": layer, "exact": exact}
    if not costs:
        return found | {"costs": []}
    measured = done(scene.playground, attention_ways.plan(scene, {}))
    rows = [
        {
            "way": cost.way,
            "length": cost.length,
            "seconds": cost.seconds.median,
            "peak": cost.peak,
            "scores_held": cost.derived,
        }
        for cost in measured.costs
    ]
    return found | {"costs": rows, "threads": measured.threads}


def online_softmax(scene: Scene, layer: int = 0, head: int = 0, position: int = -1, block: Block = 4) -> dict:
    """One row of attention by the online softmax, block by block of keys: running maximum, sum and weights so far.

    Args:
        block: Keys of a block; more where that would be more than 16 blocks.

    Returns:
        scores of the row (null where a key is not seen); steps: for each block start and end (keys start to end - 1
        are new), largest score of the block, maximum, scale of what was there before, total, weights so far and output
        (length of o / l); gap: largest difference of the last weights from the softmax of the whole row at once.
    """
    looked = at(on(scene, layer, head), position)
    row = attention_ways.walked(looked, looked.picked.tokens[0], block)
    steps = [
        {
            "start": step.start,
            "end": step.end,
            "largest": _number(step.block),
            "maximum": _number(step.maximum),
            "scale": step.scale,
            "total": step.total,
            "weights": step.weights[: step.end],
            "output": math.hypot(*step.output.tolist()),
        }
        for step in row.steps
    ]
    scores = [_number(score) for score in row.scores.tolist()]
    return {
        "position": row.at,
        "block": row.block,
        "tokens": prompt_tokens(scene)[: row.at + 1],
        "scores": scores,
        "steps": steps,
        "gap": row.gap,
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
