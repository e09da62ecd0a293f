"""The messages with which the page follows a run: state, curves, texts, and shifted token probabilities."""

import dataclasses
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from model.alignment.reinforcement.before_after import Look
from model.alignment.reinforcement.job import Practice
from model.alignment.reinforcement.run import Report
from viz.charts.layer_head_map import HeadWords
from viz.labels import visible
from viz.numbers import exact, number, percent, signed, whole
from viz.seam.jobs.live_runs import about, failure
from viz.seam.view import Payload
from viz.views.assistant.glance import Stage, glance_of_training, title_after
from viz.views.assistant.reinforcement.figures import Path, curves_figure, heads_figure, tokens_figure, tradeoff_figure
from viz.words import Words, plot_words, words
from viz.work.processes.training_process import LiveRun

KEPT = 16  # maximum number of runs per visitor in the trade-off
PLACES = 24  # maximum number of probe positions in the token map
MEASURED = ("reward", "kl", "entropy", "perplexity", "length", "distinct_2")
UPDATED = ("clip_fraction", "value_error", "accuracy", "gradient_norm")


@dataclass(eq=False)
class Histories:
    """Reward and KL of every visitor's runs, for the trade-off. They outlive the runs' files."""

    paths: dict[str, dict[str, Path]] = field(default_factory=dict)  # visitor -> run -> path
    lock: threading.Lock = field(default_factory=threading.Lock)

    def keep(self, session: str, run: str, path: Path) -> list[Path]:
        """Store the current path of a run, and return all paths of the visitor, with this run's marked as current."""
        with self.lock:
            own = self.paths.setdefault(session, {})
            own[run] = path
            for old in list(own)[:-KEPT]:
                del own[old]
            return [dataclasses.replace(each, current=name == run) for name, each in own.items()]

    def leave(self, session: str) -> None:
        """Forget the paths of a visitor."""
        with self.lock:
            self.paths.pop(session, None)


def piece(run: LiveRun, language: str, have: tuple[int, int], histories: Histories, session: str) -> Payload:
    """Build the next message about a run.

    It includes the figures if the page has nothing yet, or if there are more reports or snapshots than the numbers in
    `have`.
    """
    texts = Words(words(language), "reinforcement").within("live")
    job: Practice = run.job
    reports: list[Report] = list(run.reports)
    looks: list[Look] = list(run.snapshots)
    sent: Payload = about(run, have) | {
        "name": _name(job, texts),
        "done": len(reports),
        "line": _line(run, texts),
        "reports": [report.step for report in reports[have[0] :]],
        "snapshots": [look.step for look in looks[have[1] :]],
    }
    if run.started and run.tokenizer:
        sent["before"] = {"model": job.base.model_id, "prompt": run.tokenizer.decode(run.started.probe)}
        sent["facts"] = _facts(run, texts)
    if run.state == "failed":
        sent["error"] = failure(run, language)
    if run.state == "diverged":
        sent["error"] = {"text": texts["astray"].format(n=looks[-1].step if looks else 0), "hint": texts["astray_hint"]}
    sent["glance"] = _glance(run, language, reports, looks)
    if have == (0, 0) or (len(reports), len(looks)) != have:
        paths = histories.keep(session, run.id, _path(job, texts, reports)) if reports else []
        sent["parts"] = _pictures(run, texts, reports, looks, paths)
    return sent


def _glance(run: LiveRun, language: str, reports: Sequence[Report], looks: Sequence[Look]) -> Payload | None:
    """Build the numbers and texts of a run from its first and its latest evaluation; None before the first report and
    for best of n, which trains nothing.
    """
    if not (reports and looks) or run.job.course.method == "best_of_n":
        return None
    here, rewards = Words(words(language), "glance"), [report.measured.reward for report in reports]
    titles = here["before"], title_after(here, looks[-1].step)
    stage = Stage("reward", rewards[0], rewards[-1], titles, prompt=1)
    return glance_of_training(language, stage, looks[0].four, looks[-1].four)


def _facts(run: LiveRun, texts: Words) -> str:
    """Format the number of trained parameters and their fraction of all parameters; "" if none are trained."""
    learned, whole_model = run.started.n_learned, run.started.n_params
    values = {"learned": whole(learned), "params": whole(whole_model), "share": percent(learned / whole_model)}
    return texts["facts"].format(**values) if learned else ""


def _path(job: Practice, texts: Words, reports: Sequence[Report]) -> Path:
    """Build the run's path in the reward-KL trade-off."""
    measured = [report.measured for report in reports]
    kl, reward = (tuple(getattr(each, name) for each in measured) for name in ("kl_text", "reward"))
    return Path(_name(job, texts), kl, reward, job.course.method)


def _pictures(
    run: LiveRun, texts: Words, reports: Sequence[Report], looks: Sequence[Look], paths: Sequence[Path]
) -> list[Payload]:
    """Build all figures and tables of a run, in the order of the page."""
    moved = bool(looks) and looks[-1].step > 0 and run.tokenizer is not None
    parts = [_curves(run, texts, reports)] if reports else []
    parts += [_watched(run, texts, looks)] if moved else []
    parts += [_tradeoff(run, texts, paths)] if reports else []
    parts += [_heads(run, texts, looks[-1]), _tokens(run, texts, looks[-1])] if moved else []
    return parts + ([_texts(run, texts, reports)] if reports else [])


