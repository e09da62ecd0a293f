"""The reinforcement learning view: training of the loaded model on a reward, with live updates."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from model.alignment.lora import MATRICES, Lora
from model.alignment.preferences import Pair, read_pairs
from model.alignment.reinforcement.course import METHODS, MOST_NEW, MOST_SEED, MOST_STEPS, MOST_TEXTS, RATES
from model.alignment.reinforcement.job import Practice, course_of, practice
from model.alignment.reinforcement.presets import PRESETS
from model.errors import InputError
from model.training.jobs.job import Limits
from viz.seam.jobs import live_runs
from viz.seam.jobs.live_runs import Piece, follow, lacking, live_run, own_run, wish
from viz.seam.jobs.stored_runs import shown
from viz.seam.programs.endpoint import Endpoint
from viz.seam.scene import Scene
from viz.seam.settings import Checkbox, Choice, Range, Settings, Text, read_all
from viz.seam.view import Event, Measure, ModelsChanged, Open, Payload, Seen, Steady, Stream, View, Visit
from viz.views.assistant.fine_tune.view import RANKS, as_it_is
from viz.views.assistant.preferences.view import read_listed
from viz.views.assistant.reinforcement.pieces import Histories, piece
from viz.words import Words, section, translate
from viz.work.playground import Playground

_MOST_CHARACTERS = 200_000  # maximum number of characters of the pairs
EMPTY = -1  # value of an empty field

TRAINED_REWARD = "trained"  # the visitor's newest reward model
TRAINED = ("reinforce", "ppo", "grpo", "dpo")
CLIPPED = ("ppo", "grpo")


def _blank(name: str, low: float, high: float, step: float = 1, when: Mapping[str, tuple] | None = None) -> Range:
    """Build a number field that may stay empty, in which case the method's own default applies."""
    return Range(name, low, high, step, EMPTY if step else float(EMPTY), when or {}, "number", blank=True)


