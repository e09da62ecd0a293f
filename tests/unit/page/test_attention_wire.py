"""The routes of attention given as arrays, and the guard before them."""

import io

import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from model.recorded.record import record_of
from tests.support.guard import OURS, ask, guarded
from viz.page.wire import attention
from viz.recorded.document import document
from viz.work.limits import PUBLIC
from viz.work.playground import Options

A = np.random.default_rng(0).dirichlet(np.ones(3), (2, 2, 3))
FILE = "/playground/attention"


def npz(**arrays) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


@pytest.fixture
def client(playground):
    with TestClient(Starlette(routes=attention.routes(playground))) as client:
        yield client


def test_a_dropped_file_is_answered_with_its_document(client):
    answer = client.post(f"{FILE}?name=my.npz&lang=zh", content=npz(attention=A, tokens=list("abc")))
    assert answer.status_code == 200 and answer.headers["content-type"] == "application/json"
    assert answer.json() == document(record_of(A, list("abc")), "zh", "my.npz")


def test_a_bad_file_is_answered_in_the_visitors_language(client):
    bad = npz(attention=2 * A - 1, tokens=list("abc"))
    english, chinese = (client.post(f"{FILE}?lang={lang}", content=bad) for lang in ("en", "zh"))
    assert english.status_code == chinese.status_code == 400
    assert english.json()["error"]["what"] == "These look like scores before the softmax."
    assert english.json()["error"]["got"].startswith("layer 0, head 0, row 0, column")
    told = chinese.json()["error"]
    assert told["what"] == "这些看起来是 softmax 之前的得分。" and told["got"].startswith("第 0 层") and told["hint"]


def test_attention_of_this_server_is_found_by_name(client, playground):
    record = record_of(A, list("abc"))
    playground.recorded["mine"] = "Mine", record
    assert client.get(f"{FILE}/mine?lang=zh").json() == document(record, "zh", "Mine")
    gone = client.get(f"{FILE}/other")
    assert gone.status_code == 404 and "no attention with this name" in gone.json()["error"]["what"]


def test_a_fault_is_told_without_its_details(client, monkeypatch, caplog):
    def fail(*_, **__):
        raise RuntimeError("secret")

    monkeypatch.setattr(attention, "read_npz", fail)
    answer = client.post(FILE, content=b"x")
    assert answer.status_code == 500 and "secret" not in answer.text and answer.json()["error"]["hint"]


def test_a_public_server_unpacks_little(client, playground, monkeypatch):
    seen = []
    monkeypatch.setattr(attention, "read_npz", lambda data, most, unpacked: seen.append((most, unpacked)) or 1 / 0)
    client.post(FILE, content=b"x")
    assert seen == [(playground.options.allowed.attention, playground.options.allowed.attention_unpacked)]
    assert PUBLIC.attention < 8 << 20 and PUBLIC.attention_unpacked <= 64 << 20


def test_one_client_reads_few_files_at_once(client, monkeypatch):
    monkeypatch.setattr(attention, "AT_ONCE", 0)
    answer = client.post(FILE, content=b"x")
    assert answer.status_code == 503 and answer.json()["error"]["what"]


def test_the_guard_has_its_own_size_for_files():
    public = guarded(Options(public=True, allowed=PUBLIC))
    sizes = {"host": "127.0.0.1:7860", "content-length": str(PUBLIC.body + 1)}
    assert ask(public, FILE, "POST", headers=sizes, body=(b"x",)).status == 200
    assert ask(public, "/playground/view", "POST", headers=sizes, body=(b"x",)).status == 413
    large = {"host": "127.0.0.1:7860", "content-length": str(PUBLIC.attention + 1)}
    assert ask(public, FILE, "POST", headers=large, body=(b"x",)).status == 413
    assert ask(public, FILE, "POST", headers=OURS, body=(bytes(PUBLIC.attention), b"x")).status == 413
