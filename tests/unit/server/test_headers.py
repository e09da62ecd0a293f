"""What the browser is told of an answer: which scripts and styles of it may run, and that nothing else may."""

import re
from pathlib import Path

import plotly
import pytest

from viz.server.assets import policy_of
from viz.server.headers import MAPS, WORKER, dress, hashed, other_policy, page_policy
from viz.work.playground import Options

PAGE = b"""<head><style>a {}</style><script>one()</script><SCRIPT type="module">two()
</SCRIPT><script src="x.js"></script><link rel="stylesheet" href="x.css"></head>"""


def read(policy: str) -> dict[str, list[str]]:
    """A policy by its directives."""
    return {name: sources for name, *sources in (each.split() for each in policy.split("; "))}


def dressed(content_type: str, policy: str = "", status: int = 200, path: str = "/") -> dict[str, list[str]]:
    headers = [(b"content-type", content_type.encode())]
    headers += [(b"content-security-policy", policy.encode())] if policy else []
    start = {"type": "http.response.start", "status": status, "headers": headers}
    dress(start, path, Options())
    (said,) = [value for name, value in start["headers"] if name == b"content-security-policy"]
    return read(said.decode())


@pytest.mark.parametrize("policy", [page_policy(Options()), policy_of(PAGE, Options()), other_policy(Options())])
def test_no_policy_lets_a_text_become_a_script(policy):
    said = read(policy)
    scripts = said.get("script-src", said["default-src"])
    assert "http" not in policy and "unsafe-inline" not in " ".join(scripts)
    # Where functions may be made of texts, the page is asked about each (static/page/server/policy.js).
    if "'unsafe-eval'" in scripts:
        assert said["require-trusted-types-for"] == ["'script'"]
        assert said["trusted-types"] == ["default", "svelte-trusted-html"]
    assert not {"data:", "blob:", "*"} & set(scripts)
    assert said.get("script-src-attr", said["default-src"]) == ["'none'"]
    assert "'unsafe-inline'" not in said.get("style-src-elem", [])


def test_a_page_runs_what_stands_in_it_and_this_server_s_files():
    said = read(policy_of(PAGE, Options()))
    assert said["script-src"] == ["'self'", "'unsafe-eval'", hashed(b"one()"), hashed(b"two()\n")]
    assert hashed(b"a {}") in said["style-src-elem"]
    assert hashed(b"").startswith("'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=")  # as any tool gives it


def test_what_is_no_page_may_load_nothing():
    for kind in ("application/json", "text/plain; charset=utf-8", "image/svg+xml", ""):
        assert dressed(kind)["default-src"] == ["'none'"]
    assert dressed("text/html; charset=utf-8")["script-src"] == ["'self'", "'unsafe-eval'"]
    assert dressed("text/html", policy_of(PAGE, Options()))["script-src"][2:]


def test_the_worker_that_pages_share_may_import_and_ask_and_no_other_script_may():
    said = dressed("text/javascript", path=f"/playground/static/0123456789abcdef/{WORKER}")
    needs = {"script-src": ["'self'"], "connect-src": ["'self'"]}
    assert said == dressed("text/javascript", path="/playground/static/0123456789abcdef/main.js") | needs


def test_the_style_sheet_that_plotly_adds_is_the_one_that_is_named():
    text = (Path(plotly.__file__).parent / "package_data" / "plotly.min.js").read_text(encoding="utf-8")
    (added,) = re.findall(r"e\.textContent='([^'\\]*)'", text)
    assert hashed(added.encode()) == MAPS
