"""Run B: another prompt, another model or the run without edits, selected in a form shared by the views of the tab."""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from model.errors import InputError, PlaygroundError
from model.loading.sources import available
from model.records import Tokens
from viz.seam.scene import Scene
from viz.seam.settings import Settings, choice, number
from viz.seam.view import Asking, Measure, Payload, Seen
from viz.views.compare.alignment import Alignment, align
from viz.words import Words
from viz.work.processes.training_process import PREFIX
from viz.work.prompt import Prompt, python_of, with_text

WITH = ("prompt", "model", "unedited")
# Phrases of the example prompts with their replacements; only the first phrase found in a prompt is replaced.
SWAPS = (
    ("John gave", "Mary gave"),
    ("The cat", "The dog"),
    ("geese behind", "ducks behind"),
    ("def subtract", "def multiply"),
    (" red dog", " red kite"),
    (" fox named Fizz", " fox named Zog"),
    (" lost his favorite toy", " got a new toy"),
    ("Once upon a time", "One day"),
    ("The Eiffel Tower", "The Colosseum"),
    ("hot -> cold", "hot -> warm"),
)
# Words with a word of the same kind: the first one in a prompt is replaced.
WORDS = {
    "cat": "dog", "dog": "cat", "boy": "girl", "girl": "boy", "man": "woman", "woman": "man", "king": "queen",
    "queen": "king", "mother": "father", "father": "mother", "Mary": "John", "John": "Mary", "Tom": "Anna",
    "Lily": "Tom", "France": "Italy", "Germany": "France", "Paris": "Rome", "London": "Paris", "red": "blue",
    "blue": "red", "happy": "sad", "sad": "happy", "big": "small", "small": "big", "he": "she", "she": "he",
    "one": "two", "two": "three",
}  # fmt: skip
LONG = 3
_MOST = 999  # maximum layer or head index that the page may request
_OWNER = "run_b"


@dataclass(frozen=True)
class RunBRequest:
    """A request for run B."""

    how: str  # one of WITH
    model_id: str  # "" if no other model is available
    prompt: Prompt
    layer: int | None = None  # layer of the head to compare in another model; None selects the counterpart of A's head
    head: int | None = None
    failed: bool = False  # whether the other model failed to load

    @property
    def line(self) -> str:
        """Python lines that create the run as `other`."""
        if self.how == "unedited":
            return "other = run.unedited()"
        if self.how == "model" and (self.prompt.turns or self.prompt.special):
            load = f"other_lm = load_model({self.model_id!r})"
            return f"{load}\nother = other_lm.trace({python_of(self.prompt, 'other_lm')})"
        loaded = f"load_model({self.model_id!r})" if self.how == "model" else "lm"
        return f"other = {loaded}.trace({python_of(self.prompt)})"


@dataclass(frozen=True)
class Other:
    """Run B, and its relation to run A."""

    request: RunBRequest
    label: str  # label of the model of run B
    dtype: str
    same_model: bool
    same_run: bool
    one_vocabulary: bool  # whether every id denotes the same text in both models
    one_shape: bool  # whether both models have the same number of layers and of heads
    tokens: Tokens
    alignment: Alignment
    seconds: float = field(compare=False)  # duration of run B


@dataclass(frozen=True)
class NoRunB:
    """The reason why run B is missing: a word key of `run_b`, or an empty one and the model's error."""

    word: str  # "no_model", "no_edits", or "" if the model's error is given below
    what: str = ""
    got: str = ""
    hint: str = ""


# --- the request for run B ---


def suggestion(prompt: str) -> str:
    """Suggest a prompt to compare with, which differs in one place.

    Replaces the first phrase of SWAPS that the prompt contains, else its first word of WORDS; without one, its first
    two words of three letters or more change places. A prompt without two such words stays unchanged.
    """
    for old, new in SWAPS:
        if old in prompt:
            return prompt.replace(old, new, 1)
    words = list(re.finditer(r"[^\W\d_]+", prompt))
    for word in words:
        if word.group() in WORDS:
            return prompt[: word.start()] + WORDS[word.group()] + prompt[word.end() :]
    long = [word for word in words if len(word.group()) >= LONG]
    others = [word for word in long if word.group() != long[0].group()]
    if not others:
        return prompt
    first, second = long[0], others[0]
    between = prompt[first.end() : second.start()]
    return prompt[: first.start()] + second.group() + between + first.group() + prompt[second.end() :]


def models_ready(scene: Scene) -> dict[str, str]:
    """Return {id: label} of the other models that are ready: downloaded, local, or trained by the visitor."""
    playground = scene.playground
    ready = (*playground.options.located, *available())
    return {
        model_id: label
        for label, model_id in playground.choices(scene.visitor)
        if model_id != scene.model.id and (model_id in ready or model_id.startswith(PREFIX))
    }


def read(sent: object, scene: Scene) -> RunBRequest:
    """Parse the form's value; replace an invalid choice by its first option."""
    how = choice(sent, "with", WITH)
    if how == "prompt":
        other = with_text(scene.prompt, _text(sent) or suggestion(scene.prompt.own))
        return RunBRequest(how, scene.model.id, other)
    if how == "unedited":
        return RunBRequest(how, scene.model.id, scene.prompt)
    model_id = choice(sent, "model", tuple(models_ready(scene)) or ("",))
    place = (int(number(sent, name, 0, _MOST, -1)) for name in ("layer", "head"))
    layer, head = (None if n < 0 else n for n in place)
    return RunBRequest(how, model_id, scene.prompt, layer, head, model_id in scene.playground.failures)


