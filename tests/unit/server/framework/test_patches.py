"""What the page does with names that Gradio keeps to itself."""

import inspect
import threading

import gradio as gr
import pytest
from starlette.testclient import TestClient

from viz.server.framework import patches


def test_another_version_is_refused_with_a_sentence():
    with pytest.raises(RuntimeError, match=r"written for gradio .*, and 5\.0 is installed"):
        patches.check("5.0")


@pytest.fixture
def page():
    with gr.Blocks() as page:
        gr.Textbox()
    page.queue().launch(prevent_thread_lock=True, quiet=True, auth=("ada", "1815"))
    yield page
    page.close()


def test_a_login_is_looked_at_where_a_request_arrives(page, monkeypatch):
    looks = [each for each in patches._needs(page.app.routes) if each.call.__name__ == "login_check"]
    assert len(looks) > 20 and not any(inspect.iscoroutinefunction(each.call) for each in looks)
    patches.look_at_once(page)
    assert all(inspect.iscoroutinefunction(each.call) for each in looks)
    began = []
    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda self: (began.append(self.name), start(self)))
    client = TestClient(page.app, base_url="http://127.0.0.1")
    assert client.get("/gradio_api/info").status_code == 401  # as before: nobody is logged in
    assert not [name for name in began if "worker" in name]
    client.post("/login", data={"username": "ada", "password": "1815"})
    assert client.get("/gradio_api/info").status_code == 200
