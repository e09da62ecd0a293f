"""Approximate sizes of results in bytes, by which the cache of results is limited."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass

import numpy as np
import pandas as pd

from viz.seam.jobs import background


def nbytes_of(value: object) -> int:
    """Return the approximate size of a result in bytes, at least the minimum counted for any result."""
    return max(_nbytes(value), background.Result.nbytes)


def _nbytes(value: object) -> int:
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, pd.DataFrame):
        return int(value.memory_usage(deep=True).sum())
    if isinstance(value, Mapping):
        return sum(_nbytes(each) for each in value.values())
    if isinstance(value, list | tuple):
        return 8 * len(value) if len(value) > 64 and isinstance(value[0], int | float) else sum(map(_nbytes, value))
    if is_dataclass(value):
        return sum(_nbytes(getattr(value, each.name)) for each in fields(value))
    return 8
