"""In the place of a page process: it listens where it is told to, drains on SIGUSR1, and says how it is."""

import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HEALTH = sys.argv[1]
state = {"state": "ready", "pages": 1, "place": os.environ["PLAYGROUND_PLACE"], "key": os.environ["PLAYGROUND_KEY"]}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        said = json.dumps(
            state | {"place": os.environ["PLAYGROUND_PLACE"], "key": os.environ["PLAYGROUND_KEY"]}
        ).encode()
        self.send_response(404 if self.path == HEALTH and state["state"] == "draining" else 200)
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)
        if self.path == "/leave":  # the last page is closed; what waits for that ends this process at once
            state["pages"] = 0

    def log_message(self, *said: object) -> None:
        pass


signal.signal(signal.SIGUSR1, lambda *_: state.update(state="draining"))
ThreadingHTTPServer(("127.0.0.1", int(os.environ["PLAYGROUND_PORT"])), Handler).serve_forever(0.02)
