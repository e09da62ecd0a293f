"""The names of the mixers, and validation of a config's mixers."""

from collections.abc import Sequence
from typing import Protocol

ATTENTION = ("softmax", "sliding_window")  # mixers with scores and a softmax over them
LINEAR = ("linear", "retention", "delta")  # mixers with a state matrix [E, E] per head
BOUNDED = ("sliding_window", *LINEAR, "mamba")  # mixers with a state of constant size: a window, or a recurrent state
MIXERS = ("softmax", *BOUNDED)


class Shape(Protocol):
    """The fields of a ModelConfig that this module uses."""

    mixer: str | tuple[str, ...]
    n_layer: int
    n_head: int
    d_model: int
    expand: int
    window: int | None


def checked_mixer(config: Shape) -> str | tuple[str, ...]:
    """Return the config's mixer in canonical form: one name if all layers have the same, otherwise a tuple of names.

    Raises ValueError for an unknown name, a number of names that differs from the number of layers, a sliding window
    without a size, and a number of Mamba channels that is not divisible by the number of heads.
    """
    names = (config.mixer,) if isinstance(config.mixer, str) else config.mixer
    if not isinstance(names, (tuple, list)) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"mixer must be a name or a list of a name a layer, got {config.mixer!r}")
    if unknown := [name for name in names if name not in MIXERS]:
        raise ValueError(f"mixer must be one of {', '.join(MIXERS)}, got {unknown[0]!r}")
    if not isinstance(config.mixer, str) and len(names) != config.n_layer:
        raise ValueError(f"mixer must name one for each of the {config.n_layer} layers, got {len(names)}")
    if "sliding_window" in names and config.window is None:
        raise ValueError("a sliding window needs its size: window must be a positive whole number, got None")
    channels = config.expand * config.d_model
    if "mamba" in names and channels % config.n_head:
        raise ValueError(f"Mamba's {channels} channels (expand x d_model) must divide into {config.n_head} heads")
    return names[0] if len(set(names)) == 1 else tuple(names)


def dt_rank_of(d_model: int) -> int:
    """Return the default rank of the step sizes: d_model / 16, rounded up. Gu & Dao 2023, 3.6."""
    return -(-d_model // 16)


def first_layers_of(mixer: str | Sequence[str], n: int) -> str | tuple[str, ...]:
    """Return the mixers of a model's first n layers."""
    return mixer if isinstance(mixer, str) else tuple(mixer[:n])
