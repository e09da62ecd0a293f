"""Side by side: several strategies continue the same prompt at once, streamed as they write."""

import logging
import time
from collections.abc import Iterator, Mapping

import gradio as gr

from model.api import LanguageModel
from model.errors import PlaygroundError
from model.sampling.warps import WARPS
from viz.page.background import LOOK_EVERY, waiting
from viz.page.loading import broken, notice
from viz.page.old_view import View
from viz.page.parts import part, plot_words, update
from viz.page.picking import prompt_id
from viz.page.playground import Playground
from viz.page.scene import Scene
from viz.page.tab import Picture, Shared, Values
from viz.views.sampling import strategies
from viz.views.sampling.side_by_side.figures import blank_figure, scales
from viz.views.sampling.side_by_side.python_lines import lines
from viz.views.sampling.side_by_side.run import (
    Race,
    Races,
    Row,
    effect_of,
    packed,
    rounds,
    texts_of,
    wanted_of,
)
from viz.words import section, words

log = logging.getLogger("playground")
EVENTS = ("start", "stop", "again")
_EVERY = 0.25  # seconds between two pieces; the page takes some milliseconds for each, however small it is


def build() -> dict[str, gr.HTML]:
    """The strategies, what they write, and the channel to the server."""
    made = strategies.build()
    made["race"] = part("race", None, kind="race")
    made["race_feed"] = part("race_feed", None, kind="racefeed", value={}, events=EVENTS)
    return made


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """The strategies of this model, and what the page needs to draw what they write."""
    key = (prompt_id(scene), bool(scene.picked.edits))
    return strategies.pictures(scene) | {"race": Picture(key, lambda: payload(scene))}


def payload(scene: Scene) -> dict:
    """Words, colours, and which prompt is the present one."""
    said = section(scene.words, "race")
    return {
        "key": prompt_id(scene),
        "model": scene.model.id,
        "edited": bool(scene.picked.edits),
        "scales": scales(scene.model.tokenizer.vocab_size),
        "figure": blank_figure(said),
        "words": said | {"plot": plot_words(scene.words)},
    }


# --- what the page is told -------------------------------------------------------------------------


def piece(race: Race, have: int, language: str) -> dict:
    """What a page lacks that has so many steps of a run; -1 for one that knows nothing of it yet."""
    start = max(have, 0)
    ticks = race.ticks[start:]
    texts = race.texts[start : start + len(ticks)]
    found = {
        "run": race.id,
        "tag": race.wanted.tag,
        "state": race.state,
        "from": start,
        "ticks": ticks,
        "texts": {number: text for each in texts for number, text in each.items()},
        "seconds": round(race.seconds, 4),
        "tokens": race.tokens,
    }
    if race.state != "running":
        found["measured"] = race.measured
    return found if have >= 0 else found | {"opening": opening(race, words(language))}


def eight(playground: Playground, race: Race, said: Mapping[str, str]) -> dict:
    """What 8-bit weights changed, in words; nothing where float32 wrote."""
    found = effect_of(playground, race.wanted)
    if found is None:
        return {}
    told = {
        "less": found.nbytes / 1e6,
        "full": found.full / 1e6,
        "n": found.positions,
        "kl": found.kl,
        "agree": found.agree,
        "largest": found.largest,
    }
    return {"eight": said["race.eight"].format(**told)}


def opening(race: Race, said: Mapping[str, str]) -> dict:
    """What a run is of."""
    wanted = race.wanted
    model, chosen = wanted.model, [row.strategy for row in wanted.rows]
    names = strategies.labels(said, chosen)
    source = said["race.source"].format(model=model.label, dtype=wanted.writer.dtype, n=len(wanted.prompt))
    return {
        "kind": wanted.kind,
        "key": wanted.key,
        "model": model.id,
        "prompt": list(wanted.prompt),
        "texts": texts_of(model, set(wanted.prompt)),
        "limit": wanted.tokens,
        "settings": vars(wanted.settings) | {"stop": list(wanted.settings.stop)},
        "rows": [_row(row, name, said) for row, name in zip(wanted.rows, names, strict=True)],
        "source": source,
        "python": lines(wanted, names),
    }


