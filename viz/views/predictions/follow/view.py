"""View that follows up to three tokens: their logit, probability or rank after every position of the prompt."""

from dataclasses import dataclass

from model.errors import InputError
from model.predictions.predictions import Followed, follow_all
from viz.charts.distribution import likeliest
from viz.labels import quoted
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import named, prompt_tokens, token_id
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings, Text
from viz.seam.targets import OFFERED, Usual, fields
from viz.seam.typed import typed_token
from viz.seam.view import Figure, Measure, Payload, Seen, View
from viz.views.predictions.follow.figures import SHOWN, FollowedToken, follow_figure
from viz.words import joined

MOST = 16  # maximum number of tokens that one API call may follow


@dataclass(frozen=True, eq=False)
class Lines:
    """The followed tokens, without duplicates, and their logits, probabilities and ranks after every position."""

    tokens: tuple[int, ...]
    followed: tuple[Followed, ...]
    at: int | None  # position whose most likely next token is the first token; None if a target is selected


def question(scene: Scene, settings: Settings) -> Settings:
    """Add the selected tokens to the settings, and the position if the default or the typed token depends on it."""
    ids = scene.picked.target, scene.picked.distractor
    at = scene.position if ids[0] is None else None
    return Settings((*settings.items(), ("ids", ids), ("at", at), ("near", scene.position if settings.more else None)))


def measure(scene: Scene, settings: Settings) -> Lines:
    """Follow the target, the distractor and the typed token. The default target is the most likely next token.

    Raises InputError, in the reader's language, if the typed text is not a single token.
    """
    first = [] if settings.at is None else likeliest(scene.trace.logits_at(settings.at), 1)
    tokens = tuple(
        dict.fromkeys(
            token for token in (*first, *settings.ids, typed_token(scene, settings, "more")) if token is not None
        )
    )
    return Lines(tokens, tuple(follow_all(scene.trace, tokens)), settings.at)


def plot(seen: Seen) -> Payload:
    """Draw the followed tokens as lines."""
    words, facts, result, shown = seen.here, seen.facts, seen.result, seen.settings.measure
    lines = [
        FollowedToken(quoted(facts.piece(token)), token, each.logit, each.probability, each.rank)
        for token, each in zip(result.tokens, result.followed, strict=True)
    ]
    names = [f"“{line.name}”" for line in lines]
    python = [
        f"tokens = {list(result.tokens)}  # {', '.join(names)}",
        f"[followed.{shown} for followed in follow_all(run, tokens)]  # after each position",
    ]
    note = [words["note"]]
    if result.at is not None:
        note.append(words["default"].format(token=names[0], position=result.at))
    return {
        "figure": follow_figure(lines, shown, facts.pieces, facts.tokens.ids, words),
        "title": words[f"title_{shown}"].format(tokens=", ".join(names)),
        "note": joined(note),
        "file": f"follow-{shown}",
        "columns": [words["token"], words["after"], words["position"], seen.words[f"settings.measure_{shown}"]],
        "python": script(facts, python, ["from model.predictions.predictions import follow_all"]),
    }


def _usual(seen: Seen) -> Usual:
    """Return the default target, or None if a target is selected."""
    return {"target": None if seen.results["main"].at is None else seen.results["main"].tokens[0]}


# --- for programs ---


def follow_tokens(scene: Scene, tokens: list[str]) -> dict:
    """Measure the logit, probability and rank of the given tokens after every position of the prompt.

    Args:
        tokens: One to sixteen tokens, each as its text with its leading space (' Paris'), or as 'id:1234'.

    Returns:
        followed: for each token its id, text, and the lists logit, probability and rank (1 is the most likely), with
        one entry per position.
    """
    if not 1 <= len(tokens) <= MOST:
        raise InputError("This number of tokens cannot be followed.", str(len(tokens)), "Give 1 to 16.")
    ids = list(dict.fromkeys(token_id(scene.model, text) for text in tokens))
    with scene.playground.computing:
        followed = follow_all(scene.trace, ids)
    return {
        "tokens": prompt_tokens(scene),
        "followed": [named(scene.model, n) | vars(each) for n, each in zip(ids, followed, strict=True)],
    }


VIEW = View(
    "follow",
    needs=("next",),
    settings=(Choice("measure", SHOWN), Text("more")),
    measures=(Measure("main", measure, ("run", "plain"), ("more",), question=question), OFFERED),
    layout=("form", "targets", "plot"),
    parts={"targets": fields(usual=_usual, of=("main",)), "plot": Figure(plot, settings=("measure",))},
    api=(Endpoint(follow_tokens),),
)
