"""A trace held by another process: results and common readings are fetched from there, everything else is recomputed
on demand.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from model.gpt.config import ModelConfig
from model.records import RunKey, Tokens
from model.tracing.head_metrics import metrics_table
from model.tracing.trace import Trace
from viz.work.engine import READS, Ran


class DistantTrace:
    """A stand-in for `model.tracing.trace.Trace`.

    The page draws from results, which are computed in the process that holds the trace, as are READS. A few endpoints
    need more of the trace: the prompt is then run once in this process, which makes all members of a trace available.
    """

    def __init__(self, key: RunKey, tokens: Tokens, config: ModelConfig, ran: Ran, make: Callable[[], Trace]) -> None:
        self.key, self.tokens, self.config = key, tokens, config
        self.metrics: np.ndarray = ran.metrics  # [L, H, metrics]
        self.seconds = ran.seconds  # duration of the run in the other process
        self._make, self._read = make, ran.read
        self._made: Trace | None = None

    def head_metrics(self) -> pd.DataFrame:
        """Return all HEAD_METRICS for every head, as a trace does."""
        return metrics_table(self.metrics)

    @property
    def is_here(self) -> bool:
        """True if the prompt has been run in this process."""
        return self._made is not None

    def here(self) -> Trace:
        """Return the run in this process; the prompt is run now if it was not before."""
        if self._made is None:
            self._made = self._make()
        return self._made

    @property
    def nbytes(self) -> int:
        """The size in this process in bytes."""
        return self.metrics.nbytes + (self._made.nbytes if self._made else 0)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # looked up by copy and pickle, but a trace is neither copied nor sent
            raise AttributeError(name)
        if self._made is None and self._read is not None and name in READS:
            return functools.partial(self._read, name)
        return getattr(self.here(), name)
