"""Fast start of training processes: each is forked from one that has already imported everything, where that is safe.

The imports take three seconds of CPU time. On Linux, one process performs them when an app's first training run
begins, and every run is forked from it. It computes nothing itself, so a fork loses no threads. On other systems,
every process imports the modules itself, because the system libraries do not support forking.
"""

import functools
import multiprocessing
import sys
from multiprocessing.context import BaseContext

# Modules that all kinds of training need; the last one saves a second when the first optimizer is created. If the app
# was started from another folder, the project's modules are not found here, and each process imports them.
IMPORTED = [f"{__package__}.training_process", f"{__package__}.trial_process", "torch._dynamo"]


@functools.cache
def context() -> BaseContext:
    """Return the multiprocessing context of this system. Starting the first process takes as long as the imports."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    copies = multiprocessing.get_context("forkserver")
    copies.set_forkserver_preload(IMPORTED)
    return copies
