"""The reward model view: training on pairs of texts, rewards along the prompt, and the words that affect them."""

import dataclasses
import math

import numpy as np

from model.alignment.preferences import PROMPTS, Pair, PairSettings
from model.alignment.reward_lesson import LEAST_PAIRS
from model.alignment.reward_model import accuracy
from model.alignment.rewards import parse_rules
from model.errors import PlaygroundError
from model.shares import wilson
from model.training.jobs.job import Limits
from viz.labels import visible
from viz.numbers import nats, percent, signed, whole
from viz.seam.jobs import stored_runs
from viz.seam.jobs.stored import MODEL
from viz.seam.notices import notice
from viz.seam.python_lines import model_script
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Number, Settings, Text, read_all
from viz.seam.view import Asking, Custom, Figure, Job, Measure, Payload, Seen, Table, View
from viz.theme import SIGNED_RAMPS
from viz.views.assistant.fine_tune.view import as_it_is
from viz.views.assistant.glance import Stage, fold, glance_of_choice
from viz.views.assistant.preferences.view import read_listed
from viz.views.assistant.reward_model.figures import calibration_figure, curve_figure, words_figure
from viz.views.assistant.reward_model.measure import NEW_TOKENS, measure_reward, measure_run, question
from viz.words import Words

SOURCE = Choice("source", ("rule", "page"))
RULE = Text("rule", "sentiment", max_length=600, when={"source": ("rule",)})
COUNT = Choice("count", ("10", "20", "40"), default="40", label=as_it_is, when={"source": ("rule",)})
LEARNS = Choice("learns", ("body", "head"))
STEPS = Choice("steps", ("20", "40", "80"), default="40", label=as_it_is)
SEED = Number("seed", 0, 1_000_000, 0)
WORD = Text("word", "happy", max_length=40)
TRAINING = (SOURCE, RULE, COUNT, LEARNS, STEPS, SEED)
SETTINGS = (*TRAINING, WORD)
MOST_BODY = Limits().full_parameters  # maximum number of parameters for full training; a server may allow fewer


def used(seen: Seen) -> Payload:
    """Build the payload with which the page reports whether its own pairs are used."""
    return {"words": seen.here.plain(), "least": LEAST_PAIRS, "wanted": seen.settings.source == "page"}


def read_used(sent: object, scene: Scene) -> tuple[Pair, ...]:
    """Parse the pairs sent by the page."""
    return read_listed(sent)


def start(seen: Seen) -> Payload:
    """Describe the training that the settings specify, or the reason why it cannot start."""
    words, chosen = seen.here, seen.settings
    try:
        if chosen.source == "rule":
            parse_rules(chosen.rule)
        elif len(chosen.pairs) < LEAST_PAIRS:
            return {"text": words["few"].format(n=len(chosen.pairs), least=LEAST_PAIRS), "unready": True}
        if chosen.learns == "body" and seen.facts.n_params > MOST_BODY:
            return {"text": words["large"], "unready": True}
    except PlaygroundError as error:
        shown = notice(error, seen.facts.language)
        return {"text": f"{shown['text']} {shown['hint']}", "unready": True}
    count = len(PROMPTS) * int(chosen.count)
    source = (
        words["by_rule"].format(n=whole(count))
        if chosen.source == "rule"
        else words["by_page"].format(n=whole(len(chosen.pairs)))
    )
    return {"text": f"{source} {words[chosen.learns].format(steps=chosen.steps)}"}


def _python(seen: Seen, line: str) -> str:
    chosen, outcome = _chosen(seen), seen.result.learned.outcome
    pairs_line = "pairs = read_pairs(Path('pairs.jsonl').read_text())  # saved on the page"
    if chosen.source == "rule":
        ask = PairSettings(int(chosen.count), NEW_TOKENS, 1.0, chosen.seed)
        pairs_line = f"pairs = pairs_by_rule(lm, PROMPTS, parse_rules({chosen.rule!r}), {ask!r}).pairs"
    imports = [
        "from pathlib import Path",
        "from model.alignment.preferences import PROMPTS, PairSettings, pairs_by_rule, read_pairs, split",
        "from model.alignment.reward_model import RewardRecipe, calibration, train",
        "from model.alignment.reward_reading import change_words",
        "from model.alignment.rewards import parse_rules",
    ]
    recipe = outcome.recipe
    lines = [f"recipe = {recipe!r}", "found = train(lm, split(pairs, recipe.held_out, recipe.seed), recipe)"]
    facts = dataclasses.replace(seen.facts, model_id=MODEL) if seen.result.stored else seen.facts
    return model_script(facts, [pairs_line, *lines, line], imports)


