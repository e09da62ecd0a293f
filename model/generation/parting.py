"""Where two texts that continue the same prompt part: the first token that differs."""

from collections.abc import Sequence
from dataclasses import dataclass

from model.generation.strategies import GeneratedToken
from model.public import public


@dataclass(frozen=True)
class Parting:
    """The first place at which two texts differ. A text that has ended there has no token."""

    at: int  # number of tokens that are the same before
    first: GeneratedToken | None
    second: GeneratedToken | None


@public()
def parting(first: Sequence[GeneratedToken], second: Sequence[GeneratedToken]) -> Parting | None:
    """Return where two generated texts part; None if they have the same tokens, and both ends."""
    same = 0
    for one, other in zip(first, second, strict=False):
        if one.id != other.id:
            break
        same += 1
    if same == len(first) == len(second):
        return None
    return Parting(same, *(text[same] if same < len(text) else None for text in (first, second)))
