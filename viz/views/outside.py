"""Views from outside the project: the folders that `python app.py --views FOLDER` names, each like one of viz/views.

FOLDER/<name>/view.py declares VIEW; figures.py beside it is imported as `outside_views.<name>.figures`;
FOLDER/<name>/words/<language>.toml has its words, in English at least. They stand in a tab of their own. This is code
that runs with the rights of the server, so only the command line names it, never a request or a link.
"""

import importlib.util
import os
import sys
import types
from pathlib import Path

from model.errors import InputError
from viz.seam.view import View

VARIABLE = "PLAYGROUND_VIEWS"  # set by app.py before the page's modules are imported: they list the tabs once
PACKAGE = "outside_views"


def folders() -> list[Path]:
    """The folders of views, by their names."""
    root = os.environ.get(VARIABLE, "")
    return sorted(path.parent for path in Path(root).glob("*/view.py")) if root else []


def views() -> tuple[View, ...]:
    """The declared views. Raises InputError for a folder without views, or a view.py that cannot be used."""
    root = os.environ.get(VARIABLE, "")
    if not root:
        return ()
    paths = folders()
    if not paths:
        raise InputError("There is no view in this folder.", root, "A view is a folder in it with a file view.py.")
    package = types.ModuleType(PACKAGE)
    package.__path__ = [root]
    sys.modules[PACKAGE] = package
    return tuple(_view(path) for path in paths)


def _view(path: Path) -> View:
    """The view of one folder."""
    name = f"{PACKAGE}.{path.name}.view"
    package = types.ModuleType(f"{PACKAGE}.{path.name}")
    package.__path__ = [str(path)]
    sys.modules[package.__name__] = package
    spec = importlib.util.spec_from_file_location(name, path / "view.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever somebody's file does
        raise InputError("A view of this folder cannot be loaded.", f"{path.name}: {error}", "Mend it.") from error
    view = getattr(module, "VIEW", None)
    if not isinstance(view, View):
        raise InputError("A view.py declares no VIEW.", path.name, "Write VIEW = View(...) at its end.")
    return view
