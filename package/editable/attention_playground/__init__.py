"""`attention_playground` after `pip install -e .`: the files of the clone as they are now, by the names of the wheel.

This folder is all that an editable install adds to the module search path.
"""

import runpy
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

_ROOT = Path(__file__).resolve().parents[3]
_LIBRARY = _ROOT / "package/installed"
_renamed = runpy.run_path(str(_ROOT / "package/names.py"))["renamed"]


class _Renaming(SourceFileLoader):
    """Loads a file of the clone with the names of the wheel. Its bytecode is stored beside that of the clone."""

    def get_data(self, path: str) -> bytes:
        if path.endswith(".pyc"):
            return super().get_data(_own(path))
        return _renamed(super().get_data(path).decode("utf-8")).encode("utf-8")

    def set_data(self, path: str, data: bytes, **mode: int) -> None:
        super().set_data(_own(path), data, **mode)


def _own(bytecode: str) -> str:
    return f"{bytecode.removesuffix('.pyc')}.installed.pyc"


class _Clone(MetaPathFinder):
    """Finds `attention_playground.model`, `.viz` and `.app` in the clone."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith(f"{__name__}."):
            return None
        where = (_LIBRARY if name == f"{__name__}.__main__" else _ROOT).joinpath(*name.split(".")[1:])
        package = where / "__init__.py"
        file = package if package.is_file() else where.with_suffix(".py")
        folders = [str(where)] if file == package else None
        if not file.is_file():
            return None
        loader = _Renaming(name, str(file))
        return spec_from_file_location(name, file, loader=loader, submodule_search_locations=folders)


# A finder for names of this package alone. It comes first, since Python's own would find the submodules unrenamed.
sys.meta_path.insert(0, _Clone())
exec(compile((_LIBRARY / "__init__.py").read_text(encoding="utf-8"), str(_LIBRARY / "__init__.py"), "exec"))
