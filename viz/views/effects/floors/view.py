"""The worth of each part: the model built up from its embedding, with the loss and the text of every rung."""

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from model.predictions.floors import FILLS, MOST_READ, NEW, Part, ladder_losses, ladder_texts, parts_of
from model.progress import Progress
from model.quantization.texts import TEXT_TOKENS, held_out_ids
from viz.labels import visible
from viz.numbers import decimals, nats, whole
from viz.seam.programs.arguments import OneOf
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings
from viz.seam.view import Custom, Figure, Job, Measure, Payload, Seen, Table, View
from viz.views.effects.floors.figures import ladder_figure
from viz.words import Words, joined

ON = ("text", "prompt")
FEW = 3  # parts that a sentence names


@dataclass(frozen=True, eq=False)
class TextLosses:
    """The losses of all rungs on one text."""

    losses: np.ndarray  # [parts], nats per token; NaN for a text of one token
    tokens: int  # number of predicted tokens
    nbytes: int  # bytes of their text

    @property
    def bits(self) -> np.ndarray:
        """Bits per byte. [parts]"""
        return self.losses * self.tokens / math.log(2) / max(self.nbytes, 1)


@dataclass(frozen=True, eq=False)
class Ladder:
    """The model built up part by part."""

    parts: tuple[tuple[int, str], ...]  # layer and kind of each part, as in model.predictions.floors.Part
    text: TextLosses  # on the held-out text
    prompt: TextLosses
    written: tuple[str, ...]  # what each rung writes after the prompt


# --- the measurement ---


def measure(scene: Scene, settings: Settings, progress: Progress) -> Ladder:
    """Measure the losses on the held-out text and on the prompt, and continue the prompt with every rung."""
    lm, how = scene.model, settings.how
    texts = (held_out_ids(lm), scene.tokens.ids.tolist()[:TEXT_TOKENS])
    parts, prompt = parts_of(lm.config), scene.tokens.ids.tolist()
    total, found = 2 * len(parts) + NEW, []
    for at, ids in enumerate(texts):

        def tell(done: int, _: int | None, what: str, before: int = at * len(parts)) -> None:
            progress(before + done, total, what)

        losses = ladder_losses(lm.model, ids, how, tell)
        found.append(TextLosses(losses, len(ids) - 1, len(lm.tokenizer.decode_bytes(ids[1:]))))

    def write(done: int, _: int | None, what: str) -> None:
        progress(2 * len(parts) + done, total, what)

    rows = ladder_texts(lm.model, texts[0], prompt, how, NEW, lm.tokenizer.vocab_size, write)
    end = lm.tokenizer.end_id
    cut = [row[: row.index(end)] if end in row else row for row in rows.tolist()]
    return Ladder(tuple(map(tuple, parts)), *found, tuple(map(lm.tokenizer.decode, cut)))


def cost(scene: Scene, settings: Settings) -> tuple[float, float]:
    """Estimate the number of runs and of processed tokens.

    The output head runs for every rung and token of the texts, the rest of the model once; texts are one batch.
    """
    config, rungs = scene.model.config, len(parts_of(scene.model.config))
    head = config.vocab_size * config.d_model / scene.model.n_params
    read = TEXT_TOKENS + len(scene.tokens)
    return 2 + NEW, read * (1 + rungs * head) + rungs * (min(len(scene.tokens), MOST_READ) + NEW)


# --- parts ---


def job(seen: Seen) -> Payload:
    """Describe the measurement: the number of rungs and, if the run has edits, that they are not applied."""
    rungs = whole(len(parts_of(seen.facts.config)))
    edited = seen.here["no_edits"] if seen.facts.edits else ""
    return {"text": joined([seen.here["hint"].format(n=rungs), edited])}


def _name(words: Words, part: tuple[int, str]) -> str:
    return words[f"part_{part[1]}"].format(layer=part[0])


def _shown(seen: Seen) -> TextLosses:
    return seen.result.prompt if seen.settings.on == "prompt" else seen.result.text


def _source(seen: Seen) -> str:
    facts, words = seen.facts, seen.words
    values = {"model": facts.label, "dtype": facts.dtype, "n": whole(_shown(seen).tokens)}
    return f"{words[f'source_{seen.settings.on}'].format(**values)} · {words[f'source_{seen.settings.how}']}"


def _python(seen: Seen, last: str) -> str:
    ids = f"held_out_ids(lm, {TEXT_TOKENS})"
    if seen.settings.on == "prompt":
        ids = f"run.tokens.ids.tolist()[:{TEXT_TOKENS}]"
    imports = [
        "from model.predictions.floors import ladder_losses, ladder_texts, parts_of",
        "from model.quantization.texts import held_out_ids",
    ]
    return script(seen.facts, [f"text = {ids}", last.format(how=seen.settings.how)], imports)


def _too_short(seen: Seen) -> Payload:
    return {"empty": {"text": seen.words["short"], "hint": seen.words["short_hint"]}}


