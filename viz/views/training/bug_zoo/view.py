"""The bug zoo: the same tiny GPT, trained with one usual bug each, beside the correct training run."""

import math

from model.progress import Progress
from model.training.bug_zoo import BUGS, LAYERS, LENGTH, ROWS, WIDTH, Specimen, Zoo, ZooTrial, learn, together, verdict
from viz.charts.lines import running_mean
from viz.labels import visible
from viz.numbers import nats, number, percent, whole
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, unprompted
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings
from viz.seam.view import Custom, Figure, Job, Measure, Payload, Seen, View
from viz.views.training.bug_zoo.figures import curves_figure
from viz.words import Words
from viz.work.playground import Playground
from viz.work.processes.trial_process import side_by_side

STEPS = ("200", "400", "800")
SECONDS = 0.02  # approximate seconds per step of one training run
SPACE = visible(" ")
BAD = ("illusion", "harmful", "diverged")  # verdicts that a card shows in color


def as_it_is(words: Words, option: str) -> str:
    """Return a numeric option, which is its own label."""
    return option


# --- the measurement ---


def question(scene: Scene, settings: Settings) -> Settings:
    """Return the number of steps."""
    return Settings((("steps", int(settings.steps)),))


def measure(scene: Scene, settings: Settings, progress: Progress) -> Zoo:
    """Train every model, distributed over processes. The loaded model is not involved."""
    trial = ZooTrial(settings.steps)
    tasks = [(learn, (trial, bug)) for bug in BUGS]
    return together(trial, side_by_side(scene.playground.workshop, tasks, trial.steps, progress))


# --- parts ---


def start_job(seen: Seen) -> Payload:
    """Describe the number and the approximate duration of the training runs."""
    steps = int(seen.settings.steps)
    values = {"n": len(BUGS), "steps": whole(steps), "seconds": whole(len(BUGS) * steps * SECONDS / 2)}
    return {"text": seen.here["hint"].format(**values)}


def _source(seen: Seen) -> str:
    trial = seen.result.trial
    values = {"layers": LAYERS, "width": WIDTH, "rows": ROWS, "length": LENGTH, "steps": whole(trial.steps)}
    return seen.words["source_text"].format(rate=number(trial.rate), **values)


def _python(seen: Seen, last: str) -> str:
    imports = "from model.training.bug_zoo import ZooTrial, train_zoo, verdict"
    return "\n".join([imports, "", f"zoo = train_zoo({seen.result.trial!r})", last])


def curves(seen: Seen) -> Payload:
    """Draw the loss that each training run reports, and the true loss of its weights."""
    words, result = seen.here, seen.result
    names = [seen.words[f"bugs.{run.bug}"] for run in result.runs]
    reported = {name: running_mean(run.losses) for name, run in zip(names, result.runs, strict=True)}
    true = {name: run.held_out for name, run in zip(names, result.runs, strict=True)}
    named = {key: words[key] for key in ("step", "reported", "true", "guess")}
    return {
        "figure": curves_figure(reported, true, result.runs[0].steps.tolist(), result.guess, named),
        "title": words["title"],
        "note": words["note"],
        "columns": [words["training"], words["step"], words["loss"]],
        "source": _source(seen),
        "python": _python(seen, "[(run.bug, run.losses, run.held_out) for run in zoo.runs]"),
    }


def _sentence(seen: Seen, run: Specimen) -> str:
    """Describe a training run beside the correct one."""
    correct = seen.result.runs[0]
    key = "correct" if run.bug == "correct" else verdict(run, correct)
    if key == "illusion" and math.isnan(run.words):
        key = "no_words"
    values = {"reported": nats(run.reported), "true": nats(run.true), "worse": nats(abs(run.true - correct.true))}
    return seen.words[f"verdicts.{key}"].format(words=_share(seen, run), **values)


def _share(seen: Seen, run: Specimen) -> str:
    return seen.here["no_words"] if math.isnan(run.words) else percent(run.words)


def _seen_to_the_end(text: str) -> str:
    """Make the spaces visible with which a text ends, as other characters without a glyph."""
    kept = text.rstrip(" ")
    return visible(kept) + SPACE * (len(text) - len(kept))


def cards(seen: Seen) -> Payload:
    """Show a card for every training run: its line of code, its losses, its text, and the verdict."""
    words, result, shown = seen.here, seen.result, []
    for run in result.runs:
        wrong, right = BUGS[run.bug]
        labels = (words["reported"], words["true"], words["words"])
        facts = zip(labels, (nats(run.reported), nats(run.true), _share(seen, run)), strict=True)
        bad = run.bug != "correct" and verdict(run, result.runs[0]) in BAD
        shown.append(
            {
                "name": seen.words[f"bugs.{run.bug}"],
                "verdict": _sentence(seen, run),
                "bad": bad,
                "wrong": wrong,
                "right": right,
                "facts": [list(each) for each in facts],
                "text": _seen_to_the_end(run.text),
            }
        )
    return {
        "title": words["title"],
        "note": words["note"],
        "cards": shown,
        "source": _source(seen),
        "python": _python(seen, "[(run.bug, verdict(run, zoo.runs[0]), run.text) for run in zoo.runs]"),
        "words": {key: words[key] for key in ("bug", "wrong", "right", "text", "verdict")},
    }


# --- for programs ---


def bug_zoo(playground: Playground) -> dict:
    """Train the same tiny GPT once correctly and once with each of seven usual bugs; takes about a minute.

    Returns:
        runs: one record per training run, the correct one first, with bug, wrong and right (the line of code), losses
        (reported training loss of each step, nats per character), steps and held_out (true loss at these steps),
        reported and true (both at the end), text, words (fraction of its words that occur in the book; null without
        a word) and verdict (illusion: a lower reported but higher true loss; harmful, slight, harmless, better,
        diverged); guess: the loss of a uniform guess.
    """
    result: Zoo = measured(VIEW, "zoo", unprompted(playground))
    runs = [
        {
            "bug": run.bug,
            **dict(zip(("wrong", "right"), BUGS[run.bug], strict=True)),
            "losses": run.losses,
            "steps": run.steps,
            "held_out": run.held_out,
            "reported": run.reported,
            "true": run.true,
            "text": run.text,
            "words": None if math.isnan(run.words) else run.words,
            "verdict": verdict(run, result.runs[0]),
        }
        for run in result.runs
    ]
    return {"runs": runs, "guess": result.guess}


VIEW = View(
    "bug_zoo",
    needs=(),
    settings=(Choice("steps", STEPS, default="800", label=as_it_is),),
    measures=(Measure("zoo", measure, depends=(), settings=("steps",), slow=True, locks=False, question=question),),
    layout=("form", "start", "curves", "cards"),
    parts={
        "start": Job("zoo", start_job),
        "curves": Figure(curves, of="zoo", settings=()),
        "cards": Custom("bugcards", cards, of="zoo", settings=()),
    },
    api=(Endpoint(bug_zoo, reads="server", long=True),),
)
