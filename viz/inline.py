"""The page and its figures in a notebook or a script: `show` serves the page from this process, `figure` draws one.

>>> from viz.inline import figure, show
>>> show("The cat sat on the mat", heads=[(5, 0)])                                         # doctest: +SKIP
>>> figure("map_plot", "The cat sat on the mat", heads=[(5, 0)]).data[0].z.shape
(6, 6)
"""

import atexit
import functools
import html
import sys
import threading
import webbrowser
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlencode

import plotly.graph_objects as go

from model import FOLDER
from model.api import LanguageModel, load_model
from model.errors import InputError, say
from model.in_memory import is_model, language_model
from model.recorded.record import AttentionRecord
from viz.page.build import build
from viz.page.notebook import page_of
from viz.reach import reach
from viz.serve import start
from viz.server.serving import RunningServer, taken
from viz.views.tabs import TABS
from viz.work.playground import Playground

HEIGHT = 760  # pixels


class _Served:
    """The one server of this process, started by the first `show`."""

    def __init__(self) -> None:
        listening = taken("127.0.0.1", None)
        port = listening.getsockname()[1]
        place = reach(port)
        self.url = place.url
        self.playground = Playground(place.options())
        self.server: RunningServer = start(
            self.playground, FOLDER / "static", build(self.playground), host="127.0.0.1", port=port, listening=listening
        )

    def close(self) -> None:
        """Stop the server and everything that was started from its page."""
        self.server.close()
        self.playground.close()


_served: list[_Served] = []
_starting = threading.Lock()  # one page is built at a time


def _server() -> _Served:
    with _starting:
        if not _served:
            _served.append(_Served())
        return _served[0]


def serve_attention(name: str, title: str, record: AttentionRecord, language: str) -> str:
    """Serve attention given as arrays by a name, and return the address of the page. In English, the page has the
    browser's own language.
    """
    served = _server()
    served.playground.recorded[name] = title, record
    return f"{served.url}{'' if language == 'en' else f'?lang={language}'}#attention={name}"


def forget_attention(name: str) -> None:
    """Stop serving attention; the server goes on."""
    for served in _served:
        served.playground.recorded.pop(name, None)


@atexit.register
def close() -> None:
    """Stop the server of this process. The next `show` starts another one."""
    while _served:
        _served.pop().close()


class Shown:
    """A page that is served by this process. A notebook shows it in a frame; elsewhere, open `url`."""

    def __init__(self, url: str, height: int) -> None:
        self.url, self.height = url, height

    def _repr_html_(self) -> str:
        url = html.escape(self.url, quote=True)
        style = f"width: 100%; height: {self.height}px; border: 1px solid #8884; border-radius: 6px"
        return f'<iframe src="{url}" style="{style}" allow="clipboard-write; fullscreen"></iframe>'

    def __repr__(self) -> str:
        return f"Attention playground: {self.url.split('#')[0]}"

    def close(self) -> None:
        """Stop the server, with all pages that it shows."""
        close()


