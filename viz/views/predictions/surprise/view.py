"""View of the prompt colored by how unexpected each token was, with the tokens that were expected instead."""

import math

from model.predictions.masked import MaskedPredictions
from model.predictions.predictions import Predictions, summarize
from viz.charts.ramp import ramp_ticks, ramps
from viz.labels import quoted
from viz.numbers import bits, logit, number, percent, whole
from viz.seam.programs.arguments import Few
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, named, places
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.settings import Choice
from viz.seam.view import Custom, Figure, Payload, Seen, View
from viz.views.predictions.expected import EXPECTED, actual_row, entropy_facts, likely_rows, row_words, shared_words
from viz.views.predictions.surprise import masked
from viz.views.predictions.surprise.figures import (
    COLORS,
    Scored,
    bits_figure,
    scored,
    text_rows,
)
from viz.views.predictions.surprise.figures import places as ramp_places

BY = Choice("by", COLORS)
INSTEAD = 3  # maximum number of likely tokens listed besides the actual one


def scored_of(expected: Predictions | MaskedPredictions) -> Scored:
    """Compute the scores of all tokens from the run's predictions."""
    if isinstance(expected, MaskedPredictions):
        return masked.scored_masked(expected)
    return scored(expected.next_log_probability, expected.rank, expected.entropy)


# --- the text ---


def text(seen: Seen) -> Payload:
    """Build the colored prompt: its tokens, their scores and their positions on the color ramp."""
    by, V, scores = seen.settings.by, seen.facts.config.vocab_size, scored_of(seen.result)
    scale = {"label": seen.words[f"settings.by_{by}"], "ticks": ramp_ticks(by, V), "ramps": ramps()}
    return text_rows(scores, seen.facts.pieces) | {
        "file": "surprise-in-the-text",
        "source": "",
        "picks": True,
        "title": seen.here["title"],
        "facts": _summary(seen),
        "by": by,
        "scale": scale,
        "places": ramp_places(scores, by, V),
        "words": {key: seen.here[key] for key in ("told", "told_first", "token_name", "text_label")}
        | {"hover": seen.words.within("plot")["hover"]},
    }


def _summary(seen: Seen) -> list[list[str]]:
    """Build the summary of the prompt as a list of [name, value, explanation]. A single token has no scores."""
    words, T = seen.here, len(seen.facts.tokens)
    if isinstance(seen.result, MaskedPredictions):
        return masked.summary(seen)
    if T < 2:
        return [[words["scored"], words["scored_value"].format(n=0, T=T), words["one"]]]
    summary = summarize(seen.result, seen.facts.tokens)
    values = {
        "perplexity": number(summary.perplexity),
        "bits_per_byte": bits(summary.bits_per_byte),
        "bits": words["bits_value"].format(bits=bits(summary.bits)),
        "scored": words["scored_value"].format(n=whole(summary.scored), T=whole(T)),
    }
    return [[words[name], value, words[f"{name}_help"]] for name, value in values.items()]


# --- one token ---


def detail(seen: Seen) -> Payload:
    """Describe how expected the selected token was, and list the tokens expected after it."""
    words, expected, facts, at = seen.here, seen.result, seen.facts, seen.facts.position
    if isinstance(expected, MaskedPredictions):
        return masked.detail(seen)
    rows, pieces, following = likely_rows(expected, at, facts), facts.pieces, None
    next_token = words["no_next"]
    if at + 1 < len(pieces):
        following, rank = int(facts.tokens.ids[at + 1]), int(expected.rank[at])
        next_token = words["next"].format(token=quoted(pieces[at + 1]), rank=whole(rank))
        rows += [actual_row(expected, at, facts.tokens)] if rank > len(rows) else []
    return {
        "title": words["title"].format(token=quoted(pieces[at]), position=at),
        "own": _own(seen, at),
        "next": next_token,
        "facts": entropy_facts(seen, float(expected.entropy[at])),
        "rows": rows,
        "following": following,
        "words": row_words(seen),
    }


