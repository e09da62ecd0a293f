"""The reason why a model falls short on a prompt of a known kind, and the built-in models that do not."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from model.api import LanguageModel
from model.prompting.kind_results import CONVERSATION, KindResult, able_models, results
from model.prompting.kinds import KindOfPrompt, recognize

NEAR = 3  # a copied token up to this rank shows that the model copies


@dataclass(frozen=True)
class AbleModel:
    """A built-in model that is able to do a kind, with its result."""

    id: str
    result: KindResult
    chat: bool = False  # whether the result is for questions in a conversation


@dataclass(frozen=True)
class Shortfall:
    """A prompt of a known kind that the model does not continue as expected, with the measured reason."""

    kind: str
    answer: str  # the expected continuation; "" if it is unknown
    token: str  # the text of the answer's first token, without spaces around it; "" without a rank
    rank: int | None  # rank of the answer's first token, at least 2; None: the result is the reason
    result: KindResult | None  # of this model on prompts of the kind; None for a model that is not built in
    able: tuple[AbleModel, ...]  # the best first


def rank_of(logits: np.ndarray, token: int) -> int:
    """Return a token's rank, counted from 1: one more than the number of tokens with a larger logit. logits [V]"""
    return 1 + int((logits > logits[token]).sum())


def first_token(lm: LanguageModel, text: str, answer: str) -> int:
    """Return the first token of an answer after the text, with the space that separates them."""
    space = "" if text[-1:].isspace() else " "
    before, whole = lm.encode(text).ids.tolist(), lm.encode(text + space + answer).ids.tolist()
    if whole[: len(before)] == before and len(whole) > len(before):
        return whole[len(before)]
    return lm.tokenizer.encode(space + answer).ids.tolist()[0]


def shortfall(lm: LanguageModel, text: str, logits: Callable[[], np.ndarray]) -> Shortfall | None:
    """Return what the model falls short of at the end of a text; None if it does not, or if the kind is unknown.

    `logits` returns those after the last token, [V]; it is called only for a known kind. If the answer is unknown, or
    its first token does not decide, as the first digit of a sum, the model's stored result on the kind is the reason.
    """
    found = recognize(text)
    if found is None:
        return None
    result = results().get(lm.id, {}).get(found.kind)
    token = _token(lm, text, found)
    rank = None if token is None else rank_of(logits()[: lm.tokenizer.vocab_size], token)
    if rank == 1 and found.kind != "arithmetic":
        return None
    if found.kind == "repeated" and rank is not None and rank <= NEAR:
        return None  # the copy is at work, even if another token is ahead
    if rank in (None, 1) and (result is None or result.able):
        return None
    rank = None if rank == 1 else rank
    piece = "" if token is None or rank is None else lm.tokenizer.piece(token).strip()
    return Shortfall(found.kind, found.answer, piece, rank, result, _able(lm, found.kind))


def _token(lm: LanguageModel, text: str, found: KindOfPrompt) -> int | None:
    """Return the first token of the answer, or None without an answer or if that token is only a space."""
    if not found.answer or found.kind == "question":  # an answer to a question may begin with any word
        return None
    token = first_token(lm, text, found.answer)
    return token if lm.tokenizer.piece(token).strip() else None


def _able(lm: LanguageModel, kind: str) -> tuple[AbleModel, ...]:
    """Return the other built-in models that are able to do a kind; for a question, also those in a conversation."""
    others = [AbleModel(model, results()[model][kind]) for model in able_models(kind) if model != lm.id]
    talking = able_models(CONVERSATION) if kind == "question" else ()
    return (*others, *(AbleModel(model, results()[model][CONVERSATION], True) for model in talking))
