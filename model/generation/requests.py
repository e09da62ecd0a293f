"""Settings of speculative decoding, validated on construction: the draft and the request."""

from collections.abc import Sequence
from dataclasses import dataclass

from model.arguments import check_token, check_whole, is_whole, shown
from model.errors import InputError, say
from model.generation.generate import MOST_SEED, MOST_TOKENS
from model.gpt.config import ModelConfig
from model.gpt.mixers.needs import need_rewinding
from model.gpt.transformer import Transformer
from model.sampling.pipeline import Step, checked
from model.sampling.warps import WARPS
from model.text.tokenizer import Tokenizer
from model.tracing.trace import check_length

DRAFTS = ("layers", "ngram", "model")  # their labels are the words "speculative.settings.draft_<key>"
MOST_DRAFTED = 16
_MOST_SUFFIX = 1 << 20


@dataclass(frozen=True, eq=False)
class Draft:
    """The source of proposals: the model's own first `n` layers, an n-gram lookup in the text, or another model.

    Raises InputError for an unknown kind, an `n` that is not a non-negative integer, and an invalid model.
    """

    kind: str = "layers"  # one of DRAFTS
    n: int = 1
    model: Transformer | None = None  # the draft model for the kind "model", which must share the tokenizer

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in DRAFTS:
            hint = say("Choose one of: {}.", ", ".join(DRAFTS))
            raise InputError("No draft has this name.", shown(self.kind), hint)
        check_whole("n", self.n, 0, _MOST_SUFFIX)
        if self.kind == "model" and not isinstance(self.model, Transformer):
            got = "" if self.model is None else shown(self.model)
            raise InputError("No other model can draft.", got, "Choose another draft.")


PLAIN = Draft("ngram", 0)  # plain decoding, since an empty suffix never matches


@dataclass(frozen=True)
class Request:
    """Settings of speculative decoding besides the prompt and the draft.

    Raises InputError for unknown or out-of-range values.
    """

    size: int  # vocabulary size
    steps: tuple[Step, ...] = ()  # warps of both the draft and the model
    gamma: int = 4  # number of proposed tokens per round, 1 .. MOST_DRAFTED
    max_new_tokens: int = 40
    seed: int = 0
    ending: frozenset[int] = frozenset()  # tokens that end a text

    def __post_init__(self) -> None:
        if not (is_whole(self.size) and self.size > 0):
            raise InputError(
                "This is not the size of a vocabulary.", shown(self.size), "Give the number of its tokens."
            )
        if not (is_whole(self.gamma) and 1 <= self.gamma <= MOST_DRAFTED):
            hint = say("Choose a value from 1 to {}.", MOST_DRAFTED)
            raise InputError("This number of tokens cannot be proposed.", shown(self.gamma), hint)
        check_whole("max_new_tokens", self.max_new_tokens, 1, MOST_TOKENS)
        check_whole("seed", self.seed, 0, MOST_SEED)
        checked(self.steps, WARPS, self.size)
        for token in self.ending:
            check_token(token, self.size)


def check_request(model: Transformer, ids: Sequence[int], draft: Draft, request: Request) -> None:
    """Raise InputError for a prompt, draft or vocabulary that does not fit the model."""
    config = model.config
    need_rewinding(config)
    check_length(len(ids), config.n_ctx)
    if request.size > config.vocab_size:
        what = "The vocabulary has more tokens than the model has rows."
        raise InputError(what, str(request.size), say("The model has {} of them.", config.vocab_size))
    for token in ids:
        check_token(token, request.size)
    if draft.kind == "layers" and not 1 <= draft.n <= config.n_layer:
        hint = say("Choose a value from 1 to {}.", config.n_layer)
        raise InputError("The model does not have that many layers.", str(draft.n), hint)
    if draft.kind == "model":
        _check_other(draft.model.config, len(ids), request.size)


def _check_other(config: ModelConfig, T: int, size: int) -> None:
    """Raise InputError unless the draft model has a row for each token, enough context for the prompt, and a rewindable
    cache.
    """
    need_rewinding(config)
    if config.vocab_size < size:
        what = "The draft model has another vocabulary."
        raise InputError(what, f"{config.vocab_size} rows", "Choose a draft with the same vocabulary.")
    if config.n_ctx < T:
        hint = say("Shorten it to {} tokens or fewer.", config.n_ctx)
        raise InputError("The prompt is too long for the draft model.", f"{T} tokens", hint)


def shares_tokenizer(a: Tokenizer, b: Tokenizer) -> bool:
    """Return True if every id has the same bytes in both tokenizers, so that one model can verify the other's
    proposals.
    """
    return a is b or (a.vocab_size == b.vocab_size and a.raw == b.raw)
