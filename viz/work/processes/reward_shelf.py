"""Reward models that visitors trained: a few per visitor, as folders, until the page is closed."""

import contextlib
import shutil
import tempfile
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from model.alignment.reward_folder import about_reward, load_reward
from model.alignment.reward_model import RewardModel
from model.errors import InputError
from model.gpt.transformer import Transformer

KEPT = 3  # maximum number of models per visitor
MOST_BYTES = 1 << 30  # maximum total size for all visitors in bytes; beyond it, the oldest models are removed


@dataclass(frozen=True)
class ShelvedModel:
    """A reward model kept for its visitor."""

    id: str  # an unguessable string
    owner: str  # the page of the visitor
    name: str
    base: str  # id of the base model, whose tokenizer it uses
    body: bool  # whether the whole model was trained
    accuracy: float  # accuracy on held-out pairs
    folder: Path  # to be read by model.alignment.reward_folder.load_reward
    nbytes: int


@dataclass(eq=False)
class RewardShelf:
    """All reward models kept on this machine; safe to share between visitors."""

    _kept: dict[str, ShelvedModel] = field(default_factory=dict)  # oldest first
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _home: Path | None = None

    @contextlib.contextmanager
    def place(self) -> Iterator[Path]:
        """Create a folder for a reward model, which is removed at the end unless `keep` was called for it."""
        with self._lock:
            if self._home is None:
                self._home = Path(tempfile.mkdtemp(prefix="playground-rewards-"))
            folder = self._home / uuid.uuid4().hex
        try:
            yield folder
        finally:
            if folder.name not in self._kept:
                shutil.rmtree(folder, ignore_errors=True)

    def keep(self, owner: str, folder: Path, name: str, accuracy: float) -> ShelvedModel:
        """Keep the reward model in such a folder; the visitor's oldest models beyond KEPT are removed.

        Raises CheckpointError if the folder contains no reward model.
        """
        about = about_reward(folder)
        nbytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        kept = ShelvedModel(folder.name, owner, name, about.base, about.body, accuracy, folder, nbytes)
        with self._lock:
            self._kept[kept.id] = kept
            mine = [each for each in self._kept.values() if each.owner == owner]
            self._drop(mine[:-KEPT])
            while len(self._kept) > 1 and sum(each.nbytes for each in self._kept.values()) > MOST_BYTES:
                self._drop([next(iter(self._kept.values()))])
        return kept

    def of(self, owner: str) -> list[ShelvedModel]:
        """Return a visitor's reward models, oldest first."""
        with self._lock:
            return [each for each in self._kept.values() if each.owner == owner]

    def find(self, owner: str, number: str) -> ShelvedModel:
        """Return one of a visitor's own models. Raises InputError if it does not exist."""
        kept = self._kept.get(number)
        if kept is None or kept.owner != owner:
            raise InputError("This reward model is no longer on the server.", "", "Train it again.")
        return kept

    def load(self, owner: str, number: str, base: Transformer) -> RewardModel:
        """Load one of a visitor's own models from its folder. Raises InputError if it does not exist."""
        return load_reward(self.find(owner, number).folder, base)

    def leave(self, owner: str) -> None:
        """Remove the models of a visitor whose page was closed."""
        with self._lock:
            self._drop([each for each in self._kept.values() if each.owner == owner])

    def close(self) -> None:
        """Remove all files."""
        with self._lock:
            self._drop(list(self._kept.values()))
            if self._home is not None:
                shutil.rmtree(self._home, ignore_errors=True)
                self._home = None

    def _drop(self, those: list[ShelvedModel]) -> None:
        for each in those:
            self._kept.pop(each.id, None)
            shutil.rmtree(each.folder, ignore_errors=True)
