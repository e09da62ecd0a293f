"""When the answer appears: the lens on every block at every position, and tokens followed at one position."""

from collections.abc import Mapping, Sequence

import gradio as gr

from model.errors import InputError, PlaygroundError
from model.gpt.logit_lens import Reading, lens_gap, read_layers, read_position, some_positions
from model.predictions.tuned_lens import TunedLens, load_lens
from model.progress import Progress
from viz.charts.distribution import likeliest
from viz.labels import visible
from viz.page import background
from viz.page.old_view import View
from viz.page.parts import choice, part, plot_words
from viz.page.picking import position_of, source
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.page.typed import MOST_TYPED, quoted, typed_token
from viz.views.predictions.lens.figures import (
    COLOURS,
    CURVES,
    LensWords,
    colour_scale,
    curve_figure,
    map_figure,
    page_of,
    settled,
    table_payload,
)
from viz.words import some

LENSES = ("plain", "tuned")
FIELDS = ("token1", "token2", "token3")
BUDGET = 30_000_000_000  # multiply-adds of the output head that a drawing may take: about half a second
_FOLLOWED = 5  # of the final prediction's tokens
_TOP = 5  # tokens a cell tells of
_MOST_CELLS = 1200  # of the table, beside its most columns: each is a button
_MOST_COLUMNS = 64
_TABLE_WORDS = (
    "layers",
    "next",
    "no_next",
    "cell",
    "readout",
    "entropy_short",
    "kl_short",
    "rank_short",
    "embedding",
    "output",
    "earlier",
    "later",
    "low_probability",
    "low_entropy",
    "low_kl",
    "low_rank",
    "column_layer",
    "column_position",
    "column_token",
    "column_next",
    "column_likeliest",
    "column_p",
    "column_entropy",
    "column_kl",
    "column_rank",
    "mark",
)


def build() -> dict[str, gr.HTML]:
    """Settings, the table, then the curves beside the whole prompt."""
    made = {
        "lens_form": part("lens_form", None, kind="controls", value={}),
        "lens_table": part("lens_table", None, kind="lenstable"),
    }
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["lens_curve"] = part("lens_curve", None, kind="figure")
            made["lens_check"] = part("lens_check", None, kind="about")
        with gr.Column(min_width=320):
            made["lens_job"] = part("lens_job", None, kind="job", events=("start", "cancel"))
            made["lens_map"] = part("lens_map", None, kind="lensmap")
    return made


def fixed(words: Mapping[str, str]) -> dict[str, dict]:
    """The settings."""

    def options(group: str, names: Sequence[str]) -> list[list[str]]:
        return [[name, words[f"lens.{group}_{name}"]] for name in names]

    typed = {
        "kind": "text",
        "value": "",
        "help": words["effects.token_help"],
        "when": {"curve": ["probability", "rank"]},
    }
    lenses = [[name, words[f"lens.lens_{name}"], words[f"lens.lens_help_{name}"]] for name in LENSES]
    return {
        "lens_form": {
            "controls": [
                {"name": "lens", "kind": "choice", "label": words["lens.lens"], "value": "plain", "options": lenses},
                {
                    "name": "colour",
                    "kind": "choice",
                    "label": words["lens.colour"],
                    "value": COLOURS[0],
                    "options": options("by", COLOURS),
                },
                {
                    "name": "curve",
                    "kind": "choice",
                    "label": words["lens.curve"],
                    "value": CURVES[0],
                    "options": options("curve", CURVES),
                },
                *(
                    {
                        "name": name,
                        "label": words["lens.token"].format(n=n),
                        "placeholder": words["lens.token_empty"],
                        **typed,
                    }
                    for n, name in enumerate(FIELDS, 1)
                ),
            ]
        }
    }


# --- what is read -----------------------------------------------------------------------------------