def ladder(seen: Seen) -> Payload:
    """Draw the loss after each part, and each part's change of it."""
    words, shown = seen.here, _shown(seen)
    if not shown.tokens:
        return _too_short(seen)
    kinds, names = [kind for _, kind in seen.result.parts], [_name(seen.words, part) for part in seen.result.parts]
    named = {key: words[key] for key in ("positions", "attention", "mlp", "raises", "loss", "change", "guess", "line")}
    return {
        "figure": ladder_figure(shown.losses, kinds, names, math.log(seen.facts.config.vocab_size), named),
        "title": words[f"title_{seen.settings.on}"],
        "note": words["note"],
        "columns": [words["series"], words["loss"], seen.words["texts.part"]],
        "source": _source(seen),
        "python": _python(seen, "ladder_losses(lm.model, text, {how!r})  # nats after each of parts_of(lm.config)"),
    }


def texts(seen: Seen) -> Payload:
    """Build the table of every rung: its loss, its bits per byte, and what it writes after the prompt."""
    words, shown = seen.here, _shown(seen)
    each = zip(seen.result.parts, shown.losses, shown.bits, seen.result.written, strict=True)
    rows = [[_name(seen.words, part), nats(loss), decimals(bits), visible(text)] for part, loss, bits, text in each]
    last = "ladder_texts(lm.model, held_out_ids(lm), run.tokens.ids.tolist(), {how!r})  # ids, a row for each part"
    return {
        "title": words["title"],
        "about": words["about"].format(n=NEW),
        "columns": [words[key] for key in ("part", "loss", "bits", "text")],
        "rows": rows,
        "source": _source(seen),
        "python": _python(seen, last),
    }


def facts(seen: Seen) -> Payload:
    """Describe the results: the bigram, the whole model, the part worth most, and the parts that raise the loss."""
    words, result, shown = seen.here, seen.result, _shown(seen)
    if not shown.tokens:
        return _too_short(seen)
    losses, worth = shown.losses, -np.diff(shown.losses)
    names, kinds = ([f(part) for part in result.parts[1:]] for f in (lambda p: _name(seen.words, p), lambda p: p[1]))
    guess = math.log(seen.facts.config.vocab_size)
    bigram = words["bigram_better" if losses[0] < guess else "bigram_worse"]
    totals = {kind: nats(float(sum(worth[n] for n, k in enumerate(kinds) if k == kind))) for kind in set(kinds)}
    best = int(np.argmax(worth))
    raising = [names[n] for n in np.argsort(worth) if worth[n] < 0]
    items = [
        [words["bigram"], bigram.format(loss=nats(losses[0]), guess=nats(guess))],
        [words["best"], words["best_text"].format(part=names[best], worth=nats(worth[best]))],
        [
            words["together"],
            words["together_text"].format(loss=nats(losses[-1]), bits=decimals(shown.bits[-1]), **totals),
        ],
        [words["raising"], _raising(words, raising)],
    ]
    return {"title": words["title"], "items": items}


def _raising(words: Words, names: list[str]) -> str:
    if not names:
        return words["raising_none"]
    return words["raising_text"].format(n=whole(len(names)), names=", ".join(names[:FEW]))


# --- for programs ---


def floor_losses(scene: Scene, how: Annotated[str, OneOf(FILLS)] = "mean") -> dict:
    """Build the model up part by part, and measure the loss and the greedy text of every rung.

    Args:
        how: What replaces the outputs of the parts after a rung's last one: their mean over the text, or zero.

    Returns:
        parts: one record per rung, in the order of the computation, with layer (null before the layers), part (embed,
        positions, attention or mlp: the last part that the rung has), loss (nats per token of a held-out text),
        bits_per_byte, prompt_loss (null for a prompt of one token) and text (what the rung writes after the prompt);
        tokens: the number of predicted tokens of the held-out text; guess: the loss of a uniform guess.
    """
    result: Ladder = measured(VIEW, "main", scene, how=how)
    each = zip(map(Part._make, result.parts), result.written, strict=True)
    rows = [
        {
            "layer": part.layer if part.layer >= 0 else None,
            "part": part.kind,
            "loss": result.text.losses[n],
            "bits_per_byte": result.text.bits[n],
            "prompt_loss": result.prompt.losses[n] if result.prompt.tokens else None,
            "text": text,
        }
        for n, (part, text) in enumerate(each)
    ]
    return {"parts": rows, "tokens": result.text.tokens, "guess": math.log(scene.model.config.vocab_size)}


VIEW = View(
    "floors",
    needs=("layers", "next"),
    settings=(Choice("how", FILLS, default="mean"), Choice("on", ON)),
    measures=(Measure("main", measure, depends=("plain",), settings=("how",), slow=True, cost=cost),),
    layout=("form", "job", (("ladder", "facts"), ("texts",))),
    parts={
        "job": Job("main", job, depends=("edits",), settings=("how",)),
        "ladder": Figure(ladder, settings=("on",)),
        "texts": Table(texts, settings=("on",)),
        "facts": Custom("normfacts", facts, settings=("on",)),
    },
    api=(Endpoint(floor_losses, reads="plain run", long=True),),
)
