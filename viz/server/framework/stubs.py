"""Gradio without its stubs: at each import it writes a type stub beside every component, for editors of its authors.

That takes a third of its import, and needs a folder that can be written. It also compiles a template for the
description of every event of every component, for its authors as well. `leave_out` is called before Gradio is imported;
`without` is what else its import brings along that serving a page does not use. Without them the app only starts later.
"""

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType

from viz.server.framework import put_off

MODULE = "gradio.component_meta"
WRITES = "create_or_modify_pyi"
LISTENER, DESCRIBES = "EventListener", "set_doc"  # a class that the module imports, and its method
# Modules that are optional where they are imported: httpx's command line with what colours it, and MCP's server.
CONSOLE, MCP = "httpx._main", "mcp"


def _nothing(*_: object, **__: object) -> None:
    """In the place of what is left out."""


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the one module as ever, and takes out what writes stubs and descriptions once it is loaded."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            whole = spec.loader.exec_module

            def load(module: ModuleType) -> None:
                whole(module)
                setattr(module, WRITES, _nothing)
                setattr(vars(module)[LISTENER], DESCRIBES, _nothing)

            spec.loader.exec_module = load  # type: ignore[method-assign]
        return spec


def leave_out() -> None:
    """Have the next import of Gradio write no stubs."""
    if MODULE not in sys.modules and not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def load(*, mcp: bool) -> None:
    """Import Gradio without its stubs, and without what `without` names."""
    leave_out()
    with put_off.certificates(), without(mcp=mcp):
        with put_off.forms():
            import fastapi  # noqa: F401
        import gradio  # noqa: F401


@contextlib.contextmanager
def without(*, mcp: bool) -> Iterator[None]:
    """Gradio imported here finds neither httpx's command line nor, unless `mcp`, MCP's modules.

    Who imports one of them afterwards finds it.
    """
    absent = [name for name in (CONSOLE, *(() if mcp else (MCP,))) if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]  (None: an import of it is an ImportError)
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]
