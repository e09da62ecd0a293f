"""The functions for programs as a program calls them."""

import json

import numpy as np

from viz.api.endpoints import ENDPOINTS
from viz.api.registry import call
from viz.work.playground import Playground

NAMED = {each.name: each for each in ENDPOINTS}
TEXT = "abcabd abc"


def ask(playground: Playground, name: str, **given) -> dict:
    """The answer as a program gets it: through JSON that knows no NaN."""
    found = call(playground, NAMED[name], given)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    return found


def array(value) -> np.ndarray:
    """Nested lists as numbers, None as NaN."""
    return np.array(value, dtype=float)
