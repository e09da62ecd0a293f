"""Names of formats in this tab, and its small numbers as text."""

import math
from collections.abc import Mapping

from model.quantization.formats import FORMATS, Format
from viz.numbers import NONE, decimals, nats, number
from viz.words import Words

SAME = 1e-8  # nats; below, nothing but the order of sums is left
STILL = 1e-6  # total variation; the same for attention


def shared_words(catalogue: Mapping[str, str]) -> Words:
    """Return the words that the views of this tab share."""
    return Words(catalogue, "number_formats")


def name_of(kind: Format, catalogue: Mapping[str, str]) -> str:
    """Return the name of a format."""
    words, scheme = shared_words(catalogue), kind.scheme
    if scheme is None:
        return words["name_gguf"].format(type=kind.gguf) if kind.gguf else words[f"name_{kind.key}"]
    name = words[f"name_{scheme.per}"].format(bits=scheme.bits, group=scheme.group)
    return name if scheme.symmetric else words["name_affine"].format(name=name)


def format_label(words: Words, option: str) -> str:
    """Return the text of a format in a choice."""
    return name_of(FORMATS[option], words.catalogue)


def short_of(kind: Format) -> str:
    """Return a code of the format for a label: int4 g32, Q4_1; "z" where it has zero points."""
    scheme = kind.scheme
    if scheme is None:
        return kind.gguf or kind.key
    shared = f"g{scheme.group}" if scheme.per == "group" else scheme.per
    return f"int{scheme.bits} {shared}{'' if scheme.symmetric else ' z'}"


def family_of(kind: Format) -> str:
    """Of viz.views.quantization.formats.figures.FAMILIES."""
    if kind.scheme is None:
        return "gguf" if kind.gguf else "float"
    return "int8" if kind.scheme.bits == 8 else "few"


def divergence(kl: float) -> str:
    """Return a KL in nats; below SAME it is nothing but rounding of float32."""
    return "0" if kl == 0 else f"< {number(SAME, 1)}" if kl < SAME else nats(kl)


def moved(distance: float) -> str:
    """Return a total variation distance; below STILL it is nothing but rounding of float32."""
    return "0" if distance == 0 else f"< {number(STILL, 1)}" if distance < STILL else number(distance)


def decibels(snr: float | None) -> str:
    """Return a signal-to-noise ratio; None is no noise at all."""
    return "∞" if snr is None else decimals(snr, 1)


def perplexity(loss: float | None) -> str:
    """exp(loss); "–" for a text of one token."""
    return NONE if loss is None else number(math.exp(min(loss, 700)))
