"""Routing of questions to replicas, and the number of replicas per model: pure functions, independent of Ray."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from model.api import LanguageModel
from model.records import RunKey
from viz.seam.scene import run_id
from viz.seam.tasks import Answering, Measuring, TraceReading, WritingTask

PROGRAM = 600 << 20  # base memory of a process in bytes: Python, torch and the project
MANY = 3  # number of pending questions per replica beyond which a model is hot
IDLE = 600.0  # seconds after which a superfluous replica is removed


@dataclass(frozen=True)
class Need:
    """The resources that a replica reserves on a machine."""

    cpus: float
    memory: int  # in bytes
    gpus: float = 0.0

    def fits(self, free: dict[str, float]) -> bool:
        """Return whether the free resources, as Ray counts them, suffice."""
        wanted = {"CPU": self.cpus, "memory": self.memory, "GPU": self.gpus}
        return all(free.get(name, 0.0) >= amount for name, amount in wanted.items())


def need_of(model: LanguageModel, cpus: int, memory_mb: int, gpus: int = 0) -> Need:
    """Compute the processors and bytes that a replica needs: for its weights, traces, results, and the program."""
    return Need(float(cpus), model.nbytes + (memory_mb << 20) + PROGRAM, float(gpus))


def home(route: str, names: Sequence[str]) -> str:
    """Return the name to which a route is assigned; adding or removing a name moves only the routes assigned to it.

    Rendezvous hashing: Thaler & Ravishankar 1998, "Using name-based mappings to increase hit rates".
    """
    return max(names, key=lambda name: hashlib.sha256(f"{name} {route}".encode()).digest())


def wanted(replicas: int, under_way: int, most: int) -> int:
    """Compute the target number of replicas of a hot model: one more while each has more than `MANY` questions."""
    return min(most, replicas + 1) if under_way > MANY * replicas else replicas


def spare(replicas: int, under_way: int) -> bool:
    """Return whether one replica fewer would suffice: each of the others would have at most half the load of a hot
    model.
    """
    return replicas > 1 and 2 * under_way <= MANY * (replicas - 1)


def route_of(task: object) -> str:
    """Return the part of a question that determines its route: the model and the tokens, regardless of edits and
    selection.
    """
    match task:
        case RunKey(model_id, ids) | TraceReading(RunKey(model_id, ids)):
            return run_id(RunKey(model_id, ids), "")
        case Measuring(scene):
            return run_id(RunKey(scene.model_id, scene.ids), "")
        case WritingTask(model_id, ids):
            return run_id(RunKey(model_id, ids), "")
        case Answering(model_id, prompt):
            return f"{model_id} {prompt}"
    raise TypeError(f"no place for {type(task).__name__}")
