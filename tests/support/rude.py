"""Clients that do not behave, on loopback: raw requests, a listener that must hear nothing, visits nobody reads."""

import json
import socket
import threading
import time
import uuid
from contextlib import contextmanager

import httpx


class Heard:
    """A listener on this machine that notes every connection."""

    def __init__(self):
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port, self.connections = self._socket.getsockname()[1], 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi")
            connection.close()

    def close(self):
        self._socket.close()


@contextmanager
def listener():
    heard = Heard()
    try:
        yield heard
    finally:
        heard.close()


def file_of(port: int) -> dict:
    """What Gradio takes for a file on another server."""
    path = f"http://127.0.0.1:{port}/big.bin"
    return {"path": path, "url": path, "orig_name": "big.bin", "meta": {"_type": "gradio.FileData"}}


def join(client: httpx.Client, number: int, data: list, visit: str | None = None) -> httpx.Response:
    """Ask for a function of the page by its number."""
    body = {"data": data, "fn_index": number, "session_hash": visit or uuid.uuid4().hex[:11], "trigger_id": None}
    return client.post("/gradio_api/queue/join", content=json.dumps(body), headers={"content-type": "application/json"})


def beat(port: int, visit: str) -> socket.socket:
    """Open the line that says a page is open, and wait for its first sign."""
    line = socket.create_connection(("127.0.0.1", port), timeout=20)
    line.sendall(f"GET /playground/here/{visit} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    assert b"200" in line.recv(4096)
    return line


def until(what, seconds: float = 20.0) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.01)
