"""Many samples: what strategies write, measured over many texts."""

import functools
import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import gradio as gr

from model.errors import InputError
from model.generation.samples import Many, Sample, batches_of, certain, take_samples
from model.generation.strategies import Strategy
from model.generation.text_statistics import distinct
from model.progress import Progress
from viz.page import background
from viz.page.old_view import View
from viz.page.parts import choice, part, plot_words
from viz.page.python_lines import loading
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.server.limits import PRIVATE, Allowed, check_samples, check_writing
from viz.theme import HUES
from viz.views.sampling import strategies
from viz.views.sampling.many_samples.figures import (
    MEASURES,
    Named,
    Spread,
    entropy_figure,
    measure_figure,
    quartile_band,
    spread,
)
from viz.words import section

COUNTS = ("16", "8", "32")  # texts of each strategy; the first one at the start
OWN = ("many_form", "many_job", "many_table", "many_plot", "many_entropy", "many_texts")


@dataclass(frozen=True)
class Wanted:
    """What a page asks for."""

    strategies: tuple[Strategy, ...]
    many: Many
    chat: bool
    eight: bool = False  # 8-bit weights


@dataclass(frozen=True, eq=False)
class Taken:
    """The texts of each strategy, and about what they take in memory."""

    samples: list[list[Sample]]

    @property
    def nbytes(self) -> int:
        """Bytes of all texts."""
        return sum(sample.nbytes for each in self.samples for sample in each)


def build() -> dict[str, gr.HTML]:
    """How many on top; the table, one measure and entropy side by side, and the texts below."""
    made = {}
    with gr.Row(elem_classes="pg-many-ask"):
        made["many_form"] = part("many_form", None, kind="controls", value={})
        made["many_job"] = part("many_job", None, kind="job", events=("start", "cancel"))
    made["many_table"] = part("many_table", None, kind="manytable", value={})
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["many_plot"] = part("many_plot", None, kind="manyplot")
        with gr.Column(min_width=320):
            made["many_entropy"] = part("many_entropy", None, kind="figure")
    made["many_texts"] = part("many_texts", None, kind="manytexts")
    return made


def fixed(words: dict[str, str]) -> dict[str, dict]:
    """The form before the server's limits are known."""
    return {"many_form": form_of(words, PRIVATE)}


def form_of(words: Mapping[str, str], allowed: Allowed) -> dict:
    """The form, without what this server does not allow."""
    options = [[count, count] for count in sorted(COUNTS, key=int) if int(count) <= allowed.samples]
    return {
        "controls": [
            {"name": "count", "kind": "choice", "label": words["many.count"], "value": COUNTS[0], "options": options},
        ]
    }


def wanted_of(scene: Scene, values: Values) -> Wanted:
    """What the strategies' cards and the form ask for; raises InputError."""
    sent = values.get("strategies")
    chosen, told = strategies.chosen(scene.model, sent), strategies.settings(sent)
    count, allowed = int(choice(values.get("many_form"), "count", COUNTS)), scene.playground.options.allowed
    check_writing(allowed, len(chosen), told.tokens)
    check_samples(allowed, count)
    chat = told.chat and strategies.has_chat(scene.model)
    return Wanted(tuple(chosen), Many(count, told.tokens, told.seed, told.stop), chat, told.eight)


def key_of(scene: Scene, wanted: Wanted) -> tuple:
    """What decides the texts. Names do not."""
    plain = tuple((each.steps, each.method, each.options) for each in wanted.strategies)
    return ("many", scene.model.id, scene.unedited.key.ids, plain, wanted.many, wanted.chat, wanted.eight)


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """The button, and what was found once it is there."""
    allowed = scene.playground.options.allowed
    shown = strategies.pictures(scene)
    if allowed.samples < max(map(int, COUNTS)):
        shown["many_form"] = Picture(("many_form", allowed.samples), lambda: form_of(scene.words, allowed))
    try:
        wanted = wanted_of(scene, values)
    except InputError as error:
        return shown | _refused(scene, error)
    found = scene.playground.results.peek(key_of(scene, wanted))
    names = strategies.labels(scene.words, wanted.strategies)
    measure = choice(values.get("many_table"), "measure", tuple(MEASURES))
    state = (scene.run, wanted, names, found is not None)

    def picture(key: object, make: Callable[[Wanted, Taken, list[str]], dict], name: str) -> Picture:
        return Picture(key, lambda: make(wanted, found.value, names) if found else _empty(scene, name))

    return shown | {
        "many_job": Picture(state, lambda: _button(scene, wanted, found)),
        "many_table": picture(state, functools.partial(table_payload, scene), "table"),
        "many_plot": picture((state, measure), functools.partial(plot_payload, scene, measure), "plot"),
        "many_entropy": picture(state, functools.partial(entropy_payload, scene), "entropy"),
        "many_texts": picture(state, functools.partial(texts_payload, scene), "texts"),
    }


