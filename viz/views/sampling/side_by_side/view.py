"""Side by side: several strategies continue the same prompt at once, and their texts are streamed during generation."""

import time
from collections.abc import Iterator, Mapping
from typing import Annotated

from model.api import LanguageModel
from model.generation.parting import parting
from model.generation.strategies import GeneratedToken
from model.kernels import ready
from model.records import RunKey
from model.sampling.pipeline import Step
from model.sampling.settings.tools import TOOLS
from model.sampling.warps import WARPS, values_of
from viz.numbers import nats, percent, size
from viz.seam.jobs.at_once import is_quick
from viz.seam.jobs.background import LOOK_EVERY, waiting
from viz.seam.programs.arguments import OneOf, Within
from viz.seam.programs.arguments import Prompt as Text
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import most_seconds, named
from viz.seam.scene import Scene, run_id
from viz.seam.settings import Settings
from viz.seam.view import Custom, Event, Measure, Payload, Seen, Stream, View, Visit
from viz.views.sampling import strategies as cards
from viz.views.sampling.pipelines import steps_of
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
from viz.views.sampling.tool_settings import imported, page_steps, settings_record
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
        payload |= {"measured": race.measured, "whole": race.full_texts, "own": race.own_texts, "saved": race.saved}
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
    ordered = all(map(_keeps_order, row.strategy.steps))
    return {
        "name": name,
        "about": cards.summary(catalogue, row.strategy),
        "strategy": packed(row.strategy),
        "number": row.number,
        "ordered": ordered,
        "draws": row.strategy.method == "sample",
    }


def _keeps_order(step: Step) -> bool:
    """Return whether a step preserves the order of the tokens that it keeps; smoothing does up to a curve of 3."""
    return WARPS[step.warp].kind != "penalty" and values_of(step).get("curve", 1) <= 3


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
        texts: for each strategy text, ended (end, stop, length, context, rule if a rule is complete, stuck if no token
        fits, or time if this server's time limit ended it), and measured: perplexity, entropy, repetition and more;
        forced (the number of tokens that a rule forced), passes (forward passes made) and saved (by forced tokens).
        With details also tokens: id, text, log_probability (of the model itself, nats), rank, entropy, probability
        after the steps, kept (the number of tokens that the steps kept), the random number (uniform), and with a rule
        what it said there (rule), as in `distribution`.
    """
    common = {"tokens": new_tokens, "seed": seed, "shared": same_numbers, "stop": list(stop), "chat": chat}
    sent = cards.card_values(presets, strategies, common)
    race, ended = _written(scene, sent)
    names = cards.labels(scene.words, [row.strategy for row in race.request.rows])
    rows = []
    counts = zip(race.passes, race.saved, strict=True)
    for name, tokens, reason, measured, count in zip(names, race.written, ended, race.measured, counts, strict=True):
        ids = [each.id for each in tokens]
        row = {"strategy": name, "text": scene.model.decode(ids), "ended": reason, "measured": measured}
        forced = sum(each.fit is not None and each.fit.allowed == 1 for each in tokens)
        row |= {"forced": forced, "passes": count[0], "saved": count[1]}
        rows.append(row | ({"tokens": [_token_record(scene.model, each) for each in tokens]} if details else {}))
    return {"texts": rows}


def _written(scene: Scene, sent: dict) -> tuple[Race, list[str]]:
    """Generate the texts that a program requests; returns them with the reason why each ended."""
    race = Race("", request_of(scene.playground, scene.model, scene.prompt, sent, {}))
    ended, deadline = [""] * len(race.request.rows), time.perf_counter() + most_seconds(scene.playground)
    for changes in texts_of_request(scene.playground, race.request, race.stop):
        race.add(changes, 0.0)
        ended = [change.ended if change else previous for change, previous in zip(changes, ended, strict=True)]
        if time.perf_counter() > deadline:
            race.stop.set()
    return race, [reason or "time" for reason in ended]


def against_greedy(
    scene: Scene,
    steps: list[dict] | None = None,
    settings: Text = "",
    tool: Annotated[str, OneOf(("", *TOOLS))] = "",
    new_tokens: Annotated[int, Within(1, cards.MOST_TOKENS)] = 40,
    seed: Annotated[int, Within(0, cards.MOST_SEED)] = 0,
) -> dict:
    """Continue the prompt with a sampling pipeline and with greedy decoding, and tell where the two texts part.

    Args:
        settings: Another tool's settings in place of the steps, as in `steps_of_settings`; empty to use the steps.
        tool: The tool of the settings; empty to recognize it.
        new_tokens: Maximum number of generated tokens per text.

    Returns:
        mine and greedy: text and ended. parting: null if the texts are the same, else at (the number of tokens that
        are the same before), and the token of each text there with its numbers, or null if that text has ended.
        settings: how they were read, as in `steps_of_settings`, or null.
    """
    found = imported(scene.model, settings, tool) if settings else None
    own = page_steps(found.steps if found else steps_of(scene.model, steps))
    mine = {"name": "mine", "method": "sample", "options": {}, "steps": own}
    sent = cards.card_values(["greedy"], [mine], {"tokens": new_tokens, "seed": seed})
    race, ended = _written(scene, sent)
    texts = [
        {"text": scene.model.decode([each.id for each in tokens]), "ended": reason}
        for tokens, reason in zip(race.written, ended, strict=True)
    ]
    parted = parting(race.written[1], race.written[0])
    place = None
    if parted is not None:
        tokens = zip(("mine", "greedy"), (parted.first, parted.second), strict=True)
        place = {"at": parted.at} | {name: each and _token_record(scene.model, each) for name, each in tokens}
    read = found and settings_record(found)
    return {"mine": texts[1], "greedy": texts[0], "parting": place, "settings": read}


def _token_record(model: LanguageModel, token: GeneratedToken) -> dict:
    """Convert a generated token and its numbers to a dict."""
    names = ("log_probability", "rank", "entropy", "probability", "kept", "uniform")
    found = named(model, token.id) | {name: getattr(token, name) for name in names}
    if (fit := token.fit) is None:
        return found
    likeliest = [named(model, id) | {"probability": p} for id, p in fit.likeliest]
    said = {name: getattr(fit, name) for name in ("forbidden", "allowed", "may_end", "forced")}
    return found | {"rule": said | {"may_come": fit.instead, "likeliest": likeliest}}


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
    needs=("layers", "next"),
    measures=(cards.OFFER, Measure("quick", measure_quick, depends=("model",), locks=False)),
    layout=("strategies", "texts"),
    parts={"strategies": cards.PART, "texts": Custom("race", texts, of=("offer", "quick"), depends=("plain",))},
    streams=(FEED,),
    api=(
        Endpoint(generate, reads="plain run", long=True),
        Endpoint(against_greedy, reads="plain run", long=True),
    ),
)