def _own(seen: Seen, at: int) -> str:
    """Describe how expected the selected token was, and list the most likely tokens in its place."""
    words, expected, facts = seen.here, seen.result, seen.facts
    if at == 0:
        return words["own_first"]
    scores, before = scored_of(expected), at - 1
    rank = int(expected.rank[before])
    others = slice(1, 1 + INSTEAD) if rank == 1 else slice(min(rank - 1, INSTEAD))
    likely = zip(expected.ids[before][others].tolist(), expected.probabilities[before][others].tolist(), strict=True)
    return words["own_top" if rank == 1 else "own"].format(
        token=quoted(facts.pieces[at]),
        position=before,
        rank=whole(rank),
        share=percent(float(scores.share[before])),
        bits=bits(float(scores.bits[before])),
        logit=logit(float(expected.next_logit[before])),
        others=", ".join(f"“{quoted(facts.piece(token))}” {percent(share)}" for token, share in likely),
    )


# --- every position ---


def plot(seen: Seen) -> Payload:
    """Draw surprisal and entropy by position."""
    words, facts = seen.here, seen.facts
    if len(facts.tokens) < 2:
        return {"empty": {"text": words["one"], "hint": shared_words(seen)["one_hint"]}}
    if isinstance(seen.result, MaskedPredictions):
        return masked.plot(seen, masked.scored_masked(seen.result))
    lines = [
        "predictions = predict(run)",
        "summarize(predictions, run.tokens)  # perplexity, bits per byte",
        "predictions.surprisal, predictions.entropy[:-1] / np.log(2)  # bits, of tokens 1 on",
    ]
    imports = ["import numpy as np", "from model.predictions.predictions import predict, summarize"]
    return {
        "figure": bits_figure(scored_of(seen.result), facts.pieces, facts.config.vocab_size, words),
        "title": words["title"],
        "note": words["note"],
        "columns": [words["series"], words["token"], words["position"], words["axis_bits"]],
        "python": script(facts, lines, imports),
    }


# --- for programs ---


def predictions(scene: Scene, positions: list[int] = (), most: Few = 5) -> dict:
    """Measure how expected each token of the prompt was, and list the tokens that were expected instead.

    Args:
        positions: The positions to report; all if empty.
        most: Maximum number of most likely next tokens per position.

    Returns:
        rows: for each position, its token; rank (1 is the most likely), probability and surprisal (bits) of that token
        in the prediction before it, null for the first token; entropy (bits) of the prediction after it; expected:
            the most
        likely next tokens with probability and logit. summary: perplexity, bits_per_byte and bits per token; null for a
        single token.
    """
    expected, tokens = measured(VIEW, "main", scene), scene.tokens
    if isinstance(expected, MaskedPredictions):
        return masked.rows_of(scene, expected, places(scene, positions), most)
    rows = []
    for t in places(scene, positions):
        actual: dict = dict.fromkeys(("rank", "probability", "surprisal"))
        if t:
            log_p = float(expected.next_log_probability[t - 1])
            actual = {
                "rank": int(expected.rank[t - 1]),
                "probability": math.exp(log_p),
                "surprisal": -log_p / math.log(2),
            }
        best = zip(expected.ids[t][:most], expected.probabilities[t], expected.logits[t], strict=False)
        rows.append(
            {
                "position": t,
                **named(scene.model, tokens.ids[t]),
                **actual,
                "entropy": float(expected.entropy[t]) / math.log(2),
                "expected": [named(scene.model, n) | {"probability": p, "logit": value} for n, p, value in best],
            }
        )
    return {"rows": rows, "summary": summarize(expected, tokens) if len(tokens) > 1 else None}


VIEW = View(
    "surprise",
    needs=("token",),
    settings=(BY,),
    measures=(EXPECTED,),
    layout=((("form", "text"), "detail"), "plot"),
    parts={
        "text": Custom("shaded", text),
        "detail": Custom("surprisedetail", detail, depends=("token",), settings=()),
        "plot": Figure(plot, settings=()),
    },
    api=(Endpoint(predictions, ("predictions.surprise", "predictions.guess")),),
)
