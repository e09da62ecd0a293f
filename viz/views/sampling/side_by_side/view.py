"""Side by side: several strategies continue the same prompt at once, and their texts are streamed during generation."""

import time
from collections.abc import Iterator, Mapping
from typing import Annotated

from model.api import LanguageModel
from model.generation.strategies import GeneratedToken
from model.kernels import ready
from model.records import RunKey
from model.sampling.warps import WARPS
from viz.numbers import nats, percent, size
from viz.seam.jobs.at_once import is_quick
from viz.seam.jobs.background import LOOK_EVERY, waiting
from viz.seam.programs.arguments import Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import most_seconds, named
from viz.seam.scene import Scene, run_id
from viz.seam.settings import Settings
from viz.seam.view import Custom, Event, Measure, Payload, Seen, Stream, View, Visit
from viz.views.sampling import strategies as cards
from viz.views.sampling.side_by_side.figures import blank_figure, scales
from viz.views.sampling.side_by_side.python_lines import lines
from viz.views.sampling.side_by_side.run import (
    Race,
    Races,
    TextRow,
    TextsRequest,
    effect_of,
    packed,
    request_of,
    texts_of,
)
from viz.views.sampling.writers import texts_of_request
from viz.words import Words, section, words
from viz.work.playground import Playground

_EVERY = 0.25  # seconds between two pieces; even a small one takes the page a few milliseconds to draw
_WORDS = "side_by_side.texts"


def texts(seen: Seen) -> Payload:
    """Build the payload from which the page draws the texts: words, color scales, and the key of the current prompt.

    The visitor is likely to generate texts next, so the compilation of the decoding loops starts in the background.
    """
    ready.soon()
    facts = seen.facts
    key = run_id(RunKey(facts.model_id, tuple(facts.tokens.ids.tolist())), "")
    shown = {"view": seen.words["view"], "plot": section(seen.all_words, "plot")}
    return {
        "key": key,
        "auto": seen.results["quick"],
        "model": facts.model_id,
        "edited": bool(facts.edits),
        "scales": scales(seen.result.vocabulary),
        "blank": blank_figure(seen.here),
        "words": seen.here.plain() | shown,
    }


def measure_quick(scene: Scene, settings: Settings) -> bool:
    """Return whether the default strategies may start without a click: they write few tokens on a small model."""
    rows, tokens = len(cards.DEFAULT), cards.NEW_TOKENS
    return is_quick(scene, rows * tokens, rows * tokens)


# --- messages to the page -------------------------------------------------------------------------


def piece(race: Race, have: int, language: str) -> Payload:
    """Build the update that contains the steps of a run after the first `have`; -1 if the page has no piece of the run
    yet.
    """
    start = max(have, 0)
    ticks = race.ticks[start:]
    new_texts = race.texts[start : start + len(ticks)]
    payload = {
        "run": race.id,
        "tag": race.request.tag,
        "state": race.state,
        "from": start,
        "ticks": ticks,
        "texts": {number: text for each in new_texts for number, text in each.items()},
        "seconds": round(race.seconds, 4),
        "tokens": race.tokens,
    }
    if race.state != "running":
        payload |= {"measured": race.measured, "whole": race.full_texts, "own": race.own_texts}
    return payload if have >= 0 else payload | {"opening": opening(race, words(language))}


def eight_bit(playground: Playground, race: Race, language: str) -> Payload:
    """Describe the effect of 8-bit weights; {} if the weights were float32."""
    effect = effect_of(playground, race.request)
    if effect is None:
        return {}
    numbers = {
        "less": size(effect.nbytes),
        "full": size(effect.full),
        "n": effect.positions,
        "kl": nats(effect.kl),
        "agree": percent(effect.agree),
        "largest": nats(effect.largest),
    }
    return {"eight": Words(words(language), _WORDS)["eight"].format(**numbers)}


def opening(race: Race, catalogue: Mapping[str, str]) -> Payload:
    """Describe a run for its first update: its model, prompt, strategies and settings."""
    request = race.request
    model, chosen = request.model, [row.strategy for row in request.rows]
    names = cards.labels(catalogue, chosen)
    source = Words(catalogue, _WORDS)["run_source"]
    return {
        "kind": request.kind,
        "key": request.key,
        "model": model.id,
        "prompt": list(request.prompt),
        "turns": _turns(request),
        "texts": texts_of(model, set(request.prompt)),
        "limit": request.tokens,
        "settings": vars(request.settings) | {"stop": list(request.settings.stop)},
        "rows": [_row(row, name, catalogue) for row, name in zip(request.rows, names, strict=True)],
        "source": source.format(model=model.label, dtype=request.writer.dtype, n=len(request.prompt)),
        "python": lines(request, names),
    }


def _turns(request: TextsRequest) -> list | None:
    """Return the conversation that the texts answer.

    None for a plain prompt, or if the page sent the token ids and thus already has the conversation.
    """
    return cards.continued(request.page_prompt, request.settings.chat).before if request.kind == "start" else None


def _row(row: TextRow, name: str, catalogue: Mapping[str, str]) -> Payload:
    """Describe a text and its strategy. `ordered`: whether the warps preserve the model's ranking of the tokens."""
    ordered = all(WARPS[step.warp].kind != "penalty" for step in row.strategy.steps)
    return {
        "name": name,
        "about": cards.summary(catalogue, row.strategy),
        "strategy": packed(row.strategy),
        "number": row.number,
        "ordered": ordered,
        "draws": row.strategy.method == "sample",
    }


# --- events ----------------------------------------------------------------------------------------


