"""Attention playground: see inside a GPT. The command `attention-playground` serves the page; this is the library.

>>> import attention_playground as ap
>>> page = ap.page_of(ap.load_model("tinygpt"), "The cat sat on the mat", heads=[(5, 0)])
>>> page.figure("map_plot").data[0].z.shape
(6, 6)
"""

from importlib import import_module

# Imported when first used: the command sets the environment of torch before.
_OFFERED = {
    "Edit": "model.gpt.edits",
    "PlaygroundError": "model.errors",
    "list_models": "model.api",
    "load_model": "model.api",
    "page_of": "viz.page.notebook",
}
__all__ = sorted(_OFFERED)


def __getattr__(name: str) -> object:
    if name not in _OFFERED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_OFFERED[name]}"), name)


def __dir__() -> list[str]:
    return __all__
