"""Files of a folder that others wrote, like Plotly's and Gradio's: packed for the way once, not at every request.

Plotly alone takes a fifth of a second to pack, which every other visitor would wait for.
"""

import asyncio
import threading
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, Response

from viz.server.assets import TYPES, Asset, asset, sent


class Folder:
    """The files that lie in a folder itself, by name. Scripts and styles are kept in memory once asked for."""

    def __init__(self, path: Path) -> None:
        self._paths = {each.name: each for each in path.iterdir() if each.is_file()}
        self._packed: dict[str, Asset] = {}
        self._packing = threading.Lock()  # whoever comes meanwhile waits for the same

    def pack(self, name: str) -> Asset:
        """Return a script or a style sheet, packed. Raises KeyError for a name that is not there."""
        with self._packing:
            if name not in self._packed:
                file = asset(name, self._paths[name].read_bytes())
                _ = file.packed  # here, and not where it is sent
                self._packed[name] = file
            return self._packed[name]

    async def answer(self, request: Request) -> Response:
        """Send the file that the path names."""
        name = request.path_params["name"]
        if name not in self._paths:
            return Response("There is no such file.", status_code=404, media_type="text/plain")
        if self._paths[name].suffix not in TYPES:
            return FileResponse(self._paths[name])
        return sent(self._packed.get(name) or await asyncio.to_thread(self.pack, name), request)
