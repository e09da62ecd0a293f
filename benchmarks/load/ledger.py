"""What visitors write, and whose answer an answer is: what marks each one's runs and prompts."""

from dataclasses import dataclass, field

from model.api import LanguageModel
from model.records import RunKey
from viz.seam.scene import run_id

ANYBODY = -1  # owner of what is on every page at the start
SUBJECTS = ("The gray cat", "A small boat", "My old teacher", "The tall tree", "Her brother", "This quiet town")
VERBS = ("saw", "liked", "carried", "painted", "found", "remembered")
OBJECTS = ("the red ball", "a loaf of bread", "two warm coats", "the last train", "a blue door", "some good news")


@dataclass(eq=False)
class Ledger:
    """Whose run every name of a run is, and what marks each visitor's texts."""

    lm: LanguageModel
    owners: dict[str, int] = field(default_factory=dict)
    _known: dict[str, tuple[str, str]] = field(default_factory=dict)

    def names(self, prompt: str, owner: int) -> tuple[str, str]:
        """The names that the page gives the run and the prompt, noted as this visitor's."""
        if prompt not in self._known:
            key = RunKey(self.lm.id, tuple(self.lm.encode(prompt).ids.tolist()))
            self._known[prompt] = run_id(key, "en"), run_id(key, "")
        for name in self._known[prompt]:
            # The first letters of two prompts may be the same; then the answer is right for both.
            self.owners[name] = ANYBODY if self.owners.get(name, owner) != owner else owner
        return self._known[prompt]
