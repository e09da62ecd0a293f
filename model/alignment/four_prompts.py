"""Four prompts that every stage from a language model to an assistant answers, and the price of the stage: the distance
from the reference, and the loss on held-out story text.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from model.alignment.instructions import Example, end_of, has_end, prompt_text
from model.alignment.reinforcement.best_of_n import kl_bound
from model.alignment.reinforcement.likelihoods import score
from model.alignment.reinforcement.rollouts import Rollouts, RolloutSettings, sample, uniforms
from model.errors import CheckpointError
from model.gpt.transformer import Transformer
from model.text.chat import ending
from model.text.held_out import TEXT
from model.text.tokenizer import Tokenizer
from model.training import data, loop

QUESTIONS = (
    Example("What color was it?", "Lily found a red ball in the garden.", "It was red."),
    Example("Who found it?", "Ben found a green hat in the park.", "Ben found it."),
)
PROMPTS = ("Once upon a time", "Tom and Lily", *map(prompt_text, QUESTIONS))
PER_PROMPT = 4  # texts per prompt for the distance; the first of them is the answer
CHOICES = 8  # texts per prompt among which a rule or a reward model chooses
NEW_TOKENS = 32  # maximum length of an answer, in tokens
STORY_TOKENS = 512  # tokens of the text on which forgetting is measured
STORY_LENGTH = 128  # maximum context length in that measurement
_SEED, _STEP = 0, 1 << 22  # of the random numbers, which are the same for every model


@dataclass(frozen=True)
class FourAnswers:
    """The answers of one model to PROMPTS, and its distance from the reference."""

    texts: tuple[str, ...]  # one per prompt
    kl: float  # exact KL(model || reference) on the model's own texts after PROMPTS, nats per token
    story_bits: float  # loss on held-out story text, bits per byte


@dataclass(frozen=True)
class FourChoices:
    """For each of PROMPTS, a chosen text and one that was not chosen. The model that wrote them is unchanged."""

    chosen: tuple[str, ...]
    other: tuple[str, ...]
    chosen_scores: tuple[float, ...]
    other_scores: tuple[float, ...]
    kl: float  # upper bound of the KL of choosing, nats per text
    story_bits: float  # loss of the unchanged model on held-out story text, bits per byte


def answer_four(policy: Transformer, reference: Transformer, tokenizer: Tokenizer, story: "Story") -> FourAnswers:
    """Sample the answers with the same random numbers for every model, and measure what they cost.

    A model with non-finite outputs gets empty texts and NaN.
    """
    try:
        rollouts = write_four(policy, tokenizer, PER_PROMPT)
    except CheckpointError:
        return FourAnswers(("",) * len(PROMPTS), math.nan, math.nan)
    scored = score(policy, reference, rollouts, tokenizer.vocab_size)
    kl = float(scored.kl.sum() / rollouts.written.sum().clamp(min=1))
    return FourAnswers(texts_of(rollouts, tokenizer)[::PER_PROMPT], kl, story.bits(policy))


def best_four(
    model: Transformer, tokenizer: Tokenizer, reward: Callable[[list[list[int]]], Sequence[float]]
) -> FourChoices:
    """Choose the text with the highest reward among CHOICES per prompt; the other is the first text.

    `reward` maps the ids of prompts with their texts to numbers.
    """
    rollouts = write_four(model, tokenizer, CHOICES)
    scores = np.array(reward(rollouts.texts()), dtype=float).reshape(-1, CHOICES)
    return _choices(model, tokenizer, rollouts, scores, scores.argmax(1), np.zeros(len(PROMPTS), int), CHOICES)


def choose_four(
    model: Transformer, tokenizer: Tokenizer, reward: Callable[[tuple[str, ...]], Sequence[float]]
) -> FourChoices:
    """Choose the better text of the first pair per prompt with different rewards; without one, both texts are equal in
    reward. `reward` maps texts to numbers.
    """
    rollouts = write_four(model, tokenizer, CHOICES)
    scores = np.array(reward(texts_of(rollouts, tokenizer)), dtype=float).reshape(-1, CHOICES)
    pairs = scores.reshape(-1, CHOICES // 2, 2)
    first = 2 * (pairs[..., 0] != pairs[..., 1]).argmax(1)  # 0 without any such pair
    rows = np.arange(len(PROMPTS))
    second_wins = scores[rows, first + 1] > scores[rows, first]
    return _choices(model, tokenizer, rollouts, scores, first + second_wins, first + ~second_wins, 2)


def _choices(
    model: Transformer,
    tokenizer: Tokenizer,
    rollouts: Rollouts,
    scores: np.ndarray,
    chosen: np.ndarray,
    other: np.ndarray,
    among: int,
) -> FourChoices:
    """Build the result from the indices of the texts of each prompt. scores [4, CHOICES], chosen and other [4]"""
    texts, rows = np.array(texts_of(rollouts, tokenizer), dtype=object).reshape(-1, CHOICES), np.arange(len(PROMPTS))
    lines, numbers = ([tuple(of[rows, at].tolist()) for at in (chosen, other)] for of in (texts, scores))
    return FourChoices(*lines, *numbers, kl_bound(among), Story.of(tokenizer).bits(model))


def write_four(model: Transformer, tokenizer: Tokenizer, per_prompt: int) -> Rollouts:
    """Sample texts after each of PROMPTS; the random numbers depend only on the number of texts per prompt.

    In a short context, the prompts lose their beginnings.
    """
    new_tokens = max(1, min(NEW_TOKENS, model.config.n_ctx // 2))
    prompts = [tokenizer.prompt_ids(prompt)[new_tokens - model.config.n_ctx :] for prompt in PROMPTS]
    rows = [prompt for prompt in prompts for _ in range(per_prompt)]
    ends = _ends(tokenizer)
    writing = RolloutSettings(new_tokens, ends, tokenizer.vocab_size, min(ends, default=0))
    return sample(model, rows, writing, uniforms(_SEED, _STEP, len(rows), new_tokens))


def texts_of(rollouts: Rollouts, tokenizer: Tokenizer) -> tuple[str, ...]:
    """Decode the texts without prompts and end tokens."""
    ends = _ends(tokenizer)
    return tuple(tokenizer.decode([n for n in ids if n not in ends]).strip() for ids in rollouts.answers())


def _ends(tokenizer: Tokenizer) -> frozenset[int]:
    """Return the ids of the tokens that end an answer."""
    return frozenset(ending(tokenizer) | ({end_of(tokenizer)} if has_end(tokenizer) else set()))


@dataclass(frozen=True, eq=False)
class Story:
    """The held-out story text in a model's tokens."""

    ids: np.ndarray  # [N]
    sizes: np.ndarray  # length of each token in bytes [V]

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "Story":
        """Tokenize the beginning of the bundled book, which no model of this project was trained on."""
        text = TEXT.read_text(encoding="utf-8")[: 8 * STORY_TOKENS]
        ids = np.array(tokenizer.prompt_ids(text)[:STORY_TOKENS], dtype=np.int64)
        return cls(ids, data.token_bytes(tokenizer))

    def bits(self, model: Transformer) -> float:
        """Compute the loss of a model on the text, in bits per byte. NaN if the model's outputs are not finite."""
        length = min(STORY_LENGTH, model.config.n_ctx)
        with torch.no_grad():
            bits = loop.evaluate(model, data.consecutive(self.ids), self.sizes, length=length).bits_per_byte
        return bits if math.isfinite(bits) else math.nan
