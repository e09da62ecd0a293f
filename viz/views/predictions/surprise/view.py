"""In the text: the prompt coloured by how little each token was expected, and what was expected instead."""

import math
from collections.abc import Mapping

import gradio as gr

from model.predictions.predictions import Predictions, predict, summarise
from viz.labels import shorten, visible
from viz.page.background import kept
from viz.page.old_view import View
from viz.page.parts import choice, part, plot_words
from viz.page.picking import position_of, source
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.page.typed import quoted
from viz.views.predictions.figures import (
    COLOURS,
    Scored,
    bits_figure,
    brief,
    expected_row,
    expected_rows,
    percent,
    places,
    ramp_ticks,
    ramps,
    scored,
    text_rows,
)
from viz.words import some

_FACTS = ("perplexity", "bits_per_byte", "bits", "scored")
INSTEAD = 3  # likeliest tokens named where another one came
_ROW_WORDS = ("column_rank", "column_token", "column_share", "column_bits", "column_logit", "is_next")


def build() -> dict[str, gr.HTML]:
    """The text left, the token that is looked at right, all positions below."""
    made = {}
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["surprise_form"] = part("surprise_form", None, kind="controls", value={})
            made["surprise_text"] = part("surprise_text", None, kind="surprisetext")
        with gr.Column(min_width=320):
            made["surprise_detail"] = part("surprise_detail", None, kind="surprisedetail")
    made["surprise_plot"] = part("surprise_plot", None, kind="figure")
    return made


def fixed(words: Mapping[str, str]) -> dict[str, dict]:
    """What the text is coloured by."""
    options = [[by, words[f"surprise.by_{by}"], words[f"surprise.by_help_{by}"]] for by in COLOURS]
    return {
        "surprise_form": {
            "controls": [
                {
                    "name": "by",
                    "kind": "choice",
                    "label": words["surprise.by"],
                    "value": COLOURS[0],
                    "options": options,
                },
            ]
        }
    }


def predictions(scene: Scene) -> Predictions:
    """What the run expects, worked out once."""

    def make() -> Predictions:
        with scene.playground.computing:
            return predict(scene.trace)

    return kept(scene.playground, ("predictions", scene.trace.key), make)


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """The text by what is chosen, the token that is picked, and every position."""
    by, at = choice(values.get("surprise_form"), "by", COLOURS), position_of(scene)
    return {
        "surprise_text": Picture((scene.run, by), lambda: text_payload(scene, by)),
        "surprise_detail": Picture((scene.run, at), lambda: detail_payload(scene, at)),
        "surprise_plot": Picture(scene.run, lambda: plot_payload(scene)),
    }


def scored_of(found: Predictions) -> Scored:
    """How expected each token was."""
    return scored(found.next_log_probability, found.rank, found.entropy)


# --- the text ---


def text_payload(scene: Scene, by: str) -> dict:
    """The prompt's tokens, their numbers and their places on the ramp."""
    words, V = scene.words, scene.model.config.vocab_size
    told = scored_of(predictions(scene))
    return text_rows(told, scene.trace.tokens.pieces) | {
        "title": words["surprise.title"],
        "facts": _facts(scene),
        "by": by,
        "scale": {"label": words[f"surprise.by_{by}"], "ticks": ramp_ticks(by, V), "ramps": ramps()},
        "places": places(told, by, V),
        "words": some(words, "surprise", "told", "told_first", "hover", "token_name", "text_label"),
        "run": f"{scene.run} {by}",
    }


def _facts(scene: Scene) -> list[list[str]]:
    """[name, number, what it means] of the whole prompt; of a single token, only that nothing is scored."""
    words, T = scene.words, len(scene.trace.tokens)
    if T < 2:
        return [[words["surprise.scored"], words["surprise.scored_value"].format(n=0, T=T), words["surprise.one"]]]
    told = summarise(predictions(scene), scene.trace.tokens)
    values = {
        "perplexity": brief(told.perplexity),
        "bits_per_byte": brief(told.bits_per_byte),
        "bits": words["surprise.bits_value"].format(bits=brief(told.bits)),
        "scored": words["surprise.scored_value"].format(n=told.scored, T=T),
    }
    return [[words[f"surprise.{name}"], values[name], words[f"surprise.{name}_help"]] for name in _FACTS]


# --- one token ---


