"""Attention playground: see inside a GPT. The command `attention-playground` serves the page; this is the library.

>>> import attention_playground as ap
>>> ap.show("The cat sat on the mat", heads=[(5, 0)])                     # the page, in a notebook's cell
>>> ap.figure("map_plot", "The cat sat on the mat", heads=[(5, 0)])       # one figure
>>> ap.show_attention(attention, tokens)                                  # attention weights of any model
>>> ap.load_model("tinygpt").trace("The cat sat on the mat").pattern(5, 0)  # the numbers
"""

import warnings
from importlib import import_module

# Imported when first used: the command sets the environment of torch before.
_OFFERED = {
    "Edit": "model.gpt.edits",
    "PlaygroundError": "model.errors",
    "close": "viz.inline",
    "figure": "viz.inline",
    "language_model": "model.in_memory",
    "list_models": "model.api",
    "load_model": "model.api",
    "page_of": "viz.page.notebook",
    "show": "viz.inline",
    "show_attention": "viz.show_attention",
}
__all__ = sorted(_OFFERED)


def __getattr__(name: str) -> object:
    if name not in _OFFERED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with warnings.catch_warnings():
        # tqdm asks for ipywidgets when huggingface_hub imports it in a notebook. Nothing here needs them.
        warnings.filterwarnings("ignore", "IProgress not found")
        module = import_module(f"{__name__}.{_OFFERED[name]}")
    return getattr(module, name)


def __dir__() -> list[str]:
    return __all__