def columns_of(scene: Scene) -> tuple[bool, int]:
    """Whether the whole prompt is read at once, and how many positions a page of the table has."""
    config, T = scene.model.config, len(scene.trace.tokens)
    each = (config.n_layer + 1) * config.d_model * config.vocab_size
    room = min(_MOST_COLUMNS, max(4, _MOST_CELLS // (config.n_layer + 1)))
    if T * each <= BUDGET:
        return True, room
    return False, max(1, min(room, BUDGET // 2 // each))  # half, for the curves take their time as well


def translator(scene: Scene, kind: str) -> TunedLens | None:
    """The tuned lens where it is asked for; raises InputError, in the reader's language, where the model has none."""
    if kind == "plain":
        return None
    lens = load_lens(scene.model.id, scene.model.config)
    if lens is None:
        raise InputError(scene.words["lens.no_tuned"], "", scene.words["lens.no_tuned_hint"])
    return lens


def whole_key(scene: Scene, kind: str) -> tuple:
    """All that decides what the lens reads of the whole prompt."""
    return ("lens", scene.trace.key, kind)


def whole(scene: Scene, kind: str) -> Reading | None:
    """What the lens reads of the whole prompt, where that is quick or was done already."""
    at_once, _ = columns_of(scene)
    if at_once:
        return _kept(scene, kind, range(len(scene.trace.tokens)), whole_key(scene, kind))
    found = scene.playground.results.peek(whole_key(scene, kind))
    return found.value if found else None


def _kept(scene: Scene, kind: str, positions: range, key: tuple) -> Reading:
    def make() -> Reading:
        with scene.playground.computing:
            return read_layers(scene.trace, positions, top=_TOP, lens=translator(scene, kind))

    return background.kept(scene.playground, key, make)


def page(scene: Scene, kind: str, start: int, end: int) -> Reading:
    """What the lens reads of the positions start .. end - 1."""
    every = whole(scene, kind)
    if every is not None:
        return some_positions(every, start, end)
    return _kept(scene, kind, range(start, end), (*whole_key(scene, kind), start, end))


def shown_page(scene: Scene, kind: str) -> tuple[int, int]:
    """The positions that the table shows: the page with the one looked at."""
    at_once, columns = columns_of(scene)
    if not at_once and scene.playground.results.peek(whole_key(scene, kind)):
        columns = max(4, min(_MOST_COLUMNS, _MOST_CELLS // (scene.model.config.n_layer + 1)))
    return page_of(len(scene.trace.tokens), position_of(scene), columns)


# --- what is drawn ----------------------------------------------------------------------------------


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """The table, the curves of one position with their check, and the whole prompt."""
    form = values.get("lens_form")
    kind, colour, curve = choice(form, "lens", LENSES), choice(form, "colour", COLOURS), choice(form, "curve", CURVES)
    at = position_of(scene)
    check = Picture((scene.run, at), lambda: {"text": _check(scene, at)})
    try:
        translator(scene, kind)
    except PlaygroundError as error:
        return {"lens_check": check} | _without(scene, error)
    start, end = shown_page(scene, kind)
    typed = tuple(str(form.get(name, ""))[:MOST_TYPED] if isinstance(form, Mapping) else "" for name in FIELDS)
    at_once, _ = columns_of(scene)
    found = scene.playground.results.peek(whole_key(scene, kind))
    state = (scene.run, kind, at_once or found is not None)
    return {
        "lens_table": Picture((scene.run, kind, colour, start, end), lambda: table(scene, kind, colour, (start, end))),
        "lens_curve": Picture((scene.run, kind, curve, at, typed), lambda: curves(scene, kind, curve, form)),
        "lens_check": check,
        "lens_job": Picture(state, lambda: _job(scene, at_once, found)),
        "lens_map": Picture((*state, colour), lambda: whole_map(scene, kind, colour)),
    }


def _without(scene: Scene, error: PlaygroundError) -> dict[str, Picture]:
    """Where there is no such lens: why, and nothing else."""
    key, nothing = (error.what, error.hint), {"empty": {"text": error.what, "hint": error.hint}}
    blank = {"empty": {"text": scene.words["lens.nothing"], "hint": ""}}
    idle = background.unready(scene.words, scene.words["lens.start"], scene.words["lens.nothing"])
    return {
        "lens_table": Picture(key, lambda: nothing),
        "lens_curve": Picture(key, lambda: blank),
        "lens_map": Picture(key, lambda: blank),
        "lens_job": Picture(key, lambda: idle),
    }


def table(scene: Scene, kind: str, colour: str, shown: tuple[int, int]) -> dict:
    """The table of blocks passed x positions."""
    words, (start, end), T = scene.words, shown, len(scene.trace.tokens)
    reading, pieces = page(scene, kind, start, end), scene.trace.tokens.pieces
    note = words["lens.shows_all" if end - start == T else "lens.shows_some"].format(first=start, last=end - 1, n=T)
    columns = [
        {"text": visible(pieces[at]), "next": visible(pieces[at + 1]) if at + 1 < T else ""} for at in range(start, end)
    ]
    return (
        table_payload(reading, scene.model.tokenizer.piece)
        | colour_scale(colour, reading, _vocab(scene))
        | {
            "columns": columns,
            "last": T - 1,
            "title": words["lens.table_title"],
            "note": " ".join([note, words["lens.table_about"], *_tuned_notes(scene, kind)]),
            "source": source(scene),
            "file": f"lens-{kind}-{start}-{end - 1}",
            "run": f"{scene.run} {kind} {colour} {start}",
            "legend": words[f"lens.value_{colour}"],
            "python": table_lines(scene, kind, start, end),
            "words": some(words, "lens", *_TABLE_WORDS) | plot_words(words),
        }
    )


def _vocab(scene: Scene) -> int:
    return scene.model.config.vocab_size


def _tuned_notes(scene: Scene, kind: str) -> list[str]:
    """What is said of a tuned lens, and of one on an edited run."""
    lens, words = translator(scene, kind), scene.words
    if lens is None:
        return []
    notes = [words["lens.tuned_note"]]
    measured = lens.about.get("kl", {})  # of each layer, on text that it was not fitted to
    if {"plain", "tuned"} <= set(measured):
        mean = {name: f"{sum(kl) / len(kl):.2f}" for name, kl in measured.items()}
        notes.append(words["lens.tuned_measured"].format(plain=mean["plain"], tuned=mean["tuned"]))
    return [*notes, *([words["lens.tuned_edited"]] if scene.picked.edits else [])]


def followed(scene: Scene, form: object) -> tuple[list[int], int]:
    """The tokens of the curves: the final prediction's, then those that were typed, of which how many; InputError."""
    at = position_of(scene)
    with scene.playground.computing:
        logits = scene.trace.logits_at(at)
    final = likeliest(logits, _FOLLOWED)
    typed = [token for name in FIELDS if (token := typed_token(scene, form, name)) is not None]
    more = [token for token in dict.fromkeys(typed) if token not in final]
    return [*final, *more], len(more)


def curves(scene: Scene, kind: str, curve: str, form: object) -> dict:
    """Single tokens, or the whole prediction's entropy or KL, at the position looked at."""
    words, at = scene.words, position_of(scene)
    tokens, typed = followed(scene, form) if curve in ("probability", "rank") else ([], 0)

    def make() -> Reading:
        with scene.playground.computing:
            lens = translator(scene, kind)
            return read_position(scene.trace, at, top=1, candidates=tokens or None, lens=lens)

    key = ("lens at", scene.trace.key, kind, at, tuple(tokens))
    reading = background.kept(scene.playground, key, make)
    said = _words(scene, "lens.value_ranks" if curve == "rank" else f"lens.value_{curve}")
    names = [f"“{quoted(scene, token)}”" for token in tokens]
    figure = curve_figure(reading, curve, names, typed, said, lambda place: _place(scene, place))
    token = quoted(scene, int(scene.trace.tokens.ids[at]))
    answer = quoted(scene, int(reading.ids[-1, 0, 0]))
    notes = [words["lens.settled"].format(token=answer, place=_place(scene, settled(reading)))]
    notes += [words["lens.curve_points" if kind == "plain" else "lens.curve_tuned"]]
    return {
        "figure": figure.to_json(),
        "title": words[f"lens.curve_title_{curve}"].format(token=token, position=at),
        "note": " ".join(notes),
        "source": source(scene),
        "file": f"lens-{kind}-{curve}-{at}",
        "run": f"{scene.run} {kind} {curve} {at}",
        "columns": [words["lens.column_followed"], said.place, said.value],
        "python": curve_lines(scene, kind, curve, tokens),
        "words": plot_words(words),
    }


def _place(scene: Scene, place: float) -> str:
    """Where a point of the stream lies, in words."""
    words, L = scene.words, scene.model.config.n_layer
    if place == 0:
        return words["lens.place_embedding"]
    if place % 1:
        return words["lens.place_middle"].format(layer=int(place))
    return words["lens.place_after"].format(layer=int(place) - 1, n=int(place), total=L)


def _words(scene: Scene, value: str) -> LensWords:
    words = scene.words
    return LensWords(words["lens.layers"], words["lens.position"], words[value], words["lens.likeliest"])


def _check(scene: Scene, at: int) -> str:
    """That the lens after the last block is the model's own output head."""
    with scene.playground.computing:
        gap = lens_gap(scene.trace, at)
    return scene.words["lens.check"].format(position=at, gap=f"{gap:.2g}", blocks=scene.model.config.n_layer)


# --- the whole prompt -------------------------------------------------------------------------------


def _job(scene: Scene, at_once: bool, found: background.Result | None) -> dict:
    words, T = scene.words, len(scene.trace.tokens)
    if at_once:
        return background.button(words["lens.start"], words, None) | {"state": "done", "text": words["lens.at_once"]}
    hint = words["lens.start_hint"].format(n=T, rows=T * (scene.model.config.n_layer + 1))
    return background.button(words["lens.start"], words, found, hint)


def plan_whole(scene: Scene, values: Values) -> background.Job:
    """Reading the whole prompt; raises InputError for a lens that is not there."""
    kind = choice(values.get("lens_form"), "lens", LENSES)
    lens, trace = translator(scene, kind), scene.trace

    def work(progress: Progress) -> Reading:
        return read_layers(trace, range(len(trace.tokens)), top=_TOP, lens=lens, progress=progress)

    return background.Job(whole_key(scene, kind), work)


def whole_map(scene: Scene, kind: str, colour: str) -> dict:
    """The heat map of all positions, or that it is not there yet."""
    words, reading = scene.words, whole(scene, kind)
    if reading is None:
        return {"empty": {"text": words["lens.map_empty"], "hint": words["lens.map_empty_hint"]}}
    said, pieces = _words(scene, f"lens.value_{colour}"), scene.trace.tokens.pieces
    T = len(pieces)
    return {
        "figure": map_figure(reading, colour, scene.model.tokenizer.piece, pieces, said, _vocab(scene)).to_json(),
        "title": words[f"lens.map_title_{colour}"],
        "note": " ".join([words["lens.shows_all"].format(first=0, last=T - 1, n=T), words["lens.map_about"]]),
        "source": source(scene),
        "file": f"lens-{kind}-{colour}",
        "run": f"{scene.run} {kind} {colour} map",
        "last": T - 1,
        "columns": [said.place, said.position, said.value],
        "python": map_lines(scene, kind, colour),
        "words": plot_words(words),
    }


# --- Python lines -----------------------------------------------------------------------------------


def _lines(scene: Scene, kind: str, call: str, then: Sequence[str]) -> str:
    function = call.split("(")[0]
    imports, lines = [f"from model.gpt.logit_lens import {function}"], []
    if kind == "tuned":
        imports.append("from model.predictions.tuned_lens import load_lens")
        lines.append("lens = load_lens(lm.id, lm.config)")
        call = f"{call[:-1]}, lens=lens)"
    return python_lines(scene, [*lines, f"reading = {call}", *then], imports)


def table_lines(scene: Scene, kind: str, start: int, end: int) -> str:
    """Of the table."""
    then = [
        "reading.ids, reading.probabilities  # [layer, position, rank]",
        "reading.entropy, reading.kl  # [layer, position], nats",
        "reading.ranks  # [layer, position, 1], of the final answer",
    ]
    return _lines(scene, kind, f"read_layers(run, range({start}, {end}))", then)


def curve_lines(scene: Scene, kind: str, curve: str, tokens: Sequence[int]) -> str:
    """Of the curves."""
    followed = {"probability": "shares[:, 0]  # [point, token]", "rank": "ranks[:, 0]  # [point, token]"}
    then = ["reading.places  # blocks passed", f"reading.{followed.get(curve, f'{curve}[:, 0]  # [point], nats')}"]
    given = f", candidates={list(tokens)}" if tokens else ""
    return _lines(scene, kind, f"read_position(run, {position_of(scene)}{given})", then)


def map_lines(scene: Scene, kind: str, colour: str) -> str:
    """Of the heat map."""
    shown = {"probability": "probabilities[..., 0]", "rank": "ranks[..., 0]"}.get(colour, colour)
    then = [f"reading.{shown}  # [layer, position]"]
    return _lines(scene, kind, "read_layers(run, range(len(run.tokens)))", then)


VIEW = View(
    "lens",
    build,
    draw,
    parts=("lens_form", "lens_table", "lens_curve", "lens_check", "lens_job", "lens_map"),
    fixed=fixed,
    asks=("lens_form",),
    jobs={"lens_job": plan_whole},
)
