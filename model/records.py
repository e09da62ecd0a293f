"""Small value types used in all parts of the program.

Axis letters, used in every shape in this project:
B batch, L layers, H query heads, G KV heads, T query tokens, S key tokens, D d_model, E d_head, M d_mlp, V vocabulary.
Attention is always [..., query, key].
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Tokens:
    """A tokenized text.

    `pieces[i]` is the text of token i if its bytes are valid UTF-8 on their own, and otherwise its bytes as
    `<0xE2><0x96>`. `raw[i]` are those bytes; the byte span of token i in the encoded text is `spans[i]`, and
    `b"".join(raw)` is the text.
    """

    ids: np.ndarray  # [T] int64
    pieces: tuple[str, ...]  # [T]
    raw: tuple[bytes, ...]  # [T]
    spans: np.ndarray  # [T, 2] int64, start and end offset in bytes

    def __post_init__(self) -> None:
        lengths = (len(self.ids), len(self.pieces), len(self.raw), len(self.spans))
        if len(set(lengths)) != 1:
            raise ValueError(f"ids, pieces, raw and spans must have one entry a token, got lengths {lengths}")

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class RunKey:
    """All settings that determine the numbers of a trace: equal keys give equal numbers."""

    model_id: str
    ids: tuple[int, ...]
    edits: tuple = ()


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Measurements of a model at one training step: on held-out text, the probe and repeated random tokens."""

    step: int
    loss: float  # mean loss on held-out text, nats per scored token
    accuracy: float
    bits_per_byte: float  # NaN for a synthetic task
    patterns: np.ndarray  # attention on the probe, float32 [L, H, T, T]
    top_ids: np.ndarray  # most likely next tokens at each position of the probe, [T, k]
    top_logits: np.ndarray  # their logits, [T, k]
    top_share: np.ndarray  # their probabilities, [T, k]
    next_share: np.ndarray  # probability of the actual next token, [T - 1]
    previous_token: np.ndarray  # [L, H]
    induction: np.ndarray  # [L, H], NaN if the context is too short
    induction_baseline: np.ndarray  # [L, H]
    sample: tuple[int, ...]  # prompt ids and the model's continuation
    prompt: int  # length of the prompt in `sample`, in tokens
