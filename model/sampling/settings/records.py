"""Results of reading another tool's settings, and of writing for it."""

from dataclasses import dataclass

from model.sampling.pipeline import Step


@dataclass(frozen=True)
class Imported:
    """The steps that a tool's settings stand for, in the order in which that tool runs them."""

    tool: str  # a key of model.sampling.settings.tools.TOOLS
    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()  # what differs here, one sentence each
    unused: tuple[str, ...] = ()  # the names, as they were written, that set no step
    rule: tuple[str, str] | None = (
        None  # kind and text of a rule for the whole text, which needs a tokenizer to be a step
    )


@dataclass(frozen=True)
class Exported:
    """Steps in a tool's own form."""

    tool: str
    text: str
    notes: tuple[str, ...] = ()  # what the text cannot say, one sentence each