def _text(sent: object) -> str:
    """Return the prompt that the page sent, or an empty string if it sent none."""
    text = sent.get("prompt") if isinstance(sent, Mapping) else None
    return text if isinstance(text, str) else ""


def draw(seen: Seen) -> Payload:
    """Build the form that selects run B."""
    words, ready = Words(seen.all_words, "run_b"), seen.result
    head = {"kind": "number", "min": 0, "max": _MOST, "value": "", "when": {"with": ["model"]}}
    return {
        "controls": [
            {
                "name": "with",
                "kind": "views",
                "label": words["with"],
                "value": WITH[0],
                "options": [[key, words[f"with_{key}"]] for key in WITH],
            },
            {
                "name": "prompt",
                "kind": "text",
                "lines": 2,
                "label": words["turn" if seen.facts.prompt.turns else "prompt"],
                "value": "",
                "placeholder": suggestion(seen.facts.prompt.own),
                "when": {"with": ["prompt"]},
            },
            {
                "name": "model",
                "kind": "choice",
                "label": words["model"],
                "value": next(iter(ready), ""),
                "options": [[key, label] for key, label in ready.items()],
                "when": {"with": ["model"]},
            },
            {"name": "layer", "label": words["layer"], **head},
            {"name": "head", "label": words["head"], "help": words["head_help"], **head},
        ]
    }


PART = Asking("controls", read, draw, of="models", depends=("prompt",), shared=True)


# --- the run ---


def beside(scene: Scene, settings: Settings) -> tuple[str, Prompt] | None:
    """Return the model and the prompt of run B, for measures that read its trace; None if no model is selected."""
    request: RunBRequest = settings.run_b
    return (request.model_id, request.prompt) if request.model_id else None


def without_head(scene: Scene, settings: Settings) -> Settings:
    """Drop the selected head of the other model, for measures that do not depend on it."""
    return settings.but(run_b=dataclasses.replace(settings.run_b, layer=None, head=None))


def _models(scene: Scene, settings: Settings) -> dict[str, str]:
    return models_ready(scene)


def _model_only(scene: Scene, settings: Settings) -> Settings:
    request: RunBRequest = settings.run_b
    return Settings((("model_id", request.model_id), ("failed", request.failed)))


def _one_vocabulary(scene: Scene, settings: Settings) -> bool:
    """Return whether every id denotes the same text in both models; False if the other model is not available."""
    try:
        b = scene.playground.opened(settings.model_id).tokenizer if settings.model_id else None
    except PlaygroundError:
        return False
    a = scene.model.tokenizer
    if b is None or a is b or a.vocab_size != b.vocab_size:
        return a is b
    return all(a.piece(i) == b.piece(i) for i in range(a.vocab_size))


def _other(scene: Scene, settings: Settings, results: Mapping[str, Any]) -> Other | NoRunB:
    """Describe run B and its relation to run A, or return the reason why it is missing."""
    request, one_vocabulary = settings.run_b, results["vocabulary"]
    if not request.model_id:
        return NoRunB("no_model")
    if request.how == "unedited" and not scene.picked.edits:
        return NoRunB("no_edits")
    try:
        trace = scene.beside(request.model_id, request.prompt)
        model = scene.playground.opened(request.model_id)
    except PlaygroundError as error:
        return NoRunB("", error.what, error.got, error.hint)
    a, b = scene.tokens, trace.tokens
    shapes = {(config.n_layer, config.n_head) for config in (scene.model.config, model.config)}
    return Other(
        request,
        model.label,
        model.dtype,
        request.model_id == scene.model.id,  # two objects, if this server has loaded the model again in between
        trace.key == scene.trace.key,
        one_vocabulary,
        len(shapes) == 1,
        b,
        # Align by token ids, or by the tokens' bytes if the vocabularies differ.
        align(a.ids.tolist(), b.ids.tolist()) if one_vocabulary else align(a.raw, b.raw),
        trace.seconds,
    )


MEASURES = (
    Measure("models", _models, ("model", "built_in", "trained"), locks=False, keep=False),
    Measure("vocabulary", _one_vocabulary, ("model",), ("run_b",), locks=False, question=_model_only, owner=_OWNER),
    Measure(
        "other", _other, ("run",), ("run_b",), locks=False, question=without_head, uses=("vocabulary",), owner=_OWNER
    ),
)


def problem(words: Mapping[str, str], refused: NoRunB) -> Payload:
    """Explain why run B is missing and link to the view that can fix it; raises InputError for a model's error."""
    if not refused.word:
        raise refusal(words, refused)
    payload = {"text": words[f"run_b.{refused.word}"], "hint": words[f"run_b.{refused.word}_hint"]}
    if refused.word == "no_edits":
        payload["way"] = {"tab": "effects", "view": "edits", "text": words["run_b.open_effects"]}
    return {"empty": payload}


def refusal(words: Mapping[str, str], refused: NoRunB) -> InputError:
    """Convert the reason why run B is missing to an error. `words` is the full catalog."""
    if refused.word:
        return InputError(words[f"run_b.{refused.word}"], "", words[f"run_b.{refused.word}_hint"])
    return InputError(refused.what, refused.got, refused.hint)