def _refused(scene: Scene, error: InputError) -> dict[str, Picture]:
    """What is wrong with the question, where the button stands; the pictures wait."""

    def refuse() -> dict:
        raise error

    key = (scene.run, str(error))
    waiting = {name: Picture(key, functools.partial(_empty, scene, name[5:])) for name in OWN[2:]}
    return waiting | {"many_job": Picture(key, refuse)}


def _empty(scene: Scene, name: str) -> dict:
    hint = {"hint": scene.words["many.empty_hint"]} if name == "table" else {"hint": ""}
    return {"empty": {"text": scene.words[f"many.empty_{name}"]} | hint}


# --- the work ---------------------------------------------------------------------------------------


def _button(scene: Scene, wanted: Wanted, found: background.Result | None) -> dict:
    words = scene.words
    fixed_ones = sum(certain(each) for each in wanted.strategies)
    told = {
        "n": (len(wanted.strategies) - fixed_ones) * wanted.many.count + fixed_ones,
        "tokens": wanted.many.max_new_tokens,
        "seconds": max(1, round(seconds_of(scene, wanted))),
    }
    hint = words["many.takes"].format(**told)
    hint += f" {words['many.once']}" if fixed_ones else ""
    hint += f" {words['many.unedited']}" if scene.picked.edits else ""
    return background.button(words["many.start"], words, found, hint)


def seconds_of(scene: Scene, wanted: Wanted) -> float:
    """About how long it takes: from the last time on this model, else from its size."""
    known = scene.playground.results.peek(_speed_key(scene, wanted))
    step = known.value if known else 0.006 + scene.model.nbytes / 6e9 + scene.model.config.vocab_size * 2e-7
    batches = len(batches_of(wanted.strategies, wanted.many.count))
    return batches * (scene.unedited.seconds + wanted.many.max_new_tokens * step)


def _speed_key(scene: Scene, wanted: Wanted) -> tuple:
    return ("many speed", scene.model.id, wanted.eight)


def plan(scene: Scene, values: Values) -> background.Job:
    """What the button starts."""
    wanted = wanted_of(scene, values)

    def work(progress: Progress) -> Taken:
        prompt = strategies.prompt_ids(scene.model, scene.prompt, wanted.chat)
        model = scene.playground.eight_bit(scene.model) if wanted.eight else scene.model
        began = time.perf_counter()
        taken = Taken(take_samples(model, prompt, wanted.strategies, wanted.many, progress))
        steps = len(batches_of(wanted.strategies, wanted.many.count)) * wanted.many.max_new_tokens
        each = (time.perf_counter() - began) / steps
        background.kept(scene.playground, _speed_key(scene, wanted), lambda: each)
        return taken

    return background.Job(key_of(scene, wanted), work)


# --- what was found ---------------------------------------------------------------------------------


def run_of(scene: Scene, wanted: Wanted, name: str) -> str:
    """A short name for what a picture shows."""
    return f"{scene.run} {hashlib.sha256(repr(wanted).encode()).hexdigest()[:12]} {name}"


def _told(value: float) -> float | None:
    """A number as JSON holds it."""
    return value if math.isfinite(value) else None


def _spread(found: Spread) -> list[float | None]:
    return list(vars(found).values())


def table_payload(scene: Scene, wanted: Wanted, taken: Taken, names: list[str]) -> dict:
    """A row a strategy: how many texts, how many ended, how different they are, and each measure."""
    words = scene.words
    rows = []
    for at, (strategy, samples) in enumerate(zip(wanted.strategies, taken.samples, strict=True)):
        ids = [sample.ids.tolist() for sample in samples]
        rows.append(
            {
                "name": names[at],
                "about": strategies.summary(words, strategy),
                "hue": HUES[at % len(HUES)],
                "texts": len(samples),
                "once": certain(strategy),
                "ended": sum(sample.ended in ("end", "stop") for sample in samples),
                "different": len({tuple(each) for each in ids}),
                "together": _told(distinct(ids, 2)),
                "spread": {
                    key: _spread(spread([getattr(sample.measured, key) for sample in samples])) for key in MEASURES
                },
            }
        )
    return {
        "title": words["many.table_title"].format(n=sum(row["texts"] for row in rows)),
        "note": words["many.table_note"],
        "rows": rows,
        "measures": _measures(scene),
        "words": section(words, "many"),
        "file": "many-samples-table",
        "source": _source(scene, wanted),
        "run": run_of(scene, wanted, "table"),
    }


def _measures(scene: Scene) -> list[dict]:
    words = scene.words
    return [
        {
            "key": key,
            "label": words[f"many.{key}"],
            "unit": words.get(f"many.unit_{key}", ""),
            "help": words[f"many.help_{key}"],
            "digits": digits,
        }
        for key, digits in MEASURES.items()
    ]


