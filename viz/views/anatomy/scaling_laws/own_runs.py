"""The visitor's own training runs beside the scaling laws: loss vs. compute, with fitted exponents."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from model.anatomy.power_fit import Fit
from model.anatomy.scaling_curves import RunCurve, fitted, lacking, run_curve
from model.training.jobs.job import Job
from viz.labels import run_label
from viz.numbers import NONE, count, interval, nats, power
from viz.seam.jobs import stored_runs
from viz.seam.scene import Scene
from viz.seam.settings import Settings
from viz.seam.view import Payload, Seen
from viz.theme import HUES
from viz.views.anatomy.scaling_laws.figures import GRAY, PlotLine, runs_figure
from viz.work.processes.training_process import LiveRun

RECENT = 0.05  # the final loss of a run is the mean over this fraction of its steps


@dataclass(frozen=True)
class OwnRun:
    """One run: its task, its model and data sizes, and its loss so far in nats per token."""

    task: str
    config: dict[str, int | str]  # sizes and options of the model
    steps: int  # number of planned steps
    vocab_size: int
    n_params: int
    tokens: int  # number of tokens processed so far
    last: float  # mean loss over the last steps
    curve: RunCurve

    @property
    def compute(self) -> float:
        """The training compute so far in FLOPs, 6 N D."""
        return 6.0 * self.n_params * self.tokens


@dataclass(frozen=True)
class OwnRuns:
    """All runs with a loss curve, and the power law across the comparable ones."""

    runs: tuple[OwnRun, ...]
    group: tuple[int, ...] = ()  # indices into `runs`: the largest group with one task and vocabulary
    across: Fit | None = None  # fit of final loss against compute; None for fewer than three budgets
    lacking: int = 0  # number of runs with other budgets that the fit still needs
    is_stored: bool = False  # whether it is the stored run of the Training tab, shown until the visitor trains one


def measure(scene: Scene, settings: Settings) -> OwnRuns:
    """Collect the current visitor's training runs, or else the stored one, and fit the power law across them."""
    runs = [run for each in scene.playground.workshop.of(scene.visitor) if (run := own_run(each))]
    if runs or not scene.playground.options.examples:
        return compared(runs)
    stored = own_run(stored_runs.as_live(stored_runs.read("training")))
    return replace(compared([stored]), is_stored=True) if stored else compared([])


def own_run(run: LiveRun) -> OwnRun | None:
    """Summarize a run; None before its second report, and for a job that does not start from random weights."""
    reports = list(run.reports)  # a copy: the run may add reports at any moment
    if run.started is None or len(reports) < 2 or not isinstance(run.job, Job):
        return None
    last = [each.loss for each in reports[-max(1, round(RECENT * len(reports))) :]]
    return OwnRun(
        run.job.task,
        dict(run.job.config),
        run.job.recipe.steps,
        run.started.vocab_size,
        run.started.n_params,
        reports[-1].tokens,
        sum(last) / len(last),
        run_curve([each.tokens for each in reports], [each.loss for each in reports]),
    )


def compared(runs: Sequence[OwnRun]) -> OwnRuns:
    """Fit the power law across the largest group of runs with the same task and vocabulary size."""
    groups: dict[tuple, list[int]] = {}
    for at, run in enumerate(runs):
        groups.setdefault((run.task, run.vocab_size), []).append(at)
    if not groups:
        return OwnRuns(())
    group = max(groups.values(), key=len)
    ends = [(runs[at].compute, runs[at].last) for at in group]
    fit = fitted([x for x, _ in ends], [y for _, y in ends], "line")
    return OwnRuns(tuple(runs), tuple(group), fit, lacking(len({x for x, _ in ends})))


# --- drawing ---


def refit_button(seen: Seen) -> Payload:
    """Build the button that redraws the view with the latest losses of the runs."""
    button = {"name": "fit", "kind": "button", "label": seen.here["fit"], "help": seen.here["help"], "value": None}
    return {"controls": [button]}


def name_of(run: OwnRun, seen: Seen) -> str:
    """Format the name of a run as on the Training tab, followed by its number of parameters."""
    return f"{run_label(run.task, run.config, run.steps, seen.all_words)} · N {count(run.n_params)}"


def figure(seen: Seen) -> Payload:
    """Draw the loss of every run as a function of compute, with its power law."""
    words, result, drawn = seen.here, seen.result, []
    if not result.runs:
        return {"empty": {"text": words["none"], "hint": words["none_hint"]}}
    for at, run in enumerate(result.runs):
        scale, curve = 6.0 * run.n_params, run.curve
        points = PlotLine(name_of(run, seen), [scale * x for x in curve.tokens], curve.losses, HUES[at % len(HUES)])
        fit = curve.floor or curve.line
        law = (
            PlotLine(points.name, points.x, fit.at(curve.tokens).tolist(), points.color, "solid", 2.0) if fit else None
        )
        drawn.append((points, law))
    ends, fit = sorted(result.runs[at].compute for at in result.group), result.across
    line = PlotLine(words["across"], ends, fit.at(ends).tolist(), GRAY, "dash") if fit else None
    n = len(result.runs)
    amount = words["stored"] if result.is_stored else words["one"] if n == 1 else words["several"].format(n=n)
    return {
        "figure": runs_figure(drawn, line, words),
        "title": words["title_stored" if result.is_stored else "title"],
        "note": amount if result.is_stored else f"{amount} {words['note']}",
        **_origin(seen),
        "file": "own-runs",
        "columns": [words["line"], words["point"], words["x"], words["y"]],
    }


def _origin(seen: Seen) -> Payload:
    """Return the source line of the stored run; {} for the visitor's own runs, which have the usual one."""
    return {"source": seen.all_words["job.stored_source"]} if seen.result.is_stored else {}


def _exponent(fit: Fit | None) -> str:
    return NONE if fit is None else interval(fit.exponent, fit.low, fit.high)


def table(seen: Seen) -> Payload:
    """Build the table of each run's exponents, and of the exponent across runs if there are enough runs."""
    words, result = seen.here, seen.result
    if not result.runs:
        return {"empty": {"text": words["title"], "hint": ""}}
    rows = [
        [
            name_of(run, seen),
            count(run.n_params),
            count(run.tokens),
            power(run.compute),
            nats(run.last),
            _exponent(run.curve.line) if run.curve.line else words["few"],
            _exponent(run.curve.floor),
            nats(run.curve.floor and run.curve.floor.floor),
        ]
        for run in result.runs
    ]
    if result.across:
        name = words["across"].format(n=len(result.group))
        rows.append([name, "", "", "", "", _exponent(result.across), NONE, NONE])
    return {
        "title": words["title_stored" if result.is_stored else "title"],
        "about": words["about"],
        **_origin(seen),
        "columns": [words[key] for key in ("run", "params", "tokens", "compute", "last", "line", "floor", "e")],
        "rows": rows,
        "check": words["enough"] if result.across else words["lacking"].format(n=result.lacking),
        "same": False,
        "file": "own-runs-exponents",
    }
