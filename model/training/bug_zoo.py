"""The bug zoo: the same tiny GPT, trained once as it should be and once with each of the usual bugs.

Every bug is one condition below, marked `# bug`: in the attention (`attention_with`), the targets (`targets_with`), the
learning rate (`rate_with`) or the config (`config_with`). Nothing else differs between two training runs.
"""

import functools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.gpt.config import ModelConfig
from model.gpt.layers import future
from model.gpt.passes import Attend
from model.gpt.transformer import Transformer
from model.progress import Progress, silent
from model.public import MOST_SEED, above, public, whole
from model.text.held_out import bundled_text
from model.training.data import Dataset, end_of_text, text_dataset
from model.training.tasks import IGNORE

# The line of code with each bug, and the line as it should be.
BUGS: dict[str, tuple[str, str]] = {
    "correct": ("", ""),
    "no_mask": ("pattern = scores.softmax(-1)", "pattern = scores.masked_fill(future, -inf).softmax(-1)"),
    "mask_01": ("scores = scores + tril(ones(T, T))", "scores = scores.masked_fill(future, -inf)"),
    "no_shift": ("loss = cross_entropy(logits, ids)", "loss = cross_entropy(logits[:-1], ids[1:])"),
    "no_scale": ("scores = q @ k.T", "scores = q @ k.T / sqrt(d_head)"),
    "no_positions": ("x = embed(ids)", "x = embed(ids) + pos_embed(arange(T))"),
    "post_cold": ("x = norm(x + attn(x)); warmup = 0", "x = x + attn(norm(x)); warmup = 30"),
    "rate": ("AdamW(parameters, lr=6e-2)", "AdamW(parameters, lr=6e-3)"),
}
LAYERS, WIDTH, HEADS = 3, 64, 2
ROWS, LENGTH = 16, 32  # batch size, and characters per row
WARMUP = 30  # warm-up steps
LOOKS, HELD_OUT = 16, 32  # approximate number of evaluations, and held-out rows of each
START, WRITTEN, TEMPERATURE = "She ", 160, 0.8  # the prompt, the characters written after it, and their temperature
LAST = 20  # training steps over which the last reported loss is averaged
SHORTEST = 3  # letters of a word that counts as one


@public(steps=whole(1, 100_000), rate=above(0, 10), seed=whole(0, MOST_SEED))
@dataclass(frozen=True)
class ZooTrial:
    """Settings that all training runs share."""

    steps: int = 800
    rate: float = 6e-3  # peak learning rate; ten times as much for the bug "rate"
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Specimen:
    """One training run: what its code reports, and what its weights are worth."""

    bug: str
    losses: np.ndarray  # [steps] training loss as the code reports it, nats per character
    steps: np.ndarray  # [S] finished steps at each evaluation, starting at 0
    held_out: np.ndarray  # [S] loss of the next character of a held-out text, given only the characters before it
    text: str  # what it writes after START, START included
    words: float  # fraction of its words that occur in the book; NaN if it has no words

    @property
    def reported(self) -> float:
        """The mean training loss of the last steps."""
        return float(self.losses[-LAST:].mean())

    @property
    def true(self) -> float:
        """The held-out loss after the last step."""
        return float(self.held_out[-1])


@dataclass(frozen=True, eq=False)
class Zoo:
    """All training runs, the one without a bug first."""

    trial: ZooTrial
    runs: tuple[Specimen, ...]
    guess: float  # loss of a uniform guess among the characters, nats


# --- the places of the bugs ---


def config_with(bug: str, vocab_size: int) -> ModelConfig:
    """Return the config of the tiny GPT: pre-norm, learned positions, GELU, tied embeddings."""
    return ModelConfig(
        vocab_size=vocab_size,
        n_ctx=LENGTH,
        n_layer=LAYERS,
        d_model=WIDTH,
        n_head=HEADS,
        d_mlp=4 * WIDTH,
        positions="none" if bug == "no_positions" else "learned",  # bug
        norm_placement="post" if bug == "post_cold" else "pre",  # bug
    )


def attention_with(bug: str) -> Attend:
    """Return the attention function. q, k, v [B, H, T, E] -> [B, H, T, E]"""

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        T, d_head = q.shape[-2:]
        scores = q @ k.transpose(-2, -1)
        if bug != "no_scale":  # bug
            scores = scores / math.sqrt(d_head)
        if bug == "mask_01":  # bug
            scores = scores + torch.ones(T, T).tril()
        elif bug != "no_mask":  # bug
            scores = scores.masked_fill(future(T, T), -math.inf)
        return scores.softmax(-1) @ v

    return attend


def targets_with(bug: str, ids: Tensor, following: Tensor) -> Tensor:
    """Return the targets: for each character the one that follows it. [B, T]"""
    return ids if bug == "no_shift" else following  # bug


def rate_with(bug: str, trial: ZooTrial, step: int) -> float:
    """Return the learning rate of a step: linear warm-up, then cosine decay to 0."""
    peak = 10 * trial.rate if bug == "rate" else trial.rate  # bug
    warmup = 0 if bug == "post_cold" else WARMUP  # bug
    rising = (step + 1) / warmup if step < warmup else 1.0
    return peak * rising * 0.5 * (1 + math.cos(math.pi * step / trial.steps))