def plot_payload(scene: Scene, measure: str, wanted: Wanted, taken: Taken, names: list[str]) -> dict:
    """One measure of every text."""
    words = scene.words
    said = Named(words[f"many.{measure}"], words.get(f"many.unit_{measure}", ""), words["many.strategy"])
    values = [[getattr(sample.measured, measure) for sample in each] for each in taken.samples]
    figure = measure_figure(names, values, [[sample.text for sample in each] for each in taken.samples], said)
    unit = f" ({said.unit})" if said.unit else ""
    return {
        "figure": json.dumps(figure),
        "title": f"{said.label}{unit}",
        "note": words[f"many.help_{measure}"],
        "source": words["many.plot_source"],
        "file": f"many-samples-{measure}",
        "run": run_of(scene, wanted, measure),
        "columns": [words["many.begins"], f"{said.label}{unit}", said.strategy],
        "python": python(scene, wanted, names, f"[[sample.measured.{measure} for sample in each] for each in samples]"),
        "words": plot_words(words),
    }


def entropy_payload(scene: Scene, wanted: Wanted, taken: Taken, names: list[str]) -> dict:
    """How sure the model is at each step of the texts."""
    words = scene.words
    said = {"step": words["many.step"], "entropy": words["many.step_entropy"], "of_texts": words["many.of_texts"]}
    bands = [quartile_band([sample.entropies for sample in each]) for each in taken.samples]
    return {
        "figure": json.dumps(entropy_figure(names, bands, said)),
        "title": words["many.entropy_title"],
        "note": words["many.entropy_note"],
        "source": words["many.entropy_source"],
        "file": "many-samples-entropy",
        "run": run_of(scene, wanted, "entropy"),
        "columns": [words["many.strategy"], said["step"], said["entropy"]],
        "python": python(scene, wanted, names, "[[sample.entropies for sample in each] for each in samples]"),
        "words": plot_words(words),
    }


def texts_payload(scene: Scene, wanted: Wanted, taken: Taken, names: list[str]) -> dict:
    """Every text with its numbers."""
    words = scene.words
    samples = [
        {
            "strategy": at,
            "sample": n + 1,
            "text": sample.text,
            "ended": sample.ended,
            "ids": sample.ids.tolist(),
            "measured": {key: _told(value) for key, value in vars(sample.measured).items()},
        }
        for at, each in enumerate(taken.samples)
        for n, sample in enumerate(each)
    ]
    line = "[[sample.text for sample in each] for each in samples]"
    return {
        "title": words["many.texts_title"],
        "samples": samples,
        "names": names,
        "measures": _measures(scene),
        "hues": list(HUES),
        "python": python(scene, wanted, names, line),
        "file": "many-samples",
        "about": {
            "model": scene.model.id,
            "prompt": scene.prompt,
            "tokens": wanted.many.max_new_tokens,
            "seed": wanted.many.seed,
            "stop": list(wanted.many.stop),
            "chat": wanted.chat,
            "eight": wanted.eight,
            "strategies": strategies.value_of(wanted.strategies),
        },
        "source": _source(scene, wanted),
        "run": run_of(scene, wanted, "texts"),
        "words": section(words, "many") | {"plot": plot_words(words)},
    }


def _source(scene: Scene, wanted: Wanted) -> str:
    label = f"{scene.model.label} · {scene.words['strategies.eight']}" if wanted.eight else scene.model.label
    told = {"model": label, "tokens": wanted.many.max_new_tokens, "seed": wanted.many.seed}
    line = scene.words["many.source"].format(**told)
    return f"{line} · {scene.words['many.unedited']}" if scene.picked.edits else line


def python(scene: Scene, wanted: Wanted, names: list[str], last: str) -> str:
    """The lines that take the same samples."""
    many, loaded = wanted.many, loading(scene.model.id)
    prompt = strategies.prompt_code(scene.prompt, wanted.chat)
    imports = (
        "from model.api import load_model",
        "from model.generation.strategies import Strategy",
        "from model.sampling.pipeline import Step",
        "from model.generation.samples import Many, take_samples",
    )
    if wanted.eight:
        imports, loaded = (*imports, "from model.quantization.int8 import int8"), f"int8({loaded})"
    asked = f"Many({many.count}, {many.max_new_tokens}, {many.seed}, {many.stop!r})"
    return "\n".join(
        [
            *sorted(imports),
            "",
            f"lm = {loaded}",
            *strategies.code(wanted.strategies, names),
            f"samples = take_samples(lm, {prompt}, strategies, {asked})",
            last,
        ]
    )


VIEW = View(
    "many",
    build,
    draw,
    parts=("strategies", *OWN),
    fixed=fixed,
    asks=("strategies", "many_form", "many_table"),
    jobs={"many_job": plan},
)
