"""Measurements of attention to fewer keys: one head's map, the whole prompt, and the bundled text."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from model.api import LanguageModel
from model.design.past_length import windows_of
from model.forgetting.eviction import read_through
from model.forgetting.policies import POLICIES, Policy
from model.forgetting.reading import PolicyReading, read, read_all
from model.gpt.layers import attention_scores
from model.gpt.mixers.needs import need_attention
from model.progress import Progress
from model.text.held_out import bundled_text
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Range, Settings

WINDOW = 32  # maximum number of visible keys in the comparison on the bundled text
WINDOWS, LENGTH = 8, 256  # number and length of the windows of the bundled text
MOST_DEFAULT = 32  # maximum default budget
LOCAL = tuple(name for name, kind in POLICIES.items() if kind.mask is not None)


def _half(scene: Scene) -> int:
    """Return the default budget: half of the prompt, at most MOST_DEFAULT, so that the default evicts keys."""
    return max(1, min(MOST_DEFAULT, len(scene.tokens) // 2))


SETTINGS = (
    Choice("kind", tuple(POLICIES), "first"),
    Range("budget", 1, lambda scene: max(2, len(scene.tokens)), step=1, default=_half),
    Range("first", 0, 16, step=1, default=1, when={"kind": ("first",)}),
    Range("dilation", 1, 8, step=1, default=2, when={"kind": ("dilated",)}),
    Range("seed", 0, 99, step=1, default=0, when={"kind": ("bigbird",)}),
)
NAMES = tuple(each.name for each in SETTINGS)


def question(scene: Scene, settings: Settings) -> Settings:
    """Return the settings on which the policy depends, and the selected tokens if it uses global tokens."""
    uses = POLICIES[settings.kind].uses
    defaults = Policy()
    values = {
        name: settings[name] if name in uses else getattr(defaults, name) for name in ("first", "dilation", "seed")
    }
    selected = tuple(sorted(scene.picked.tokens)) if "global_at" in uses else ()
    return Settings((("kind", settings.kind), ("budget", settings.budget), *values.items(), ("global_at", selected)))


def policy_of(settings: Settings) -> Policy:
    """Build the policy from the question of a measurement."""
    return Policy(**dict(settings))


# --- one head ---


@dataclass(frozen=True, eq=False)
class HeadCut:
    """One head with full attention, and with the keys that a policy keeps. Each array is [T, T]."""

    seen: np.ndarray  # bool, whether the query can attend to the key
    full: np.ndarray  # float32 weights, NaN in the future
    left: np.ndarray  # float32 weights on the visible keys, rescaled to a sum of 1; NaN elsewhere

    @property
    def gone(self) -> np.ndarray:
        """The full-attention weights on hidden keys, NaN elsewhere."""
        return np.where(self.seen, np.nan, self.full)

    @property
    def lost(self) -> float:
        """The total full-attention weight of a row on hidden keys, averaged over the rows."""
        return float(np.nansum(self.gone) / len(self.full))


def measure_head(scene: Scene, settings: Settings) -> HeadCut:
    """Apply the policy to the main head of the unedited run; all other heads and layers stay unchanged.

    Raises InputError unless every layer has full attention.
    """
    layer, head = scene.head
    need_attention(scene.model.config)
    group = scene.model.config.group_size
    first = head // group * group
    heads = range(first, first + group) if POLICIES[settings.kind].mask is None else (head,)  # they share keys
    parts = [scene.unedited.qkv(layer, each) for each in heads]
    q = torch.from_numpy(np.stack([part.q for part in parts]))[None]  # [1, R, T, E]
    scores = attention_scores(q, torch.from_numpy(parts[0].k)[None, None])[:, None]  # [1, 1, R, T, T]
    weights, seen = read_through(policy_of(settings), scores)
    index = head - heads[0]
    visible = seen.expand(weights.shape[0], 1, 1, *weights.shape[-2:])[0, 0, 0].numpy()
    future = np.triu(np.ones(visible.shape, bool), 1)
    full = scores[0, 0, index].softmax(-1).numpy()
    return HeadCut(visible, np.where(future, np.nan, full), np.where(visible, weights[0, 0, index].numpy(), np.nan))


# --- the prompt ---


def measure_prompt(scene: Scene, settings: Settings, progress: Progress) -> PolicyReading:
    """Run the unedited model on the prompt with the policy in every layer and head."""
    ids = torch.from_numpy(np.ascontiguousarray(scene.tokens.ids, dtype=np.int64))[None]
    return read(scene.model.model, ids, policy_of(settings), size=scene.model.tokenizer.vocab_size)


def cost_prompt(scene: Scene, settings: Settings) -> tuple[float, float]:
    """Estimate the numbers of forward passes and processed tokens.

    There are two passes, with twice the cost for explicit weights and the selection of keys.
    """
    T = len(scene.tokens)
    by_token = T / 8 if POLICIES[settings.kind].mask is None else 0  # keys are evicted one at a time
    return 4 + by_token, 4.0 * T


# --- the bundled text ---


@dataclass(frozen=True, eq=False)
class TextRead:
    """Losses, agreement and KL divergence on windows of the bundled text under several policies."""

    policies: tuple[Policy, ...]
    full: np.ndarray  # float32 [W, T], loss with full attention, in nats
    loss: np.ndarray  # float32 [policies, W, T], in nats
    agree: np.ndarray  # float64 [policies], fraction of positions with the same top token
    kl: np.ndarray  # float64 [policies], mean KL(full || policy), nats


def text_windows(model: LanguageModel, limit: int) -> torch.Tensor:
    """Return windows of the bundled text, at most as long as the context limit of `limit` tokens. int64 [W, T + 1]"""
    length = min(LENGTH, model.config.n_ctx, limit)
    first = model.tokenizer.begin_id
    return windows_of(model.tokenizer.encode_ids(bundled_text()), length, WINDOWS, first)


def read_text(
    model: LanguageModel, windows: torch.Tensor, policies: tuple[Policy, ...], progress: Progress
) -> TextRead:
    """Measure the model on the windows under each policy."""
    readings: list[Any] = read_all(model.model, windows, policies, progress, size=model.tokenizer.vocab_size)
    return TextRead(
        policies,
        readings[0].full_loss,
        np.stack([each.loss for each in readings]),
        np.array([each.agree.mean() for each in readings]),
        np.array([each.kl.mean(dtype=np.float64) for each in readings]),
    )


def first_policies(length: int) -> tuple[Policy, ...]:
    """Return two policies of equal budget: a window, and a window with the first token in place of its oldest token."""
    n = min(WINDOW, max(2, length // 4))
    return Policy("window", n), Policy("first", n, first=1)


def measure_text(scene: Scene, settings: Settings, progress: Progress) -> TextRead:
    """Measure the unedited model on the bundled text: full attention, a window, and a window with the first token."""
    windows = text_windows(scene.model, scene.limit)
    return read_text(scene.model, windows, first_policies(windows.shape[1] - 1), progress)


def cost_text(scene: Scene, settings: Settings) -> tuple[float, float]:
    """Estimate the cost of three passes over all windows, as numbers of forward passes and of processed tokens."""
    return 3, 3.0 * WINDOWS * min(LENGTH, scene.limit)
