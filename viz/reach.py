"""The address at which a notebook's browser reaches a port of this process: its own, or a proxy's."""

import importlib.util
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from viz.work.playground import Options

# Pages that show a notebook, and so this page in a frame: Jupyter and VS Code on this machine.
NOTEBOOKS = ("http://localhost:*", "http://127.0.0.1:*", "vscode-webview://*", "https://*.vscode-cdn.net")
# Colab: the notebook, the frame of a cell's output, and its proxy of a port.
COLAB = ("https://colab.research.google.com", "https://*.googleusercontent.com", "https://*.colab.dev")


@dataclass(frozen=True)
class Reach:
    """The address of a port for a browser, which ends with "/", and the options that the server needs for it.

    The address has no host if the proxy belongs to the notebook's own website.
    """

    url: str
    embed: tuple[str, ...] = NOTEBOOKS
    hosts: tuple[str, ...] = ()
    proxies: int = 0

    def options(self) -> Options:
        """Return the options of a server that is reached this way."""
        root = "" if "://" in self.url else self.url.rstrip("/")
        return Options(embed=self.embed, hosts=self.hosts, proxies=self.proxies, root=root)


def reach(port: int, environ: Mapping[str, str] = os.environ) -> Reach:
    """Return how the browser of this process's notebook reaches a port of its loopback address.

    In Colab, through its proxy, whose address the notebook's page tells. On a JupyterHub with jupyter-server-proxy,
    through that, under the notebook's own address. Elsewhere, the browser runs on this machine.
    """
    if colab := sys.modules.get("google.colab"):
        # https://colab.research.google.com/notebooks/snippets/advanced_outputs.ipynb
        url = colab.output.eval_js(f"google.colab.kernel.proxyPort({port})")
        return Reach(f"{url.rstrip('/')}/", COLAB, (urlsplit(url).hostname or "",), proxies=1)
    prefix = environ.get("JUPYTERHUB_SERVICE_PREFIX", "")
    if prefix and importlib.util.find_spec("jupyter_server_proxy"):
        # The public name of the hub is not known here. Browsers reach this port only through its login.
        return Reach(f"{prefix.rstrip('/')}/proxy/{port}/", NOTEBOOKS, ("*",), proxies=1)
    return Reach(f"http://127.0.0.1:{port}/")
