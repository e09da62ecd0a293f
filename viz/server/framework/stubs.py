"""Gradio without its stubs: at each import it writes a type stub beside every component, for editors of its authors.

That takes a third of its import, and needs a folder that can be written. `leave_out` is called before Gradio is
imported; without it the app only starts later.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

MODULE = "gradio.component_meta"
WRITES = "create_or_modify_pyi"


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the one module as ever, and takes its writer out once it is loaded."""

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
                setattr(module, WRITES, lambda *_: None)

            spec.loader.exec_module = load  # type: ignore[method-assign]
        return spec


def leave_out() -> None:
    """Have the next import of Gradio write no stubs."""
    if MODULE not in sys.modules and not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
