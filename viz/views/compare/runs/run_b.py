"""Run B of the compare tab: another prompt, another model or the run without edits, and how it lies beside run A."""

from collections.abc import Mapping
from dataclasses import dataclass

from model.api import LanguageModel
from model.errors import InputError
from model.gpt.head_metrics import HEAD_METRICS
from model.gpt.trace import Trace
from model.loading.sources import available
from viz.page.background import kept
from viz.page.parts import choice, number
from viz.page.scene import Scene, run_id
from viz.views.compare.runs.figures import Alignment, align, nearest

WITH = ("prompt", "model", "unedited")
# A word of an example and one that can stand in its place; the first that a prompt has is swapped.
SWAPS = (
    ("John gave", "Mary gave"),
    ("The cat", "The dog"),
    ("geese behind", "ducks behind"),
    ("bread", "water"),
    ("holds 3", "holds 2"),
    ("def subtract", "def multiply"),
)


@dataclass(frozen=True, eq=False)
class Other:
    """Run B, and how it compares with run A."""

    model: LanguageModel
    trace: Trace
    head: tuple[int, int]
    how: str  # of WITH
    run: str  # a short name
    line: str  # of Python, that makes it
    one_vocabulary: bool  # do both models cut text into the same tokens?
    one_shape: bool  # as many layers and heads?
    alignment: Alignment


def suggestion(prompt: str) -> str:
    """A prompt to compare with: the same with one word swapped where we know one, else the prompt itself."""
    for old, new in SWAPS:
        if old in prompt:
            return prompt.replace(old, new, 1)
    return prompt


def models_ready(scene: Scene) -> dict[str, str]:
    """id -> label of the other models that need no download."""
    playground = scene.playground
    local, here = playground.options.local, available()
    return {
        model_id: label
        for label, model_id in playground.choices()
        if model_id != scene.model.id and (model_id in here or (local and model_id == local.model_id))
    }


def other_run(scene: Scene, asked: object, ready: Mapping[str, str]) -> Other:
    """The run that is asked for; raises PlaygroundError where there is none."""
    how, words, playground = choice(asked, "with", WITH), scene.words, scene.playground
    model, prompt, line = scene.model, scene.prompt, "other = run.unedited()"
    if how == "prompt":
        prompt = text_of(asked, "prompt") or suggestion(prompt)
        line = f"other = lm.trace({prompt!r})"
    elif how == "model":
        if not ready:
            raise InputError(words["compare.no_model"], "", words["compare.no_model_hint"])
        model = playground.opened(choice(asked, "model", tuple(ready)))
        line = f"other = load_model({model.id!r}).trace({prompt!r})"
    elif not scene.picked.edits:
        raise InputError(words["compare.no_edits"], "", words["compare.no_edits_hint"])
    trace = playground.trace(model, prompt)
    one_vocabulary = _one_vocabulary(scene, model)
    shapes = [(each.config.n_layer, each.config.n_head) for each in (scene.model, model)]
    head = scene.head
    if model is not scene.model:
        head = _head_of(scene, trace, asked, shapes[0] == shapes[1])
    return Other(
        model,
        trace,
        head,
        how,
        run_id(trace.key, scene.language),
        line,
        one_vocabulary,
        shapes[0] == shapes[1],
        _aligned(scene, trace, one_vocabulary),
    )


def text_of(asked: object, name: str) -> str:
    """A text that the page sent, "" where there is none."""
    found = asked.get(name) if isinstance(asked, Mapping) else None
    return found if isinstance(found, str) else ""


def _one_vocabulary(scene: Scene, model: LanguageModel) -> bool:
    """Whether every id means the same text in both models."""
    a, b = scene.model.tokenizer, model.tokenizer
    if a is b or a.vocab_size != b.vocab_size:
        return a is b

    def same() -> bool:
        return all(a.piece(i) == b.piece(i) for i in range(a.vocab_size))

    return kept(scene.playground, ("vocabulary", scene.model.id, model.id), same)


def _head_of(scene: Scene, trace: Trace, asked: object, one_shape: bool) -> tuple[int, int]:
    """The head of another model: the one asked for, else the same one, else the one with the nearest numbers."""
    shares = [n for n, entry in enumerate(HEAD_METRICS.values()) if entry.high == 1]
    mine, theirs = scene.trace.metrics[(*scene.head, shares)], trace.metrics[..., shares]
    layer, head = scene.head if one_shape else nearest(mine, theirs)
    layer = number(asked, "layer", 0, trace.config.n_layer - 1, layer)
    return int(layer), int(number(asked, "head", 0, trace.config.n_head - 1, head))


def _aligned(scene: Scene, trace: Trace, one_vocabulary: bool) -> Alignment:
    """By ids, or by the tokens' bytes where the ids of one model mean nothing to the other."""
    a, b = scene.trace.tokens, trace.tokens

    def make() -> Alignment:
        return align(a.ids.tolist(), b.ids.tolist()) if one_vocabulary else align(a.raw, b.raw)

    return kept(scene.playground, ("alignment", scene.trace.key, trace.key), make)
