"""The effects tab without a browser: what a page asks for, and what is drawn."""

from viz.page.pipeline import PageRequest, payloads, scene_of
from viz.seam.scene import Scene
from viz.work.playground import Playground

PROMPT = "abcab"


def asked(prompt: str = PROMPT, view: str = "edits", form: object = None, **changes) -> PageRequest:
    """A page with a view of the tab open. `form` is that of the sweep; what else is named is picked."""
    page = {"language": "en", "shown": {}}
    page |= {name: changes.pop(name) for name in tuple(page) if name in changes}
    values = {"effects_view": {"view": view}, "sweep_form": form}
    return PageRequest("tiny", prompt, changes or None, values, page["shown"], page["language"], "effects")


def scene(playground: Playground, *given, **changes) -> Scene:
    """What that page is of."""
    return scene_of(playground, asked(*given, **changes))


def drawn(playground: Playground, *given, **changes) -> dict[str, dict]:
    """All parts of the view by their names on the page."""
    return payloads(playground, asked(*given, **changes))[0]
