"""Views drawn without a browser: their payloads as a page gets them, and the Python lines under their figures."""

import base64
import json
import re
from collections.abc import Mapping

import numpy as np

from model.api import LanguageModel
from tests.support.models.helpers import VARIANTS, serving, tiny_model
from viz.page.parts import packed
from viz.page.pipeline import PageRequest, payloads, scene_of
from viz.seam import panels
from viz.seam.jobs import background
from viz.seam.scene import Scene
from viz.seam.view import View

PROMPT = "abcabd ab"


def playground_of(tokenizer, variant="gpt2", changes=None, options=None):
    """A server with a shaken byte model wired in one of the ways of VARIANTS."""
    model = tiny_model({**VARIANTS[variant], "vocab_size": 256, "n_ctx": 300, **(changes or {})})
    return serving(LanguageModel("tiny", "Tiny", model, tokenizer), options)


def question(tab: str, view: str, form: object = None, prompt: str = PROMPT, language: str = "en", **selection):
    """What a page asks that shows this view with this form."""
    sent = {f"{tab}_view": {"view": view}} | ({} if form is None else {f"{view}_form": form})
    return PageRequest("tiny", prompt, selection or None, sent, {}, language, tab=tab)


def drawn(playground, tab: str, view: str, form: object = None, **changes) -> dict[str, dict]:
    """The parts of a view by their short names, as the page reads them."""
    parts = payloads(playground, question(tab, view, form, **changes))[0]
    sent = {name: json.loads(packed(part)) for name, part in parts.items()}
    return {name.removeprefix(f"{view}_"): part for name, part in sent.items() if name.startswith(f"{view}_")}


def opened(playground, tab: str, view: str, form: object = None, **changes) -> Scene:
    """The scene of that page."""
    return scene_of(playground, question(tab, view, form, **changes))


def measured(playground, tab: str, view: View, name: str = "main", form: object = None, **changes):
    """The result of a quick measure of a view."""
    scene = opened(playground, tab, view.key, form, **changes)
    return panels.measured(view, name, scene, panels.settings_of(view, scene, {f"{view.key}_form": form})).value


def perform(playground, tab: str, view: View, name: str, form: object = None, **changes) -> None:
    """Press the button of a slow measure and wait for its end."""
    scene = opened(playground, tab, view.key, form, **changes)
    settings = panels.settings_of(view, scene, {f"{view.key}_form": form})
    list(background.perform(playground, panels.job_of(view, name, scene, settings), "en"))


def traces(payload: Mapping) -> list[dict]:
    """The traces of a figure."""
    return payload["figure"]["data"]


def array(value: object) -> np.ndarray:
    """Numbers as a figure's JSON carries them, NaN for null."""
    if isinstance(value, dict):
        flat = np.frombuffer(base64.b64decode(value["bdata"]), dtype=value["dtype"])
        return flat.reshape([int(n) for n in str(value["shape"]).split(",")]) if "shape" in value else flat
    return np.array(value, dtype=float)


def run_lines(text: str, model: LanguageModel) -> tuple[dict, list]:
    """What Python lines leave behind, and the values of those that are expressions."""
    lines, space, values = text.replace("load_model('tiny')", "lm").splitlines(), {"lm": model}, []
    for line in lines:
        line = re.sub(r"\s+#.*$", "", line)
        if not line or line == "lm = lm":
            continue
        try:
            code = compile(line, "line", "eval")
        except SyntaxError:
            exec(line, space)
        else:
            values.append(eval(code, space))
    return space, values


def no_holes(parts: Mapping[str, Mapping]) -> None:
    """Fail where a placeholder was left in any text."""
    held = ("title", "note", "about", "check", "text", "source", "items", "rows", "columns", "empty")
    texts = json.dumps([{key: part[key] for key in held if key in part} for part in parts.values()])
    assert not re.search(r"\{\w+\}", texts)
