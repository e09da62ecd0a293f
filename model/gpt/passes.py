"""The arguments of one forward pass for every layer: positions, attention function, cache and tap."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from model.gpt.cache import KVCache
from model.gpt.layers import attention_pattern, attention_scores, fused_attention, mix
from model.gpt.tap import Tap

# An attention function: (layer, q [B,H,T,E], k [B,G,S,E], v [B,G,S,E]) -> z [B,H,T,E].
Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]

# A callback for the weights of a layer without full softmax attention: (layer, weights [B, H, T, S], rows sum to 1).
See = Callable[[int, Tensor], None]


@dataclass(frozen=True)
class Pass:
    """The arguments of one forward pass for every layer."""

    rope: tuple[Tensor, Tensor] | None  # cosines and sines of the query positions, [T, d_rotary / 2] each
    attend: Attend
    cache: KVCache | None = None
    tap: Tap | None = None
    explicit: bool = False  # whether sliding-window layers compute scores and pattern for the tap
    see: See | None = None  # receives the weights of all layers that do not call `attend`

    def at(self, site: str, layer: int, tensor: Tensor) -> Tensor:
        """Return the result of the tap for a tensor, or the tensor itself if there is no tap."""
        return tensor if self.tap is None else self.tap(site, layer, tensor)


def attend_fused(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Compute attention with the fused kernel, without a [T, S] matrix."""
    return fused_attention(q, k, v)


def attend_explicit(tap: Tap) -> Attend:
    """Return the unfused attention function, with the tap at scores and pattern."""

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = tap("scores", layer, attention_scores(q, k))
        return mix(tap("pattern", layer, attention_pattern(scores)), v)

    return attend
