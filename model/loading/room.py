"""Whether a model fits into this machine's memory, known from its config before a weight is read."""

from dataclasses import dataclass

import psutil

from model.errors import CheckpointError, say
from model.gpt.config import ModelConfig
from model.loading.convert import expected_shapes

SPARE = 10  # percent of the weights that are left for a trace and what is made on the way


@dataclass(frozen=True)
class Room:
    """What a model needs, and what is there; bytes."""

    weights: int  # all of them in float32, a tied head counted once
    available: int  # memory that the system can give without swapping

    @property
    def needed(self) -> int:
        """The weights and SPARE percent more."""
        return self.weights + self.weights * SPARE // 100

    @property
    def fits(self) -> bool:
        """Whether that is there."""
        return self.needed <= self.available


def room_for(config: ModelConfig) -> Room:
    """The room of a model on this machine, now."""
    numbers = sum(_size(shape) for shape in expected_shapes(config).values())
    return Room(4 * numbers, psutil.virtual_memory().available)


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for length in shape:
        size *= length
    return size


def need_room(config: ModelConfig) -> None:
    """Raise CheckpointError where the weights do not fit into memory: before they are read, not when all is full."""
    room = room_for(config)
    if not room.fits:
        got = f"{room.needed / 1e9:.2f} GB, {room.available / 1e9:.2f} GB"
        hint = say("Leave the weights in their files: {}.", "python app.py --weights stored")
        raise CheckpointError("The model's weights in float32 do not fit into the memory that is free.", got, hint)
