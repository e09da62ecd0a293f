"""The public Python API: load a model, trace a prompt. The app is built on nothing else.

>>> from model.api import load_model                                            # doctest: +SKIP
>>> run = load_model("smollm2-135m").trace("The cat sat on the mat")            # doctest: +SKIP
>>> run.pattern(layer=17, head=3).sum(axis=1)                                   # doctest: +SKIP
array([1., 1., 1., 1., 1., 1.], dtype=float32)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from model import linear, sources, tokenizer
from model.config import ModelConfig
from model.decoders import STRATEGIES, Plan, Strategy
from model.generate import Tick, generate
from model.loading.checkpoint import build, load_folder, load_gguf
from model.progress import Progress
from model.records import Tokens
from model.tokenizer import Tokenizer
from model.trace import Trace, check_length, run
from model.transformer import Transformer


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """A model with its tokenizer. `id` names both in every RunKey."""

    id: str
    label: str
    model: Transformer
    tokenizer: Tokenizer
    dtype: str = "float32"
    device: str = "cpu"

    @property
    def config(self) -> ModelConfig:
        """The architecture."""
        return self.model.config

    @property
    def n_params(self) -> int:
        """Parameters, a tied head counted once."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    @property
    def nbytes(self) -> int:
        """Bytes of the parameters."""
        return sum(parameter.nbytes for parameter in self.model.parameters())

    def encode(self, text: str, *, special: bool = False) -> Tokens:
        """The text as tokens, after a beginning-of-text token where the vocabulary asks for one.

        With `special`, special tokens written in the text are read as such. Raises InputError for lone surrogates.
        """
        tokens = self.tokenizer.encode(text, special=special)
        if not self.tokenizer.add_bos or len(tokens) == 0:
            return tokens
        return self.tokenizer.tokens([self.tokenizer.bos_id, *tokens.ids.tolist()])

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids; bytes that are not UTF-8 become U+FFFD."""
        return self.tokenizer.decode(ids)

    def trace(self, prompt: str | Sequence[int] | np.ndarray) -> Trace:
        """Run a prompt, given as text or as token ids, and keep what is needed to look at any part of it.

        Raises InputError for an empty prompt, one beyond the context, or ids outside the vocabulary.
        """
        tokens = self.encode(prompt) if isinstance(prompt, str) else self.tokenizer.tokens(prompt)
        return self.trace_tokens(tokens)

    def generate(
        self, prompt: str | Sequence[int] | np.ndarray, strategies: Sequence[str | Strategy] = ("greedy",),
        max_new_tokens: int = 40, seed: int = 0, *, shared: bool = True, stop: Sequence[str] = (),
    ) -> Iterator[Tick]:  # fmt: skip
        """Continue a prompt by several strategies in one batch; an iterator of steps, a change to every text each.

        A strategy is a key of model.decoders.STRATEGIES or a `Strategy`. With `shared`, all of them get the same
        random number at a step. Raises InputError for an empty prompt, one beyond the context, or a bad setting.
        """
        tokens = self.encode(prompt) if isinstance(prompt, str) else self.tokenizer.tokens(prompt)
        check_length(len(tokens), self.config.n_ctx - 1)
        chosen = [STRATEGIES[each] if isinstance(each, str) else each for each in strategies]
        ending = frozenset() if self.tokenizer.eos_id is None else frozenset((self.tokenizer.eos_id,))
        plan = Plan(max_new_tokens, seed, shared, ending=ending, stop=tuple(stop))
        return generate(self.model, tokens.ids.tolist(), chosen, plan, self.tokenizer.vocab_size, self.decode)

    def trace_tokens(self, tokens: Tokens) -> Trace:
        """The same for tokens that are already made."""
        traced = run(self.model, tokens, model_id=self.id)
        traced.piece = self.tokenizer.piece
        return traced


def list_models() -> pd.DataFrame:
    """The models that can be loaded by name: id, label, one line, download size in bytes, and whether they are here."""
    here = sources.available()
    rows = [vars(entry) | {"ready": entry.id in here} for entry in sources.BUILT_IN]
    # A bundled model is either in the repository or cannot be had.
    return pd.DataFrame([row for row in rows if row["ready"] or row["download_bytes"]]).reset_index(drop=True)


def load_model(model_id: str | Path, *, progress: Progress | None = None, offline: bool = False) -> LanguageModel:
    """Load a model by id ("smollm2-135m", "hub:OWNER/NAME"), or from a folder or .gguf file.

    What is not on this machine is fetched first, unless `offline`. Raises InputError for an unknown id,
    DownloadError, CheckpointError for broken files and UnsupportedModel for an architecture not computed here.
    """
    return load_resolved(sources.resolve(str(model_id), progress, offline=offline, allow_paths=True), progress)


def load_resolved(found: sources.Resolved, progress: Progress | None = None) -> LanguageModel:
    """Load what `sources.resolve` found."""
    if found.kind == "gguf":
        config, state, metadata = load_gguf(found.path, progress)
        vocabulary = tokenizer.from_gguf(metadata)
    else:
        config, state = load_folder(found.path, progress)
        vocabulary = tokenizer.from_folder(found.path)
    model = build(config, state)
    model.join()
    linear.tune(model)
    return LanguageModel(found.model_id, found.label, model, vocabulary)