def _name(job: Practice, texts: Words) -> str:
    """Format the run's name from its method and main settings, such as "PPO, β 0.05, rate 0.0002"."""
    course, method = job.course, texts[f"method_{job.course.method}"]
    if course.method == "best_of_n":
        return method
    name = texts["name"].format(method=method, beta=exact(course.coefficient), rate=exact(course.learning_rate))
    return name if job.lora is None else texts["adapted"].format(name=name, rank=job.lora.rank)


def _line(run: LiveRun, texts: Words) -> list[str]:
    """Format the status line: the last reward, KL and perplexity, and the time left."""
    if not run.reports:
        return []
    last: Report = run.reports[-1]
    measured = last.measured
    names = {"reward": number(measured.reward), "kl": number(measured.kl), "perplexity": number(measured.perplexity)}
    parts = [texts["line"].format(**names)]
    left = run.kind.steps(run.job) - len(run.reports)
    if run.state == "running" and left > 0:
        parts.append(texts["left"].format(seconds=whole(left * run.spent / max(len(run.reports), 1))))
    return parts


def _part(run: LiveRun, name: str, kind: str, texts: Words, payload: Payload) -> Payload:
    """Build a part from its payload and the fields common to all parts."""
    source = texts["source"].format(model=run.job.base.label, name=_name(run.job, texts))
    common = {"run": f"{run.id[:8]} {name}", "source": source, "file": f"reinforcement-{name}"}
    if kind == "figure":
        common["words"] = plot_words(texts.catalogue)
    title, note = texts[f"{name}_title"], texts[f"{name}_note"]
    return {"name": name, "kind": kind, "payload": {**common, "title": title, "note": note, "about": note, **payload}}


def _curves(run: LiveRun, texts: Words, reports: Sequence[Report]) -> Payload:
    curves: dict[str, list[float]] = {
        name: [getattr(report.measured, name) for report in reports] for name in MEASURED
    } | {name: [getattr(report.update, name) for report in reports] for name in UPDATED}
    if run.job.course.target:
        curves["coefficient"] = [report.coefficient for report in reports]
    named = {name: texts[f"curve_{name}"] for name in (*curves, "step")}
    if run.job.course.method == "best_of_n":
        named["step"] = texts["curve_doublings"]
    spread = [report.measured.reward_sd for report in reports]
    figure = curves_figure([report.step for report in reports], curves, spread, named)
    return _part(
        run, "curves", "figure", texts, {"figure": figure, "columns": [texts["curve"], named["step"], texts["value"]]}
    )


def _tradeoff(run: LiveRun, texts: Words, paths: Sequence[Path]) -> Payload:
    named = {"kl": texts["curve_kl_text"], "reward": texts["curve_reward"], "step": texts["curve_step"]}
    columns = [texts["run"], named["kl"], named["reward"]]
    return _part(run, "tradeoff", "figure", texts, {"figure": tradeoff_figure(paths, named), "columns": columns})


def _texts(run: LiveRun, texts: Words, reports: Sequence[Report]) -> Payload:
    """Build the table of the texts with the best, median and worst reward in the first and the last report."""
    rows = []
    for report in dict.fromkeys((reports[0], reports[-1])):
        for sample in report.samples:
            place = _updates(texts, "after", report.step)
            rows.append([place, number(sample.reward), signed(sample.log_ratio), sample.prompt, visible(sample.text)])
    columns = [texts[name] for name in ("when", "reward", "ratio", "prompt", "text")]
    return _part(run, "texts", "labtable", texts, {"columns": columns, "rows": rows})


def _updates(texts: Words, name: str, n: int) -> str:
    """Format a number of updates, in the singular for one."""
    return texts[f"{name}_one"] if n == 1 else texts[name].format(n=n)


def _watched(run: LiveRun, texts: Words, looks: Sequence[Look]) -> Payload:
    """Build the table of continuations under the reference model and the latest model, sampled with the same seed."""
    rows = []
    for before, after in zip(looks[0].samples, looks[-1].samples, strict=True):
        cells = [visible(before.text), number(before.reward), visible(after.text), number(after.reward)]
        rows.append([before.prompt, *cells])
    titles = [_updates(texts, "after", look.step) for look in (looks[0], looks[-1])]
    columns = [texts["prompt"], titles[0], texts["reward"], titles[1], texts["reward"]]
    return _part(run, "watched", "labtable", texts, {"columns": columns, "rows": rows})


def _tokens(run: LiveRun, texts: Words, look: Look) -> Payload:
    first = max(run.started.prompt - 1, 0) if run.started else 0
    span = slice(first, first + PLACES)
    piece_of = run.tokenizer.piece
    pieces = [piece_of(id) for id in look.ids[span]]
    top = [[piece_of(id) for id in row] for row in look.top[span].tolist()]
    named = {name: texts[f"token_{name}"] for name in ("token", "next", "before", "after", "ratio")}
    figure = tokens_figure(pieces, top, look.top_before[span], look.top_after[span], named)
    text = visible("".join(piece_of(id) for id in look.ids[: first + 1]))
    title = texts["tokens_title"].format(prompt=text, updates=_updates(texts, "updates", look.step))
    columns = [named["token"], texts["rank"], named["ratio"]]
    return _part(run, "tokens", "figure", texts, {"figure": figure, "title": title, "columns": columns})


def _heads(run: LiveRun, texts: Words, look: Look) -> Payload:
    catalogue = texts.catalogue
    named = HeadWords(catalogue["common.layer"], catalogue["common.head"], texts["moved"])
    figure = heads_figure(look.heads, named)
    columns = [named.layer, named.head, named.value]
    return _part(run, "heads", "figure", texts, {"figure": figure, "columns": columns})
