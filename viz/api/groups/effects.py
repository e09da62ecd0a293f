"""The effects tab's numbers: what edits do to the next token, and what every head's absence does."""

from typing import Annotated

from model.attention.effects import ABLATIONS, TARGETS, Target, metric, next_tokens
from model.attention.effects import sweep as swept
from model.errors import InputError
from model.progress import Progress
from viz.api.answers import ranked_heads
from viz.api.arguments import OneOf, Rows
from viz.api.reading import done, named, place, token_id
from viz.charts.distribution import entropy, likeliest
from viz.page import background
from viz.page.scene import Scene
from viz.views.effects.edits import view as edits
from viz.views.effects.edits.figures import Swept


def next_token(scene: Scene, position: int = -1, most: Rows = 10) -> dict:
    """The likeliest next tokens, without edits and with them, and how far the edits moved the prediction.

    Returns:
        tokens: id, text, p_before, p_after, logit_before, logit_after; entropy before and after (nats); kl: KL(before
        || after) in nats. Without edits both are the same.
    """
    t, before, after = place(scene, position), scene.unedited, scene.trace
    with scene.playground.computing:
        table = next_tokens(before, after, t, most, scene.model.tokenizer.vocab_size)
        kl = metric(after, Target("kl", t), before)
    rows = [row | named(scene.model, row["id"]) for row in table.to_dict("records")]
    undecided = {name: entropy(run.logits_at(t)) for name, run in (("before", before), ("after", after))}
    return {"position": t, "tokens": rows, "entropy": undecided, "kl": kl}


def _target(scene: Scene, kind: str, position: int, token: str, distractor: str) -> Target:
    """The number that is watched; a token that is not given is the likeliest; raises InputError."""
    needs, t = TARGETS[kind].needs, place(scene, position)
    if kind == "loss":
        return Target("loss")
    given = [token_id(scene.model, text) if text else None for text in (token, distractor)]
    likely = likeliest(scene.unedited.logits_at(t)[: scene.model.tokenizer.vocab_size], 2)
    first = likely[0] if given[0] is None else given[0]
    other = next(n for n in likely if n != first) if given[1] is None else given[1]
    if "distractor" in needs and other == first:
        raise InputError("The token and the other one are the same.", "", "Choose two different tokens.")
    return Target(kind, t, first if "token" in needs else None, other if "distractor" in needs else None)


def sweep(
    scene: Scene,
    how: Annotated[str, OneOf(ABLATIONS)] = "zero",
    watch: Annotated[str, OneOf(tuple(TARGETS))] = "logit",
    position: int = -1,
    token: str = "",
    distractor: str = "",
    most: Rows = 20,
) -> dict:
    """What the absence of each head does to one number of the output, one head after the other.

    Args:
        how: What each head's output is replaced by: zero, or its mean over the prompt.
        watch: The number: logit or probability of the token, difference of two logits, kl (how far the prediction
            moves, nats), loss of the whole prompt (nats a token).
        distractor: The second token of a difference. Empty: the likeliest other one.

    Returns:
        start: the number without the change; effects: by layer and head what it changes by (kl: the divergence);
        strongest: heads with the largest effects in size.
    """
    watched = edits.Watched(how, _target(scene, watch, position, token, distractor))
    trace, target = scene.trace, watched.target

    def work(progress: Progress) -> Swept:
        return Swept(metric(trace, target), swept(trace, how, target, progress))

    found = done(scene.playground, background.Job(edits.sweep_key(scene, watched), work))
    tokens = {name: getattr(target, name) for name in ("token", "distractor")}
    return {
        "how": how,
        "watch": watch,
        "position": None if watch == "loss" else target.position,
        **{name: None if n is None else named(scene.model, n) for name, n in tokens.items()},
        "start": found.start,
        "effects": found.effects,
        "strongest": ranked_heads(found.effects, most, size=True),
    }
