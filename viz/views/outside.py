"""Views from outside the project, in the folder given by `python app.py --views FOLDER`.

Each subfolder has the layout of a view in viz/views: FOLDER/<name>/view.py declares VIEW; a figures.py next to it is
imported as `outside_views.<name>.figures`; FOLDER/<name>/words/<language>.toml holds its words, at least in English.
The views get a tab of their own, and their keys and part names must be unique on the page. Their code runs with the
server's privileges, so only the command line can name the folder, never a request or a link.
"""

import importlib.util
import os
import sys
import types
from collections.abc import Mapping, Sequence
from pathlib import Path

from model.errors import InputError
from viz.seam.tab import Tab
from viz.seam.view import View
from viz.words import own_texts, words

VARIABLE = "PLAYGROUND_VIEWS"  # set by app.py before it imports the modules that list the tabs
PACKAGE = "outside_views"
EXPLAINED = ("view", "about", "howto.body", "howto.formula", "howto.caveat", "howto.try")  # words that every view needs


def tabs(others: Sequence[Tab]) -> tuple[Tab, ...]:
    """Return a tuple with the tab of the outside views, or an empty tuple if no folder is given.

    `others` are the tabs of the project. Raises InputError if a view cannot be loaded or conflicts with the page.
    """
    own = views()
    if not own:
        return ()
    tab = Tab("own", own)
    check(tab, others, words("en"))
    return (tab,)


def check(tab: Tab, others: Sequence[Tab], texts: Mapping[str, str]) -> None:
    """Check that a tab does not conflict with the page. `others`: the other tabs; `texts`: the English words by key.

    Raises InputError if the key of a view or the name of a part is taken, or if a view lacks words of EXPLAINED.
    """
    taken = {tab.key, *(other.key for other in others), *(key.split(".")[0] for key in own_texts("en"))}
    for view in tab.views:
        if view.key in taken:
            raise InputError("The key of a view is taken.", view.key, "Choose another one in its view.py.")
        taken.add(view.key)
        missing = [key for name in EXPLAINED if (key := f"{view.key}.{name}") not in texts]
        if missing:
            raise InputError(
                "A view has missing words.", ", ".join(missing), "Write them in words/en.toml of its folder."
            )
    if duplicates := {name for other in others for name in other.parts}.intersection(tab.parts):
        raise InputError("The name of a part is taken.", min(duplicates), "Choose another one in its view.py.")


def folders() -> list[Path]:
    """Return the folders that contain a view.py, sorted by path; [] if no folder of views is given."""
    root = os.environ.get(VARIABLE, "")
    return sorted(path.parent for path in Path(root).glob("*/view.py")) if root else []


def views() -> tuple[View, ...]:
    """Load the outside views; () if no folder of views is given.

    Raises InputError if the folder contains no view, or if a view.py cannot be loaded or declares no VIEW.
    """
    root = os.environ.get(VARIABLE, "")
    if not root:
        return ()
    paths = folders()
    if not paths:
        raise InputError(
            "This folder has no view.", root, "Put each view into a folder of its own with a file view.py."
        )
    package = types.ModuleType(PACKAGE)
    package.__path__ = [root]
    sys.modules[PACKAGE] = package
    return tuple(_view(path) for path in paths)


def _view(path: Path) -> View:
    """Load a folder's view.py as a module and return its VIEW. Raises InputError if that fails or VIEW is missing."""
    name = f"{PACKAGE}.{path.name}.view"
    package = types.ModuleType(f"{PACKAGE}.{path.name}")
    package.__path__ = [str(path)]
    sys.modules[package.__name__] = package
    spec = importlib.util.spec_from_file_location(name, path / "view.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # code of an outside view may raise any exception
        raise InputError("A view of this folder cannot be loaded.", f"{path.name}: {error}", "Correct it.") from error
    view = getattr(module, "VIEW", None)
    if not isinstance(view, View):
        raise InputError("A view.py declares no VIEW.", path.name, "Write VIEW = View(...) at its end.")
    return view
