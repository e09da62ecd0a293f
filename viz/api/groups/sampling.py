"""The sampling tab's numbers: one distribution step by step, draws from it, texts that strategies write."""

from typing import Annotated

from model.errors import InputError, say
from model.generation.draft_costs import summary, swept
from model.generation.speculative import DRAFTS, MOST_DRAFTED
from model.sampling.draw_statistics import band, fit
from viz.api.arguments import OneOf, Rows, Within
from viz.api.reading import at, done, named
from viz.page.scene import Scene
from viz.views.sampling import strategies as cards
from viz.views.sampling.distribution import view as shape
from viz.views.sampling.distribution.figures import shown_tokens
from viz.views.sampling.draws import view as draws_view
from viz.views.sampling.pipelines import value_of
from viz.views.sampling.speculative import view as drafting
from viz.views.sampling.temperature import view as temperature

Seed = Annotated[int, Within(0, cards.MOST_SEED)]
NewTokens = Annotated[int, Within(1, cards.MOST_TOKENS)]


def _pipeline(steps: list[dict] | None) -> dict:
    """What the page sends for a pipeline."""
    return {"pipeline": {"steps": steps}}


# --- one distribution ------------------------------------------------------------------------------------


def distribution(scene: Scene, steps: list[dict] | None = None, position: int = -1, most: Rows = 20) -> dict:
    """The distribution of the next token, and what each step of a sampling pipeline makes of it.

    Returns:
        stages: the model's own first, then one for each step: tokens left (kept), probability removed, entropy (nats)
        and effective number of choices. tokens: the likeliest before or after, each with its logit and probability
        after every stage, and removed_by: the step that removed it, counted from 1, else null.
    """
    looked = shape.looked_at(at(scene, position), _pipeline(steps))
    found = looked.stages()
    names = [{"warp": None, "values": {}}, *value_of(looked.steps)]
    tokens = [
        named(scene.model, n)
        | {
            "logits": found.logits[:, n],
            "probabilities": found.probabilities[:, n],
            "removed_by": int(found.out[n]) or None,
        }
        for n in shown_tokens(found, len(looked.steps), looked.following, most)
    ]
    following = None if looked.following is None else named(scene.model, looked.following)
    stages = [name | vars(report) for name, report in zip(names, found.reports, strict=True)]
    return {"position": looked.at, "stages": stages, "tokens": tokens, "really_next": following}


def temperatures(
    scene: Scene,
    steps: list[dict] | None = None,
    position: int = -1,
    spacing: Annotated[str, OneOf(temperature.AXES)] = "log",
    most: Rows = 20,
) -> dict:
    """The distribution of the next token at forty temperatures from 0.05 to 3, under a sampling pipeline.

    Args:
        spacing: How the temperatures are spaced: log or linear.

    Returns:
        temperatures; tokens: each with a probability a temperature, 0 where it is out; and for every temperature
        entropy (nats), largest probability and tokens that are left (kept).
    """
    looked = shape.looked_at(at(scene, position), _pipeline(steps))
    found = temperature.heated(looked, looked.steps, spacing == "log")
    tokens = [
        named(scene.model, n) | {"probabilities": found.probabilities[place]}
        for place, n in list(enumerate(found.ids))[:most]
    ]
    return {
        "position": looked.at,
        "temperatures": found.temperatures,
        "tokens": tokens,
        "entropy": found.entropy,
        "largest": found.largest,
        "kept": found.kept,
    }


def draws(
    scene: Scene,
    steps: list[dict] | None = None,
    position: int = -1,
    seed: Seed = 0,
    count: Annotated[int, Within(1, 10_000)] = 1000,
    most: Rows = 20,
) -> dict:
    """Many draws of the next token, beside what its probabilities say, with a chi-square test.

    Args:
        count: How many tokens are drawn.

    Returns:
        tokens: the likeliest with probability, drawn (how often) and low and high: where that share lies in 95 of 100
        such samples. fit: statistic, degrees of freedom and p of the test, null where there is nothing to test. first:
        the first twenty random numbers with the token that each picks.
    """
    looked = draws_view.looked_at(at(scene, position), _pipeline(steps))
    bar = looked.bar()
    sample = draws_view.Many(bar, seed, count)
    low, high = band(count, bar.shares[:most])
    tokens = [
        named(scene.model, n) | {"probability": p, "drawn": drawn, "low": a, "high": b}
        for n, p, drawn, a, b in zip(bar.ids[:most], bar.shares, sample.counts, low, high, strict=False)
    ]
    first = [{"u": u, **named(scene.model, bar.ids[int(bar.places(u))])} for u in sample.u[:20].tolist()]
    return {
        "position": looked.at,
        "possible": len(bar.ids),
        "tokens": tokens,
        "fit": fit(sample.counts, bar.shares),
        "first": first,
    }


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
