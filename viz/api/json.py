"""Conversion of numbers to JSON: plain lists, eight significant digits, null for NaN and infinities."""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

DIGITS = 8  # number of significant digits; float32 has about seven


def plain(value: object) -> object:
    """Convert NumPy arrays, data frames, dataclasses, tuples and numbers to plain JSON types.

    Floats are rounded to DIGITS significant digits, and NaN and infinities become None. A data frame becomes a list of
    records that includes its index. Raises TypeError for any other type.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float | np.floating):
        return _rounded(float(value))
    if isinstance(value, np.bool_ | np.integer):
        return value.item()
    if isinstance(value, np.ndarray):
        return _nested(value.tolist()) if value.dtype.kind == "f" else value.tolist()
    if isinstance(value, pd.DataFrame):
        frame = value if isinstance(value.index, pd.RangeIndex) else value.reset_index()
        return [plain(row) for row in frame.to_dict("records")]
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, list | tuple | range):
        return [plain(each) for each in value]
    raise TypeError(f"no JSON for a {type(value).__name__}")


def _rounded(number: float) -> float | None:
    return float(f"{number:.{DIGITS}g}") if math.isfinite(number) else None


def _nested(value: object) -> object:
    """Convert a NumPy array to nested lists of floats."""
    return [_nested(each) for each in value] if isinstance(value, list) else _rounded(value)


def count(value: object) -> int:
    """Count the numbers and strings in a value; arrays count by their size."""
    if isinstance(value, np.ndarray | pd.DataFrame):
        return int(value.size)
    if isinstance(value, Mapping):
        return sum(map(count, value.values()))
    if dataclasses.is_dataclass(value):
        return sum(count(getattr(value, field.name)) for field in dataclasses.fields(value))
    if isinstance(value, list | tuple):
        return sum(map(count, value))
    return 1
