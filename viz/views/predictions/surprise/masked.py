"""The prompt colored by surprisal in a model that predicts masked tokens: each token, predicted from all others."""

import math
from collections.abc import Sequence

import numpy as np

from model.predictions.masked import MaskedPredictions
from viz.labels import quoted
from viz.numbers import bits, logit, number, percent, whole
from viz.seam.programs.reading import named
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.view import Payload, Seen
from viz.views.predictions.expected import entropy_facts, likely_rows, row, row_words, shared_words
from viz.views.predictions.surprise.figures import Scored, bits_figure

INSTEAD = 3  # maximum number of likely tokens listed besides the actual one


def scored_masked(result: MaskedPredictions) -> Scored:
    """Build the scores of tokens 1 .. T - 1 of a text in which each token was masked in turn; token 0 begins it."""
    rank, share = result.rank.astype(np.float64), np.exp(result.actual_log_probability)
    rows = (result.surprisal, rank, share, result.entropy / math.log(2))
    return Scored(*(np.where(result.scored, row, np.nan)[1:] for row in rows))


def summary(seen: Seen) -> list[list[str]]:
    """Build the summary of the prompt as a list of [name, value, explanation]."""
    words, result = seen.here, seen.result
    surprisal, T = result.surprisal[result.scored], len(seen.facts.tokens)
    scored = [words["scored"], words["scored_value"].format(n=whole(len(surprisal)), T=whole(T)), words["scored_help"]]
    if not len(surprisal):
        return [scored]
    mean, total = float(surprisal.mean()), float(surprisal.sum())
    values = {
        "perplexity": number(2.0**mean),
        "likelihood": words["likelihood_value"].format(bits=bits(total)),
        "bits": words["bits_value"].format(bits=bits(mean)),
    }
    return [*([words[name], value, words[f"{name}_help"]] for name, value in values.items()), scored]


def detail(seen: Seen) -> Payload:
    """Describe how expected the selected token was in its place, and list the tokens expected there."""
    words, result, facts, at = seen.here, seen.result, seen.facts, seen.facts.position
    rows, own, following = likely_rows(result, at, facts), words["given"], None
    if facts.actual is not None:
        following, rank, share = facts.actual, int(result.rank[at]), math.exp(float(result.actual_log_probability[at]))
        value = float(result.actual_logit[at])
        rows += [row(following, facts.pieces[at], rank, (share, value))] if rank > len(rows) else []
        others = slice(1, 1 + INSTEAD) if rank == 1 else slice(min(rank - 1, INSTEAD))
        likely = zip(result.ids[at][others].tolist(), result.probabilities[at][others].tolist(), strict=True)
        own = words["own_top" if rank == 1 else "own"].format(
            token=quoted(facts.pieces[at]),
            rank=whole(rank),
            share=percent(share),
            bits=bits(-math.log2(share) + 0.0 if share > 0 else math.inf),
            logit=logit(value),
            others=", ".join(f"“{quoted(facts.piece(token))}” {percent(each)}" for token, each in likely),
        )
    return {
        "title": words["title"].format(token=quoted(facts.pieces[at]), position=at),
        "own": own,
        "next": "" if bool(result.scored[at]) or facts.actual is None else words["special"],
        "facts": entropy_facts(seen, float(result.entropy[at])),
        "rows": rows,
        "following": following,
        "words": row_words(seen),
    }


def plot(seen: Seen, scores: Scored) -> Payload:
    """Draw surprisal and entropy by position."""
    words, facts = seen.here, seen.facts
    if not np.isfinite(scores.bits).any():
        return {"empty": {"text": words["one"], "hint": shared_words(seen)["one_hint"]}}
    lines = [
        "special = set(lm.tokenizer.special.values())",
        "predictions = predict_masked(run, lm.tokenizer.mask_id, skipped=special)",
        "predictions.surprisal, predictions.entropy / np.log(2)  # bits",
    ]
    imports = ["import numpy as np", "from model.predictions.masked import predict_masked"]
    return {
        "figure": bits_figure(scores, facts.pieces, facts.config.vocab_size, words),
        "title": words["title"],
        "note": words["note"],
        "columns": [words["series"], words["token"], words["position"], words["axis_bits"]],
        "python": script(facts, lines, imports),
    }


def rows_of(scene: Scene, result: MaskedPredictions, positions: Sequence[int], most: int) -> dict:
    """Return the numbers of the endpoint for each position, and the summary."""
    rows = []
    for at in positions:
        actual: dict = dict.fromkeys(("rank", "probability", "surprisal"))
        if result.scored[at]:
            log_p = float(result.actual_log_probability[at])
            actual = {"rank": int(result.rank[at]), "probability": math.exp(log_p), "surprisal": -log_p / math.log(2)}
        best = zip(result.ids[at][:most], result.probabilities[at], result.logits[at], strict=False)
        rows.append(
            {
                "position": at,
                **named(scene.model, scene.tokens.ids[at]),
                **actual,
                "entropy": float(result.entropy[at]) / math.log(2),
                "expected": [named(scene.model, n) | {"probability": p, "logit": value} for n, p, value in best],
            }
        )
    surprisal = result.surprisal[result.scored]
    total = float(surprisal.sum())
    told = {
        "scored": len(surprisal),
        "bits": total / max(len(surprisal), 1),
        "perplexity": 2 ** (total / max(len(surprisal), 1)),
    }
    return {"rows": rows, "summary": told if len(surprisal) else None}