def start(visit: Visit, sent: object) -> Iterator[Payload]:
    """Generate the requested texts and yield them piece by piece. Closing the iterator ends the generation."""
    playground, races = visit.playground, visit.state
    model = playground.opened(visit.model_id)
    race = Race(visit.session, request_of(playground, model, visit.prompt, visit.values.get("strategies"), sent))
    ticket = playground.queue.join(visit.session, "text")
    try:
        races.begin(race)
        while (ahead := ticket.wait(LOOK_EVERY)) and not race.stop.is_set():
            yield {"tag": race.request.tag, "ahead": waiting(ahead, visit.language)}
        yield from _pieces(playground, race, visit.language)
    finally:
        ticket.leave()


def _pieces(playground: Playground, race: Race, language: str) -> Iterator[Payload]:
    began, sent, have = time.perf_counter(), float("-inf"), -1
    steps = texts_of_request(playground, race.request, race.stop)
    try:
        for changes in steps:
            now = time.perf_counter()
            race.add(changes, now - began)
            if now - sent >= _EVERY:
                payload = piece(race, have, language)
                sent, have = now, payload["from"] + len(payload["ticks"])
                yield payload
        race.state = "stopped" if race.stop.is_set() else "done"
        yield piece(race, have, language) | eight_bit(playground, race, language)
    finally:
        race.stop.set()
        steps.close()
        race.state = "stopped" if race.state == "running" else race.state


def stop(visit: Visit, sent: object) -> None:
    """Stop the visitor's run after its current step."""
    race = visit.state.of(visit.session)
    if race is not None:
        race.stop.set()


def resend(visit: Visit, sent: object) -> Iterator[Payload]:
    """Yield the steps that the page has missed of its own run."""
    race = visit.state.of(visit.session)
    if race is not None and isinstance(sent, Mapping) and sent.get("run") == race.id:
        have = sent.get("have")
        yield piece(race, have if isinstance(have, int) and have >= 0 else -1, visit.language)


# --- for programs ----------------------------------------------------------------------------------


def generate(
    scene: Scene,
    presets: list[str] = cards.DEFAULT,
    strategies: list[dict] = (),
    new_tokens: Annotated[int, Within(1, cards.MOST_TOKENS)] = 40,
    seed: Annotated[int, Within(0, cards.MOST_SEED)] = 0,
    stop: list[str] = (),
    same_numbers: bool = True,
    chat: bool = False,
    details: bool = False,
) -> dict:
    """Generate texts after the prompt with several decoding strategies, side by side.

    Args:
        presets: Names of strategies: greedy, temperature, top_k, top_p, min_p, typical, eta, epsilon, top_n_sigma,
            penalties, no_repeat, mirostat, beam, contrastive. At most 8 strategies in total.
        strategies: Further strategies, each {"name", "method": "sample", "beam" or "contrastive", "options": {name:
            number}, "steps": as in `distribution`}.
        new_tokens: Maximum number of generated tokens per strategy.
        stop: Up to four strings that end the generation.
        same_numbers: Whether all strategies use the same random number at each step.
        chat: Whether to put the prompt into the model's chat template.
        details: Whether to return every token with its numbers.

    Returns:
        texts: for each strategy text, ended (end, stop, length, context, or time if this server's time limit ended it),
        and measured: perplexity, entropy, repetition and more. With details also tokens: id, text, log_probability (of
        the model itself, nats), rank, entropy, probability after the steps, kept (the number of tokens that the steps
        kept) and the random number (uniform).
    """
    common = {"tokens": new_tokens, "seed": seed, "shared": same_numbers, "stop": list(stop), "chat": chat}
    sent = cards.card_values(presets, strategies, common)
    request = request_of(scene.playground, scene.model, scene.prompt, sent, {})
    race, ended = Race("", request), [""] * len(request.rows)
    deadline = time.perf_counter() + most_seconds(scene.playground)
    for changes in texts_of_request(scene.playground, request, race.stop):
        race.add(changes, 0.0)
        ended = [change.ended if change else previous for change, previous in zip(changes, ended, strict=True)]
        if time.perf_counter() > deadline:
            race.stop.set()
    names = cards.labels(scene.words, [row.strategy for row in request.rows])
    rows = []
    for name, tokens, reason, measured in zip(names, race.written, ended, race.measured, strict=True):
        ids = [each.id for each in tokens]
        row = {"strategy": name, "text": scene.model.decode(ids), "ended": reason or "time", "measured": measured}
        rows.append(row | ({"tokens": [_token_record(scene.model, each) for each in tokens]} if details else {}))
    return {"texts": rows}


def _token_record(model: LanguageModel, token: GeneratedToken) -> dict:
    """Convert a generated token and its numbers to a dict."""
    names = ("log_probability", "rank", "entropy", "probability", "kept", "uniform")
    return named(model, token.id) | {name: getattr(token, name) for name in names}


FEED = Stream(
    "feed",
    "feed",
    {
        "start": Event(start, trigger="multiple"),  # a page may start a run while its previous one is still stopping
        "stop": Event(stop),
        "again": Event(resend, trigger="multiple"),
    },
    state=Races,
    leave=Races.leave,
)
VIEW = View(
    "side_by_side",
    measures=(cards.OFFER, Measure("quick", measure_quick, depends=("model",), locks=False)),
    layout=("strategies", "texts"),
    parts={"strategies": cards.PART, "texts": Custom("race", texts, of=("offer", "quick"), depends=("plain",))},
    streams=(FEED,),
    api=(Endpoint(generate, reads="plain run", long=True),),
)
