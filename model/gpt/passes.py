"""The arguments of one forward pass for every layer: positions, attention function, cache and tap."""

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from model.errors import InputError
from model.gpt.cache import KVCache
from model.gpt.layers import attention_pattern, attention_scores, fused_attention, mix
from model.gpt.tap import Tap

# An attention function: (layer, q [B,H,T,E], k [B,G,S,E], v [B,G,S,E]) -> z [B,H,T,E].
Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]

Rope = tuple[Tensor, Tensor]  # cosines and sines of T positions, [T, d_rotary / 2] each

# A callback for the weights of a layer without full softmax attention: (layer, weights [B, H, T, S], rows sum to 1).
See = Callable[[int, Tensor], None]


@dataclass(eq=False)
class Beside:
    """Tensors that layers of one forward pass read beside the stream (ModelConfig.n_shared_kv, d_layer_input). The
    embedding and earlier layers store it here.
    """

    inputs: Callable[[int], Tensor] | None = None  # layer -> the tokens' vectors for it, [B, T, P]
    kv: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)  # layer -> its k and v, [B, G, S, E] each

    def input(self, layer: int) -> Tensor:
        """Return the vectors by which the tokens enter a layer. [B, T, P] Raises InputError without `inputs`."""
        if self.inputs is None:
            raise not_followed(layer)
        return self.inputs(layer)

    def shared(self, source: int) -> tuple[Tensor, Tensor]:
        """Return the keys and values of an earlier layer. [B, G, S, E] each; raises InputError if it has not run."""
        if source not in self.kv:
            raise not_followed(source)
        return self.kv[source]


def not_followed(layer: int) -> InputError:
    """Build the error of functions that run a layer by itself, for a layer that also reads beside the stream."""
    what = "This runs a layer by itself, but some layers of this model also read the tokens or earlier layers."
    return InputError(what, f"layer {layer}", "Choose a model with layers of one kind, such as TinyGPT.")


@dataclass(frozen=True)
class Pass:
    """The arguments of one forward pass for every layer."""

    rope: Rope | None  # cosines and sines of the query positions
    attend: Attend
    cache: KVCache | None = None
    tap: Tap | None = None
    explicit: bool = False  # whether sliding-window layers compute scores and pattern for the tap
    see: See | None = None  # receives the weights of all layers that do not call `attend`
    rope_local: Rope | None = None  # those of layers with a sliding window, if they have a base of their own
    beside: Beside = field(default_factory=Beside)

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
