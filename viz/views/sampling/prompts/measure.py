"""What the view "Prompts as programs" asks of a model: which variants, on which questions."""

from dataclasses import dataclass

from model.progress import Progress, Told
from model.prompting.prompts import Shots, fits
from model.prompting.question_sets import QuestionSet, keys, question_set
from model.prompting.trial import SCORES, Curve, Row, Variant, answered, curve
from viz.numbers import whole
from viz.seam.jobs import background
from viz.seam.panels import nbytes_of
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Number, Range, Settings, Text

# What is compared, each beside a prompt without examples. "shuffled" is few-shot with the answers dealt out anew.
WAYS = {
    "examples": ("zero", "few", "shuffled"),
    "reasoning": ("zero", "few", "chain", "votes"),
    "tools": ("zero", "few", "react"),
    "system": ("zero", "chat", "system"),
    "all": ("zero", "few", "shuffled", "chain", "votes", "react", "chat", "system"),
}
NAMES = WAYS["all"]
COUNTS = ("1", "2", "4", "8")  # examples
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
class Found:
    """What each variant made of the questions, by name, and the variants that this set or model has no room for."""

    rows: tuple[tuple[str, Row], ...]
    left_out: tuple[str, ...]


def chosen_set(settings: Settings) -> QuestionSet:
    """Return the set that is asked."""
    return question_set(settings.asked)


def questions(settings: Settings) -> int:
    """How many questions are asked."""
    there = len(chosen_set(settings).questions)
    return there if settings.most == "all" else min(int(settings.most), there)


def possible(name: str, asked: QuestionSet, chat: bool) -> bool:
    """Whether a set and a model have what a variant needs; `chat`: whether the model has a chat template."""
    return fits(name, asked) and (chat or name not in ("chat", "system"))


def variant_of(name: str, settings: Settings) -> Variant:
    """Return the variant of that name, without the settings that it does not depend on."""
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
    """Return the variants by name, the set and the number of questions: all that decides the answers."""
    asked, chat = chosen_set(settings), bool(scene.model.tokenizer.chat_template)
    names = [name for name in WAYS[settings.ways] if name != "shuffled" or int(settings.count) > 1]
    there = tuple((name, variant_of(name, settings)) for name in names if possible(name, asked, chat))
    left_out = tuple(name for name in names if not possible(name, asked, chat))
    return Settings((("asked", asked.key), ("most", questions(settings)), ("rows", there), ("left_out", left_out)))


def measure(scene: Scene, settings: Settings, progress: Progress) -> Found:
    """Return every variant on the same questions. What was measured before, be it in a job that was
    cancelled, is kept.
    """
    asked, n, rows = question_set(settings.asked), settings.most, []
    words = scene.words
    said = ""
    for at, (name, variant) in enumerate(settings.rows):

        def told(done: int, total: int | None, what: str, before: int = at * n, last: str = said) -> None:
            progress(before + done, len(settings.rows) * n, Told(last))

        key = ("prompts", scene.model.id, asked.key, n, variant)
        stored = scene.playground.results.peek(key)
        row = stored.value if stored else answered(scene.model, asked, variant, n, told)
        if not stored:
            scene.playground.results.put(key, background.Result(row, 0.0, nbytes_of(row)))
        rows.append((name, row))
        label = words[f"prompts.names.{name}"]
        said = words["prompts.job.so_far"].format(name=label, right=whole(sum(row.right)), n=whole(n))
    return Found(tuple(rows), settings.left_out)


def curve_question(scene: Scene, settings: Settings) -> Settings:
    """Return the set, how many questions, how they are scored."""
    return Settings((("asked", settings.asked), ("most", questions(settings)), ("score", settings.score)))


def measure_curve(scene: Scene, settings: Settings, progress: Progress) -> Curve:
    """Few-shot accuracy by number of examples, their order and their labels."""
    asked = question_set(settings.asked)
    return curve(scene.model, asked, ON_CURVE, ORDERS, settings.score, settings.most, progress)
