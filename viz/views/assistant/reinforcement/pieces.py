"""What the page is sent of a run: its state, its curves, its texts, and what became likelier."""

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
from viz.views.assistant.reinforcement.figures import Path, curves_figure, heads_figure, tokens_figure, tradeoff_figure
from viz.words import Words, plot_words, words
from viz.work.processes.training_process import LiveRun

KEPT = 16  # runs of a visitor in the trade-off
PLACES = 24  # of the probe in the map of tokens
MEASURED = ("reward", "kl", "entropy", "perplexity", "length", "distinct_2")
UPDATED = ("clip_fraction", "value_error", "accuracy", "gradient_norm")


@dataclass(eq=False)
class Histories:
    """Reward and KL of what each visitor has run, for the trade-off: it outlives the runs' files."""

    paths: dict[str, dict[str, Path]] = field(default_factory=dict)  # visitor: run: its path
    lock: threading.Lock = field(default_factory=threading.Lock)

    def keep(self, session: str, run: str, path: Path) -> list[Path]:
        """Take in a run as it is now; all of the visitor's, this one marked."""
        with self.lock:
            own = self.paths.setdefault(session, {})
            own[run] = path
            for old in list(own)[:-KEPT]:
                del own[old]
            return [dataclasses.replace(each, current=name == run) for name, each in own.items()]

    def leave(self, session: str) -> None:
        """Forget a visitor."""
        with self.lock:
            self.paths.pop(session, None)


def piece(run: LiveRun, language: str, have: tuple[int, int], histories: Histories, session: str) -> Payload:
    """Where a run stands, and its pictures where there is more than the page has: `have`, reports and looks."""
    here = Words(words(language), "reinforcement").within("live")
    job: Practice = run.job
    reports: list[Report] = list(run.reports)
    looks: list[Look] = list(run.snapshots)
    sent: Payload = about(run, have) | {
        "name": _name(job, here),
        "done": len(reports),
        "line": _line(run, here),
        "reports": [report.step for report in reports[have[0] :]],
        "snapshots": [look.step for look in looks[have[1] :]],
    }
    if run.started and run.tokenizer:
        sent["before"] = {"model": job.base.model_id, "prompt": run.tokenizer.decode(run.started.probe)}
        sent["facts"] = _facts(run, here)
    if run.state == "failed":
        sent["error"] = failure(run, language)
    if run.state == "diverged":
        sent["error"] = {"text": here["astray"].format(n=looks[-1].step if looks else 0), "hint": here["astray_hint"]}
    if have == (0, 0) or (len(reports), len(looks)) != have:
        paths = histories.keep(session, run.id, _path(job, here, reports)) if reports else []
        sent["parts"] = _pictures(run, here, reports, looks, paths)
    return sent


def _facts(run: LiveRun, here: Words) -> str:
    """Return how much of the model learns; "" where nothing does."""
    learned, whole_model = run.started.n_learned, run.started.n_params
    values = {"learned": whole(learned), "params": whole(whole_model), "share": percent(learned / whole_model)}
    return here["facts"].format(**values) if learned else ""


def _path(job: Practice, here: Words, reports: Sequence[Report]) -> Path:
    """Return the run in the trade-off."""
    found = [report.measured for report in reports]
    kl, reward = (tuple(getattr(each, name) for each in found) for name in ("kl_text", "reward"))
    return Path(_name(job, here), kl, reward, job.course.method)


def _pictures(
    run: LiveRun, here: Words, reports: Sequence[Report], looks: Sequence[Look], paths: Sequence[Path]
) -> list[Payload]:
    """Return all of them, in the order of the page."""
    trained = bool(looks) and run.tokenizer is not None and run.job.course.method != "best_of_n"
    parts = [_curves(run, here, reports)] if reports else []
    parts += [_watched(run, here, looks)] if trained else []
    parts += [_tradeoff(run, here, paths)] if reports else []
    parts += [_heads(run, here, looks[-1]), _tokens(run, here, looks[-1])] if trained else []
    return parts + ([_texts(run, here, reports)] if reports else [])


def _name(job: Practice, here: Words) -> str:
    """Method, and the numbers that set it apart: "PPO, β 0.05, rate 0.0002"."""
    course, method = job.course, here[f"method_{job.course.method}"]
    if course.method == "best_of_n":
        return method
    name = here["name"].format(method=method, beta=exact(course.coefficient), rate=exact(course.learning_rate))
    return name if job.lora is None else here["adapted"].format(name=name, rank=job.lora.rank)


