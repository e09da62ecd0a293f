"""The distribution: one position's logits through a pipeline of warps, over the whole vocabulary.

Everything here is worked out from logits that the run has; the model is not run again.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import gradio as gr

from model.errors import InputError
from model.generation.next_token import context_at, logits_after
from model.sampling.pipeline import Context, Step, softmax
from model.sampling.warps import WARPS, shape, values_of
from viz.page.background import kept
from viz.page.old_view import View
from viz.page.parts import choice, number, part, plot_words
from viz.page.picking import position_of, source
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.page.typed import quoted
from viz.views.predictions.figures import brief, percent
from viz.views.sampling.distribution.figures import (
    PAGE,
    Cut,
    Shown,
    Stages,
    bars_figure,
    bits,
    curve_figure,
    place,
    shown_tokens,
    stages_of,
    step_rows,
)
from viz.views.sampling.distribution.vocabulary_table import Asked, frame, page_of, rows_of, told_rows
from viz.views.sampling.pipelines import spec, step_name, steps_code, steps_of
from viz.words import section, some

_PIPELINE = (
    "from model.generation.next_token import context_at, logits_after",
    "from model.sampling.pipeline import Step",
    "from model.sampling.warps import shape",
)
_LONGEST = 100  # characters of a search
_MANY = 40  # stages that the form can name


@dataclass(frozen=True, eq=False)
class Looked:
    """The position that is looked at, and the steps that reshape it."""

    scene: Scene
    at: int
    steps: tuple[Step, ...]
    stages: Callable[[], Stages]

    @property
    def following(self) -> int | None:
        """The token that really comes next in the prompt; None at its end."""
        ids = self.scene.trace.tokens.ids
        return int(ids[self.at + 1]) if self.at + 1 < len(ids) else None

    @property
    def named(self) -> list[str]:
        """The steps, numbered, as pictures call them."""
        return [f"{n} · {step_name(self.scene.words, step)}" for n, step in enumerate(self.steps, 1)]

    @property
    def key(self) -> tuple:
        """What decides all pictures."""
        return self.scene.run, self.at, self.steps


def build() -> dict[str, gr.HTML]:
    """The pipeline and what it does in numbers; bars left, steps and curve right; the vocabulary below."""
    made = {
        "pipeline": part("pipeline", None, value={}),
        "shape_facts": part("shape_facts", None, kind="shapefacts"),
    }
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["shape_form"] = part("shape_form", None, kind="controls", value={})
            made["shape_bars"] = part("shape_bars", None, kind="figure")
        with gr.Column(min_width=320):
            made["shape_steps"] = part("shape_steps", None, kind="shapesteps")
            made["shape_curve"] = part("shape_curve", None, kind="figure")
    made["shape_table"] = part("shape_table", None, kind="shapetable", value={})
    return made


def fixed(words: Mapping[str, str]) -> dict[str, dict]:
    """What the editor of the pipeline offers."""
    return {"pipeline": spec(words)}


# --- one position ---


def logits_of(scene: Scene, at: int) -> object:
    """The run's logits after a position, as a pipeline takes them, worked out once. float32 tensor [V]"""
    key = ("logits", scene.trace.key, at)
    return kept(scene.playground, key, lambda: logits_after(scene.trace, at, scene.model.tokenizer.vocab_size))


def context_of(scene: Scene, at: int) -> Context:
    """What the steps may know: the prompt up to the position."""
    return context_at(scene.trace, at)


def steps_sent(scene: Scene, values: Values) -> tuple[Step, ...]:
    """The pipeline on the page; raises InputError."""
    sent = values.get("pipeline")
    return steps_of(scene.model, sent.get("steps") if isinstance(sent, Mapping) else None)


