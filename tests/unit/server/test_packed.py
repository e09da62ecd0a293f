"""Others' files are packed once, and sent as whoever asks can read them."""

import gzip
import threading
import time

import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from viz.serve import PLOTLY, bundled
from viz.server import packed
from viz.server.assets import asset
from viz.server.packed import Folder

SCRIPT = b"let a = 1; " * 200


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.js").write_bytes(SCRIPT)
    (tmp_path / "b.css").write_bytes(b"b { c: d }")
    (tmp_path / "e.woff2").write_bytes(b"font")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "f.js").write_bytes(b"f")
    (tmp_path.parent / "above.js").write_bytes(b"above")
    return Folder(tmp_path)


def client(folder: Folder) -> TestClient:
    return TestClient(Starlette(routes=[Route("/x/{name}", folder.answer)]))


@pytest.mark.parametrize("encoding", ["identity", "gzip", "br", "br, gzip"])
def test_a_script_is_sent_as_it_is_or_packed(folder, encoding):
    with client(folder).stream("GET", "/x/a.js", headers={"accept-encoding": encoding}) as found:
        body = b"".join(found.iter_raw())
    packs = "gzip" in encoding
    assert found.headers.get("content-encoding") == ("gzip" if packs else None)
    assert (gzip.decompress(body) if packs else body) == SCRIPT and found.headers["vary"] == "Accept-Encoding"
    assert found.headers["content-type"] == "text/javascript; charset=utf-8"


def test_what_a_browser_has_is_not_sent_again(folder):
    etag = client(folder).get("/x/b.css").headers["etag"]
    again = client(folder).get("/x/b.css", headers={"if-none-match": etag})
    assert again.status_code == 304 and again.content == b""


def test_other_files_are_sent_as_they_are(folder):
    found = client(folder).get("/x/e.woff2", headers={"accept-encoding": "gzip"})
    assert found.content == b"font" and "content-encoding" not in found.headers


@pytest.mark.parametrize("name", ["none.js", "inner", "inner/f.js", "..%2fabove.js", "%2e%2e/above.js", ""])
def test_nothing_else_is_served(folder, name):
    assert client(folder).get(f"/x/{name}").status_code == 404


def test_it_is_packed_once_however_many_ask_at_once(folder, monkeypatch):
    calls = []

    def slow(name, body):
        calls.append(name)
        time.sleep(0.05)
        return asset(name, body)

    monkeypatch.setattr(packed, "asset", slow)
    threads = [threading.Thread(target=folder.pack, args=("a.js",)) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert client(folder).get("/x/a.js").content == SCRIPT and calls == ["a.js"]


def test_plotly_is_there():
    found = client(bundled()).get(f"/x/{PLOTLY}")
    assert found.status_code == 200 and b"plotly.js v" in found.content[:400]
