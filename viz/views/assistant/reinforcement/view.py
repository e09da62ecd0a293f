"""Reinforcement: the model on the page learns from a reward, watched as it happens."""

from collections.abc import Iterator, Mapping

from model.alignment.preferences import read_pairs
from model.alignment.reinforcement.course import METHODS, MOST_NEW, MOST_SEED, MOST_STEPS, MOST_TEXTS, RATES
from model.alignment.reinforcement.job import Practice, course_of, practice
from model.alignment.reinforcement.presets import PRESETS
from model.errors import InputError
from model.training.job import Limits
from viz.seam.live_runs import follow, own_run, wish
from viz.seam.scene import Scene
from viz.seam.settings import Check, Choice, Range, Settings, Text, read_all
from viz.seam.view import Event, Measure, Models, Open, Payload, Seen, Steady, Stream, View, Visit
from viz.server.training_process import LiveRun
from viz.views.assistant.reinforcement.pieces import Histories, piece
from viz.words import Words, translate

_MANY = 200_000  # characters of pairs
UNTOLD = -1  # what an empty field is read as

TRAINED = ("reinforce", "ppo", "grpo", "dpo")
CLIPPED = ("ppo", "grpo")


def _blank(name: str, low: float, high: float, step: float = 1, when: Mapping[str, tuple] | None = None) -> Range:
    """A number to type into; while the field is empty, the method's own default holds."""
    return Range(name, low, high, step, UNTOLD, when or {}, "number", blank=True)


SETTINGS = (
    Choice("method", METHODS, default="ppo"),
    Choice("preset", tuple(PRESETS)),
    Text("rules", max_length=2000, lines=2),
    Text("prompts", max_length=2000, lines=2),
    _blank("coefficient", 0.0, 10.0, 0, {"method": TRAINED}),
    _blank("learning_rate", *RATES, 0, {"method": TRAINED}),
    _blank("steps", 1, MOST_STEPS),
    Text("pairs", max_length=_MANY, lines=3, when={"method": ("dpo",)}),
    Check("more"),
    _blank("texts", 2, MOST_TEXTS, when={"more": (True,)}),
    _blank("group", 2, MOST_TEXTS, when={"more": (True,)}),
    _blank("new_tokens", 1, MOST_NEW, when={"more": (True,)}),
    _blank("epochs", 1, 8, when={"more": (True,), "method": CLIPPED}),
    _blank("clip", 0.01, 10.0, 0, {"more": (True,), "method": CLIPPED}),
    _blank("target", 0.0, 1000.0, 0, {"more": (True,), "method": ("ppo",)}),
    _blank("lam", 0.0, 1.0, 0, {"more": (True,), "method": ("ppo",)}),
    _blank("seed", 0, MOST_SEED, when={"more": (True,)}),
)
NUMBERS = tuple(each.name for each in SETTINGS if isinstance(each, Range))


def measure_limits(scene: Scene, settings: Settings) -> Limits:
    """The limits of this server's trainings."""
    return scene.playground.workshop.limits


def live(seen: Seen) -> Payload:
    """The words of the part that shows the run; or that this server trains nothing."""
    if seen.result.minutes > 0:
        return first(seen.words)
    closed = ("Training is switched off on this server.", "Run the app on your own machine.")
    text, hint = (translate(sentence, seen.facts.language) for sentence in closed)
    return {"empty": {"text": text, "hint": hint}}


def first(here: Words) -> Payload:
    """The words alone."""
    return {"words": here.within("live").plain()}


# --- events ---


def job_of(visit: Visit) -> Practice:
    """The run that the form asks for. Raises InputError for rules, pairs or numbers that cannot be used."""
    chosen = read_all(SETTINGS, visit.values.get("reinforcement_form"), None)
    changes = {name: chosen[name] for name in NUMBERS if chosen[name] != UNTOLD}
    pairs = read_pairs(chosen.pairs) if chosen.method == "dpo" and chosen.pairs.strip() else ()
    rules = chosen.rules.strip() or PRESETS[chosen.preset].rules
    course = course_of(chosen.method, chosen.preset, changes)
    base = visit.playground.weights_of(visit.model_id)
    return practice(base, course, rules, chosen.prompts, pairs, visit.playground.workshop.limits.minutes)


def start(visit: Visit, sent: object) -> Iterator[Payload | Models]:
    """Start a run and yield its state as it goes on. Closing the iterator stops the run."""

    def told(run: LiveRun, language: str, have: tuple[int, int]) -> Payload:
        return piece(run, language, have, visit.state, visit.session)

    yield from follow(visit, job_of(visit), told)


def open_model(visit: Visit, sent: object) -> Iterator[Open]:
    """Load the trained model and go where two runs are compared: its reference is what it was trained from."""
    run = own_run(visit, sent, Practice)
    if run is None or run.tokenizer is None or not run.left_a_model:
        raise InputError("This model is no longer here.", "", "Train it again.")
    yield Open(run.model_id, run.tokenizer.decode(run.started.probe), "compare")


def forget(histories: Histories, session: str) -> None:
    """A visitor left."""
    histories.leave(session)


PRACTICE = Stream(
    "practice",
    "practice",
    {
        "start": Event(start, concurrency=8, models=True),
        "pause": wish("pause", Practice),
        "resume": wish("resume", Practice),
        "stop": wish("stop", Practice),
        "open": Event(open_model, concurrency=4, page=True),
    },
    Histories,
    forget,
)
VIEW = View(
    "reinforcement",
    settings=SETTINGS,
    layout=("form", "live"),
    parts={"live": Steady("reinforcement", live, "limits", first)},
    measures=(Measure("limits", measure_limits, depends=(), locks=False),),
    streams=(PRACTICE,),
)
