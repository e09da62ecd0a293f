"""How a process that trains begins: as a copy of one that has imported everything, where that is safe.

Imports take three seconds of a core. On Linux one process does them, when the first training of an app begins, and is
copied for each; it computes nothing itself, so that a copy of it lacks no thread. Elsewhere every process imports for
itself: the systems' own libraries are not made for copies.
"""

import functools
import multiprocessing
import sys
from multiprocessing.context import BaseContext

# What all kinds of training need; the last is what torch's optimizers import as the first is made, another second.
# Ours are not found where the app was started from another folder: then each process imports them.
IMPORTED = ["viz.work.processes.training_process", "viz.work.processes.trial_process", "torch._dynamo"]


@functools.cache
def context() -> BaseContext:
    """Return the way processes begin on this system. The first one of an app takes as long as the imports."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    copies = multiprocessing.get_context("forkserver")
    copies.set_forkserver_preload(IMPORTED)
    return copies
