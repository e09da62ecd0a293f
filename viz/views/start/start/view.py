"""The Start view: the next token, and the numbers on the prompt's path through the model."""

import numpy as np

from model.activations.norm_walk import norms_of
from viz.labels import quoted, visible
from viz.numbers import addends, logit, number, percent, signed, whole
from viz.seam.python_lines import logits_imports, logits_python, script
from viz.seam.view import Custom, Figure, Measure, Payload, Seen, View
from viz.theme import SIGNED
from viz.views.start.start.figures import ranked_figure
from viz.views.start.start.measure import (
    TEMPERATURES,
    Ranked,
    TokenPath,
    measure_next,
    measure_ranked,
    measure_way,
    measure_weights,
)
from viz.words import plot_words

SHOWN = 12  # maximum number of the head's key tokens that are listed
ROUNDING = 1e-6  # a sum of biases below this is rounding: the model has no biases
DEFAULT = TEMPERATURES.index(1.0)


def following(seen: Seen) -> Payload:
    """Build the bars of the most likely next tokens.

    The payload lets the page redraw them at another temperature and append a token to the prompt.
    """
    words, facts, result = seen.here, seen.facts, seen.result
    numbers, texts = result.following, dict(result.texts)
    at = facts.position

    def token(number: int) -> dict:
        return {
            "id": number,
            "text": visible(facts.piece(number)),
            "prompt": texts[number],
            "ends": number in result.ends,
        }

    return {
        "title": words["title"],
        "about": words["after"].format(token=quoted(facts.pieces[at]), position=at, mask=facts.mask),
        "tokens": [
            token(number) | {"logit": value}
            for number, value in zip(numbers.ids.tolist(), numbers.logits.tolist(), strict=True)
        ],
        "temperatures": list(TEMPERATURES),
        "sums": numbers.log_sums.tolist(),
        "drawn": [token(number) for number in numbers.drawn.tolist()],
        "u": numbers.u,
        "usual": DEFAULT,
        "before": result.before,
        "chat": bool(facts.prompt.turns),
        "last": at == len(facts.tokens) - 1,
        "masked": facts.config.two_way,
        "room": facts.config.two_way or at + 2 <= facts.config.n_ctx,
        "file": f"next-token-{at}",
        "python": script(
            facts,
            [
                f"prediction = next_token({logits_python(facts)}, [0.5, 1.0, 1.5], u=uniform(0, {at}))",
                "[(lm.decode([token]), float(p)) for token, p in zip(",
                "    prediction.ids, np.exp(prediction.logits - prediction.log_sums[1]))]  # at temperature 1",
            ],
            [
                "import numpy as np",
                *logits_imports(facts),
                "from model.predictions.next_token import next_token",
                "from model.sampling.pipeline import uniform",
            ],
        ),
        "words": words.plain() | plot_words(seen.all_words),
    }


def way(seen: Seen) -> Payload:
    """Build the picture of the model, which follows one token through all blocks and shows one head in detail.

    "steps" tells what each step of the moving picture shows: the tokens, the embedding, every block, the answer.
    """
    words, facts = seen.here, seen.facts
    measured: TokenPath = seen.result
    weights: np.ndarray = seen.results["weights"]
    layer, head = facts.head
    norms = [layer for layer, _ in norms_of(facts.config)]
    read = _read(weights, facts.position)
    unlisted, remaining = len(weights) - len(read), float(weights.sum() - weights[read].sum())
    at, answer = facts.position, quoted(facts.piece(measured.token))
    top = max(float(np.abs(measured.heads).max()), float(np.abs(measured.mlps).max()), 1e-9)
    return {
        "title": words["title"],
        "about": words["about"].format(token=quoted(facts.pieces[at]), position=at, answer=answer),
        "head": [layer, head],
        "head_name": words["reads"].format(layer=layer, head=head),
        "read": [
            {
                "index": index,
                "text": visible(facts.pieces[index]),
                "share": float(weights[index]),
                "percent": percent(float(weights[index])),
            }
            for index in read
        ],
        "left": words["left"].format(n=unlisted, share=percent(remaining)) if unlisted else "",
        "position": at,
        "embedding": words["embedding_value"].format(logit=signed(measured.embedding), answer=answer),
        "stream": [
            {
                "guess": visible(facts.piece(int(guess))),
                "share": float(share),
                "percent": percent(float(share)),
                "size": float(length / measured.lengths.max()),
                "text": words["stream_embedding" if not n else "stream_layer"].format(
                    layer=n - 1, length=number(float(length))
                ),
            }
            for n, (guess, share, length) in enumerate(
                zip(measured.guesses, measured.shares, measured.lengths, strict=True)
            )
        ],
        "blocks": [
            {
                "layer": index,
                "norm": str(norms.index(index)) if index in norms else "",  # option of the view of one norm
                "heads": [
                    _added(words["head_adds"], value, top, answer, layer=index, head=n) for n, value in enumerate(row)
                ],
                "mlp": _added(words["mlp_adds"], measured.mlps[index], top, answer, layer=index),
            }
            for index, row in enumerate(measured.heads)
        ],
        "answer": visible(facts.piece(measured.token)),
        "steps": _steps(seen),
        "sum": words["sum"].format(
            answer=answer,
            logit=logit(measured.logit),
            **_summands(measured),
        ),
        "hues": [SIGNED[1], SIGNED[-2]],
        "file": f"first-look-{at}-{layer}.{head}",
        "python": script(
            facts,
            [
                f"parts = attribute(components(run, {at}), lm.model, {measured.token})",
                "parts.heads, parts.mlps  # [layer, head] and [layer]: what each adds to the logit",
                f"run.pattern({layer}, {head})[{at}]  # what the head reads",
                f"run.logit_lens(1, [{at}])  # the guess after each block",
            ],
            ["from model.predictions.attribution import attribute, components"],
        ),
        "words": words.plain() | plot_words(seen.all_words),
    }


