"""Names of number formats on the Quantization tab, and formatters for its quantities."""

import math
from collections.abc import Mapping

from model.quantization.formats import FORMATS, Format
from viz.numbers import NONE, decimals, nats, number
from viz.words import Words

SAME = 1e-8  # in nats; smaller divergences are due to the order of summation alone
STILL = 1e-6  # total variation distance; smaller distances are due to the order of summation alone


def shared_words(catalogue: Mapping[str, str]) -> Words:
    """Return the words shared by the views of this tab."""
    return Words(catalogue, "number_formats")


def name_of(kind: Format, catalogue: Mapping[str, str]) -> str:
    """Format the display name of a number format."""
    words, scheme = shared_words(catalogue), kind.scheme
    if scheme is None:
        return words["name_gguf"].format(type=kind.gguf) if kind.gguf else words[f"name_{kind.key}"]
    name = words[f"name_{scheme.per}"].format(bits=scheme.bits, group=scheme.group)
    return name if scheme.symmetric else words["name_affine"].format(name=name)


def format_label(words: Words, option: str) -> str:
    """Format the label of a number format as an option; `option` is a key of FORMATS."""
    return name_of(FORMATS[option], words.catalogue)


def short_of(kind: Format) -> str:
    """Format a short label of a number format, such as `int4 g32` or `Q4_1`; a final `z` stands for zero points."""
    scheme = kind.scheme
    if scheme is None:
        return kind.gguf or kind.key
    shared = f"g{scheme.group}" if scheme.per == "group" else scheme.per
    return f"int{scheme.bits} {shared}{'' if scheme.symmetric else ' z'}"


def family_of(kind: Format) -> str:
    """Return the family of a number format, a key of FAMILIES in viz.views.quantization.formats.figures."""
    if kind.scheme is None:
        return "gguf" if kind.gguf else "float"
    return "int8" if kind.scheme.bits == 8 else "few"


def divergence(kl: float) -> str:
    """Format a KL divergence in nats; nonzero values below SAME, due to rounding alone, appear as "< SAME"."""
    return "0" if kl == 0 else f"< {number(SAME, 1)}" if kl < SAME else nats(kl)


def moved(distance: float) -> str:
    """Format a total variation distance; nonzero values below STILL, due to rounding alone, appear as "< STILL"."""
    return "0" if distance == 0 else f"< {number(STILL, 1)}" if distance < STILL else number(distance)


def decibels(snr: float | None) -> str:
    """Format a signal-to-noise ratio in decibels; None, for no noise, becomes "∞"."""
    return "∞" if snr is None else decimals(snr, 1)


def perplexity(loss: float | None) -> str:
    """Format exp(loss) for a loss in nats; None, for a text of one token, becomes "–"."""
    return NONE if loss is None else number(math.exp(min(loss, 700)))
