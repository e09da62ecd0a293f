"""The address at which a notebook's browser reaches this process: on one machine, in Colab, on a JupyterHub."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from tests.support.guard import JOIN, OURS, ask, guarded
from viz import reach

COLAB = "https://7861-m-s-abc.us-central1-0.prod.colab.dev"


@pytest.fixture
def colab(monkeypatch):
    """A stand-in for Colab's module, and the scripts that its page was asked to run."""
    asked: list[str] = []
    module = ModuleType("google.colab")
    module.output = SimpleNamespace(eval_js=lambda script: asked.append(script) or COLAB)
    monkeypatch.setitem(sys.modules, "google.colab", module)
    return asked


@pytest.fixture
def proxied(monkeypatch):
    """An environment with jupyter-server-proxy."""
    monkeypatch.setattr(reach.importlib.util, "find_spec", lambda name: name == "jupyter_server_proxy")


def test_a_notebook_on_this_machine_uses_the_port_itself():
    place = reach.reach(7861, {})
    assert (place.url, place.options().root) == ("http://127.0.0.1:7861/", "")
    assert "google.colab" not in sys.modules


def test_colab_is_asked_for_its_proxy_and_may_show_the_page(colab):
    place = reach.reach(7861, {})
    assert colab == ["google.colab.kernel.proxyPort(7861)"] and place.url == f"{COLAB}/"
    shown = ask(guarded(place.options()), headers={"host": COLAB.removeprefix("https://")})
    assert shown.status == 200 and "x-frame-options" not in shown.headers
    assert (
        "https://colab.research.google.com https://*.googleusercontent.com" in shown.headers["content-security-policy"]
    )
    for host in ("localhost:7861", COLAB.removeprefix("https://")):  # whichever its proxy sends
        call = {"origin": COLAB, "host": host, "sec-fetch-site": "same-origin"}
        assert ask(guarded(place.options()), JOIN, "POST", headers=OURS | call).status == 200
    assert ask(guarded(place.options()), headers={"host": "evil.example"}).status == 403


def test_a_hub_uses_its_proxy_under_any_name(proxied):
    place = reach.reach(7861, {"JUPYTERHUB_SERVICE_PREFIX": "/user/ann/"})
    assert (place.url, place.options().root) == ("/user/ann/proxy/7861/", "/user/ann/proxy/7861")
    hub = OURS | {"host": "hub.example", "origin": "https://hub.example", "x-forwarded-proto": "https"}
    assert ask(guarded(place.options()), JOIN, "POST", headers=hub).status == 200
    foreign = hub | {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}
    assert ask(guarded(place.options()), JOIN, "POST", headers=foreign).status == 403


def test_a_hub_without_the_proxy_is_no_proxy():
    assert reach.reach(7861, {"JUPYTERHUB_SERVICE_PREFIX": "/user/ann/"}).url == "http://127.0.0.1:7861/"
