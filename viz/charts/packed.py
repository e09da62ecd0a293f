"""Encoding of arrays as base64 for a page, and decoding of a figure's JSON to plain values and NumPy arrays."""

import base64
import json

import numpy as np
import plotly.graph_objects as go


def packed(values: np.ndarray) -> dict:
    """Encode an array at full precision for the page's scripts."""
    array = np.ascontiguousarray(values, dtype="<f4" if values.dtype == np.float32 else "<f8")
    shape = ", ".join(str(n) for n in array.shape)
    return {"bdata": base64.b64encode(array.tobytes()).decode(), "dtype": array.dtype.str[1:], "shape": shape}


def unpacked_figure(figure: str | go.Figure) -> dict:
    """Decode a figure or its JSON to {"data": [...], "layout": {...}}, with arrays as NumPy arrays of their type and
    shape.
    """
    text = figure.to_json() if isinstance(figure, go.Figure) else figure
    return json.loads(text, object_hook=_array)


def _array(entry: dict) -> dict | np.ndarray:
    if set(entry) - {"shape"} != {"dtype", "bdata"}:
        return entry
    flat = np.frombuffer(base64.b64decode(entry["bdata"]), dtype=np.dtype(entry["dtype"]).newbyteorder("<"))
    shape = entry.get("shape")
    return flat.reshape([int(n) for n in str(shape).split(",")]) if shape else flat
