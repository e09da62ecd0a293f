"""Where the time of the loaded model's forward goes, measured by a button, beside where its operations are."""

from collections.abc import Mapping

import gradio as gr

from model.anatomy.component_times import BUDGET, Clocked, Forward, Part, measure
from model.progress import Progress
from viz.page import background
from viz.page.parts import choice, part, plot_words
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.views.anatomy.compute.figures import Bar, times_figure, told_flops
from viz.views.anatomy.old_subject import LOADED, asked_of
from viz.views.predictions.figures import brief, percent
from viz.views.sampling.kv_cache.figures import told_ms
from viz.words import section

KINDS = ("prompt", "step")
PARTS = ("work_job", *(f"work_{what}_{kind}" for what in ("times", "clock") for kind in KINDS))
FORM, LOGITS = "work_form", ("every", "last")


def build() -> dict[str, gr.HTML]:
    """The job; then the prompt left and the token right, each a picture and its table."""
    made = {"work_job": part("work_job", None, kind="job", events=("start", "cancel"))}
    with gr.Row(elem_classes="pg-columns"):
        for kind in KINDS:
            with gr.Column(min_width=320):
                made[f"work_times_{kind}"] = part(f"work_times_{kind}", None, kind="figure")
                made[f"work_clock_{kind}"] = part(f"work_clock_{kind}", None, kind="labtable")
    return made


def every_of(values: Values) -> bool:
    """Whether the head runs for every token of the prompt."""
    return choice(values.get(FORM), "logits", LOGITS) == "every"


def key_of(scene: Scene, every: bool) -> tuple:
    """What decides the measurement: the plain model and the prompt's tokens."""
    return ("work clocked", scene.model.id, tuple(scene.trace.tokens.ids.tolist()), every)


def is_live(scene: Scene, values: Values) -> bool:
    """Whether what is looked at is the loaded model: another cannot be run here."""
    return asked_of(values)[0] == LOADED


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """The button, and what it found."""
    every = every_of(values)
    key = key_of(scene, every)
    live = is_live(scene, values)
    found = scene.playground.results.peek(key) if live else None
    state = (key, found is not None, live, bool(scene.picked.edits))

    def timed(name: str, payload, kind: str) -> Picture:
        hint = scene.words["work.empty_hint" if live else "work.not_here"]
        empty = {"text": scene.words[f"work.empty_{kind}"], "hint": hint}
        return Picture((state, name), lambda: payload(scene, found.value, kind) if found else {"empty": empty})

    pictures = {"work_job": Picture((state, "job"), lambda: _button(scene, found, live))}
    for kind in KINDS:
        pictures[f"work_times_{kind}"] = timed(f"times {kind}", times_payload, kind)
        pictures[f"work_clock_{kind}"] = timed(f"clock {kind}", table_payload, kind)
    return pictures


def _button(scene: Scene, found: background.Result | None, live: bool) -> dict:
    words = scene.words
    if not live:
        return background.unready(words, words["work.start"], words["work.not_here"])
    hint = words["work.takes"].format(seconds=round(BUDGET))
    if scene.picked.edits:
        hint = f"{hint} {words['work.no_edits']}"
    return background.button(words["work.start"], words, found, hint)


def plan(scene: Scene, values: Values) -> background.Job:
    """What the button starts."""
    ids, every, model = scene.trace.tokens.ids.tolist(), every_of(values), scene.model.model

    def work(progress: Progress) -> Clocked:
        return measure(model, ids, every, progress)

    return background.Job(key_of(scene, every), work)


def _forward(found: Clocked, kind: str) -> Forward:
    return found.prompt if kind == "prompt" else found.step


def _source(scene: Scene, found: Clocked) -> str:
    """Whose times these are."""
    said = section(scene.words, "worktimes")
    given = {"model": scene.model.label, "dtype": scene.model.dtype, "threads": found.threads}
    told = said["source"].format(**given, policy=found.waiting or said["policy_none"])
    return f"{told} · {said['plain']}" if scene.picked.edits else told


def _rate(rate: float | None) -> str:
    """GFLOP a second."""
    return "–" if rate is None else brief(float(f"{rate / 1e9:.3g}"))


def _bar(said: Mapping[str, str], part_: Part, forward: Forward) -> Bar:
    whole = forward.seconds
    first, third = part_.times.spread
    spread = f"{told_ms(first)}–{told_ms(third)}"
    texts = (
        told_flops(part_.flops),
        said["bar"].format(ms=told_ms(part_.times.median), spread=spread, rate=_rate(part_.rate)),
    )
    return Bar(
        said[part_.key], part_.flops / forward.flops, part_.times.median / whole, (first / whole, third / whole), texts
    )


def times_payload(scene: Scene, found: Clocked, kind: str) -> dict:
    """Shares of the work and of the time."""
    said, forward = section(scene.words, "worktimes"), _forward(found, kind)
    given = {"T": f"{forward.reading.T:,}", "S": f"{forward.reading.S - 1:,}"}
    every = found.prompt.reading.logits == found.prompt.reading.T
    lines = [
        f"found = measure(lm.model, run.tokens.ids.tolist(), {every})",
        f"[(part.key, part.times.median, part.flops) for part in found.{kind}.parts]",
    ]
    return {
        "figure": times_figure([_bar(said, each, forward) for each in forward.parts], said),
        "title": said[f"title_{kind}"].format(**given),
        "note": said["note"].format(n=len(forward.plain.seconds)),
        "source": _source(scene, found),
        "file": f"time-by-component-{kind}",
        "run": f"{scene.run} {kind} {every} times",
        "columns": [said["component"], said["share"]],
        "python": python_lines(scene, lines, ["from model.anatomy.component_times import measure"]),
        "words": plot_words(scene.words),
    }


def table_payload(scene: Scene, found: Clocked, kind: str) -> dict:
    """Every number, and whether they add up to the whole forward."""
    said, forward = section(scene.words, "workclock"), _forward(found, kind)
    names = section(scene.words, "worktimes")
    rows = []
    for each in forward.parts:
        first, third = each.times.spread
        share = each.times.median / forward.seconds
        rows.append(
            [
                names[each.key],
                told_ms(each.times.median),
                f"{told_ms(first)}–{told_ms(third)}",
                {"text": percent(share), "bar": share},
                percent(each.flops / forward.flops) if each.flops else "–",
                _rate(each.rate),
            ]
        )
    whole = _rate(forward.flops / forward.plain.median)
    first, third = forward.plain.spread
    rows.append([said["plain"], told_ms(forward.plain.median), f"{told_ms(first)}–{told_ms(third)}", "", "", whole])
    apart = forward.clocked.median / forward.plain.median - 1
    given = {
        "sum": told_ms(forward.seconds),
        "clocked": told_ms(forward.clocked.median),
        "plain": told_ms(forward.plain.median),
        "off": f"{100 * apart:+.1f} %".replace("-", "−"),
    }
    return {
        "title": said["title"],
        "columns": [said[key] for key in ("component", "median", "spread", "share", "work", "rate")],
        "rows": rows,
        "about": said["check"].format(**given),
        "source": _source(scene, found),
        "file": f"time-by-component-{kind}-table",
        "run": f"{scene.run} {kind} clock",
    }