def _row(row: Row, name: str, said: Mapping[str, str]) -> dict:
    """A text's strategy; `ordered` where the warps leave the order of tokens as the model has it."""
    ordered = all(WARPS[step.warp].kind != "penalty" for step in row.strategy.steps)
    return {
        "name": name,
        "about": strategies.summary(said, row.strategy),
        "strategy": packed(row.strategy),
        "number": row.number,
        "ordered": ordered,
        "draws": row.strategy.method == "sample",
    }


# --- events ----------------------------------------------------------------------------------------


def watch(
    playground: Playground, races: Races, owner: str, model: LanguageModel, asked: tuple, language: str
) -> Iterator[gr.HTML]:
    """Write what is asked, (prompt, cards, what the page sent), and yield pieces as it goes on.

    Closing the iterator, as Gradio does when the page goes, ends the work.
    """
    sent = asked[-1]
    tag = sent.get("tag") if isinstance(sent, Mapping) else None
    try:
        race = Race(owner, wanted_of(playground, model, *asked))
        ticket = playground.desk.join(owner)
        try:
            races.begin(race)
            while (ahead := ticket.wait(LOOK_EVERY)) and not race.stop.is_set():
                yield update({"tag": race.wanted.tag, "ahead": waiting(ahead, language)})
            yield from _pieces(playground, race, language)
        finally:
            ticket.leave()
    except PlaygroundError as error:
        told = notice(error, language)
        yield update({"tag": tag, "error": {"text": told["text"], "hint": told["hint"]}})
    except Exception:
        log.exception("a text could not be written")
        told = broken(language)
        yield update({"tag": tag, "error": {"text": told["text"], "hint": told["hint"]}})


def _pieces(playground: Playground, race: Race, language: str) -> Iterator[gr.HTML]:
    began, sent, have = time.perf_counter(), float("-inf"), -1
    steps = rounds(playground, race.wanted, race.stop)
    try:
        for changes in steps:
            now = time.perf_counter()
            race.add(changes, now - began)
            if now - sent >= _EVERY:
                found = piece(race, have, language)
                sent, have = now, found["from"] + len(found["ticks"])
                yield update(found)
        race.state = "stopped" if race.stop.is_set() else "done"
        yield update(piece(race, have, language) | eight(playground, race, words(language)))
    finally:
        race.stop.set()
        steps.close()
        race.state = "stopped" if race.state == "running" else race.state


def again(races: Races, owner: str, sent: object, language: str) -> gr.HTML:
    """What a page lacks of its own run."""
    race = races.of(owner)
    if race is None or not isinstance(sent, Mapping) or sent.get("run") != race.id:
        return gr.skip()
    have = sent.get("have")
    return update(piece(race, have if isinstance(have, int) and have >= 0 else -1, language))


def wire(parts: Mapping[str, gr.HTML], shared: Shared) -> None:
    """The events of the channel."""
    playground, feed, races = shared.playground, parts["race_feed"], Races()
    quiet = {"show_progress": "hidden", "api_visibility": "private"}

    def start(request: gr.Request, sent, screen, prompt, loaded):
        cards = screen.get("values", {}).get("strategies") if isinstance(screen, dict) else None
        language = shared.language_of(request)
        try:
            model = playground.opened(loaded["id"])
        except PlaygroundError as error:
            told = notice(error, language)
            yield update({"error": {"text": told["text"], "hint": told["hint"]}})
            return
        yield from watch(playground, races, request.session_hash, model, (prompt, cards, sent), language)

    def stop(request: gr.Request):
        race = races.of(request.session_hash)
        if race is not None:
            race.stop.set()

    def lacking(request: gr.Request, sent):
        return again(races, request.session_hash, sent, shared.language_of(request))

    # A page may start anew while its last run is being stopped.
    feed.start(
        start,
        [feed, shared.screens["sampling"], shared.prompt, shared.loaded],
        [feed],
        concurrency_limit=None,
        trigger_mode="multiple",
        **quiet,
    )
    feed.stop(stop, None, None, concurrency_limit=None, **quiet)
    shared.leaving.append(races.leave)
    feed.again(lacking, [feed], [feed], concurrency_limit=4, trigger_mode="multiple", **quiet)


VIEW = View(
    "race",
    build,
    draw,
    parts=("strategies", "race"),
    fixed=strategies.fixed,
    wire=wire,
)
