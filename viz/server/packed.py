"""Third-party files, such as Plotly's and Gradio's, compressed once instead of at every request.

Compressing Plotly takes a fifth of a second, for which other users would have to wait.
"""

import asyncio
import threading
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, Response

from viz.server.assets import TYPES, Asset, asset, sent


class Folder:
    """The files directly inside a folder, by name. Scripts and styles are kept in memory after the first request."""

    def __init__(self, path: Path) -> None:
        self._paths = {each.name: each for each in path.iterdir() if each.is_file()}
        self._packed: dict[str, Asset] = {}
        self._packing = threading.Lock()  # concurrent requests wait for one compression

    def pack(self, name: str) -> Asset:
        """Read and compress a script or style sheet. Raises KeyError for an unknown name."""
        with self._packing:
            if name not in self._packed:
                file = asset(name, self._paths[name].read_bytes())
                _ = file.packed  # compresses in this thread, not in the event loop
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