def _read(weights: np.ndarray, position: int) -> list[int]:
    """Return the positions with the largest weights, among them always `position`, in increasing order."""
    order = [position, *(at for at in np.argsort(-weights, kind="stable").tolist() if at != position)]
    return sorted(order[:SHOWN])


def _summands(measured: TokenPath) -> dict[str, str]:
    """Format the parts of the sum, which add up to the logit as printed."""
    rest = measured.biases if abs(measured.biases) > ROUNDING else 0.0
    parts = (measured.embedding, float(measured.heads.sum()), float(measured.mlps.sum()), rest)
    return dict(zip(("embedding", "heads", "mlps", "rest"), addends(parts), strict=True))


def _steps(seen: Seen) -> list[str]:
    """Tell what each step of the moving picture shows."""
    words, facts, path = seen.here, seen.facts, seen.result
    guesses = [
        {"guess": quoted(facts.piece(int(guess))), "percent": percent(float(share))}
        for guess, share in zip(path.guesses, path.shares, strict=True)
    ]
    return [
        words["step_tokens"].format(token=quoted(facts.pieces[facts.position]), position=facts.position),
        words["step_embedding"].format(token=quoted(facts.pieces[facts.position]), **guesses[0]),
        *(
            words["step_layer"].format(layer=n, heads=signed(float(heads.sum())), mlp=signed(float(mlp)), **guess)
            for n, (heads, mlp, guess) in enumerate(zip(path.heads, path.mlps, guesses[1:], strict=True))
        ),
        words["step_answer"].format(answer=quoted(facts.piece(path.token)), percent=guesses[-1]["percent"]),
    ]


def _added(template: str, value: float, top: float, answer: str, **place: int) -> dict:
    """Describe one component's contribution to the logit: its value, its magnitude relative to `top`, and its text."""
    text = template.format(value=signed(float(value)), answer=answer, **place)
    return {"value": float(value), "strength": float(value) / top, "text": text}


def curve(seen: Seen) -> Payload:
    """Draw the probability of every token of the vocabulary by rank, with the first and the watched tokens marked."""
    words, facts = seen.here, seen.facts
    measured: Ranked = seen.result
    points = [
        (facts.piece(token), rank, share)
        for token, rank, share in zip(
            measured.ids.tolist(), measured.ranks.tolist(), measured.shares.tolist(), strict=True
        )
    ]
    marks, watched = (
        [(facts.piece(token), rank, share) for token, rank, share, chosen in measured.marked if chosen == wanted]
        for wanted in (False, True)
    )
    at, count = facts.position, whole(measured.count)
    return {
        "title": words["title"].format(n=count),
        "note": words["note"].format(most=whole(measured.most), n=count),
        "figure": ranked_figure(points, marks, watched, words.plain()),
        "file": f"vocabulary-{at}",
        "columns": [words["series"], words["token"], words["rank"], words["share"]],
        "python": script(
            facts,
            [
                f"logits = {logits_python(facts)}[: lm.tokenizer.vocab_size].astype(np.float64)",
                "p = np.exp(logits - logits.max())",
                "np.sort(p / p.sum())[::-1]  # the probability at each rank",
            ],
            ["import numpy as np", *logits_imports(facts)],
        ),
    }


VIEW = View(
    "start",
    needs=(),
    layout=(("way", ("next", "curve")),),
    parts={
        "next": Custom("startnext", following, "next", depends=("token",), kept=True),
        "way": Custom("startway", way, ("way", "weights"), depends=("token", "head")),
        "curve": Figure(curve, "ranked", depends=("token",)),
    },
    measures=(
        Measure("next", measure_next, ("run", "token", "prompt"), needs=("token",)),
        Measure("way", measure_way, ("run", "token"), needs=("layers", "next")),
        Measure("ranked", measure_ranked, ("run", "token", "watched"), needs=("token",)),
        Measure("weights", measure_weights, ("run", "token", "head")),
    ),
)