def _chosen(seen: Seen) -> Settings:
    """Return the settings of what is shown: the visitor's, or the default ones of the stored run."""
    return read_all(SETTINGS, None, None) if seen.result.stored else seen.settings


def _source(seen: Seen) -> Payload:
    """Return the source line of a part that shows the stored run; {} for the visitor's own."""
    return {"source": stored_runs.note(stored_runs.read(seen.view), seen.facts.language)} if seen.result.stored else {}


def _curve(seen: Seen, field: str, form: str, reference: float) -> Payload:
    words, outcome = seen.here, seen.result.learned.outcome
    series = {
        words["train"]: [getattr(look, field) for look in outcome.looks],
        words["held_out"]: [getattr(look, f"held_out_{field}") for look in outcome.looks],
    }
    named = {"step": seen.words["loss.step"], "value": words["value"], "reference": words["reference"]}
    return {
        "figure": curve_figure([look.step for look in outcome.looks], series, named, reference, form),
        "title": words["title"],
        "note": words["note"],
        "columns": [seen.words["loss.pairs"], named["step"], words["value"]],
        "python": _python(seen, f"[look.held_out_{field} for look in found.looks]"),
    } | _source(seen)


def loss(seen: Seen) -> Payload:
    """Draw the loss by step; the reference line is ln 2, the loss for equal rewards."""
    return _curve(seen, "loss", ".4g", math.log(2))


def accuracies(seen: Seen) -> Payload:
    """Draw the fraction of pairs in which the chosen text has the higher reward, by step."""
    return _curve(seen, "accuracy", ".1%", 0.5)


def calibrated(seen: Seen) -> Payload:
    """Draw the calibration: the fraction of agreeing pairs by predicted probability, with the counts of the bins."""
    words, calibration = seen.here, seen.result.learned.outcome.calibrated
    named = {key: words[key] for key in ("predicted", "agreed", "perfect", "count", "pairs")}
    return {
        "figure": calibration_figure(calibration.predicted, calibration.agreed, calibration.counts, named),
        "title": words["title"],
        "note": words["note"].format(n=whole(int(calibration.counts.sum()))),
        "columns": [words["pairs"], words["predicted"], words["agreed"]],
        "python": _python(seen, "calibration(found.margins)"),
    } | _source(seen)


def facts(seen: Seen) -> Payload:
    """Describe the trained model: its accuracy, pairs and loss, and its name on the shelf."""
    words, outcome = seen.here, seen.result.learned.outcome
    last = outcome.looks[-1]
    share, n = accuracy(outcome.margins), len(outcome.margins)
    values = {"share": percent(share), "n": whole(n)}
    values |= dict(zip(("low", "high"), map(percent, wilson(share, n)), strict=True))
    items = [
        [words["accuracy"], words["accuracy_text"].format(**values)],
        [words["pairs"], words[f"pairs_{outcome.by}"].format(n=whole(outcome.pairs), held=whole(outcome.held_out))],
        [words["loss"], words["loss_text"].format(train=nats(last.loss), held=nats(last.held_out_loss))],
    ]
    if not seen.result.stored:
        items.append([words["kept"], words["kept_text"].format(name=seen.result.learned.name)])
    if outcome.ties:
        items.insert(2, [words["ties"], words["ties_text"].format(n=whole(outcome.ties))])
    if outcome.dropped:
        items.append([words["dropped"], words["dropped_text"].format(n=whole(outcome.dropped))])
    return {"title": words["title"], "items": items}


