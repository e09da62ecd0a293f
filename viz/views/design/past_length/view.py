"""What happens beyond the context a model was trained on: loss by position, and what people do about it."""

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import gradio as gr

from model.design.past_length import (
    FAMILIES,
    INSIDE,
    LEAST_WINDOWS,
    Part,
    Past,
    Scheme,
    bundled_text,
    by_position,
    cost,
    edges,
    parts_of,
    past_trained,
    schemes_of,
    windows_of,
    windows_within,
)
from model.errors import InputError
from model.gpt.config import ModelConfig
from model.progress import Progress
from viz.page import background
from viz.page.old_view import View
from viz.page.parts import choice, part, plot_words
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.server.limits import Allowed
from viz.views.activations.norm.figures import told
from viz.views.design.past_length.figures import Line, loss_figure, signed
from viz.words import some

PARTS = ("longer_form", "longer_facts", "longer_job", "longer_figure", "longer_table")
WORK = 1e12  # floating point operations of a measurement, about
SPEED = 5e10  # a second, of two cores
MOST = 2048  # tokens of a window
SHORTER = (256, 512, 1024)  # offered besides the trained length and its multiples
AUTO, FACTORS = "auto", ("2", "4", "8", "16")
TEXTS = ("bundled", "own")
SHOWN = ("loss", "difference")


@dataclass(frozen=True)
class Asked:
    """What is to be measured."""

    length: int
    family: str
    factor: float
    own: str | None  # a text that somebody pasted, None for the bundled one


def build() -> dict[str, gr.HTML]:
    """What to try, the button, and what came of it."""
    made = {
        "longer_form": part("longer_form", None, kind="controls", value={}),
        "longer_job": part("longer_job", None, kind="job", events=("start", "cancel")),
    }
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["longer_figure"] = part("longer_figure", None, kind="figure")
        with gr.Column(min_width=320):
            made["longer_table"] = part("longer_table", None, kind="labtable")
            made["longer_facts"] = part("longer_facts", None, kind="normfacts")
    return made


# --- what is asked ----------------------------------------------------------------------------------


def least_work(scene: Scene, length: int) -> float:
    """Operations of the smallest measurement at a length."""
    ways = len(schemes_of(scene.model.config, length, INSIDE))
    return LEAST_WINDOWS * ways * cost(scene.model.model, length)


def lengths_of(scene: Scene) -> tuple[int, ...]:
    """Lengths that are offered, the default first: twice the trained one where that takes no more than a minute."""
    n, allowed = scene.model.config.n_ctx, scene.playground.options.allowed
    found = sorted({*(each for each in SHORTER if each < n and n > SHORTER[1]), n, 2 * n, 4 * n})
    found = [each for each in found if each <= MOST] or [SHORTER[0]]
    quick = [each for each in found if least_work(scene, each) <= 2 * WORK]
    if math.isfinite(allowed.job_seconds):
        found = quick or found[:1]
    fitting = [each for each in quick if each <= 2 * n]
    default = fitting[-1] if fitting else found[0]
    return (default, *(each for each in found if each != default))


def asked_of(scene: Scene, values: Values) -> Asked:
    """What a page asked for; whatever does not fit is its default."""
    form, config = values.get("longer_form"), scene.model.config
    length = int(choice(form, "length", tuple(map(str, lengths_of(scene)))))
    chosen = choice(form, "factor", (AUTO, *FACTORS))
    factor = automatic(config, length) if chosen == AUTO else float(chosen)
    own = form.get("own") if isinstance(form, Mapping) and choice(form, "text", TEXTS) == "own" else None
    family = choice(form, "family", FAMILIES) if config.positions == "rope" else FAMILIES[0]
    return Asked(length, family, factor, own if own is None or isinstance(own, str) else "")


def automatic(config: ModelConfig, length: int) -> float:
    """The factor that brings the length into the trained one; INSIDE where it fits already."""
    return length / config.n_ctx if length > config.n_ctx else INSIDE


