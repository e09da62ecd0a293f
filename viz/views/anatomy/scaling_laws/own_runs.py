"""The visitor's own runs of the tab Training beside the scaling laws: their losses against compute, with exponents.

A drawing of the page does not know whose page it is; these parts have an event of their own, which does.
"""

from collections.abc import Mapping, Sequence

import gradio as gr

from model.anatomy.power_fit import Fit
from model.anatomy.scaling_curves import RunCurve, fitted, lacking, run_curve
from viz.page.parts import part, plot_words, update
from viz.page.scene import Scene
from viz.page.tab import Picture, Shared
from viz.server.training_process import LiveRun
from viz.theme import HUES
from viz.views.anatomy.scaling_laws.figures import GREY, Line, runs_figure, told_count, told_fit, told_flops
from viz.views.training.view import run_label
from viz.words import section, words

PARTS = ("laws_mine_ask", "laws_mine", "laws_mine_table")
RECENT = 0.05  # the last loss of a run is the mean over this share of its steps


def build() -> dict[str, gr.HTML]:
    """The button and the picture; the table stands below."""
    return {
        "laws_mine_ask": part("laws_mine_ask", None, kind="job", events=("start",)),
        "laws_mine": part("laws_mine", None, kind="figure"),
    }


def draw(scene: Scene) -> dict[str, Picture]:
    """The button, and nothing yet."""
    said = section(scene.words, "laws")
    empty = {"empty": {"text": said["mine_empty"], "hint": said["mine_empty_hint"]}}
    return {
        "laws_mine_ask": Picture("own", lambda: asking(scene.words, said["mine_start"], said["mine_hint"])),
        "laws_mine": Picture("own", lambda: empty),
        "laws_mine_table": Picture("own", lambda: {"empty": {"text": scene.words["lawsminetable.title"], "hint": ""}}),
    }


def asking(said: Mapping[str, str], name: str, text: str) -> dict:
    """The payload of the button."""
    return {"state": "idle", "start": name, "text": text, "cancel": said["job.cancel"]}


def wire(parts: Mapping[str, gr.HTML], shared: Shared) -> None:
    """The button's event, which knows the visitor."""

    def show(request: gr.Request):
        runs = shared.playground.workshop.of(request.session_hash)
        found = payloads(runs, shared.language_of(request))
        return tuple(update(found[name]) for name in PARTS)

    outputs = [parts[name] for name in PARTS]
    parts["laws_mine_ask"].start(show, None, outputs, show_progress="hidden", api_visibility="private")


def payloads(runs: Sequence[LiveRun], language: str) -> dict[str, dict]:
    """The three parts for the runs that have learned something."""
    words_of = words(language)
    said = section(words_of, "laws")
    runs = [run for run in runs if run.started and len(run.reports) > 1]
    if not runs:
        empty = {"empty": {"text": said["mine_none"], "hint": said["mine_none_hint"]}}
        ask = asking(words_of, said["mine_again"], said["mine_none"])
        below = {"empty": {"text": words_of["lawsminetable.title"], "hint": ""}}
        return {"laws_mine_ask": ask, "laws_mine": empty, "laws_mine_table": below}
    told = said["mine_found_one"] if len(runs) == 1 else said["mine_found"].format(n=len(runs))
    curves = [run_curve([each.tokens for each in run.reports], [each.loss for each in run.reports]) for run in runs]
    return {
        "laws_mine_ask": asking(words_of, said["mine_again"], told),
        "laws_mine": figure_payload(runs, curves, words_of),
        "laws_mine_table": table_payload(runs, curves, words_of),
    }


def end_of(run: LiveRun) -> tuple[float, float]:
    """The compute 6 N D of a run so far, and its last loss: a mean over its last steps, in nats a token."""
    last = [each.loss for each in run.reports[-max(1, round(RECENT * len(run.reports))) :]]
    return 6.0 * run.started.n_params * run.reports[-1].tokens, sum(last) / len(last)


