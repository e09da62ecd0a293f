"""The measurements of the view "Prompts as programs": variants of a prompt on a question set."""

from dataclasses import dataclass

from model.progress import Progress, ProgressMessage
from model.prompting.prompts import Shots, fits
from model.prompting.question_sets import QuestionSet, keys, question_set
from model.prompting.trial import SCORES, AccuracyCurve, Variant, VariantRow, answered, curve
from viz.numbers import whole
from viz.seam.jobs import background
from viz.seam.jobs.result_size import nbytes_of
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Number, Range, Settings, Text

# The variants of each comparison: first a prompt without examples; "shuffled" is few-shot with shuffled labels.
WAYS = {
    "examples": ("zero", "few", "shuffled"),
    "reasoning": ("zero", "few", "chain", "votes"),
    "tools": ("zero", "few", "react"),
    "system": ("zero", "chat", "system"),
    "all": ("zero", "few", "shuffled", "chain", "votes", "react", "chat", "system"),
}
NAMES = WAYS["all"]
COUNTS = ("1", "2", "4", "8")  # offered numbers of examples
ON_CURVE = (0, 1, 2, 4, 8)
ORDERS = 3
VOTING, SYSTEM = {"ways": ("reasoning", "all")}, {"ways": ("system", "all")}
MOST_ORDER = 1000

SETTINGS = (
    Choice("asked", keys(), default="pairs"),
    Choice("ways", tuple(WAYS)),
    Choice("count", COUNTS, default="8", label=lambda words, option: option),
    Choice("most", ("8", "16", "all"), default="all"),
    Choice("score", SCORES),
    Number("order", 0, MOST_ORDER, 0),
    Choice("samples", ("5", "9"), default="5", label=lambda words, option: option, when=VOTING),
    Range("temperature", 0.1, 1.5, 0.1, 0.7, when=VOTING),
    Text("system", "", max_length=300, when=SYSTEM),
)
OF_TRIAL = tuple(each.name for each in SETTINGS)
OF_CURVE = ("asked", "most", "score")


@dataclass(frozen=True)
class TrialResult:
    """The answers of each variant, by name, and the variants that the question set or the model does not support."""

    rows: tuple[tuple[str, VariantRow], ...]
    left_out: tuple[str, ...]


def chosen_set(settings: Settings) -> QuestionSet:
    """Return the selected question set."""
    return question_set(settings.asked)


def questions(settings: Settings) -> int:
    """Return the number of questions to ask."""
    available = len(chosen_set(settings).questions)
    return available if settings.most == "all" else min(int(settings.most), available)


def possible(name: str, selected: QuestionSet, chat: bool) -> bool:
    """Return whether the question set and the model support a variant. `chat`: whether there is a chat template."""
    return fits(name, selected) and (chat or name not in ("chat", "system"))


def variant_of(name: str, settings: Settings) -> Variant:
    """Build the variant with the given name, leaving out settings that do not affect it."""
    if name in ("zero", "chat"):
        return Variant(name, Shots(0), settings.score if name == "zero" else "text")
    if name == "system":
        return Variant(name, Shots(0), "text", system=settings.system)
    shots = Shots(int(settings.count), settings.order, name == "shuffled")
    if name in ("few", "shuffled"):
        return Variant("few", shots, settings.score)
    if name == "votes":
        return Variant(name, shots, "text", int(settings.samples), settings.temperature)
    return Variant(name, shots, "text")


def question(scene: Scene, settings: Settings) -> Settings:
    """Return all that determines the answers: the variants by name, the question set and the number of questions."""
    selected, chat = chosen_set(settings), bool(scene.model.tokenizer.chat_template)
    names = [name for name in WAYS[settings.ways] if name != "shuffled" or int(settings.count) > 1]
    rows = tuple((name, variant_of(name, settings)) for name in names if possible(name, selected, chat))
    left_out = tuple(name for name in names if not possible(name, selected, chat))
    return Settings((("asked", selected.key), ("most", questions(settings)), ("rows", rows), ("left_out", left_out)))


def measure(scene: Scene, settings: Settings, progress: Progress) -> TrialResult:
    """Run every variant on the same questions, reusing stored results, including those of a canceled job."""
    selected, n, rows = question_set(settings.asked), settings.most, []
    words = scene.words
    message = ""
    for index, (name, variant) in enumerate(settings.rows):

        def report(done: int, total: int | None, what: str, before: int = index * n, last: str = message) -> None:
            progress(before + done, len(settings.rows) * n, ProgressMessage(last))

        key = ("prompts", scene.model.id, selected.key, n, variant)
        stored = scene.playground.results.peek(key)
        row = stored.value if stored else answered(scene.model, selected, variant, n, report)
        if not stored:
            scene.playground.results.put(key, background.Result(row, 0.0, nbytes_of(row)))
        rows.append((name, row))
        label = words[f"prompts.names.{name}"]
        message = words["prompts.job.so_far"].format(name=label, right=whole(sum(row.right)), n=whole(n))
    return TrialResult(tuple(rows), settings.left_out)


def curve_question(scene: Scene, settings: Settings) -> Settings:
    """Return the question set, the number of questions and the scoring method."""
    return Settings((("asked", settings.asked), ("most", questions(settings)), ("score", settings.score)))


def measure_curve(scene: Scene, settings: Settings, progress: Progress) -> AccuracyCurve:
    """Measure the few-shot accuracy by number of examples, in several orders, with correct and with shuffled labels."""
    selected = question_set(settings.asked)
    return curve(scene.model, selected, ON_CURVE, ORDERS, settings.score, settings.most, progress)
