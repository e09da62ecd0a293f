"""The rows of the table of valid calls, and the objects that their arguments come from."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from model.activations.residual_statistics import survey as stream_of
from model.alignment.preferences import Pair
from model.api import LanguageModel
from model.forgetting.policies import Policy
from model.gpt.transformer import Transformer
from model.sampling.pipeline import Step
from model.tracing.trace import run
from tests.support.models.encoders import encoder_config
from tests.support.models.helpers import tokens_of

Values = dict[str, object]


@dataclass(frozen=True)
class Row:
    """A valid call: its arguments, made of the models at hand."""

    given: Callable[["Given"], Values]
    legal: dict[str, str] = field(default_factory=dict)  # labels of odd values, by argument, that are legal
    words: dict[str, str] = field(default_factory=dict)  # what a refusal calls an argument, if not by its name
    slow: bool = False  # only what `public` itself refuses is tried
    owner: Callable[["Given"], object] | None = None  # of a method


class Given:
    """A tiny model, a run, and what is made of them, once each."""

    def __init__(self, lm: LanguageModel) -> None:
        self.lm, self.model, self.config = lm, lm.model, lm.config

    @functools.cached_property
    def run(self):
        return self.lm.trace("abcabd")

    @functools.cached_property
    def two_way_run(self):
        return run(Transformer(encoder_config()), tokens_of([2, 62, 63, 3]))

    @functools.cached_property
    def stream(self):
        return stream_of(self.run)


IDS = [97, 98, 99, 97, 98]
POLICY = Policy("window", 4)
TWO = torch.tensor([[0.5, 1.0, 2.0], [0.1, 0.2, 0.3]])
INSIDE = torch.ones(2, 3, dtype=torch.bool)
PAIRS = tuple(Pair(f"p{n}", f"good {n}", f"bad {n}") for n in range(4))
STEPS = (Step("temperature", (("temperature", 0.8),)),)
SEED = {"seed": "zero"}
TEXT = {"text": "text, empty"}


ROWS: dict[str, Row] = {}


def rows(module: str, **entries: Row) -> None:
    """Add the rows of a module."""
    ROWS.update({f"{module}.{name.replace('__', '.')}": row for name, row in entries.items()})


def blank(kind: type) -> object:
    """Return an object of a class without its contents, where only its kind counts."""
    return object.__new__(kind)