def along(seen: Seen) -> Payload:
    """Draw the prompt with each token colored by the reward of the text up to and including it."""
    words, reading = seen.here, seen.result.reading
    reach = max(2 * reading.deviation, 1e-6)
    values = reading.along.astype(float)
    texts = [signed(value) for value in values]
    return {
        "title": words["title"],
        "note": words["note"].format(reward=signed(float(values[-1]))),
        "words": {"hover": words["token"], "told": words["told"]},
        "tokens": list(reading.pieces),
        "values": {"reward": texts},
        "places": [float(np.clip(0.5 + value / (2 * reach), 0, 1)) for value in values],
        "scale": {
            "label": words["label"],
            "ramps": {name: list(stops) for name, stops in SIGNED_RAMPS.items()},
            "ticks": [[0, signed(-reach)], [0.5, "0"], [1, signed(reach)]],
        },
        "names": [words["position"], words["piece"], words["label"]],
        "lines": [[at, *each] for at, each in enumerate(zip(reading.pieces, texts, strict=True))],
        "python": _python(seen, f"found.reward.along(lm.encode({seen.result.reading.text!r}).ids)"),
    } | _source(seen)


def changes(seen: Seen) -> Payload:
    """Draw the change in reward if each word of the prompt is deleted, and if it is replaced."""
    words, changed = seen.here, seen.result.reading.changed
    if changed is None:
        return {"empty": {"text": words["no_words"], "hint": words["no_words_hint"]}}
    word, text = _chosen(seen).word.strip(), seen.result.reading.text
    named = {key: words[key] for key in ("change", "without")}
    named["instead"] = words["instead"].format(word=word)
    return {
        "figure": words_figure(
            changed.words, changed.without - changed.reward, changed.instead - changed.reward, named
        ),
        "title": words["title"].format(reward=signed(changed.reward)),
        "note": words["note"],
        "columns": [words["what"], words["change"], words["word"]],
        "python": _python(seen, f"change_words(found.reward, lambda text: lm.encode(text).ids, {text!r}, {word!r})"),
    } | _source(seen)


def texts(seen: Seen) -> Payload:
    """Build the table of the held-out texts with the highest and the lowest rewards."""
    words, outcome = seen.here, seen.result.learned.outcome
    rows = [
        [signed(each.reward), words["chosen"] if each.chosen else words["rejected"], each.prompt, visible(each.text)]
        for each in (*outcome.best, *reversed(outcome.worst))
    ]
    return {
        "title": words["title"].format(n=len(outcome.best)),
        "about": words["about"],
        "columns": [words[key] for key in ("reward", "pair", "prompt", "text")],
        "rows": rows,
        "same": False,
    } | _source(seen)


def first_glance(seen: Seen) -> Payload:
    """Build the numbers and texts of the reward model: its accuracy, and the best of several texts per prompt."""
    here, outcome = Words(seen.all_words, "glance"), seen.result.learned.outcome
    titles = here["first"], here["best"]
    stage = Stage("accuracy", outcome.looks[0].held_out_accuracy, accuracy(outcome.margins), titles, form=percent)
    note = _source(seen).get("source", "")
    return {"glance": glance_of_choice(seen.facts.language, stage, outcome.four), "note": note}


FOLDED = ("facts", ("loss", "accuracies"), "along", ("changes", "calibrated"), "texts")
NAMES = ("facts", "loss", "accuracies", "along", "changes", "calibrated", "texts")
VIEW = View(
    "reward_model",
    settings=SETTINGS,
    measures=(
        Measure(
            "trained",
            measure_reward,
            depends=("model",),
            settings=(*(each.name for each in TRAINING), "pairs"),
            slow=True,
            locks=False,
            question=question,
            at_page=True,
        ),
        Measure("run", measure_run, depends=("plain",), settings=("word",), uses=("trained",)),
    ),
    layout=("start", "glance", "form", "pairs", "fold", *FOLDED),
    parts={
        "pairs": Asking("pairsused", read_used, used, settings=("source",)),
        "start": Job("trained", start, settings=(*(each.name for each in TRAINING), "pairs")),
        "glance": Custom("firstglance", first_glance, of="run", settings=()),
        "fold": fold("more", *(f"reward_model_{name}" for name in NAMES)),
        "facts": Custom("normfacts", facts, of="run", settings=()),
        "loss": Figure(loss, of="run", settings=()),
        "accuracies": Figure(accuracies, of="run", settings=()),
        "along": Custom("shaded", along, of="run", settings=()),
        "changes": Figure(changes, of="run", settings=("word",)),
        "calibrated": Figure(calibrated, of="run", settings=()),
        "texts": Table(texts, of="run", settings=()),
    },
)
