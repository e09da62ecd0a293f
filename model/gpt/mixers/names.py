"""The names of the mixers, and validation of a config's mixers."""

from typing import Protocol

ATTENTION = ("softmax", "sliding_window")  # mixers with scores and a softmax over them
LINEAR = ("linear", "retention", "delta")  # mixers with a state matrix [E, E] per head
STATE_SPACES = ("mamba", "mamba2")  # mixers with a convolution and a state of N numbers per channel
# mixers without queries and keys, whose channels the heads share out
CHANNELS = (*STATE_SPACES, "gated_delta", "short_conv")
BOUNDED = ("sliding_window", *LINEAR, *CHANNELS)  # mixers with a state of constant size: a window, or a recurrent state
MIXERS = ("softmax", *BOUNDED)


class Shape(Protocol):
    """The fields of a ModelConfig that this module uses."""

    mixer: str | tuple[str, ...]
    n_layer: int
    n_head: int
    d_model: int
    expand: int
    ssm_heads: int | None
    d_ssm: int
    ssm_groups: int
    ssm_beside: bool
    window: int | None
    n_delta_head: int
    n_delta_key: int


def checked_mixer(config: Shape) -> str | tuple[str, ...]:
    """Return the config's mixer in canonical form: one name if all layers have the same, otherwise a tuple of names.

    Raises ValueError for an unknown name, a number of names that differs from the number of layers, a sliding window
    without a size, and numbers of channels or of heads with a state that do not divide into the number of heads.
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
    if "short_conv" in names and config.d_model % config.n_head:
        raise ValueError(f"the {config.d_model} channels of short_conv must divide into {config.n_head} heads")
    if "gated_delta" in names:
        for n, by in (("n_head", config.n_head), ("n_delta_key", config.n_delta_key)):
            if config.n_delta_head % by:
                raise ValueError(f"n_delta_head {config.n_delta_head} must be a multiple of {n} {by}")
    if "mamba2" in names and config.d_ssm % config.n_head:
        raise ValueError(f"Mamba 2's {config.d_ssm} channels must divide into {config.n_head} heads")
    if ("mamba2" in names or config.ssm_beside) and config.ssm_heads % config.ssm_groups:
        raise ValueError(f"Mamba 2's {config.ssm_heads} heads must divide into {config.ssm_groups} groups")
    return names[0] if len(set(names)) == 1 else tuple(names)


def dt_rank_of(d_model: int) -> int:
    """Return the default rank of the step sizes: d_model / 16, rounded up. Gu & Dao 2023, 3.6."""
    return -(-d_model // 16)