def looked_at(scene: Scene, values: Values) -> Looked:
    """What is asked for; raises InputError for steps that cannot be."""
    at, steps = position_of(scene), steps_sent(scene, values)

    @functools.cache
    def stages() -> Stages:
        logits, size = logits_of(scene, at), scene.model.tokenizer.vocab_size
        shaped = shape(logits, steps, context_of(scene, at))
        every = shaped.stages[:, :size].numpy()
        key = ("order", scene.trace.key, at)
        order = kept(scene.playground, key, lambda: (-logits[:size]).argsort(stable=True).int().numpy())
        return stages_of(every, softmax(every), shaped.report(), order)

    return Looked(scene, at, steps, stages)


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """All of it; steps that cannot be are told below the pipeline, and the rest stays as it is."""
    try:
        looked = looked_at(scene, values)
    except InputError as error:
        return {"shape_facts": Picture((scene.run, str(error)), functools.partial(_raise, error))}
    stage, logarithmic = _form(values.get("shape_form"), len(looked.steps))
    asked, ask = _asked(values.get("shape_table"), len(looked.steps))
    return {
        "shape_facts": Picture(looked.key, lambda: facts_payload(looked)),
        "shape_form": Picture((scene.language, looked.steps), lambda: form_payload(looked)),
        "shape_bars": Picture((looked.key, stage, logarithmic), lambda: bars_payload(looked, stage, logarithmic)),
        "shape_steps": Picture(looked.key, lambda: steps_payload(looked)),
        "shape_curve": Picture(looked.key, lambda: curve_payload(looked)),
        "shape_table": Picture((looked.key, asked, ask), lambda: table_payload(looked, asked, ask)),
    }


def _raise(error: InputError) -> dict:
    raise error


def pipeline_lines(looked: Looked, last: Sequence[str], imports: Sequence[str] = ()) -> str:
    """The Python lines of the pipeline at the position, and then `last`."""
    at = looked.at
    lines = [
        f"at = {at}  # {quoted(looked.scene, int(looked.scene.trace.tokens.ids[at]))!r}",
        "logits, context = logits_after(run, at, lm.tokenizer.vocab_size), context_at(run, at)",
        f"steps = {steps_code(looked.steps)}",
        "shaped = shape(logits, steps, context)",
        *last,
    ]
    return python_lines(looked.scene, lines, (*_PIPELINE, *imports))


def after(looked: Looked) -> str:
    """Where in the prompt this is."""
    scene = looked.scene
    token = quoted(scene, int(scene.trace.tokens.ids[looked.at]))
    return scene.words["shape.after"].format(token=token, position=looked.at)


# --- in numbers ---


def facts_payload(looked: Looked) -> dict:
    """Entropy, choices and tokens before and after, and what became of the token that really comes next."""
    words, found = looked.scene.words, looked.stages()
    ends = [found.reports[n] for n in (0, -1)]
    pairs = {
        "entropy": [f"{each.entropy:.3f}" for each in ends],
        "choices": [brief(each.effective) for each in ends],
        "left": [f"{each.kept:,}" for each in ends],
        "top": [percent(float(found.probabilities[n].max())) for n in (0, -1)],
    }
    facts = [[words[f"shape.{name}"], *pair, words[f"shape.{name}_help"]] for name, pair in pairs.items()]
    return {
        "title": words["shape.title"].format(after=after(looked)),
        "facts": facts,
        "next": _next(looked),
        "words": some(words, "shape", "before", "then"),
        "run": repr(looked.key),
    }


def _next(looked: Looked) -> dict:
    """What became of the token that really comes next."""
    scene, found, token = looked.scene, looked.stages(), looked.following
    words = scene.words
    if token is None:
        return {"text": words["shape.no_next"], "facts": []}
    shares = [float(found.probabilities[n][token]) for n in (0, -1)]
    ranks = [place(found.logits[n], token) for n in (0, -1)]
    pairs = {
        "rank": ["–" if rank is None else f"{rank:,}" for rank in ranks],
        "share": [percent(share) for share in shares],
        "bits": [bits(share) for share in shares],
    }
    text = words["shape.next_is"].format(token=quoted(scene, token))
    if step := int(found.out[token]):
        text = words["shape.next_out"].format(token=quoted(scene, token), step=looked.named[step - 1])
    return {
        "text": text,
        "facts": [
            [words[f"shape.next_{name}"], *pair, words[f"shape.next_{name}_help"]] for name, pair in pairs.items()
        ],
    }


