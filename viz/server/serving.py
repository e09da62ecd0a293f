"""The server: an address that is bound first, and uvicorn in a separate thread."""

import asyncio
import contextlib
import errno
import socket
import threading
import time

import uvicorn
from starlette.types import ASGIApp

from model.errors import InputError
from viz.server.protocol import BACKLOG, Crowd, bounded
from viz.server.quiet import quieten
from viz.work.addresses import urls

FIRST, PORTS = 7860, 100  # first port to try, and number of ports to try
CUT_SECONDS = 0.5  # seconds to wait for answers in progress when the server stops
STOP_SECONDS = 2  # seconds to wait after that for everything else


class Stopping(uvicorn.Server):
    """A server that closes the presence connections of open pages when it stops, instead of waiting for them."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop the server; transfers still in progress after CUT_SECONDS are cut."""

        def cut() -> None:
            for connection in list(self.server_state.connections):
                connection.transport.abort()

        asyncio.get_running_loop().call_later(CUT_SECONDS, cut)
        await super().shutdown(sockets)


class RunningServer:
    """A running server. Raises RuntimeError if it does not start."""

    def __init__(self, app: ASGIApp, place: socket.socket, host: str, crowd: Crowd) -> None:
        self.app = app
        self.port: int = place.getsockname()[1]
        # the address for this computer, and those for others, if it listens at all addresses
        self.url, self.network_urls = urls(host, self.port)
        config = uvicorn.Config(
            app,
            http=bounded(crowd),
            ws="none",
            backlog=BACKLOG,
            proxy_headers=False,  # --behind-proxy decides which proxies are trusted
            timeout_graceful_shutdown=STOP_SECONDS,
            log_level="warning",
            lifespan="on",
        )
        quieten()  # uvicorn's loggers exist at this point
        self.server = Stopping(config)
        self._thread = threading.Thread(target=self._run, args=(place,), daemon=True)
        self._thread.start()
        while not self.server.started:
            if not self._thread.is_alive():
                raise RuntimeError("the server did not start; the log says why")
            time.sleep(0.002)

    def _run(self, place: socket.socket) -> None:
        with contextlib.suppress(SystemExit):  # raised if the server cannot start; it has logged the reason
            self.server.run(sockets=[place])

    def wait(self) -> None:
        """Wait until the server has ended, while signals are handled."""
        while self._thread.is_alive():
            self._thread.join(1.0)

    def close(self) -> None:
        """Stop the server and wait until it has ended. A second call does nothing."""
        self.server.should_exit = True
        self._thread.join(CUT_SECONDS + 2 * STOP_SECONDS)


def taken(host: str, port: int | None) -> socket.socket:
    """Open a socket that listens at an address; if `port` is None, at the first free port from FIRST.

    Raises InputError if the address is taken or does not belong to this machine.
    """
    host = host.strip("[]")
    ports = range(FIRST, FIRST + PORTS) if port is None else (port,)
    try:
        family, _, _, _, address = socket.getaddrinfo(host or None, ports[0], type=socket.SOCK_STREAM)[0]
        for each in ports[:-1]:
            try:
                return socket.create_server((address[0], each, *address[2:]), family=family, backlog=BACKLOG)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
        return socket.create_server((address[0], ports[-1], *address[2:]), family=family, backlog=BACKLOG)
    except OSError as error:
        got = host if port is None else f"{host}:{port}"
        hint = "The app may be running already: stop it, or choose another --port or --host."
        raise InputError("The server cannot listen at this address.", got, hint) from error