def form(scene: Scene) -> dict:
    """Length, schemes and text."""
    words, config = scene.words, scene.model.config
    lengths = lengths_of(scene)
    named = [
        [str(each), words["longer.length_of"].format(n=f"{each:,}", ratio=told(each / config.n_ctx))]
        for each in sorted(lengths)
    ]
    controls = [
        {
            "name": "length",
            "kind": "choice",
            "label": words["longer.length"],
            "value": str(lengths[0]),
            "options": named,
        }
    ]
    if config.positions == "rope":
        families = [[key, words[f"longer.family_{key}"], words[f"longer.family_{key}_help"]] for key in FAMILIES]
        controls.append(
            {
                "name": "family",
                "kind": "choice",
                "label": words["longer.family"],
                "value": FAMILIES[0],
                "options": families,
            }
        )
    if config.positions != "none":
        factors = [
            [AUTO, words["longer.factor_auto"], words["longer.factor_help"].format(n=told(INSIDE))],
            *([each, each] for each in FACTORS),
        ]
        when = {"when": {"family": [FAMILIES[0]]}} if config.positions == "rope" else {}
        controls.append(
            {"name": "factor", "kind": "choice", "label": words["longer.factor"], "value": AUTO, "options": factors}
            | when
        )
    texts = [[key, words[f"longer.text_{key}"], words[f"longer.text_{key}_help"]] for key in TEXTS]
    shown = [[key, words[f"longer.show_{key}"], words[f"longer.show_{key}_help"]] for key in SHOWN]
    controls += [
        {"name": "show", "kind": "choice", "label": words["longer.show"], "value": SHOWN[0], "options": shown},
        {"name": "text", "kind": "choice", "label": words["longer.text"], "value": TEXTS[0], "options": texts},
        {
            "name": "own",
            "kind": "text",
            "lines": 5,
            "label": words["longer.own"],
            "value": "",
            "placeholder": words["longer.own_placeholder"],
            "when": {"text": ["own"]},
        },
    ]
    return {"controls": controls}


def key_of(scene: Scene, asked: Asked) -> tuple:
    """What decides the measurement: the plain model, what is tried and the text."""
    text = "" if asked.own is None else hashlib.sha256(asked.own.encode("utf-8", "replace")).hexdigest()
    return ("longer", scene.model.id, asked.length, asked.family, asked.factor, text)


# --- the job ----------------------------------------------------------------------------------------


def ways_of(scene: Scene, asked: Asked) -> tuple[tuple[Scheme, ...], int]:
    """The schemes, and how many windows are read with each."""
    ways = schemes_of(scene.model.config, asked.length, asked.factor, asked.family)
    return ways, windows_within(scene.model.model, asked.length, len(ways), WORK)


def text_of(own: str | None, allowed: Allowed) -> str:
    """The text to read; raises InputError for one that is too long or missing."""
    if own is None:
        return bundled_text()
    if len(own) > allowed.characters:
        raise InputError(
            "The text is too long.", f"{len(own)} characters", f"Give at most {allowed.characters} characters."
        )
    if not own.strip():
        raise InputError("There is no text yet.", "", "Paste a text of some thousand words.")
    return own


def measurement(scene: Scene, asked: Asked) -> background.Job:
    """The job of a question."""
    ways, most = ways_of(scene, asked)
    lm, allowed = scene.model, scene.playground.options.allowed

    def work(progress: Progress) -> Past:
        first = lm.tokenizer.bos_id if lm.tokenizer.add_bos else None
        ids = lm.tokenizer.encode_ids(text_of(asked.own, allowed))
        windows = windows_of(ids, asked.length, most, first)
        return past_trained(lm.model, windows, ways, first, progress)

    return background.Job(key_of(scene, asked), work)


def plan(scene: Scene, values: Values) -> background.Job:
    """What the button starts."""
    return measurement(scene, asked_of(scene, values))


def _button(scene: Scene, asked: Asked, found: background.Result | None) -> dict:
    words, (ways, windows) = scene.words, ways_of(scene, asked)
    seconds = windows * len(ways) * cost(scene.model.model, asked.length) / SPEED
    hint = words["longer.takes"].format(
        windows=windows, length=f"{asked.length:,}", ways=len(ways), seconds=max(1, round(seconds))
    )
    if scene.picked.edits:
        hint = f"{hint} {words['longer.no_edits']}"
    return background.button(words["longer.start"], words, found, hint)