SETTINGS = (
    Choice("method", METHODS, default="ppo"),
    Choice("preset", (*PRESETS, TRAINED_REWARD)),
    Text("rules", max_length=2000, lines=2, when={"preset": tuple(PRESETS)}),
    Text("prompts", max_length=2000, lines=2),
    _blank("coefficient", 0.0, 10.0, 0, {"method": TRAINED}),
    _blank("learning_rate", *RATES, 0, {"method": TRAINED}),
    _blank("steps", 1, MOST_STEPS),
    Text("pairs", max_length=_MOST_CHARACTERS, lines=3, when={"method": ("dpo",)}),
    Checkbox("more"),
    Choice("weights", ("full", "lora"), when={"more": (True,)}),
    Choice("rank", RANKS, default="8", when={"more": (True,), "weights": ("lora",)}, label=as_it_is),
    Choice("matrices", tuple(MATRICES), when={"more": (True,), "weights": ("lora",)}),
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
    """Return this server's limits on training runs."""
    return scene.playground.workshop.limits


def live(seen: Seen) -> Payload:
    """Build the run panel's payload, or a notice if training is disabled on this server."""
    if seen.result.minutes > 0:
        piece_of = piece_in(Histories(), "")
        return first(seen.words) | shown(seen.view, seen.facts.language, piece_of)
    closed = ("Training is disabled on this server.", "Run the app on your own machine.")
    text, hint = (translate(sentence, seen.facts.language) for sentence in closed)
    return {"empty": {"text": text, "hint": hint}}


def first(texts: Words) -> Payload:
    """Build the run panel's payload before the server's limits are known: its words."""
    shared = {name: text for name, text in section(texts.catalogue, "training.lab").items() if isinstance(text, str)}
    return {"words": shared | texts.within("live").plain() | {"more": texts.catalogue["glance.more"]}}


# --- events ---


def job_of(visit: Visit, sent: object = None) -> Practice:
    """Build the training job from the form, with the pairs sent by the page if the form has none.

    Raises InputError if the rules, pairs or numbers are invalid, or if the reward model does not exist.
    """
    form = visit.values.get("reinforcement_form")
    job = practice_of(visit.playground, visit.model_id, form, sent)
    by_own_model = read_all(SETTINGS, form, None).preset == TRAINED_REWARD
    return replace(job, reward=_reward_model(visit)) if by_own_model else job


def practice_of(playground: Playground, model_id: str, form: object, sent: object = None) -> Practice:
    """Build the training job from a form, without the visitor's own reward model.

    Raises InputError if the rules, pairs or numbers are invalid.
    """
    chosen = read_all(SETTINGS, form, None)
    changes = {name: chosen[name] for name in NUMBERS if chosen[name] != EMPTY}
    pairs: tuple[Pair, ...] = ()
    if chosen.method == "dpo":
        pairs = read_pairs(chosen.pairs) if chosen.pairs.strip() else read_listed(sent)
    by_own_model = chosen.preset == TRAINED_REWARD
    rules = "" if by_own_model else chosen.rules.strip() or PRESETS[chosen.preset].rules
    lora = Lora(int(chosen.rank), matrices=chosen.matrices) if chosen.weights == "lora" else None
    course = course_of(chosen.method, "" if by_own_model else chosen.preset, changes, adapted=lora is not None)
    base, minutes = playground.weights_of(model_id), playground.workshop.limits.minutes
    return replace(practice(base, course, rules, chosen.prompts, pairs, minutes), lora=lora)


def _reward_model(visit: Visit) -> Path:
    """Return the folder of the visitor's newest reward model for the loaded model. Raises InputError without one."""
    kept = [each for each in visit.playground.rewards.of(visit.session) if each.base == visit.model_id]
    if not kept:
        hint = "Train one in the view Reward model, with this model loaded."
        raise InputError("This model has no reward model yet.", "", hint)
    return kept[-1].folder


def piece_for(visit: Visit) -> Piece:
    """Return the function that builds the messages about a run for this visitor."""
    return piece_in(visit.state, visit.session)


def piece_in(histories: Histories, session: str) -> Piece:
    """Return the function that builds the messages about a run, with the paths of its visitor's runs."""
    return lambda run, language, have: piece(run, language, have, histories, session)


def start(visit: Visit, sent: object) -> Iterator[Payload | ModelsChanged]:
    """Start a run and yield its messages. The run stops if its page does not return."""
    yield from follow(visit, job_of(visit, sent), piece_for(visit))


def send_again(visit: Visit, sent: object) -> Iterator[Payload]:
    """Yield the messages of the visitor's run that a reconnected page has missed."""
    yield from lacking(visit, sent, Practice, piece_for(visit))


def find_again(visit: Visit, sent: object) -> Iterator[Payload | ModelsChanged]:
    """Yield the messages of the visitor's runs for a page that was reloaded, and follow the run in progress."""
    yield from live_runs.find_again(visit, Practice, piece_for(visit))


def open_model(visit: Visit, sent: object) -> Iterator[Open]:
    """Open the trained model on the probe prompt. Raises InputError if the model no longer exists."""
    run = own_run(visit, sent, Practice)
    if run is None or run.tokenizer is None or not run.left_a_model:
        raise InputError("This model is no longer on the server.", "", "Train it again.")
    yield Open(run.model_id, run.tokenizer.decode(run.started.probe), "attention")


def forget(histories: Histories, session: str) -> None:
    """Forget the run histories of a visitor who left."""
    histories.leave(session)


PRACTICE = Stream(
    "practice",
    "feed",
    {
        "start": Event(start),
        "pause": wish("pause", Practice),
        "resume": wish("resume", Practice),
        "stop": wish("stop", Practice),
        "again": Event(send_again),
        "return": Event(find_again),
        "open": Event(open_model),
    },
    Histories,
    forget,
)
# --- for programs ---


def reinforcement_run(playground: Playground, run: str) -> dict:
    """Return the measurements of a reinforcement learning run by update: reward, KL to the reference model, and more.

    Args:
        run: The id of the run, as displayed on the page that started it.

    Returns:
        state: state of the run; reports: records with step, reward, kl (nats per token), kl_text (nats per text),
        perplexity under the reference model, entropy, length, distinct (fraction of distinct token bigrams) and
        coefficient (of the KL penalty). Report 0 describes the reference model.
    """
    live = live_run(playground, run, Practice)
    rows = [
        {
            "step": report.step,
            "reward": report.measured.reward,
            "kl": report.measured.kl,
            "kl_text": report.measured.kl_text,
            "perplexity": report.measured.perplexity,
            "entropy": report.measured.entropy,
            "length": report.measured.length,
            "distinct": report.measured.distinct_2,
            "coefficient": report.coefficient,
        }
        for report in list(live.reports)
    ]
    return {"state": live.state, "reports": rows}


VIEW = View(
    "reinforcement",
    settings=SETTINGS,
    layout=("live", "form"),
    parts={"live": Steady("reinforcement", live, "limits", first)},
    measures=(Measure("limits", measure_limits, depends=(), locks=False),),
    streams=(PRACTICE,),
    api=(Endpoint(reinforcement_run, reads="server"),),
)