def detail_payload(scene: Scene, at: int) -> dict:
    """How expected the token at a position was, and what is expected after it."""
    words, found, ids = scene.words, predictions(scene), scene.trace.tokens.ids
    rows, last = likely_rows(scene, at), at == len(ids) - 1
    following = None if last else int(ids[at + 1])
    if following is not None and int(found.rank[at]) > len(rows):
        rows.append(actual_row(scene, at))
    entropy = float(found.entropy[at])
    return {
        "title": words["surprise.detail_title"].format(token=quoted(scene, int(ids[at])), position=at),
        "own": _own(scene, at),
        "next": words["surprise.no_next"]
        if last
        else words["surprise.next"].format(token=quoted(scene, following), rank=f"{int(found.rank[at]):,}"),
        "facts": entropy_facts(scene, entropy),
        "rows": rows,
        "following": following,
        "source": source(scene),
        "words": row_words(scene),
        "run": f"{scene.run} {at}",
    }


def likely_rows(scene: Scene, at: int) -> list[dict]:
    """The likeliest next tokens after a position."""
    found = predictions(scene)
    pieces = [scene.model.tokenizer.piece(int(number)) for number in found.ids[at]]
    return expected_rows(found.ids[at], found.logits[at], found.probabilities[at], pieces)


def actual_row(scene: Scene, at: int) -> dict:
    """The token that really comes next, as one of these rows."""
    found, tokens = predictions(scene), scene.trace.tokens
    chances = float(scored_of(found).share[at]), float(found.next_logit[at])
    return expected_row(int(tokens.ids[at + 1]), tokens.pieces[at + 1], int(found.rank[at]), chances)


def row_words(scene: Scene) -> dict[str, str]:
    """The words of a table of such rows."""
    return some(scene.words, "surprise", *_ROW_WORDS)


def entropy_facts(scene: Scene, entropy: float) -> list[list[str]]:
    """How undecided a prediction is, from its entropy in nats."""
    words = scene.words
    value = words["surprise.entropy_value"].format(bits=brief(entropy / math.log(2)), nats=brief(entropy))
    return [
        [words["surprise.entropy_name"], value, words["surprise.entropy_help"]],
        [words["surprise.choices"], brief(math.exp(entropy)), words["surprise.choices_help"]],
    ]


def _own(scene: Scene, at: int) -> str:
    """How expected the token itself was, and what was likelier."""
    words, found, tokens = scene.words, predictions(scene), scene.trace.tokens
    if at == 0:
        return words["surprise.own_first"]
    told, before = scored_of(found), at - 1
    rank = int(found.rank[before])
    others = slice(1, 1 + INSTEAD) if rank == 1 else slice(min(rank - 1, INSTEAD))
    likely = zip(found.ids[before][others].tolist(), found.probabilities[before][others].tolist(), strict=True)
    named = [f"“{quoted(scene, number)}” {percent(share)}" for number, share in likely]
    return words["surprise.own_top" if rank == 1 else "surprise.own"].format(
        token=shorten(visible(tokens.pieces[at]), 40),
        position=before,
        rank=f"{rank:,}",
        share=percent(float(told.share[before])),
        bits=brief(float(told.bits[before])),
        logit=f"{found.next_logit[before]:.3f}",
        others=", ".join(named),
    )


# --- every position ---


def plot_payload(scene: Scene) -> dict:
    """Surprisal and entropy by position."""
    words, pieces = scene.words, scene.trace.tokens.pieces
    if len(pieces) < 2:
        return {"empty": {"text": words["surprise.one"], "hint": words["surprise.one_hint"]}}
    said = some(words, "surprise", "surprisal", "entropy", "axis_token", "axis_bits", "hover")
    lines = [
        "found = predict(run)",
        "summarise(found, run.tokens)  # perplexity, bits per byte",
        "found.surprisal, found.entropy[:-1] / np.log(2)  # bits, of tokens 1 on",
    ]
    return {
        "figure": bits_figure(scored_of(predictions(scene)), pieces, scene.model.config.vocab_size, said),
        "title": words["surprise.plot_title"],
        "note": words["surprise.plot_note"],
        "source": source(scene),
        "file": "surprisal",
        "run": scene.run,
        "columns": [words[f"surprise.{name}"] for name in ("csv_series", "csv_token", "csv_position", "csv_bits")],
        "python": python_lines(
            scene, lines, ["import numpy as np", "from model.predictions.predictions import predict, summarise"]
        ),
        "words": plot_words(words),
    }


VIEW = View(
    "surprise",
    build,
    draw,
    parts=("surprise_form", "surprise_text", "surprise_detail", "surprise_plot"),
    fixed=fixed,
    asks=("surprise_form",),
)
