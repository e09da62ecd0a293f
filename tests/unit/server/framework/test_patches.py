"""What the page does with names that Gradio keeps to itself."""

import inspect
import threading

import gradio as gr
import pytest
from gradio import blocks, component_meta
from starlette.testclient import TestClient

from viz.server.framework import patches


def test_another_version_is_refused_with_a_sentence():
    with pytest.raises(RuntimeError, match=r"written for gradio .*, and 5\.0 is installed"):
        patches.check("5.0")


def described(build) -> list[dict]:
    """What Gradio would send of a page's parts, but for their numbers."""
    return [
        {key: value for key, value in each.items() if key != "id"} for each in build().get_config_file()["components"]
    ]


def test_a_page_is_described_as_ever_but_not_while_it_is_built(monkeypatch):
    def build():
        with gr.Blocks() as page:
            gr.Textbox("a", label="b", elem_classes=["c"]), gr.HTML("<b>d</b>"), gr.Dropdown(["e", "f"], value="e")
            gr.Number(3, minimum=1)
        return page

    as_ever = described(build)
    calls = []
    signature = inspect.signature
    monkeypatch.setattr(inspect, "signature", lambda of, **how: (calls.append(of), signature(of, **how))[1])
    for module, name in ((component_meta, "inspect"), (blocks, "inspect"), (blocks, "get_upload_folder")):
        monkeypatch.setattr(module, name, getattr(module, name))
    patches.remember_arguments()
    assert described(build) == as_ever
    first = len([each for each in calls if each.__name__ == "__init__"])
    assert described(build) == as_ever and first > 0
    assert len([each for each in calls if each.__name__ == "__init__"]) == first
    with patches.blocks_only():
        page = build()
        assert page.config == {} and page.app is None
    assert page.get_config_file()["components"]


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
