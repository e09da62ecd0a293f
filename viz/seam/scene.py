"""A scene: one prompt on one model, with edits and a selection. Every view measures and draws a scene."""

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from model.api import LanguageModel
from model.errors import PlaygroundError
from model.predictions.masked import masked_logits
from model.records import RunKey, Tokens
from model.tracing.trace import Trace
from viz.seam.jobs.stored import MODEL, PROMPT
from viz.seam.selection import Selection
from viz.words import Catalogue, words
from viz.work.playground import Playground
from viz.work.prompt import Prompt


@dataclass(frozen=True)
class SceneKey:
    """A scene as a hashable, picklable value of a few hundred bytes. Any process with the model can open it."""

    model_id: str
    prompt: Prompt
    ids: tuple[int, ...]
    selection: Selection
    language: str

    def open(self, playground: Playground) -> "Scene":
        """Open the scene with its model and its trace, looked up or recomputed; raises PlaygroundError."""
        model = playground.opened(self.model_id)
        tokens = model.tokenizer.tokens(list(self.ids))
        trace = playground.trace_tokens(model, tokens, self.selection.edits)
        run = run_id(trace.key, self.language)
        catalogue = words(self.language)
        return Scene(playground, model, self.prompt, trace, run, catalogue, self.language, self.selection)


@dataclass(frozen=True, eq=False)
class Scene:
    """An open scene: the model, the trace, the selection and the user's language."""

    playground: Playground
    model: LanguageModel
    prompt: Prompt
    trace: Trace  # includes the visitor's edits, if any
    run: str  # a short name of the trace and the language
    words: Catalogue
    language: str
    picked: Selection  # contains at least one head
    visitor: str = ""  # owner of the page; not part of the key, so only results that depend on "visitor" may use it
    is_example: bool = False  # whether it is the scene whose slow results are stored, shown beside another one
    measured: dict[tuple, Any] = field(default_factory=dict, repr=False)  # results that are dropped after one redraw
    _plain: list[Trace] = field(default_factory=list, repr=False)
    _others: dict[tuple[str, Prompt], Trace | PlaygroundError] = field(default_factory=dict, repr=False)

    @property
    def key(self) -> SceneKey:
        """The scene as a hashable, picklable value."""
        ids = tuple(self.trace.tokens.ids.tolist())
        return SceneKey(self.model.id, self.prompt, ids, self.picked, self.language)

    @property
    def head(self) -> tuple[int, int]:
        """The main head, which is the one selected last."""
        return self.picked.heads[-1]

    @property
    def tokens(self) -> Tokens:
        """The prompt's tokens."""
        return self.trace.tokens

    @property
    def turns(self) -> np.ndarray | None:
        """The conversation's turn of each token [T], -1 for the template's own tokens; None for a bare prompt."""
        return self.playground.read(self.model, self.prompt).turns if self.prompt.turns else None

    @property
    def position(self) -> int:
        """The position whose next token is examined: the last selected token or, if none is selected, the last of the
        prompt.

        In a model that reads in both directions, it is the token there that is predicted: by default the first mask,
        or else the last token that is not special.
        """
        return max(self.picked.tokens, default=self._usual if self.masks else len(self.tokens) - 1)

    @property
    def masks(self) -> bool:
        """True if the model predicts masked tokens instead of the next one."""
        return self.model.config.two_way

    @property
    def mask(self) -> str:
        """The text of the mask token, in a model that predicts masked tokens; "" without one."""
        number = self.model.tokenizer.mask_id if self.masks else None
        return "" if number is None else self.model.tokenizer.piece(number)

    @property
    def _usual(self) -> int:
        ids, tokenizer = self.tokens.ids.tolist(), self.model.tokenizer
        if tokenizer.mask_id in ids:
            return ids.index(tokenizer.mask_id)
        special = set(tokenizer.special.values())
        return max((at for at, each in enumerate(ids) if each not in special), default=len(ids) - 1)

    @property
    def actual(self) -> int | None:
        """The prompt's own token that is predicted at the position: the next one, or the one that is masked there.
        None if there is none.
        """
        if not self.masks:
            return int(self.tokens.ids[self.position + 1]) if self.position + 1 < len(self.tokens) else None
        own = int(self.tokens.ids[self.position])
        return None if own == self.model.tokenizer.mask_id else own

    def logits(self, run: Trace | None = None) -> np.ndarray:
        """Return the logits of the next token after the position, or of the masked token there: those of the scene's
        run, or of another one of its prompt. float32 [V]
        """
        run = run or self.trace
        if self.masks:
            return masked_logits(run, self.position, self.model.tokenizer.mask_id)
        return run.logits_at(self.position)

    @property
    def unedited(self) -> Trace:
        """The trace of the same prompt without edits. Looked up once: `prepare` does so before a measure acquires the
        model.
        """
        if not self.picked.edits:
            return self.trace
        if not self._plain:
            self._plain.append(self.playground.trace_tokens(self.model, self.tokens))
        return self._plain[0]

    def beside(self, model_id: str, prompt: Prompt) -> Trace:
        """Return the unedited run of another prompt or another model; raises PlaygroundError if it cannot be run.

        Looked up once: `prepare` does so before a measure acquires the model.
        """
        key = (model_id, prompt)
        if key not in self._others:
            try:
                self._others[key] = self.playground.trace(self.playground.opened(model_id), prompt)
            except PlaygroundError as error:
                self._others[key] = error
        other = self._others[key]
        if isinstance(other, PlaygroundError):
            raise other
        return other

    @cached_property
    def limit(self) -> int:
        """The maximum context length to measure: the model's own, within the limits of this server."""
        n_ctx = self.model.config.n_ctx
        return n_ctx if self.is_example else min(n_ctx, self.playground.options.max_tokens)

    @cached_property
    def example(self) -> "Scene | None":
        """The scene whose slow results are stored: the default model and prompt, in the language of this one.

        None on a server without examples or without that model, and for the example itself.
        """
        playground = self.playground
        if self.is_example or not playground.options.examples:
            return None
        try:
            model, prompt = playground.opened(MODEL), Prompt(PROMPT)
            trace = playground.trace(model, prompt)
        except PlaygroundError:
            return None
        run, picked = run_id(trace.key, self.language), Selection(heads=(default_head(trace),))
        return Scene(playground, model, prompt, trace, run, self.words, self.language, picked, is_example=True)


