"""State shared by all tabs: loaded models and recent traces, within the limits of this server."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from model.api import LanguageModel, list_models, load_resolved
from model.errors import InputError, PlaygroundError, PromptTooLong, say
from model.gpt.edits import Edit
from model.loading.sources import Resolved, resolve
from model.progress import Passed, Progress, silent, unseen
from model.quantization.int8 import int8
from model.recorded.record import AttentionRecord
from model.records import RunKey, Tokens
from model.store import ByteLRU
from model.tracing.trace import Trace, check_length
from viz.work.distant import DistantTrace
from viz.work.engine import Engine, EngineRequest
from viz.work.limits import PRIVATE, Allowed, limits_of
from viz.work.local import Local
from viz.work.model_lock import Turns
from viz.work.presence import Presence
from viz.work.processes.reward_shelf import RewardShelf
from viz.work.processes.training_process import PREFIX, Workshop, label
from viz.work.prompt import EncodedPrompt, Prompt, read
from viz.work.queue import Queue
from viz.work.running import ForwardProgress

MAX_CHARACTERS = PRIVATE.characters  # maximum number of characters in a prompt, on any server
RESULTS = 16  # 1/RESULTS of the memory is reserved for results of jobs
MOST_NAME = 200  # maximum length of a model's id in characters
RECENT = 16  # number of recent runs searched for a common prefix with a new run
MOST_FAILURES = 64  # maximum number of models whose failure to load is stored


@dataclass(frozen=True)
class Options:
    """The command-line options of the server."""

    model: str = "tinygpt"
    max_tokens: int = 1024
    memory_mb: int = 1024  # maximum size of traces and results in MB
    training_minutes: float = 20.0  # maximum duration of a training run in minutes; 0 switches training off
    offline: bool = False
    stored: bool = False  # keep the weights of safetensors in their files (memory-mapped)
    dtype: str = "float32"  # type of matrix products: a key of model.loading.halves.DTYPES
    device: str = "cpu"  # device of matrix products: one of model.loading.devices.KINDS
    local: Resolved | None = None  # the folder or .gguf file of --model
    others: tuple[Resolved, ...] = ()  # those of --models
    mcp: bool = False  # True to offer the endpoints also as tools for language models
    allowed: Allowed = PRIVATE
    public: bool = False  # open to the internet: requests are rate-limited, and any host name is accepted
    host: str = "127.0.0.1"  # the address on which the server listens
    hosts: tuple[str, ...] = ()  # additional host names
    embed: tuple[str, ...] = ()  # origins that may embed this page in a frame
    root: str = ""  # path that a proxy removes from every address
    proxies: int = 0  # number of trusted proxies; each appends an address to X-Forwarded-For
    login: Path | None = None  # a file with names and passwords
    lessons: Path | None = None  # a teacher's own folder of lessons
    workshop: str = ""  # keys of lessons, or "all", for a server that shows only lessons
    examples: bool = True  # show stored results until a visitor's own are measured

    @property
    def located(self) -> dict[str, Resolved]:
        """The folders and .gguf files of the command line, by model id."""
        return {each.model_id: each for each in (*([self.local] if self.local else []), *self.others)}


@dataclass(frozen=True, eq=False)
class Playground:
    """A store that loads models once, runs prompts once, and caches both within limits; safe to share between
    visitors.
    """

    options: Options
    engine: Engine = field(default_factory=Local)  # the engine that answers questions about models
    models: ByteLRU = field(default_factory=lambda: ByteLRU(6 << 30))
    given: dict[str, LanguageModel] = field(default_factory=dict)  # models in memory that `show` was given
    traces: ByteLRU = field(init=False)
    results: ByteLRU = field(init=False)  # results of jobs and of slow measures
    workshop: Workshop = field(init=False)
    failures: dict[str, PlaygroundError] = field(default_factory=dict)
    computing: Turns = field(default_factory=Turns)  # one forward pass at a time, because it uses every core
    running: ForwardProgress = field(default_factory=ForwardProgress)  # progress of that forward pass
    queue: Queue = field(init=False)  # the queue of waiting work
    rewards: RewardShelf = field(default_factory=RewardShelf)  # reward models trained by visitors
    presence: Presence = field(default_factory=Presence)  # open pages and their owners
    # attention given as arrays, by the name in its address, with its title
    recorded: dict[str, tuple[str, AttentionRecord]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        memory, allowed = self.options.memory_mb << 20, self.options.allowed
        object.__setattr__(self, "traces", ByteLRU(memory - memory // RESULTS))
        object.__setattr__(self, "results", ByteLRU(memory // RESULTS))
        object.__setattr__(self, "workshop", Workshop(limits_of(allowed, self.options.training_minutes)))
        object.__setattr__(self, "queue", Queue(allowed.bounds, self.presence.owner_of, self.engine.places))

    def choices(self, owner: str = "") -> list[tuple[str, str]]:
        """List the models in the picker as (label, id), with the visitor's own trained models last."""
        located, only = self.options.located, self.options.allowed.models
        labels = {row.id: row.label for row in list_models().itertuples()}
        named = [(labels.get(name, name), name) for name in only or labels if name not in located]
        trained = [(label(run), run.model_id) for run in self.workshop.of(owner) if self.workshop.find(run.model_id)]
        given = [(model.label, model.id) for model in self.given.values()]
        return given + [(each.label, name) for name, each in located.items()] + named + trained

    def give(self, model: LanguageModel) -> None:
        """Offer a model that is in memory already, on every page of this process."""
        stale = [key for key, each in self.given.items() if each.changed()]
        for key in stale:
            del self.given[key]
        self.given[model.id] = model

    def load(self, model_id: str, progress: Progress | None = None) -> LanguageModel:
        """Return the model with the given id, downloading and loading it if needed. Paths are accepted only from the
        command line.

        Raises InputError for an unknown id, or a model that this server does not offer.
        """
        if model := self.given.get(model_id):
            if model.changed():
                raise InputError("The weights of this model have changed.", shown(model.label), "Call show again.")
            return model
        self._check_offered(model_id)
        self.failures.pop(model_id, None)
        try:
            return self.models.get(model_id, lambda: self._loaded(model_id, progress))
        except PlaygroundError as error:
            for old in list(self.failures)[: 1 - MOST_FAILURES]:
                self.failures.pop(old, None)
            self.failures[model_id] = error
            raise

    def _loaded(self, model_id: str, progress: Progress | None) -> LanguageModel:
        stored, dtype, device = self.options.stored, self.options.dtype, self.options.device
        own = device if self.engine.is_here else "cpu"
        model = load_resolved(self._resolve(model_id, progress), progress, stored=stored, dtype=dtype, device=own)
        if model_id.startswith(PREFIX):
            return model
        self.engine.load(model)
        # the device on which its questions are answered
        return model if own == device else replace(model, device=device)

    def weights_of(self, model_id: str) -> Resolved:
        """Return the location of a model's weights, for a process that trains it further. Raises InputError as `load`
        does.
        """
        self._check_offered(model_id)
        return self._resolve(model_id, None)

    def _check_offered(self, model_id: str) -> None:
        """Raise InputError for a model that visitors may not choose or, if any model may be chosen, for an overlong
        id.
        """
        only = self.options.allowed.models
        if model_id in self.options.located or (model_id.startswith(PREFIX) and self.workshop.find(model_id)):
            return
        if only and model_id not in only:
            raise InputError("This server does not offer that model.", shown(model_id), "Choose one from the list.")
        if len(model_id) > MOST_NAME:
            raise InputError("No model has this name.", shown(model_id), "Choose one from the list.")

    def close(self) -> None:
        """End all training runs with their processes, and the engine; delete what visitors trained."""
        self.workshop.close()
        self.rewards.close()
        self.engine.close()

    def leave(self, owner: str) -> None:
        """End the training runs of a visitor whose page was closed, and delete the models that it trained."""
        self.workshop.leave(owner)
        mine = {each.id for each in self.rewards.of(owner)}
        self.rewards.leave(owner)

        def is_there(key: Any) -> bool:
            if isinstance(key, tuple) and key[0] == "reward":
                return key[1] not in mine
            name = key[0] if isinstance(key, tuple) else key
            return not name.startswith(PREFIX) or self.workshop.find(name) is not None

        self.models.drop(is_there)

    def opened(self, model_id: str) -> LanguageModel:
        """Return a model that was loaded before; one that failed to load fails again without another attempt.

        A page calls this at every key press; only the user's explicit choice starts a download.
        """
        if model_id in self.failures:
            raise self.failures[model_id]
        return self.load(model_id)

    def loaded(self) -> dict[str, LanguageModel]:
        """Return the picker's models that are in memory, by id."""
        models = {model_id: self.given.get(model_id) or self.models.peek(model_id) for _, model_id in self.choices()}
        return {model_id: model for model_id, model in models.items() if model is not None}

    def eight_bit(self, model: LanguageModel) -> LanguageModel:
        """Return the model with 8-bit weights, which are computed once."""
        return self.models.get((model.id, "int8"), lambda: int8(model))

    def _resolve(self, model_id: str, progress: Progress | None) -> Resolved:
        if located := self.options.located.get(model_id):
            return located
        if trained := self.workshop.find(model_id):
            return trained
        return resolve(model_id, progress, offline=self.options.offline)

    def trace(self, model: LanguageModel, prompt: Prompt, edits: tuple[Edit, ...] = ()) -> Trace:
        """Return the trace of a prompt. Raises InputError if it is empty, or too long for the model or this server."""
        return self.trace_tokens(model, self.tokens(model, prompt), edits)

    def tokens(self, model: LanguageModel, prompt: Prompt) -> Tokens:
        """Tokenize the prompt. Raises InputError if there are no tokens, or too many for the model or this server."""
        return self.read(model, prompt).tokens

    def read(self, model: LanguageModel, prompt: Prompt) -> EncodedPrompt:
        """Tokenize the prompt, with the turn of each token. Raises the errors of `tokens`, and those of a chat
        template.

        A template runs in a separate process; its output is cached.
        """
        limit, most = min(model.config.n_ctx, self.options.max_tokens), self.options.allowed.characters
        if prompt.turns:
            if prompt.characters > most:
                hint = say("Shorten it to {} tokens or fewer.", limit)
                raise InputError("The prompt is too long.", f"{prompt.characters} characters", hint)
            reading = self.results.get(("conversation", model.id, prompt), lambda: read(model, prompt))
        else:
            reading = read(model, replace(prompt, text=prompt.text[:most]))
            if len(reading.tokens) > limit or prompt.characters > most:
                got = (
                    f"{len(reading.tokens)} tokens" if prompt.characters <= most else f"{prompt.characters} characters"
                )
                raise _too_long(model, reading.tokens, got, limit)
        check_length(len(reading.tokens), limit)
        return reading

    def trace_tokens(
        self, model: LanguageModel, tokens: Tokens, edits: tuple[Edit, ...] = (), passed: Passed = unseen
    ) -> Trace:
        """Return the trace of tokens that are within the limits. `passed` observes the progress of a run that is
        computed in this process.
        """
        key = RunKey(model.id, tuple(tokens.ids.tolist()), edits)
        unedited = self.trace_tokens(model, tokens) if edits else None

        def make(progress: Progress = silent) -> Trace:
            if unedited is not None:
                return unedited.edit(*edits, progress=progress, passed=passed)
            return model.trace_tokens(tokens, self._recent(model.id), progress, passed)

        def run_here() -> Trace:
            with self.computing, self.running.reporting() as progress:
                return make(progress)

        def late() -> Trace:  # recomputes a remote run in this process; the caller may hold the lock
            return make() if self.computing.mine() else run_here()

        def run() -> Trace:
            ran = self.engine.run(
                EngineRequest(model.id, run_here, lambda: None if model.id.startswith(PREFIX) else key)
            )
            return ran if isinstance(ran, Trace) else cast(Trace, DistantTrace(key, tokens, model.config, ran, late))

        return self.traces.get(key, run)

    def _recent(self, model_id: str) -> list[Trace]:
        """Return a model's most recent unedited runs in this process, so that a new run can reuse their common
        prefix.
        """

        def plain(key: Any) -> bool:
            return isinstance(key, RunKey) and key.model_id == model_id and not key.edits

        return [trace for trace in self.traces.newest(plain, RECENT) if isinstance(trace, Trace)]


def shown(name: str) -> str:
    """Shorten a name to one line for a message."""
    return " ".join(name[:MOST_NAME].split())[:80]


def _too_long(model: LanguageModel, tokens: Tokens, got: str, limit: int) -> PromptTooLong:
    """Build the error for a prompt beyond the model's context or the server's limit, with the longest prefix that
    fits.
    """
    tokenizer = model.tokenizer
    begin = tokenizer.begin_ids
    start = len(begin) if tuple(tokens.ids[: len(begin)].tolist()) == begin else 0
    count = limit
    while True:  # a prefix by itself may be tokenized into different and more tokens
        cut = b"".join(tokens.raw[start:count]).decode("utf-8", "ignore")
        cut = tokenizer.typed(tokens.ids[start:count]) if tokenizer.library else cut
        if count <= start or len(model.encode(cut)) <= limit:
            break
        count -= 1
    if limit < model.config.n_ctx:
        most = say("This server takes {} tokens at most.", limit)
        return PromptTooLong("The prompt is too long for this server.", got, most, cut, limit)
    hint = say("Its context is {} tokens.", limit)
    return PromptTooLong("The prompt is too long for this model.", got, hint, cut, limit)
