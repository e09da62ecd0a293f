"""The compare tab without a browser: what a page asks for, and what is drawn."""

import numpy as np

from viz.page.pipeline import PageRequest, payloads
from viz.work.playground import Playground


def asked(prompt: str = "abcab", b: object = None, view: str = "runs", **changes) -> PageRequest:
    """A page with a view of the tab open; `b` is the value of the form of run B, `values` those of other parts."""
    values = {"compare_view": {"view": view}, "run_b": b or {}, **changes.pop("values", {})}
    first = {"model_id": "tiny", "selection": {"heads": [[1, 2]]}, "shown": {}, "language": "en", "tab": "compare"}
    return PageRequest(**{**first, "prompt": prompt, "values": values, **changes})


def drawn(playground: Playground, *given, **changes) -> dict[str, dict]:
    """All parts of the view by their names on the page."""
    return payloads(playground, asked(*given, **changes))[0]


def cells(payload: dict) -> np.ndarray:
    """z of the first trace of a payload's figure."""
    return np.asarray(payload["figure"].data[0].z, np.float32)


def made_by(payload: dict) -> np.ndarray:
    """What the last of a payload's Python lines gives."""
    *lines, last = payload["python"].splitlines()
    found: dict = {}
    exec("\n".join([*lines, f"result = {last}"]), found)
    return np.asarray(found["result"], np.float32)