def run_id(key: RunKey, language: str) -> str:
    """Compute a short name of a run, with which the page checks whether a picture belongs to the current prompt."""
    text = json.dumps([key.model_id, key.ids, [str(edit) for edit in key.edits], language])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def prompt_id(scene: Scene) -> str:
    """Compute a short name of the prompt's tokens, independent of edits, so that the selection survives edits."""
    key = scene.trace.key
    return run_id(RunKey(key.model_id, key.ids), "")


def source(scene: Scene, edited: bool = True) -> str:
    """Format the source line below a figure: the model behind its numbers and, if the run has edits, whether they are
    `edited`, too.
    """
    text = scene.words["pattern.source"].format(
        model=scene.model.label, dtype=scene.model.dtype, ms=round(scene.trace.seconds * 1000)
    )
    if scene.picked.edits:
        text += f" · {scene.words['pattern.edited' if edited else 'pattern.unedited']}"
    return text


def default_head(trace: Trace) -> tuple[int, int]:
    """Return the head that attends most to the previous token, whose map is the easiest to understand first; of a
    layer with attention, if there is one.
    """
    scores = trace.head_metrics()["previous_token"].fillna(0)
    with_attention = [trace.config.is_attention(layer) for layer, _ in scores.index]
    layer, head = (scores[with_attention] if any(with_attention) else scores).idxmax()
    return int(layer), int(head)
