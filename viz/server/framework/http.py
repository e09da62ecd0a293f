"""The settings of uvicorn that Gradio gives no way to: its server is made with these."""

from typing import Any

import gradio.http_server
from uvicorn import Config

from viz.server.protocol import BACKLOG, Crowd, bounded
from viz.server.quiet import quieten

NAME = "Server"
_SERVER = getattr(gradio.http_server, NAME, None)


def prepare(crowd: Crowd) -> None:
    """Have servers made from now on bound their connections, believe no proxy, and keep their log short.

    Raises RuntimeError where Gradio has no server of that name.
    """
    if _SERVER is None:
        raise RuntimeError(f"gradio.http_server.{NAME} is gone: see what bounds the connections of its server now.")

    def server(config: Config, *args: Any, **kwargs: Any) -> Any:
        config.http, config.ws, config.backlog = bounded(crowd), "none", BACKLOG
        config.proxy_headers = False  # who asks behind a proxy is for --behind-proxy to say
        quieten()  # what uvicorn logs to is there by now
        return _SERVER(config, *args, **kwargs)

    setattr(gradio.http_server, NAME, server)