def _line(run: LiveRun, here: Words) -> list[str]:
    """Where it stands, in a few words."""
    if not run.reports:
        return []
    last: Report = run.reports[-1]
    found = last.measured
    names = {"reward": number(found.reward), "kl": number(found.kl), "perplexity": number(found.perplexity)}
    parts = [here["line"].format(**names)]
    left = run.kind.steps(run.job) - len(run.reports)
    if run.state == "running" and left > 0:
        parts.append(here["left"].format(seconds=whole(left * run.spent / max(len(run.reports), 1))))
    return parts


def _part(run: LiveRun, name: str, kind: str, here: Words, payload: Payload) -> Payload:
    """Return a part with what every picture carries."""
    source = here["source"].format(model=run.job.base.label, name=_name(run.job, here))
    usual = {"run": f"{run.id[:8]} {name}", "source": source, "file": f"reinforcement-{name}"}
    if kind == "figure":
        usual["words"] = plot_words(here.catalogue)
    title, note = here[f"{name}_title"], here[f"{name}_note"]
    return {"name": name, "kind": kind, "payload": {**usual, "title": title, "note": note, "about": note, **payload}}


def _curves(run: LiveRun, here: Words, reports: Sequence[Report]) -> Payload:
    curves: dict[str, list[float]] = {
        name: [getattr(report.measured, name) for report in reports] for name in MEASURED
    } | {name: [getattr(report.update, name) for report in reports] for name in UPDATED}
    if run.job.course.target:
        curves["coefficient"] = [report.coefficient for report in reports]
    named = {name: here[f"curve_{name}"] for name in (*curves, "step")}
    if run.job.course.method == "best_of_n":
        named["step"] = here["curve_doublings"]
    spread = [report.measured.reward_sd for report in reports]
    figure = curves_figure([report.step for report in reports], curves, spread, named)
    return _part(
        run, "curves", "figure", here, {"figure": figure, "columns": [here["curve"], named["step"], here["value"]]}
    )


def _tradeoff(run: LiveRun, here: Words, paths: Sequence[Path]) -> Payload:
    named = {"kl": here["curve_kl_text"], "reward": here["curve_reward"], "step": here["curve_step"]}
    columns = [here["run"], named["kl"], named["reward"]]
    return _part(run, "tradeoff", "figure", here, {"figure": tradeoff_figure(paths, named), "columns": columns})


def _texts(run: LiveRun, here: Words, reports: Sequence[Report]) -> Payload:
    """Return the best, the middle and the worst text of the first and of the last report."""
    rows = []
    for report in dict.fromkeys((reports[0], reports[-1])):
        for sample in report.samples:
            place = here["after"].format(n=report.step)
            rows.append([place, number(sample.reward), signed(sample.log_ratio), sample.prompt, visible(sample.text)])
    columns = [here[name] for name in ("when", "reward", "ratio", "prompt", "text")]
    return _part(run, "texts", "labtable", here, {"columns": columns, "rows": rows})


def _watched(run: LiveRun, here: Words, looks: Sequence[Look]) -> Payload:
    """Return the same beginnings with the same random numbers, under the reference and now."""
    rows = []
    for before, after in zip(looks[0].samples, looks[-1].samples, strict=True):
        texts = [visible(before.text), number(before.reward), visible(after.text), number(after.reward)]
        rows.append([before.prompt, *texts])
    titles = [here["after"].format(n=look.step) for look in (looks[0], looks[-1])]
    columns = [here["prompt"], titles[0], here["reward"], titles[1], here["reward"]]
    return _part(run, "watched", "labtable", here, {"columns": columns, "rows": rows})


def _tokens(run: LiveRun, here: Words, look: Look) -> Payload:
    first = max(run.started.prompt - 1, 0) if run.started else 0
    span = slice(first, first + PLACES)
    piece_of = run.tokenizer.piece
    pieces = [piece_of(id) for id in look.ids[span]]
    top = [[piece_of(id) for id in row] for row in look.top[span].tolist()]
    named = {name: here[f"token_{name}"] for name in ("token", "next", "before", "after", "ratio")}
    figure = tokens_figure(pieces, top, look.top_before[span], look.top_after[span], named)
    text = visible("".join(piece_of(id) for id in look.ids[: first + 1]))
    title = here["tokens_title"].format(prompt=text, n=look.step)
    columns = [named["token"], here["rank"], named["ratio"]]
    return _part(run, "tokens", "figure", here, {"figure": figure, "title": title, "columns": columns})


def _heads(run: LiveRun, here: Words, look: Look) -> Payload:
    catalogue = here.catalogue
    named = HeadWords(catalogue["common.layer"], catalogue["common.head"], here["moved"])
    figure = heads_figure(look.heads, named)
    columns = [named.layer, named.head, named.value]
    return _part(run, "heads", "figure", here, {"figure": figure, "columns": columns})
