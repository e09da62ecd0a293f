"""The sampling tab's numbers: texts that strategies write."""

from typing import Annotated

from model.errors import InputError, say
from model.generation.draft_costs import summary, swept
from model.generation.speculative import DRAFTS, MOST_DRAFTED
from viz.api.arguments import OneOf, Within
from viz.api.reading import done, named
from viz.page.scene import Scene
from viz.views.sampling import strategies as cards
from viz.views.sampling.speculative import view as drafting

Seed = Annotated[int, Within(0, cards.MOST_SEED)]
NewTokens = Annotated[int, Within(1, cards.MOST_TOKENS)]


def _pipeline(steps: list[dict] | None) -> dict:
    """What the page sends for a pipeline."""
    return {"pipeline": {"steps": steps}}


# --- texts -----------------------------------------------------------------------------------------------


def speculative(
    scene: Scene,
    draft: Annotated[str, OneOf(tuple(DRAFTS))] = "layers",
    size: int | None = None,
    draft_model: str = "",
    gamma: Annotated[int, Within(1, MOST_DRAFTED)] = 4,
    new_tokens: Annotated[int, Within(8, drafting.MOST_TOKENS)] = 40,
    steps: list[dict] | None = None,
    seed: Seed = 0,
) -> dict:
    """Speculative decoding: a draft proposes tokens, the model accepts or rejects them; what it gains here, measured.

    Args:
        draft: Who proposes. layers: the model's own first layers. ngram: what followed the same tokens before. model:
            another model in memory with the same tokens.
        size: Layers of the draft, or tokens that are looked up (1 to 8). Not given: a good default.
        draft_model: Id of the model that drafts, where draft is model; else empty.
        gamma: Tokens proposed at a time.
        new_tokens: Tokens that are written at most.

    Returns:
        text; summary: calls, proposed, accepted, acceptance beside what theory expects, seconds a token with and
        without, speed; rounds: the tokens that each call wrote, accepted and kind of the last; by_gamma: gamma,
        tokens a call and speed as predicted for other gammas.
    """
    others = drafting.drafters(scene)
    if draft == "model" and draft_model not in others:
        hint = say("Load one of the same vocabulary first: {}.", ", ".join(others) or "–")
        raise InputError("This model cannot draft.", draft_model[:40], hint)
    form = {"draft": draft, "model": draft_model, "gamma": gamma, "tokens": new_tokens, "seed": seed}
    if size is not None:
        high = scene.model.config.n_layer if draft == "layers" else drafting.MOST_SUFFIX
        if not 1 <= size <= high:
            raise InputError(
                "An argument is out of its range.", f"size: {size}", say("Choose a value from 1 to {}.", high)
            )
        form |= {"layers": size, "suffix": size}
    found = done(scene.playground, drafting.plan(scene, {"drafting_form": form} | _pipeline(steps)))
    rounds = [
        {
            "tokens": [named(scene.model, n) for n in each.tokens],
            "proposed": len(each.proposals),
            "accepted": each.accepted,
            "last": each.kind or None,
        }
        for each in found.rounds
    ]
    return {
        "text": scene.model.decode(found.tokens),
        "same_as_without": found.tokens == found.plain_tokens,
        "summary": summary(found),
        "rounds": rounds,
        "by_gamma": [dict(zip(("gamma", "tokens_per_call", "speed"), row, strict=True)) for row in swept(found)],
    }