def name_of(run: LiveRun, words_of: Mapping[str, str]) -> str:
    """What the run is called: as in the tab Training, with its size."""
    return f"{run_label(run, words_of)} · N {told_count(run.started.n_params)}"


def groups(runs: Sequence[LiveRun]) -> list[list[LiveRun]]:
    """Runs that can be compared: of one task and one vocabulary; the largest group first."""
    found: dict[tuple, list[LiveRun]] = {}
    for run in runs:
        found.setdefault((run.job.task, run.started.vocab_size), []).append(run)
    return sorted(found.values(), key=len, reverse=True)


def across(runs: Sequence[LiveRun]) -> Fit | None:
    """The power law of the last losses against compute; None for fewer than three different budgets."""
    ends = [end_of(run) for run in runs]
    return fitted([x for x, _ in ends], [y for _, y in ends], "line")


def _law(fit: Fit, points: Line, to_tokens: float, name: str, dash: str = "solid") -> Line:
    """The fitted law at the places of the points; `to_tokens` turns their x into that of the fit."""
    y = fit.at([x * to_tokens for x in points.x]).tolist()
    return Line(name, points.x, y, points.colour, dash, 2.0)


def figure_payload(runs: Sequence[LiveRun], curves: Sequence[RunCurve], words_of: Mapping[str, str]) -> dict:
    """Loss against compute of every run, with its law."""
    said, drawn = section(words_of, "lawsmine"), []
    for at, (run, curve) in enumerate(zip(runs, curves, strict=True)):
        scale = 6.0 * run.started.n_params
        points = Line(name_of(run, words_of), [scale * x for x in curve.tokens], curve.losses, HUES[at % len(HUES)])
        fit = curve.floor or curve.line
        drawn.append((points, _law(fit, points, 1 / scale, points.name) if fit else None))
    whole = max(groups(runs), key=len)
    fit, ends = across(whole), sorted(end_of(run) for run in whole)
    line = (
        Line(said["across"], [x for x, _ in ends], fit.at([x for x, _ in ends]).tolist(), GREY, "dash") if fit else None
    )
    return {
        "figure": runs_figure(drawn, line, said),
        "title": said["title"],
        "note": said["note"],
        "source": said["source"],
        "file": "own-runs",
        "run": " ".join(f"{run.id}:{len(run.reports)}" for run in runs),
        "columns": [said["line"], said["point"], said["x"], said["y"]],
        "words": plot_words(words_of),
    }


def table_payload(runs: Sequence[LiveRun], curves: Sequence[RunCurve], words_of: Mapping[str, str]) -> dict:
    """The exponents, or what is missing for them."""
    said, rows = section(words_of, "lawsminetable"), []
    for run, curve in zip(runs, curves, strict=True):
        compute, last = end_of(run)
        line, floor = (
            "–" if fit is None else told_fit(fit.exponent, fit.low, fit.high) for fit in (curve.line, curve.floor)
        )
        rows.append(
            [
                name_of(run, words_of),
                told_count(run.started.n_params),
                told_count(run.reports[-1].tokens),
                told_flops(compute),
                f"{last:.3f}",
                said["few"] if curve.line is None else line,
                floor,
                f"{curve.floor.floor:.2f}" if curve.floor else "–",
            ]
        )
    whole = groups(runs)[0]
    fit = across(whole)
    if fit:
        told = told_fit(fit.exponent, fit.low, fit.high)
        rows.append([said["across"].format(n=len(whole)), "", "", "", "", told, "–", "–"])
    missing = lacking(len({end_of(run)[0] for run in whole}))
    return {
        "title": said["title"],
        "about": said["about"],
        "columns": [said[key] for key in ("run", "params", "tokens", "compute", "last", "line", "floor", "e")],
        "rows": rows,
        "check": said["enough"] if fit else said["lacking"].format(n=missing),
        "same": False,
        "source": said["source"],
        "file": "own-runs-exponents",
        "run": " ".join(f"{run.id}:{len(run.reports)}" for run in runs),
    }