# --- what is shown ----------------------------------------------------------------------------------


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """What will be tried at once; the losses once they were measured."""
    asked = asked_of(scene, values)
    key = key_of(scene, asked)
    found = scene.playground.results.peek(key)
    state = (key, found is not None, bool(scene.picked.edits))
    shown = choice(values.get("longer_form"), "show", SHOWN)

    def measured(name: str, payload: Callable[[Past], dict], state: tuple) -> Picture:
        empty = {"text": scene.words[f"longer.empty_{name}"], "hint": scene.words["longer.empty_hint"]}
        return Picture((state, name), lambda: payload(found.value) if found else {"empty": empty})

    return {
        "longer_form": Picture((scene.model.id, scene.model.config), lambda: form(scene)),
        "longer_job": Picture(state, lambda: _button(scene, asked, found)),
        "longer_figure": measured("figure", lambda past: figure_payload(scene, asked, past, shown), (state, shown)),
        "longer_table": measured("table", lambda past: table_payload(scene, asked, past), state),
        "longer_facts": Picture((key, "facts"), lambda: facts_payload(scene, asked)),
    }


def scheme_name(scene: Scene, scheme: Scheme) -> str:
    """A scheme in a few words."""
    positions = scene.model.config.positions
    if scheme.key == "as_is":
        return scene.words[f"longer.as_is_{positions}"]
    if scheme.key in ("interpolate", "zero"):
        kind = "rope" if positions == "rope" else "table"
        return scene.words[f"longer.{scheme.key}_{kind}"].format(s=told(scheme.factor))
    return scene.words[f"longer.{scheme.key}"].format(s=told(scheme.factor))


def scheme_help(scene: Scene, scheme: Scheme) -> str:
    """What it does, in a sentence."""
    config = scene.model.config
    given = {"s": told(scheme.factor), "n": f"{config.n_ctx:,}", "last": f"{config.n_ctx - 1:,}"}
    if scheme.key in ("as_is", "interpolate", "zero"):
        return scene.words[f"longer.help_{scheme.key}_{config.positions}"].format(**given)
    return scene.words[f"longer.help_{scheme.key}"].format(**given)


def facts_payload(scene: Scene, asked: Asked) -> dict:
    """What this model's positions are, and each scheme that is tried."""
    words, config = scene.words, scene.model.config
    about = words[f"longer.model_{config.positions}"].format(n=f"{config.n_ctx:,}")
    if asked.length <= config.n_ctx:
        about = f"{about} {words['longer.inside'].format(length=f'{asked.length:,}', n=f'{config.n_ctx:,}')}"
    ways, _ = ways_of(scene, asked)
    items = [[scheme_name(scene, each), scheme_help(scene, each)] for each in ways]
    if config.positions == "rope" and asked.family == FAMILIES[0] and config.rope_scaling:
        items.append([words["longer.scaled"], words["longer.scaled_help"]])
    return {
        "title": words["longer.facts_title"],
        "about": about,
        "items": items,
        "run": f"{scene.model.id} {asked} {scene.language}",
    }


def _source(scene: Scene, asked: Asked, past: Past) -> str:
    """Whose numbers these are, on which text."""
    words, windows = scene.words, past.loss.shape[1]
    text = words["longer.source_own"] if asked.own is not None else words["longer.source_bundled"]
    return words["longer.source"].format(
        model=scene.model.label, dtype=scene.model.dtype, windows=windows, length=f"{past.length:,}", text=text
    )