def steps_payload(looked: Looked) -> dict:
    """A row a step: what it left."""
    words, rows = looked.scene.words, step_rows(looked.stages())
    names = [words["shape.model"], *looked.named]
    kinds = ["model", *(WARPS[step.warp].kind for step in looked.steps)]
    return {
        "title": words["shape.steps_title"],
        "note": words["shape.steps_note"],
        "rows": [row | {"name": name, "kind": kind} for row, name, kind in zip(rows, names, kinds, strict=True)],
        "words": some(
            words, "shape", *(f"column_{name}" for name in ("step", "left", "removed", "entropy", "choices"))
        ),
        "run": repr(looked.key),
    }


# --- pictures ---


def _form(asked: object, steps: int) -> tuple[int, bool]:
    """The stage that is compared with the model's own, and whether the axis is logarithmic."""
    stage = choice(asked, "stage", ("last", *map(str, range(1, steps + 1))))
    return steps if stage == "last" else int(stage), choice(asked, "axis", ("linear", "log")) == "log"


def form_payload(looked: Looked) -> dict:
    """After which step the bars are, and their axis."""
    words = looked.scene.words
    stages = [["last", words["shape.stage_last"]]]
    stages += [[str(n), words["shape.stage_step"].format(step=name)] for n, name in enumerate(looked.named, 1)]
    axes = [[name, words[f"shape.axis_{name}"]] for name in ("linear", "log")]
    return {
        "controls": [
            {"name": "stage", "kind": "choice", "label": words["shape.stage"], "value": "last", "options": stages},
            {"name": "axis", "kind": "choice", "label": words["shape.axis"], "value": "linear", "options": axes},
        ]
    }


def bars_payload(looked: Looked, stage: int, logarithmic: bool) -> dict:
    """The likeliest tokens before and after."""
    scene, found = looked.scene, looked.stages()
    words, tokens = scene.words, shown_tokens(found, stage, looked.following)
    pieces = [scene.model.tokenizer.piece(token) for token in tokens]
    said = some(words, "shape", "before", "out", "hover", "dropped") | {
        "after": words["shape.after_all"] if stage == len(looked.steps) else looked.named[stage - 1],
        "next": words["shape.next"],
        "axis": words["shape.axis_share"],
    }
    shown = Shown(tokens, pieces, stage, looked.following, logarithmic)
    last = f"shaped.probabilities({stage})[ids]" if stage < len(looked.steps) else "shaped.probabilities()[ids]"
    return {
        "figure": bars_figure(found, shown, said, looked.named),
        "title": words["shape.bars_title"].format(after=after(looked)),
        "note": words["shape.bars_note"].format(n=len(tokens)),
        "source": source(scene),
        "file": f"distribution-{looked.at}",
        "run": repr((looked.key, stage, logarithmic)),
        "columns": [words["shape.csv_series"], words["shape.csv_share"], words["shape.csv_token"]],
        "python": pipeline_lines(looked, [f"ids = {tokens}", f"shaped.probabilities(0)[ids], {last}  # before, after"]),
        "words": plot_words(words),
    }


