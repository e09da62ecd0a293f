"""Keys of a config.json that hold one field of ModelConfig each, read and written by the same table."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from model.errors import CheckpointError
from model.gpt.config import ModelConfig
from model.gpt.config_checks import LARGEST
from model.loading.families.common import check_keys, flag, integer, real, sizes
from model.loading.families.rope import rope


@dataclass(frozen=True)
class Keys:
    """Keys and their fields: whole numbers that a config must have, and values of any type with a default."""

    sizes: Mapping[str, str]
    others: Mapping[str, tuple[str, bool | int | float]] = field(default_factory=dict)

    @property
    def names(self) -> set[str]:
        """The keys."""
        return {*self.sizes, *self.others}

    def read(self, hf: Mapping) -> dict:
        """Return the fields of a ModelConfig. Raises CheckpointError for a missing size or a value of another type."""
        fields = sizes(hf, self.sizes)
        for theirs, (ours, default) in self.others.items():
            kind = flag if isinstance(default, bool) else integer if isinstance(default, int) else real
            fields[ours] = kind(hf, theirs, default)
        return fields

    def told(self, c: ModelConfig) -> dict:
        """Return the keys with the values of a config, the inverse of `read`."""
        others = {theirs: ours for theirs, (ours, _) in self.others.items()}
        return {theirs: getattr(c, ours) for theirs, ours in {**self.sizes, **others}.items()}


def renamed(hf: Mapping, aliases: Mapping[str, str]) -> dict:
    """Return the config with each alias under the name that transformers writes. Raises CheckpointError if the two
    differ.
    """
    values = {key: value for key, value in hf.items() if key not in aliases}
    for alias, name in aliases.items():
        if hf.get(alias) is None:
            continue
        if values.get(name) is None:
            values[name] = hf[alias]
        elif values[name] != hf[alias]:
            got = f"{name}: {values[name]!r} and {hf[alias]!r}"[:80]
            raise CheckpointError("The config gives two values for the same thing.", got, "Correct the config.")
    return values


def biases(value: bool, names: str = "qkvo") -> dict[str, bool]:
    """Return one value for the biases of some of q, k, v and o."""
    return {f"{name}_bias": value for name in names}


def whole_rope(hf: Mapping, theta: float = 10_000.0) -> dict:
    """Return the fields about RoPE of a family that rotates whole heads, with the default of its base. Raises
    UnsupportedModel for a part of a head, which transformers does not read.
    """
    fields = rope(hf, default_theta=theta)
    check_keys({"partial_rotary_factor": fields["rotary_fraction"]}, (), {"partial_rotary_factor": (1.0,)})
    return fields


def fraction_of(rotated: int, d_head: int) -> float:
    """Return the fraction of a head that has `rotated` dimensions, so that their product is not rounded below it.
    Raises CheckpointError for more dimensions than a head has, and for a head beyond all sizes.
    """
    d_head = max(d_head, 1)
    if not rotated <= d_head <= LARGEST:
        got = f"{rotated} rotated dimensions, {d_head} dimensions of a head"[:80]
        raise CheckpointError("The config is invalid.", got, "Correct the config.")
    fraction = rotated / d_head
    return fraction if int(d_head * fraction) == rotated else (rotated + 0.5) / d_head
