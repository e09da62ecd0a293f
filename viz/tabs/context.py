"""What every tab is given: the loaded models and recent traces, behind the limits this server was started with."""

import threading
from dataclasses import dataclass, field

from model.api import LanguageModel, list_models, load_resolved
from model.errors import InputError, PlaygroundError
from model.int8 import int8
from model.interventions import Edit
from model.lesson import Limits
from model.live import Workshop, label
from model.progress import Progress
from model.records import RunKey, Tokens
from model.sources import Resolved, resolve
from model.store import ByteLRU
from model.trace import Trace, check_length

MAX_CHARACTERS = 200_000  # of a prompt; tokenising more would only tell that it is too long


@dataclass(frozen=True)
class Options:
    """How the server was started."""

    model: str = "tinygpt"
    max_tokens: int = 1024
    memory_mb: int = 1024  # for traces
    training_minutes: float = 20.0  # of one run; 0 switches training off
    offline: bool = False
    local: Resolved | None = None  # a folder or .gguf file named on the command line
    mcp: bool = False  # offers its functions as tools of language models, too


@dataclass(frozen=True, eq=False)
class Playground:
    """Loads models once, runs prompts once, and remembers both within bounds; safe to share between visitors."""

    options: Options
    models: ByteLRU = field(default_factory=lambda: ByteLRU(6 << 30))
    traces: ByteLRU = field(init=False)
    results: ByteLRU = field(default_factory=lambda: ByteLRU(64 << 20))  # of jobs and of slow measures
    workshop: Workshop = field(init=False)
    failures: dict[str, PlaygroundError] = field(default_factory=dict)
    computing: threading.Lock = field(default_factory=threading.Lock)  # one forward at a time: it uses every core

    def __post_init__(self) -> None:
        object.__setattr__(self, "traces", ByteLRU(self.options.memory_mb << 20))
        object.__setattr__(self, "workshop", Workshop(Limits(minutes=self.options.training_minutes)))

    def choices(self, owner: str = "") -> list[tuple[str, str]]:
        """(label, id) of what the picker offers, the visitor's own trained models last."""
        named = [(row.label, row.id) for row in list_models().itertuples()]
        local = self.options.local
        trained = [(label(run), run.model_id) for run in self.workshop.of(owner) if self.workshop.find(run.model_id)]
        return ([(local.label, local.model_id)] if local else []) + named + trained

    def load(self, model_id: str, progress: Progress | None = None) -> LanguageModel:
        """The model of that id, fetched and loaded if need be. Paths are taken from the command line only."""
        self.failures.pop(model_id, None)
        try:
            return self.models.get(model_id, lambda: load_resolved(self._resolve(model_id, progress), progress))
        except PlaygroundError as error:
            self.failures[model_id] = error
            raise

    def opened(self, model_id: str) -> LanguageModel:
        """The same for a model that was loaded before; one that failed to load fails again without another try.

        A page calls this at every key; only a person who asks for it starts a download.
        """
        if model_id in self.failures:
            raise self.failures[model_id]
        return self.load(model_id)

    def eight_bit(self, model: LanguageModel) -> LanguageModel:
        """The same model with 8-bit weights, made once."""
        return self.models.get((model.id, "int8"), lambda: int8(model))

    def _resolve(self, model_id: str, progress: Progress | None) -> Resolved:
        local = self.options.local
        if local and model_id == local.model_id:
            return local
        if trained := self.workshop.find(model_id):
            return trained
        return resolve(model_id, progress, offline=self.options.offline)

    def trace(self, model: LanguageModel, prompt: str, edits: tuple[Edit, ...] = ()) -> Trace:
        """The trace of a prompt; raises InputError for one that is empty or too long for the model or this server."""
        return self.trace_tokens(model, self.tokens(model, prompt), edits)

    def tokens(self, model: LanguageModel, prompt: str) -> Tokens:
        """The prompt's tokens; raises InputError for none, or too many for the model or this server."""
        limit = min(model.config.n_ctx, self.options.max_tokens)
        if len(prompt) > MAX_CHARACTERS:
            hint = f"Shorten it to {limit} tokens or fewer."
            raise InputError("The prompt is too long.", f"{len(prompt)} characters", hint)
        tokens = model.encode(prompt)
        check_length(len(tokens), limit)
        return tokens

    def trace_tokens(self, model: LanguageModel, tokens: Tokens, edits: tuple[Edit, ...] = ()) -> Trace:
        """The trace of tokens that are within the limits."""
        key = RunKey(model.id, tuple(tokens.ids.tolist()), edits)
        unedited = self.trace_tokens(model, tokens) if edits else None

        def run() -> Trace:
            with self.computing:
                return unedited.edit(*edits) if edits else model.trace_tokens(tokens)

        return self.traces.get(key, run)
