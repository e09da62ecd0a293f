"""An endpoint: a typed function of a scene, a model or the server, offered to programs by viz.api.registry."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Endpoint:
    """A named function. It receives a Scene, (Playground, LanguageModel) or the Playground, then its own arguments.

    The API page and MCP clients show its docstring: a summary, then "Args:", then "Returns:".
    """

    function: Callable[..., dict]
    views: tuple[str, ...] = ()  # views that show these numbers: "tab.view", or "tab" for a tab without views
    reads: Literal["run", "plain run", "model", "server"] = "run"  # "plain run" is always without edits
    long: bool = False  # True if it can take seconds, so that only a few run at once
    kind: str = "measured"  # "measured", "computed" (by a formula) or "listed"

    @property
    def name(self) -> str:
        """The name under which programs call the endpoint."""
        return self.function.__name__