def show(
    model_or_prompt: object = None,
    tokenizer: object = None,
    prompt: str | None = None,
    *,
    model: str | Path | LanguageModel | None = None,
    heads: Sequence[tuple[int, int]] = (),
    tokens: Sequence[int] = (),
    tab: str = "",
    height: int = HEIGHT,
) -> Shown:
    """Serve the page on a prompt from this process, and return it: the last line of a notebook's cell shows it.

    Call it in one of two forms:

        show("The cat sat on the mat", model="tinygpt")
        show(hf_model, tokenizer, "The cat sat on the mat")

    Every call uses the same server, on a free port of the loopback address, which other computers cannot reach. It ends
    with the process or with `close`. Outside a notebook, the page opens in the browser.

    model_or_prompt: the prompt, or a transformers model in memory (model.in_memory.language_model).
    tokenizer, prompt: those of a transformers model.
    model: an id, "hub:OWNER/NAME", a folder, a .gguf file, or a loaded model; TinyGPT by default.
    heads: pairs (layer, head) to select; at most 8 are shown.
    tokens: positions to select.
    tab: the tab to open, for example "attention"; without one, the attention maps if heads are given, else the start.
    height: of the frame, in pixels.

    Raises InputError for an unknown tab, an empty or overlong prompt, heads and tokens that do not exist, or arguments
    in another order, and the errors of `language_model`.
    """
    keys = [each.key for each in TABS]
    if tab and tab not in keys:
        raise InputError("There is no such tab.", tab[:40], say("Choose one of: {}.", ", ".join(keys)))
    lm, text = _model_and_prompt(model_or_prompt, tokenizer, prompt, model)
    page_of(lm, text, heads=heads, tokens=tokens)  # reports what is wrong with the arguments
    served = _server()
    served.playground.give(lm)
    state: dict[str, str] = {"model": lm.id, "prompt": text}
    if tab or heads:
        state["tab"] = tab or "attention"
    if heads:
        state["heads"] = ",".join(f"{layer}.{head}" for layer, head in heads)
    if tokens:
        state["tokens"] = ",".join(map(str, tokens))
    shown = Shown(f"{served.url}#{urlencode(state)}", height)
    if not _in_notebook():
        webbrowser.open(shown.url)
    return shown


def figure(
    name: str,
    model_or_prompt: object = None,
    tokenizer: object = None,
    prompt: str | None = None,
    *,
    model: str | Path | LanguageModel | None = None,
    heads: Sequence[tuple[int, int]] = (),
    tokens: Sequence[int] = (),
    theme: str = "light",
    **settings: Mapping[str, object],
) -> go.Figure:
    """Draw one figure of the page, by its name in `page_of(...).figures()`, in the colors of the light or dark page.

    The prompt and the model are given in one of the two forms of `show`. `settings` are the values of the controls
    beside it, as in `page_of(...).figure`. Raises InputError if no figure has this name, or if it cannot be drawn; for
    a figure of a slow measure, use `page_of` and `run`.
    """
    lm, text = _model_and_prompt(model_or_prompt, tokenizer, prompt, model)
    return page_of(lm, text, heads=heads, tokens=tokens).figure(name, theme=theme, **settings)


def _model_and_prompt(
    first: object, tokenizer: object, prompt: str | None, model: str | Path | LanguageModel | None
) -> tuple[LanguageModel, str]:
    """Return the model and the prompt of a call in either form. Raises InputError for anything else."""
    if is_model(model):
        raise InputError("The tokenizer of the model is missing.", "", _FORMS)
    if tokenizer is None and (first is None or isinstance(first, str)):
        text = prompt if first is None else first
        if text is None or (first is not None and prompt is not None):
            raise InputError("The prompt is missing.", "", _FORMS)
        return _loaded("tinygpt" if model is None else model), text
    if model is not None:
        raise InputError("The model is given twice.", "", _FORMS)
    if isinstance(first, LanguageModel | str):  # a loaded model has its own tokenizer
        raise InputError("These arguments have another order.", "", _FORMS)
    if prompt is None and isinstance(tokenizer, str):
        raise InputError("The tokenizer of the model is missing.", "", _FORMS)
    lm = language_model(first, tokenizer)
    if not isinstance(prompt, str):
        raise InputError("The prompt is missing.", "", _FORMS)
    return lm, prompt


_FORMS = "Call show(prompt, model=...) or show(hf_model, tokenizer, prompt)."


def _loaded(model: str | Path | LanguageModel) -> LanguageModel:
    return model if isinstance(model, LanguageModel) else _named(str(model))


@functools.lru_cache(maxsize=1)
def _named(model: str) -> LanguageModel:
    return load_model(model)


def _in_notebook() -> bool:
    """Return whether this runs in a Jupyter kernel, whose notebook shows the value of a cell's last line."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module else None
    return shell is not None and hasattr(shell, "kernel")
