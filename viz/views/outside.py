"""Views from outside the project: the folders that `python app.py --views FOLDER` names, each like one of viz/views.

FOLDER/<name>/view.py declares VIEW; figures.py beside it is imported as `outside_views.<name>.figures`;
FOLDER/<name>/words/<language>.toml has its words, in English at least. They stand in a tab of their own, and what they
are called is called nothing else on the page. This is code that runs with the rights of the server, so only the command
line names it, never a request or a link.
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

VARIABLE = "PLAYGROUND_VIEWS"  # set by app.py before the page's modules are imported: they list the tabs once
PACKAGE = "outside_views"
EXPLAINED = ("view", "about", "howto.body", "howto.formula", "howto.caveat", "howto.try")  # words of every view


def tabs(others: Sequence[Tab]) -> tuple[Tab, ...]:
    """Return their tab beside the others, or none without a folder. Raises InputError for what the page cannot show."""
    found = views()
    if not found:
        return ()
    tab = Tab("own", found)
    check(tab, others, words("en"))
    return (tab,)


def check(tab: Tab, others: Sequence[Tab], texts: Mapping[str, str]) -> None:
    """Raises InputError for a key or a part that the page has already, and for a view that does not explain itself."""
    taken = {tab.key, *(other.key for other in others), *(key.split(".")[0] for key in own_texts("en"))}
    for view in tab.views:
        if view.key in taken:
            raise InputError("The key of a view is taken.", view.key, "Choose another one in its view.py.")
        taken.add(view.key)
        missing = [key for name in EXPLAINED if (key := f"{view.key}.{name}") not in texts]
        if missing:
            raise InputError("A view lacks words.", ", ".join(missing), "Write them in words/en.toml of its folder.")
    if twice := {name for other in others for name in other.parts}.intersection(tab.parts):
        raise InputError("The name of a part is taken.", min(twice), "Choose another one in its view.py.")


def folders() -> list[Path]:
    """Return the folders of views, by their names."""
    root = os.environ.get(VARIABLE, "")
    return sorted(path.parent for path in Path(root).glob("*/view.py")) if root else []


def views() -> tuple[View, ...]:
    """Return the declared views. Raises InputError for a folder without views, or a view.py that cannot be used."""
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
    """Return the view of one folder."""
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
