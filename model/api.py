"""The public Python API: load a model, trace a prompt. The app is built only on this API.

>>> from model.api import load_model                                            # doctest: +SKIP
>>> run = load_model("smollm2-135m").trace("The cat sat on the mat")            # doctest: +SKIP
>>> run.pattern(layer=17, head=3).sum(axis=1)                                   # doctest: +SKIP
array([1., 1., 1., 1., 1., 1.], dtype=float32)
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd

from model.arguments import shown
from model.errors import CheckpointError, InputError, say
from model.free_memory import need_room
from model.generation.generate import Tick, generate
from model.generation.strategies import STRATEGIES, DecodingPlan, Strategy
from model.generation.together import SharedBatch
from model.gpt import decode_step, decode_ways, linear
from model.gpt.config import ModelConfig
from model.gpt.edits import Edit
from model.gpt.mixers.needs import both_ways, headless, no_mask, not_alone
from model.gpt.transformer import Transformer
from model.hooked.config import needs_weights, no_lens
from model.hooked.model import Hooked
from model.hooked.trace import run as run_hooked
from model.loading import devices, prepared, sources
from model.loading.checkpoint import build, load_folder, load_gguf
from model.loading.halves import DTYPES
from model.loading.stored import are_of, stored_bytes, stored_dtype
from model.progress import Passed, Progress, silent, unseen
from model.public import one_of, public, unchecked
from model.records import Tokens
from model.sampling.rules.matching import compiled
from model.sampling.rules.rule import KINDS, Rule, rule_of
from model.text import tokenizer
from model.text.chat import chat_turns, ending
from model.text.surrogates import joined
from model.text.tokenizer import Tokenizer, from_vocabulary
from model.text.vocabulary import with_rows
from model.tracing.continued import run_after
from model.tracing.trace import Trace


def never() -> bool:
    """Return False: the weights of a loaded model do not change."""
    return False


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """A model with its tokenizer. `id` identifies both in every RunKey."""

    id: str
    label: str
    model: Transformer
    tokenizer: Tokenizer
    dtype: str = "float32"
    device: str = "cpu"
    changed: Callable[[], bool] = never  # whether the weights were changed after this was built (model.in_memory)

    @property
    def gives(self) -> frozenset[str]:
        """The parts that can be read: "weights", "layers", "lens", "next" and "token" (viz.seam.view.Needs).

        A hooked model gives "next", "token" and perhaps "lens"; a model that reads in both directions "layers", and
        "token" if it predicts masked tokens; one whose layers are not `alone` everything but "weights".
        """
        if isinstance(self.model, Hooked):
            return frozenset({"lens", "next", "token"} if self.model.norm is not None else {"next", "token"})
        if self.config.two_way:
            masks = not self.config.headless and self.tokenizer.mask_id is not None
            return frozenset({"layers", "token"} if masks else {"layers"})
        every = frozenset({"weights", "layers", "lens", "next", "token"})
        return every if self.config.alone else every - {"weights"}

    def lacks(self, what: str) -> InputError:
        """Return the error that says why the model does not give one of the parts."""
        if not isinstance(self.model, Hooked):
            if self.config.headless:
                return headless(self.label)
            if not self.config.alone:
                return not_alone(self.label, self.config)
            return no_mask(self.label) if what == "token" else both_ways(self.label, "token" in self.gives)
        hooked = cast(Hooked, self.model)
        return no_lens(hooked.config, hooked.why) if what == "lens" else needs_weights(hooked.config)

    @property
    def config(self) -> ModelConfig:
        """The model's architecture."""
        return self.model.config

    @cached_property
    def n_params(self) -> int:
        """The number of parameters, with a tied head counted once."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    @cached_property
    def nbytes(self) -> int:
        """The size of the parameters in memory in bytes, without those that stay in their files."""
        return sum(parameter.nbytes for parameter in self.model.parameters()) - stored_bytes(self.model)

    @public()
    def encode(self, text: str, *, special: bool = False) -> Tokens:
        """Tokenize a text, between the tokens that the vocabulary puts first and last, if it does.

        If `special`, special tokens written in the text are recognized; a model that reads in both directions always
        recognizes them, since its prompts name the tokens to predict ([MASK]). Raises InputError for an unpaired
        surrogate.
        """
        special = special or self.config.two_way
        return self.tokenizer.tokens(self.tokenizer.prompt_ids(text, special=special))

    @public(ids=unchecked)
    def decode(self, ids: Sequence[int]) -> str:
        """Decode token ids; bytes that are not UTF-8 become U+FFFD."""
        return self.tokenizer.decode(ids)

    @public(prompt=unchecked)
    def trace(self, prompt: str | Sequence[int] | np.ndarray) -> Trace:
        """Run a prompt, given as text or as token ids, and store what is needed to compute any part of the run.

        Raises InputError if the prompt is empty or exceeds the context length, or if ids are outside the vocabulary.
        """
        tokens = self.encode(prompt) if isinstance(prompt, str) else self.tokenizer.tokens(prompt)
        return self.trace_tokens(tokens)

    @public(prompt=unchecked, max_new_tokens=unchecked, seed=unchecked)
    def generate(
        self,
        prompt: str | Sequence[int] | np.ndarray,
        strategies: str | Strategy | Sequence[str | Strategy] = "greedy",
        max_new_tokens: int = 40,
        seed: int = 0,
        *,
        shared: bool = True,
        stop: str | Sequence[str] = (),
        edits: Sequence[Edit] = (),
        together: bool = False,
    ) -> Iterator[Tick]:
        """Continue a prompt with one or several strategies, all in one batch; returns an iterator of steps.

        `prompt` is text, or token ids (those of `chat(...)`, for example). A strategy is a key of
        model.generation.strategies.STRATEGIES or a `Strategy`: a method of METHODS there with its options, preceded by
        warps of model.sampling.warps.WARPS, in order. Each strategy generates the same text as it would alone. 1 to 8
        strategies, at most 64 rows in total (a beam or a candidate is a row), 1 to 4096 new tokens.

        Every `Tick` has a `Change` for each strategy, in the same order, or None for a text that had already ended.
        `drop` is the number of tokens to remove from its end (a beam search may revise its choice). `made` are new
        tokens, each with its log-probability, rank and alternatives in the model itself and its probability after the
        warps. `ended` is "" or the reason why the text ends: "end" (an end-of-text token, which is the last token),
        "stop" (a string of `stop` is complete), "rule" (a rule is complete, and there is no end token), "stuck" (no
        token fits the rule), "length" or "context" (no room is left). Closing the iterator stops generation at once.

        The same seed gives the same text. If `shared`, all strategies get the same random number at a step, so that
        only their methods differ; otherwise each has its own. If `edits` are given, the model generates with them, as
        `trace(text).edit(...)` would predict each token; an edit by a mean over the prompt is rejected. If `together`,
        texts that are generated at the same time, in turns or by several threads, share forward passes as one batch,
        each with its own edits, and each text is the same as it would be alone.

        Raises InputError at this call, before the model runs, if the prompt is empty or exceeds the context, or if a
        name is unknown or a setting out of range.

        >>> for tick in lm.generate("Once upon a time", ("greedy", "top_p"), 20, seed=1):    # doctest: +SKIP
        ...     print([lm.decode([made.id for made in change.made]) for change in tick.changes if change])
        """
        tokens = self.encode(prompt) if isinstance(prompt, str) else self.tokenizer.tokens(prompt)
        several = (strategies,) if isinstance(strategies, str | Strategy) else _listed(strategies)
        chosen = [_strategy(each) if isinstance(each, str) else each for each in several]
        stops = (stop,) if isinstance(stop, str) else _listed(stop)
        texts = tuple(joined(text) if isinstance(text, str) else text for text in stops if text)
        plan = DecodingPlan(max_new_tokens, seed, shared, ending=ending(self.tokenizer), stop=texts, edits=tuple(edits))
        arguments = (tokens.ids.tolist(), chosen, plan, self.tokenizer.vocab_size, self.decode)
        return SharedBatch.of(self.model).generate(*arguments) if together else generate(self.model, *arguments)

    @public(kind=one_of(KINDS))
    def rule(self, kind: str, text: str) -> Rule:
        """Return a rule for generated text, as the `rule` of a step "fits", which excludes every token that breaks it.

        kind: "choice" (one text per line), "regex", "json" (a JSON schema), "gbnf" (a grammar of llama.cpp) or "lark"
        (llguidance's dialect). The rule begins after the prompt. It needs the package llguidance. Raises InputError
        for a rule with a mistake, with its place, and for one that takes too much time or memory.

        >>> step = Step("fits", rule=lm.rule("choice", " yes\\n no"))                           # doctest: +SKIP
        """
        return compiled(rule_of(self.tokenizer, kind, text))

    def chat(
        self, messages: Sequence[Mapping[str, str]], *, answer: bool = True, continue_final: bool = False
    ) -> Tokens:
        """Tokenize a conversation in the format that this model was trained to answer, up to the beginning of its
        answer.

        Messages are {"role": "system", "user" or "assistant", "content": text}. Special tokens in the text of a
        message remain plain text. If `answer` is false, the conversation ends with its last message. If
        `continue_final`, its last message is left open as the beginning of an answer, which the model continues.
        Raises InputError if the model has no chat template or its template does not accept these messages,
        UnsupportedModel if the template cannot be used.

        >>> begun = {"role": "assistant", "content": "The capital of France is"}                # doctest: +SKIP
        >>> ids = lm.chat([question, begun], continue_final=True).ids                           # doctest: +SKIP
        """
        ids, _ = chat_turns(self.tokenizer, messages, answer=answer, continue_final=continue_final)
        return self.tokenizer.tokens(ids)

    def turns(
        self, messages: Sequence[Mapping[str, str]], *, answer: bool = True, continue_final: bool = False
    ) -> np.ndarray:
        """Return the index of the message that each token of `chat` belongs to, -1 for the template's own. [T]"""
        _, turns = chat_turns(self.tokenizer, messages, answer=answer, continue_final=continue_final)
        return np.array(turns, np.int64)

    def trace_tokens(
        self,
        tokens: Tokens,
        others: Iterable[Trace] = (),
        progress: Progress = silent,
        passed: Passed = unseen,
    ) -> Trace:
        """Trace existing Tokens, continuing the run in `others` with the longest common prefix.

        `progress` is called for each layer, and may raise to end the run. `passed` receives the trace before each
        layer but the first; its methods already return the final numbers of earlier layers.
        """
        if isinstance(self.model, Hooked):
            traced = run_hooked(self.model, tokens, model_id=self.id, progress=progress)
            traced.piece = self.tokenizer.piece
            return traced
        traced = run_after(self.model, tokens, others, model_id=self.id, progress=progress, passed=passed)
        traced.piece = self.tokenizer.piece
        return traced


def _listed(values: object) -> list:
    """Return several values as a list. Raises InputError for a single value."""
    if isinstance(values, bytes | Mapping) or not isinstance(values, Iterable):
        raise InputError("This is not a list.", shown(values), "Give a list, or one name.")
    return list(values)


def _strategy(name: str) -> Strategy:
    if name not in STRATEGIES:
        hint = say("Choose one of: {}.", ", ".join(STRATEGIES))
        raise InputError("No strategy has this name.", shown(name), hint)
    return STRATEGIES[name]


def list_models() -> pd.DataFrame:
    """List the models that can be loaded by name: id, label, one-line description, download size in bytes, and whether
    they are cached.

    Further columns: n_params, n_ctx in tokens, whether it is a chat model, and its languages.
    """
    present = sources.available()
    rows = [vars(entry) | {"ready": entry.id in present} for entry in sources.BUILT_IN]
    # a bundled model is either in the repository or unavailable
    return pd.DataFrame([row for row in rows if row["ready"] or row["download_bytes"]]).reset_index(drop=True)


@public(dtype=one_of(DTYPES), device=unchecked)
def load_model(
    model_id: str | Path,
    *,
    progress: Progress | None = None,
    offline: bool = False,
    stored: bool = False,
    dtype: str = "float32",
    device: str = "cpu",
) -> LanguageModel:
    """Load a model by id ("smollm2-135m", "hub:OWNER/NAME"), or from a folder or .gguf file.

    Missing files are downloaded first, unless `offline`. If `stored`, the weights of safetensors stay in their files,
    with their own type, which is slower but allows models larger than memory. `dtype` is the type of matrix products,
    "float32", "bfloat16" or "float16" (model.loading.halves), and `device`, "cpu", "cuda" or "mps", computes them
    (model.loading.devices). Stored weights work with float32 and with their own type; for any other type, they are
    copied and rounded. Raises InputError for an unknown id, type or device, DownloadError, CheckpointError for broken
    files and UnsupportedModel for an unsupported architecture.
    """
    devices.check(device)
    resolved = sources.resolve(str(model_id), progress, offline=offline, allow_paths=True)
    return load_resolved(resolved, progress, stored=stored, dtype=dtype, device=device)


def load_resolved(
    resolved: sources.Resolved,
    progress: Progress | None = None,
    *,
    stored: bool = False,
    dtype: str = "float32",
    device: str = "cpu",
) -> LanguageModel:
    """Load the weights that `sources.resolve` located; `stored` has no effect on a .gguf file, whose weights are
    quantized.
    """
    stored = stored and resolved.kind == "folder"
    if stored or (dtype, device) != ("float32", "cpu"):
        return _load_placed(resolved, progress, stored, dtype, device)
    if resolved.kind == "gguf":
        model, vocabulary, codes = prepared.opened(resolved.path, lambda: open_resolved(resolved, progress))
        decode_step.take_codes(model, codes)
    else:
        model, vocabulary = open_resolved(resolved, progress)
        decode_step.take_bfloat16(model)
        model.join()
    linear.tune(model, sources.cache_dir())
    decode_ways.remember(model)
    return LanguageModel(resolved.model_id, resolved.label, model, vocabulary)


def _load_placed(
    resolved: sources.Resolved, progress: Progress | None, stored: bool, dtype: str, device: str
) -> LanguageModel:
    """Load a model whose products have the given type and device: from safetensors one matrix at a time, never all in
    float32.

    If `stored`, the weights stay in their files, unless their type differs from that of the products.
    """
    if resolved.kind == "gguf":
        model, vocabulary, _ = prepared.opened(resolved.path, lambda: open_resolved(resolved, progress))
    else:
        model, vocabulary = open_resolved(resolved, progress, stored=True)
    precision = dtype
    if stored and (dtype == "float32" or are_of(model, DTYPES[dtype])):
        model, where = devices.streamed(model, device, DTYPES[dtype])
        precision = f"{stored_dtype(model)} weights" if dtype == "float32" else dtype
    else:
        if device == "cpu":
            need_room(DTYPES[dtype].itemsize * sum(parameter.numel() for parameter in model.parameters()))
        model, where = devices.placed(model, device, DTYPES[dtype])
    return LanguageModel(resolved.model_id, resolved.label, model, vocabulary, precision, where)


def open_resolved(
    resolved: sources.Resolved, progress: Progress | None = None, *, stored: bool = False
) -> tuple[Transformer, Tokenizer]:
    """Load the plain model and its tokenizer, for further training. Raises the same errors as `load_model`."""
    if resolved.kind == "gguf":
        config, state, metadata = load_gguf(resolved.path, progress)
        vocabulary = tokenizer.from_gguf(metadata)
    else:
        config, state = load_folder(resolved.path, progress, stored=stored)
        vocabulary = tokenizer.from_folder(resolved.path, config.vocab_size)
    if (config.n_segment or 1) > 1 and vocabulary.separator_id:
        config = replace(config, segment_end=vocabulary.separator_id)
    if vocabulary.vocab_size > config.vocab_size:
        got = f"{vocabulary.vocab_size} tokens, {config.vocab_size} rows"
        hint = "Use the vocabulary and the weights of the same model."
        raise CheckpointError("The vocabulary has more tokens than the model has rows.", got, hint)
    return build(config, state), from_vocabulary(with_rows(vocabulary.vocabulary, config.vocab_size))
