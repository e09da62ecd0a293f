"""The numbers of shared KV heads."""

from typing import Annotated

from model.design.kv_sharing import MERGES, group_counts, survey
from model.progress import Progress
from viz.api.arguments import OneOf
from viz.api.reading import done
from viz.page import background
from viz.page.scene import Scene
from viz.views.design.kv_heads import view as sharing_view


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
