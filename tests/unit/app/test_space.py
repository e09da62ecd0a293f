"""The app as a Hugging Face Space starts it: nothing of the Space's environment is in an answer or in the log."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).parents[3]
SECRETS = {
    "HF_TOKEN": "hf_marker_one",
    "HUGGING_FACE_HUB_TOKEN": "hf_marker_two",
    "MY_SECRET": "marker_three",
    "SPACE_HOST": "marker-four.hf.space",
}
JSON = {"content-type": "application/json"}
# What makes a server tell of itself: what does not exist, is not allowed, is no JSON, and names what there is not.
ASKED = (
    ("GET", "/", b""),
    ("GET", "/?prompt=${HF_TOKEN}&lang=$HF_TOKEN", b""),
    ("GET", "/config", b""),
    ("GET", "/gradio_api/info", b""),
    ("GET", "/gradio_api/startup-events", b""),
    ("GET", "/gradio_api/file=/proc/self/environ", b""),
    ("GET", "/proc/self/environ", b""),
    ("GET", "/static/..%2f..%2f..%2fproc/self/environ", b""),
    ("GET", "/playground/plotly/..%2f..%2f..%2f..%2fproc/self/environ", b""),
    ("GET", "/playground/trained/..%2fenviron.zip", b""),
    ("POST", "/gradio_api/queue/join", b"{"),
    ("POST", "/gradio_api/queue/join", b'{"data": [], "fn_index": 99999, "session_hash": "a"}'),
    ("POST", "/gradio_api/call/tokenize", b'{"data": [{"a": 1}, "/proc/self/environ"]}'),
    ("POST", "/gradio_api/call/nothing", b'{"data": []}'),
    ("POST", "/gradio_api/run/tokenize", b'{"data": ["hub:me/private", "a"]}'),
)


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    """Address, output and log of an app that was started without options on a Space."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told = tmp_path_factory.mktemp("space") / "log"
    environment = os.environ | SECRETS | {"SPACE_ID": "me/it", "SYSTEM": "spaces", "PYTHONUNBUFFERED": "1"}
    environment |= {"GRADIO_SERVER_NAME": "127.0.0.1", "GRADIO_SERVER_PORT": str(port)}
    with told.open("wb") as log:
        app = subprocess.Popen(
            [sys.executable, "app.py"], cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        )
        try:
            lines = iter(app.stdout.readline, "")  # the framework says a line of its own there
            assert any(line.startswith("Attention playground:") for line in lines), told.read_text()
            yield f"http://127.0.0.1:{port}", told
        finally:
            app.kill()
            app.wait(timeout=20)


def test_no_answer_and_no_log_holds_what_the_space_keeps_to_itself(space):
    url, log = space
    with httpx.Client(base_url=url, timeout=60) as client:
        answers = [client.request(how, path, content=body, headers=JSON) for how, path, body in ASKED]
    assert answers[0].status_code == 200 and {answer.status_code for answer in answers} & {400, 403, 404, 422}
    for secret in SECRETS.values():
        assert [str(a.url) for a in answers if secret in a.text or secret in str(a.headers)] == []
        assert secret not in log.read_text()
    assert [answer for answer in answers if "PYTHONUNBUFFERED" in answer.text] == []


def test_a_space_is_public_and_framed_by_the_hub_only(space):
    url, _ = space
    answer = httpx.get(url, headers={"host": "me-it.hf.space", "x-forwarded-for": "1.2.3.4"})
    said = answer.headers["content-security-policy"]
    assert answer.status_code == 200
    assert "frame-ancestors 'self' https://huggingface.co https://*.hf.space; " in said
    assert "require-trusted-types-for 'script'" in said and "x-frame-options" not in answer.headers
    refused = httpx.get(f"{url}/config", headers={"origin": "https://evil.test", "sec-fetch-site": "cross-site"})
    assert refused.status_code == 403 and "access-control-allow-origin" not in refused.headers