def _lines(scene: Scene, asked: Asked, last: list[str]) -> str:
    """That measure the same."""
    _, most = ways_of(scene, asked)
    text = "bundled_text()" if asked.own is None else 'open("text.txt", encoding="utf-8").read()'
    lines = [
        f"ids = lm.tokenizer.encode_ids({text})",
        "first = lm.tokenizer.bos_id if lm.tokenizer.add_bos else None",
        f"windows = windows_of(ids, {asked.length}, {most}, first)",
        f"schemes = schemes_of(lm.config, {asked.length}, {asked.factor!r}, {asked.family!r})",
        "past = past_trained(lm.model, windows, schemes, first)",
        *last,
    ]
    names = "bundled_text, by_position, edges, parts_of, past_trained, schemes_of, windows_of"
    return python_lines(scene, lines, [f"from model.design.past_length import {names}"])


def figure_payload(scene: Scene, asked: Asked, past: Past, shown: str) -> dict:
    """Loss by position, or how far it is from the reference."""
    words, apart = scene.words, shown == "difference"
    ends = edges(past.length, past.trained)
    loss, error = by_position(past, ends, difference=apart)
    lines = [Line(scheme_name(scene, way), loss[n], error[n]) for n, way in enumerate(past.schemes)]
    said = some(words, "longer", "position", "loss", "positions", "error", "trained")
    said["trained"] = said["trained"].format(n=f"{past.trained:,}")
    said["loss"] = words["longer.apart"] if apart else said["loss"]
    windows = past.loss.shape[1]
    note = words["longer.note"].format(windows=windows, width=ends[1] - ends[0])
    return {
        "figure": loss_figure(lines, ends, past.trained, said),
        "title": words["longer.title_apart" if apart else "longer.title"],
        "note": f"{note} {words['longer.note_band' if windows > 1 else 'longer.note_one']}",
        "source": _source(scene, asked, past),
        "file": f"{shown}-by-position-{past.length}",
        "run": f"{scene.model.id} {asked} {shown} {scene.language} figure",
        "columns": [words["longer.way"], words["longer.positions"], said["position"], said["loss"]],
        "python": _lines(scene, asked, [f"by_position(past, edges(past.length, past.trained), difference={apart})"]),
        "words": plot_words(words),
    }


def _delta(each: Part | None, reference: bool, words: Mapping[str, str]) -> str:
    if each is None:
        return "–"
    if reference:
        return words["longer.reference"]
    return signed(each.delta) if math.isnan(each.error) else f"{signed(each.delta)} ± {each.error:.3f}"


def table_payload(scene: Scene, asked: Asked, past: Past) -> dict:
    """Mean loss within and beyond the trained length, and how far from the reference."""
    words, rows, numbers = scene.words, [], []
    beyond = past.length > past.trained
    for n, way in enumerate(past.schemes):
        parts = parts_of(past, n)[: 1 + beyond]
        row = [{"text": scheme_name(scene, way), "help": scheme_help(scene, way)}]
        for each in parts:
            row += [f"{each.loss:.3f}", _delta(each, n == 0, words)]
        rows.append(row)
        numbers.append([scheme_name(scene, way), *(number for each in parts for number in (each.loss, each.delta))])
    inside, outside = parts_of(past, 0)
    columns = [words["longer.way"]]
    columns += [words["longer.inside_loss"].format(n=f"{min(past.trained, past.length):,}"), words["longer.delta"]]
    if beyond:
        columns += [words["longer.beyond_loss"].format(n=f"{past.trained:,}"), words["longer.delta"]]
    about = words["longer.table_about"].format(inside=f"{inside.tokens:,}")
    if outside is not None:
        about = words["longer.table_about_both"].format(inside=f"{inside.tokens:,}", beyond=f"{outside.tokens:,}")
    return {
        "title": words["longer.table_title"],
        "about": about,
        "columns": columns,
        "rows": rows,
        "lines": [[cell if isinstance(cell, str) or math.isfinite(cell) else None for cell in row] for row in numbers],
        "source": _source(scene, asked, past),
        "file": f"loss-past-{past.trained}",
        "run": f"{scene.model.id} {asked} {scene.language} table",
        "python": _lines(scene, asked, ["[parts_of(past, n) for n in range(len(schemes))]"]),
    }


VIEW = View("longer", build, draw, parts=PARTS, asks=("longer_form",), jobs={"longer_job": plan})
