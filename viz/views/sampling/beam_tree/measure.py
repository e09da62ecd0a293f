"""The measurements of the view "Beam search": the record of a search, greedy decoding, and exhaustive search."""

from dataclasses import dataclass

from model.generation.search.beam_tree import BeamTree, beam_tree
from model.generation.search.exhaustive import BATCH, MostProbable, most_probable
from model.generation.strategies import DecodingPlan, Strategy
from model.progress import Progress
from model.sampling.fits import nothing_fits
from model.sampling.pipeline import Step
from model.text.chat import ending, typable
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Range, Settings
from viz.seam.view import Measure
from viz.views.sampling.pipelines import PRESETS, Pipeline
from viz.words import Words

MOST_BEAMS, MOST_TOKENS = 8, 16
GROUPS = ("1", "2", "3", "4", "8")
RUNS = ("256", "1024", "4096")  # offered limits of exhaustive search
# Steps before the search: none, those of the editor in The distribution, or a preset that leaves more than one token.
STEPS = ("none", "mine", *(key for key in PRESETS if key not in ("plain", "greedy")))
GREEDY = (("beams", 1), ("length_penalty", 0))  # one beam without a penalty is greedy decoding


@dataclass(frozen=True, eq=False)
class Searched:
    """A beam search, and the text of greedy decoding."""

    tree: BeamTree
    typed: tuple[str | None, ...]  # the text of each candidate as it would be typed; None if that is impossible
    greedy: tuple[int, ...]
    greedy_total: float  # sum of its log-probabilities after the steps, nats
    ending: frozenset[int]  # tokens that end a text


def most_tokens(scene: Scene) -> int:
    """Return the maximum number of new tokens that this server allows."""
    return min(MOST_TOKENS, scene.playground.options.allowed.new_tokens)


def _label(words: object, option: str) -> str:
    return option


def _steps_label(words: Words, option: str) -> str:
    return words[f"steps_{option}"] if option in ("none", "mine") else words.catalogue[f"pipeline.preset_{option}"]


SETTINGS = (
    Range("beams", 1, MOST_BEAMS, default=4),
    Range("tokens", 2, most_tokens, default=lambda scene: min(8, most_tokens(scene))),
    Range("length_penalty", -2.0, 2.0, 0.1, 1.0),
    Choice("groups", GROUPS, label=_label),
    Range("diversity", 0.0, 5.0, 0.1, 1.0, when={"groups": GROUPS[1:]}),
    Choice("steps", STEPS, label=_steps_label),
    Choice("runs", RUNS, default="1024", label=_label),
)
OF_STEPS = ("steps", "pipeline")
OF_TREE = ("beams", "tokens", "length_penalty", "groups", "diversity", *OF_STEPS)
OF_EXACT = ("tokens", "runs", *OF_STEPS)


def steps_of(settings: Settings) -> tuple[Step, ...]:
    """Return the steps before the search. Raises InputError if the chosen ones were rejected."""
    if settings.steps == "mine":
        settings.pipeline.check()
        return settings.pipeline.steps
    return PRESETS.get(settings.steps, ())


def strategy_of(settings: Settings) -> Strategy:
    """Return the strategy that the settings describe. Raises InputError if its steps were rejected."""
    options, steps = (("beams", settings.beams), ("length_penalty", settings.length_penalty)), steps_of(settings)
    if settings.groups == "1":
        return Strategy(steps, "beam", options)
    more = (("groups", int(settings.groups)), ("diversity", settings.diversity))
    return Strategy(steps, "diverse_beam", (*options, *more))


def same_steps(scene: Scene, settings: Settings) -> Settings:
    """Return the settings with the chosen steps as those of the editor, so that equal ones are one question."""
    chosen = settings.pipeline if settings.steps == "mine" else Pipeline(steps_of(settings))
    return settings.but(steps="mine", pipeline=chosen)


def question(scene: Scene, settings: Settings) -> Settings:
    """Return the settings as `same_steps` does, without a diversity penalty that has no effect."""
    settings = same_steps(scene, settings)
    return settings.but(diversity=0.0) if settings.groups == "1" else settings


def measure(scene: Scene, settings: Settings, progress: Progress) -> Searched:
    """Run the beam search and greedy decoding. Raises InputError if the groups do not divide the beams, and DeadEnd if
    the steps leave no text.
    """
    lm, ids = scene.model, scene.tokens.ids.tolist()
    end, strategy = ending(lm.tokenizer), strategy_of(settings)
    plan = DecodingPlan(settings.tokens, ending=end)
    size = lm.tokenizer.vocab_size
    tree = beam_tree(lm.model, ids, strategy, plan, size, progress=progress)
    greedy = beam_tree(lm.model, ids, Strategy(strategy.steps, "beam", GREEDY), plan, size)
    if not tree.results or not greedy.results:
        raise nothing_fits()
    best = greedy.results[0]
    typed = tuple(typable(lm.tokenizer, tree.ids(at)) for at in range(len(tree.candidates)))
    return Searched(tree, typed, greedy.ids(best), greedy.candidates[best].total, end)


def measure_exact(scene: Scene, settings: Settings, progress: Progress) -> MostProbable:
    """Search for the most probable text of this length."""
    lm, end = scene.model, ending(scene.model.tokenizer)
    ids, size = scene.tokens.ids.tolist(), lm.tokenizer.vocab_size
    limit, steps = int(settings.runs), steps_of(settings)
    return most_probable(lm.model, ids, settings.tokens, size, end, limit, progress, steps)


def cost(scene: Scene, settings: Settings) -> tuple[float, float]:
    """Estimate the number of forward passes and of tokens that they process."""
    return 2 * settings.tokens, len(scene.tokens) * 2 + settings.tokens * (settings.beams + 1)


def cost_of_exact(scene: Scene, settings: Settings) -> tuple[float, float]:
    """Estimate the number of forward passes and of tokens that they process if the search reaches its limit."""
    runs = int(settings.runs)
    return settings.tokens + 2 * runs / BATCH, len(scene.tokens) + runs * settings.tokens


MEASURES = (
    Measure("tree", measure, ("plain",), OF_TREE, slow=True, question=question, cost=cost),
    Measure("exact", measure_exact, ("plain",), OF_EXACT, slow=True, question=same_steps, cost=cost_of_exact),
)
