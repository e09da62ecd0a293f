"""The schedule that saves a running job's model, so that the last good one remains if its process is killed."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from model.gpt.transformer import Transformer
from model.loading.checkpoint import save_folder

SAVE_EVERY = 5.0  # minimum seconds between two saves of a running job
SAVING = 20  # minimum interval as a multiple of the last save's duration


@dataclass(eq=False)
class Saving:
    """A schedule that saves a run's model periodically, so that the last good one remains if the process is killed."""

    folder: Path
    model: Callable[[], Transformer | None]
    leave: Callable[[Path], None] | None = None  # writes additional files
    due: float = 0.0  # time at which the next save is due

    def after(self, step: int) -> bool:
        """Save the model if it was trained, a save is due and all numbers are finite; return whether it was saved."""
        began = time.monotonic()
        if not step or began < self.due:
            return False
        model = self.model()
        if model is None or not all(bool(torch.isfinite(each).all()) for each in model.parameters()):
            return False
        save_folder(self.folder, model)
        if self.leave:
            self.leave(self.folder)
        self.due = time.monotonic() + max(SAVE_EVERY, SAVING * (time.monotonic() - began))
        return True
