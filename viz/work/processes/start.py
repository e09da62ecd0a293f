"""Fast start of training processes: each is forked from one that has imported everything, where that is safe.

Imports take three seconds of CPU time. On Linux one process does them when an app's first training begins, and every
training is forked from it; it computes nothing itself, so a fork misses no threads. Elsewhere every process imports for
itself, because the system libraries do not support forking.
"""

import functools
import multiprocessing
import sys
from multiprocessing.context import BaseContext

# Modules that all kinds of training need; the last one saves a second when the first optimizer is created.
# If the app was started from another folder, our own modules are not found here, and each process imports them.
IMPORTED = ["viz.work.processes.training_process", "viz.work.processes.trial_process", "torch._dynamo"]


@functools.cache
def context() -> BaseContext:
    """Return the multiprocessing context of this system. The first process takes as long as the imports."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    copies = multiprocessing.get_context("forkserver")
    copies.set_forkserver_preload(IMPORTED)
    return copies
