"""A figure's JSON as plain values: arrays travel as base64, and come back as numpy arrays."""

import base64
import json

import numpy as np
import plotly.graph_objects as go


def unpacked_figure(figure: str | go.Figure) -> dict:
    """{"data": [...], "layout": {...}} of a figure or its JSON, arrays as numpy arrays of their type and shape."""
    text = figure.to_json() if isinstance(figure, go.Figure) else figure
    return json.loads(text, object_hook=_array)


def _array(found: dict) -> dict | np.ndarray:
    if set(found) - {"shape"} != {"dtype", "bdata"}:
        return found
    flat = np.frombuffer(base64.b64decode(found["bdata"]), dtype=np.dtype(found["dtype"]).newbyteorder("<"))
    shape = found.get("shape")
    return flat.reshape([int(n) for n in str(shape).split(",")]) if shape else flat