# --- one training run ---


@functools.cache
def book() -> Dataset:
    """Return the bundled chapter in characters, the last tenth held out."""
    return text_dataset(bundled_text(), None)


def learn(trial: ZooTrial, bug: str, tell: Callable[[int], None] = lambda done: None) -> Specimen:
    """Train one model, calling `tell` after every step. All bugs see the same batches and the same initial weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(trial.seed)
        model = Transformer(config_with(bug, book().tokenizer.vocab_size))
    optimizer = torch.optim.AdamW(model.parameters(), lr=trial.rate, betas=(0.9, 0.98), weight_decay=0.01)
    attend, rng = attention_with(bug), np.random.default_rng(trial.seed)
    every, losses, at, held_out = max(1, trial.steps // LOOKS), [], [0], [true_loss(model, bug)]
    for step in range(trial.steps):
        batch = book().train(rng, ROWS, LENGTH, step / trial.steps)
        ids, following = torch.from_numpy(batch.ids), torch.from_numpy(batch.targets)
        logits = model.logits(model.trunk(ids, attend=attend))
        loss = F.cross_entropy(logits.flatten(0, 1), targets_with(bug, ids, following).flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = rate_with(bug, trial, step)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if (step + 1) % every == 0 or step + 1 == trial.steps:
            at.append(step + 1)
            held_out.append(true_loss(model, bug))
        tell(step + 1)
    text = write(model, bug, trial.seed)
    return Specimen(bug, np.array(losses), np.array(at), np.array(held_out), text, real_words(text))


@public()
def train_zoo(trial: ZooTrial, progress: Progress = silent) -> Zoo:
    """Train all models one after the other, in this process. The page trains several at once."""
    runs = []
    for number, bug in enumerate(BUGS):

        def tell(done: int, before: int = number * trial.steps) -> None:
            progress(before + done, trial.steps * len(BUGS), "")

        runs.append(learn(trial, bug, tell))
    return together(trial, runs)


def together(trial: ZooTrial, runs: Sequence[Specimen]) -> Zoo:
    """Combine the training runs, in the order of BUGS."""
    return Zoo(trial, tuple(runs), math.log(book().tokenizer.vocab_size))


# --- what the weights are worth ---


def repaired(bug: str) -> Attend:
    """Return the attention that evaluates a model: with the causal mask; otherwise as the model was trained."""
    return attention_with("correct" if bug in ("no_mask", "mask_01") else bug)


@torch.no_grad()
def true_loss(model: Transformer, bug: str) -> float:
    """Compute the mean loss of the next character on held-out rows: with causal mask and shift, whatever the bug."""
    (rows,) = book().held_out.values()
    batch = next(rows(HELD_OUT, LENGTH))
    logits = model.logits(model.trunk(torch.from_numpy(batch.ids), attend=repaired(bug)))
    return F.cross_entropy(logits.flatten(0, 1), torch.from_numpy(batch.targets).flatten(), ignore_index=IGNORE).item()


@torch.no_grad()
def write(model: Transformer, bug: str, seed: int) -> str:
    """Continue START with the repaired attention, never with the end of the text; stops early if the weights are no
    longer finite.
    """
    tokenizer, draws = book().tokenizer, torch.Generator().manual_seed(seed)
    ids = tokenizer.encode_ids(START)
    for _ in range(WRITTEN):
        logits = model.logits(model.trunk(torch.tensor([ids[-LENGTH:]]), attend=repaired(bug)))[0, -1]
        logits[end_of_text(tokenizer)] = -math.inf
        p = (logits / TEMPERATURE).softmax(-1)
        if not p.isfinite().all():
            break
        ids.append(int(torch.multinomial(p, 1, generator=draws)))
    return tokenizer.decode(ids)


@functools.cache
def _vocabulary() -> frozenset[str]:
    return frozenset(_words(bundled_text()))


def _words(text: str) -> list[str]:
    return [word for word in re.findall("[a-z]+", text.lower()) if len(word) >= SHORTEST]


def real_words(text: str) -> float:
    """Return the fraction of a text's words, after START, that occur in the book; NaN if it has no words."""
    words = _words(text[len(START) :])
    return sum(word in _vocabulary() for word in words) / len(words) if words else math.nan


# --- verdicts ---

CLEAR, SLIGHT = 0.3, 0.05  # nats: a large and a small difference of losses


@public()
def verdict(run: Specimen, correct: Specimen) -> str:
    """Classify a training run by its losses beside those of the run without a bug.

    "illusion": it reports a clearly lower loss, while its true loss is clearly higher. "harmful", "slight": its true
    loss is clearly or slightly higher. "harmless": within SLIGHT of the correct one, or "better".
    """
    worse = run.true - correct.true
    if not math.isfinite(run.true):
        return "diverged"
    if worse > CLEAR and run.reported < correct.reported - CLEAR:
        return "illusion"
    if worse > SLIGHT:
        return "harmful" if worse > CLEAR else "slight"
    return "better" if worse < -SLIGHT else "harmless"