def curve_payload(looked: Looked) -> dict:
    """How few tokens hold how much, and where the steps cut."""
    scene, words, found = looked.scene, looked.scene.words, looked.stages()
    cuts = []
    for n, (step, name) in enumerate(zip(looked.steps, looked.named, strict=True)):
        if WARPS[step.warp].kind == "cut" and found.reports[n + 1].kept < found.reports[n].kept:
            cuts.append(Cut(n, name, values_of(step)["p"] if step.warp == "top_p" else None))
    said = some(words, "shape", "before", "given", "axis_rank", "axis_mass", "hover_curve")
    lines = [
        "np.cumsum(np.sort(shaped.probabilities(0))[::-1])  # before",
        "np.cumsum(np.sort(shaped.probabilities())[::-1])  # after",
    ]
    return {
        "figure": curve_figure(found, cuts, said | {"after": words["shape.after_all"]}),
        "title": words["shape.curve_title"].format(after=after(looked)),
        "note": words["shape.curve_note"],
        "source": source(scene),
        "file": f"cumulative-{looked.at}",
        "run": repr(looked.key),
        "columns": [words["shape.csv_series"], words["shape.axis_rank"], words["shape.axis_mass"]],
        "python": pipeline_lines(looked, lines, ["import numpy as np"]),
        "words": plot_words(words),
    }


# --- the whole vocabulary ---


def _asked(sent: object, steps: int) -> tuple[Asked, int]:
    """Which rows a page asks for, and the number of its wish for all of them, 0 for none."""
    query = sent.get("query") if isinstance(sent, Mapping) else None
    query = query[:_LONGEST] if isinstance(query, str) else ""
    columns = ("rank", "token", "id", "logit", *(f"after_{n}" for n in range(1, steps + 1)), "out", "before", "after")
    page = int(number(sent, "page", 0, 1e6, 0))
    down = choice(sent, "down", ("no", "yes")) == "yes"
    return Asked(query, page, choice(sent, "by", columns), down), int(number(sent, "all", 0, 1e9, 0))


def pieces_of(scene: Scene) -> list[str]:
    """The text of every token of the vocabulary, put together once."""
    tokenizer = scene.model.tokenizer

    def make() -> list[str]:
        return [tokenizer.piece(token) for token in range(tokenizer.vocab_size)]

    def size(made: list[str]) -> int:
        return sum(map(len, made)) + 60 * len(made)

    return kept(scene.playground, ("pieces", scene.model.id), make, size)


def table_payload(looked: Looked, asked: Asked, ask: int) -> dict:
    """A page of the vocabulary; all of it where that is asked for."""
    scene, words = looked.scene, looked.scene.words
    table = frame(looked.stages())
    found = page_of(table, asked, lambda: pieces_of(scene))
    piece = scene.model.tokenizer.piece
    columns = [
        ["rank", words["shape.column_rank"]],
        ["token", words["shape.column_token"]],
        ["id", words["shape.column_id"]],
        ["logit", words["shape.column_logit"]],
    ]
    columns += [[f"after_{n}", name] for n, name in enumerate(looked.named, 1)]
    columns += [[name, words[f"shape.column_{name}"]] for name in ("out", "before", "after")]
    payload = {
        "title": words["shape.table_title"].format(n=f"{len(table):,}"),
        "note": words["shape.table_note"],
        "columns": columns,
        "rows": told_rows(found.rows, [piece(int(token)) for token in found.rows["id"]]),
        "total": words["shape.table_total"].format(n=f"{found.total:,}", V=f"{len(table):,}"),
        "page": found.page,
        "pages": found.pages,
        "size": PAGE,
        "by": asked.by,
        "down": asked.down,
        "following": looked.following,
        "source": source(scene),
        "file": f"vocabulary-{looked.at}",
        "python": pipeline_lines(
            looked, ["shaped.stages, shaped.probabilities(0), shaped.probabilities()  # [S + 1, V], [V], [V]"]
        ),
        "words": section(words, "shapetable") | plot_words(words),
        "run": repr((looked.key, asked)),
    }
    if ask:
        names = [words["shape.column_token"], *(name for key, name in columns if key != "token")]
        payload |= {"all": ask, "table": rows_of(table, names, pieces_of(scene))}
    return payload


VIEW = View(
    "shape",
    build,
    draw,
    parts=("pipeline", "shape_facts", "shape_form", "shape_bars", "shape_steps", "shape_curve", "shape_table"),
    fixed=fixed,
    asks=("pipeline", "shape_form", "shape_table"),
)
