"""Where a question goes and how many replicas a model gets: plain functions, no cluster in sight."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from model.api import LanguageModel
from model.records import RunKey
from viz.seam.scene import run_id
from viz.seam.tasks import Answering, Measuring, Reading, Writing

PROGRAM = 600 << 20  # bytes of a process before it holds anything: Python, torch and the project
MANY = 3  # questions under way a replica beyond which a model is hot
IDLE = 600.0  # seconds for which a model has a replica too many, after which that one gives its room back


@dataclass(frozen=True)
class Need:
    """What a replica reserves of a machine."""

    cpus: float
    memory: int  # bytes
    gpus: float = 0.0

    def fits(self, free: dict[str, float]) -> bool:
        """Return whether so much is free, as Ray counts it."""
        wanted = {"CPU": self.cpus, "memory": self.memory, "GPU": self.gpus}
        return all(free.get(name, 0.0) >= amount for name, amount in wanted.items())


def need_of(model: LanguageModel, cpus: int, memory_mb: int, gpus: int = 0) -> Need:
    """Return a replica's processors and bytes: the weights that it holds in memory, traces and results, and the
    program.
    """
    return Need(float(cpus), model.nbytes + (memory_mb << 20) + PROGRAM, float(gpus))


def home(route: str, names: Sequence[str]) -> str:
    """Return the name that a route goes to; a name that is added or taken away moves only the routes that it gains or
    had.

    Rendezvous hashing: Thaler & Ravishankar 1998, "Using name-based mappings to increase hit rates".
    """
    return max(names, key=lambda name: hashlib.sha256(f"{name} {route}".encode()).digest())


def wanted(replicas: int, under_way: int, most: int) -> int:
    """How many replicas a hot model should have: one more while each has more than `MANY` questions."""
    return min(most, replicas + 1) if under_way > MANY * replicas else replicas


def spare(replicas: int, under_way: int) -> bool:
    """Whether one replica fewer would do: each of the others would have half of what makes a model hot, or less."""
    return replicas > 1 and 2 * under_way <= MANY * (replicas - 1)


def route_of(task: object) -> str:
    """What decides where a question goes: the model and the tokens, whatever is edited or picked."""
    match task:
        case RunKey(model_id, ids) | Reading(RunKey(model_id, ids)):
            return run_id(RunKey(model_id, ids), "")
        case Measuring(scene):
            return run_id(RunKey(scene.model_id, scene.ids), "")
        case Writing(model_id, ids):
            return run_id(RunKey(model_id, ids), "")
        case Answering(model_id, prompt):
            return f"{model_id} {prompt}"
    raise TypeError(f"no place for {type(task).__name__}")
