"""The files of Gradio's page, and a script among them that is served with a mistake of it taken out.

The sign that Gradio shows until its page is there counts the seconds, anew at every frame, for as long as it waits. It
is taken away still waiting, and its clock goes on for ever: every open page keeps a twentieth of a core busy, and draws
60 frames a second of nothing. Served is a clock that stops with the sign.
"""

from pathlib import Path

import gradio
from starlette.routing import Route

from viz.server.assets import Asset, asset
from viz.server.packed import Folder

_ASSETS = Path(gradio.__file__).parent / "templates" / "frontend" / "assets"
_SCRIPT = "statustracker-*.js"
_AGAIN = "W&&ze()"  # in what runs at every frame: once more, while W; U is the sign's element
_WHILE_SEEN = "W&&U?.isConnected&&ze()"


def mended(folder: Path = _ASSETS) -> dict[str, Asset]:
    """The script by its name, mended; nothing where it is not the one that this was written for."""
    bodies = {path.name: path.read_text(encoding="utf-8") for path in folder.glob(_SCRIPT)}
    return {
        name: asset(name, body.replace(_AGAIN, _WHILE_SEEN).encode())
        for name, body in bodies.items()
        if body.count(_AGAIN) == 1
    }


def routes(folder: Path = _ASSETS) -> list[Route]:
    """In front of Gradio's own, for all that stands beside it, too."""
    return [Route("/assets/{name}", Folder(folder, mended(folder)).answer)]
