"""What stands between the network and the page: headers, addresses, sizes."""

import asyncio

import pytest

from tests.support.guard import BODY, INSIDE, JOIN, OURS, ask, guarded, scope_of
from tests.support.models.helpers import apart
from viz.server import middleware
from viz.server.headers import KEPT, SERVER, cached
from viz.server.middleware import is_open, path_of
from viz.work.limits import PUBLIC
from viz.work.playground import Options
from viz.work.rates import Rate

# --- headers ---


def test_every_answer_has_the_headers():
    for answer in (ask(guarded()), ask(guarded(), "/etc/passwd"), ask(guarded(), JOIN, "PUT")):
        said = answer.headers["content-security-policy"]
        assert "default-src 'none';" in said and "frame-ancestors 'self'" in said
        assert "http" not in said  # nothing of another host is ever loaded
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["x-frame-options"] == "SAMEORIGIN"
        assert "camera=()" in answer.headers["permissions-policy"]
        assert answer.headers["x-playground-server"] == SERVER
    assert ask(guarded(), "/etc/passwd").status == 404 and ask(guarded(), JOIN, "PUT").status == 405


def test_a_frame_of_another_website_is_allowed_by_name_only():
    headers = ask(guarded(Options(embed=("https://huggingface.co", "https://*.hf.space")))).headers
    ancestors = "frame-ancestors 'self' https://huggingface.co https://*.hf.space"
    assert headers["content-security-policy"].endswith(ancestors)
    assert "x-frame-options" not in headers


def test_pieces_pass_one_by_one_and_a_proxy_is_told_to_let_them():
    seen = []

    async def stream(scope, receive, send):
        kind = (b"content-type", b"text/event-stream; charset=utf-8")
        await send({"type": "http.response.start", "status": 200, "headers": [kind]})
        for piece in (b"a", b"b", b"c"):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            seen.append(piece)
        await send({"type": "http.response.body", "body": b""})

    answer = ask(guarded(app=stream), "/playground/here/x")
    assert answer.pieces == [b"a", b"b", b"c", b""] and seen == [b"a", b"b", b"c"]
    assert answer.headers["x-accel-buffering"] == "no" and answer.headers["cache-control"] == "no-store"
    assert "default-src" in answer.headers["content-security-policy"]


def test_a_fault_is_told_without_its_details(caplog):
    async def broken(scope, receive, send):
        raise RuntimeError("secret path")

    answer = ask(guarded(app=broken))
    assert answer.status == 500 and "secret" not in answer.text and "nosniff" in answer.headers.values()
    assert "secret path" in caplog.text

    async def late(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError("too late")

    with pytest.raises(RuntimeError, match="too late"):  # no second answer to one request
        ask(guarded(app=late))


def test_what_may_be_kept():
    assert "immutable" in cached("/assets/index-abc.js") and "immutable" in cached("/playground/static/0a/main.js")
    assert cached("/playground/plotly/plotly.min.js") == KEPT
    for path in ("/", "/config", "/playground/alive", "/playground/trained/1.zip", JOIN):
        assert cached(path) == "no-store"

    async def own(scope, receive, send):
        told = [(b"cache-control", b"max-age=5")]
        await send({"type": "http.response.start", "status": scope["client"][1], "headers": told})
        await send({"type": "http.response.body", "body": b""})

    assert ask(guarded(app=own), client=("1.1.1.1", 200)).headers["cache-control"] == "max-age=5"
    assert ask(guarded(app=own), client=("1.1.1.1", 404)).headers["cache-control"] == "no-store"


# --- addresses ---


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/config",
        "/theme.css",
        "/assets/index.js",
        "/playground/alive",
        "/gradio_api/info",
        JOIN,
        "/gradio_api/queue/data",
        "/gradio_api/call/tokens",
        "/gradio_api/call/v2/tokens/e1",
        "/gradio_api/cancel",
        "/gradio_api/mcp/",
    ],
)
def test_what_the_page_needs_is_open(path):
    assert is_open(path) and ask(guarded(), path).status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/gradio_api/upload",
        "/gradio_api/upload_progress",
        "/gradio_api/file=/etc/passwd",
        "/gradio_api/file/x",
        "/gradio_api/stream/1",
        "/gradio_api/proxy=http://a.example/",
        "/gradio_api/component_server",
        "/gradio_api/deep_link",
        "/gradio_api/runs",
        "/gradio_api/vibe-code",
        "/gradio_api/dev/reload",
        "/gradio_api/process_recording",
        "/gradio_api/token",
        "/gradio_api/heartbeat/abc",
        "/gradio_api/run/tokens",
        "/gradio_api/api/tokens",
        "/gradio_api/user",
        "/gradio_api/login_check",
        "/gradio_api/app_id",
        "/gradio_api/openapi.json",
        "/login",  # where nobody has to log in
        "/logout",
        "/monitoring",
        "/monitoring/summary",
        "/docs",
        "/openapi.json",
        "/svelte/x",
        "/gradio_api",
        "/gradio_api/custom_component/1",
        "/configs",
        "/./config",
    ],
)
def test_what_nobody_needs_is_closed(path):
    assert not is_open(path) and ask(guarded(), path).status == 404


def test_the_app_may_be_mounted_in_a_folder():
    scope = scope_of("/attn/gradio_api/upload", root_path="/attn")
    assert path_of(scope) == "/gradio_api/upload" and path_of(scope_of("/config", root_path="/attn")) == "/config"
    assert ask(guarded(), "/attn/gradio_api/upload", root_path="/attn").status == 404
    assert ask(guarded(), "/attn/config", root_path="/attn").status == 200


def test_a_long_address_is_refused():
    most = middleware.MOST_ADDRESS
    assert ask(guarded(), query_string=b"a" * (most - 1)).status == 200
    assert ask(guarded(), query_string=b"a" * most).status == 414
    assert ask(guarded(), "/assets/" + "a" * most).status == 414


# --- sizes ---


def test_a_body_arrives_whole():
    answer = ask(guarded(), BODY, "POST", body=(b"abc", b"", b"def"))
    assert answer.status == 200 and answer.text == "abcdef"


@pytest.mark.parametrize(("pieces", "status"), [(1, 200), (2, 413)])
def test_a_body_is_counted_however_it_comes(pieces, status):
    whole = b"x" * PUBLIC.body
    assert ask(guarded(), BODY, "POST", body=(whole, *[b"y"] * (pieces - 1), b"")).status == status  # no length told
    length = OURS | {"content-length": str(len(whole) + pieces - 1)}
    assert ask(guarded(), BODY, "POST", headers=length, body=(whole, *[b"y"] * (pieces - 1), b"")).status == status


def test_a_told_length_is_believed_before_anything_is_read():
    async def nobody(*_):
        pytest.fail("read")

    for length, status in ((PUBLIC.body + 1, 413), ("9" * 400, 413), ("-1", 400), ("1_0", 400), ("x", 400)):
        sent = []

        async def send(message, sent=sent):
            sent.append(message)

        scope = scope_of(BODY, "POST", OURS | {"content-length": str(length)})
        apart(guarded(app=nobody)(scope, nobody, send))
        assert sent[0]["status"] == status


def test_a_body_that_never_ends_is_given_up(monkeypatch):
    monkeypatch.setattr(middleware, "BODY_SECONDS", 0.01)
    sent = []

    async def receive():
        await asyncio.sleep(30)

    async def send(message):
        sent.append(message)

    apart(guarded()(scope_of(BODY, "POST"), receive, send))
    assert sent[0]["status"] == 408


def test_refusals_are_told_in_the_reader_s_language():
    large = {"body": (b"x" * (PUBLIC.body + 1),)}
    assert "Shorten it" in ask(guarded(), BODY, "POST", **large).text
    chinese = OURS | {"accept-language": "zh-CN,zh;q=0.9"}
    assert "请缩短" in ask(guarded(), JOIN, "POST", headers=chinese, **large).text.encode().decode("unicode_escape")
    answer = ask(guarded(), JOIN, "POST", query_string=b"a=b&lang=zh", **large)
    assert answer.headers["content-type"] == "application/json" and '"detail"' in answer.text
    assert ask(guarded(), "/nothing", headers=chinese).text == "此地址没有内容。"


# --- those who have not logged in ---


async def paths(scope, receive, send):
    """An app that answers with the path that it was asked for."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["path"].encode()})


@pytest.mark.parametrize("folder", ["", "/attn"])
def test_a_stranger_sees_the_login_and_nothing_else(tmp_path, folder):
    ours = guarded(Options(login=tmp_path / "people"), app=paths)
    guesses = (OURS, OURS | {"cookie": "access-token-x=let-in"}, OURS | {"cookie": INSIDE["cookie"][:-1]})
    for path in (
        "/playground/alive",
        "/playground/static/0a/main.js",
        "/playground/trained/1.zip",
        "/playground/plotly/plotly.js",
        "/playground/here/a",
        "/playground/view",
        "/assets/a.js",
        "/theme.css",
        "/config",
        JOIN,
        "/gradio_api/info",
        "/gradio_api/startup-events",
        "/gradio_api/mcp",
    ):
        for headers in guesses:
            assert ask(ours, folder + path, headers=headers, root_path=folder).status == 401
        assert ask(ours, folder + path, headers=OURS | INSIDE, root_path=folder).text == folder + path
    for method in ("GET", "HEAD", "POST"):
        for headers in guesses:
            assert ask(ours, f"{folder}/", method, headers=headers, root_path=folder).text == f"{folder}/login"
    assert ask(ours, f"{folder}/", headers=OURS | INSIDE, root_path=folder).text == f"{folder}/"
    assert ask(ours, f"{folder}/", "POST", headers=OURS | INSIDE, root_path=folder).text == f"{folder}/login"
    for path in ("/login", "/logout", "/favicon.ico", "/playground/health"):
        assert ask(ours, folder + path, root_path=folder).text == folder + path
    assert ask(guarded(), "/config").status == 200  # nobody is asked where there is no login


def test_a_tool_of_a_language_model_is_called_at_this_machine_s_own_address():
    seen = []

    async def behind(scope, receive, send):
        seen.append(scope)
        await paths(scope, receive, send)

    forged = {"host": "evil.example", "x-forwarded-host": "evil.example", "x-forwarded-proto": "https"}
    asked = {"headers": forged, "server": ("10.0.0.7", 7860), "scheme": "https", "body": (b"{}",)}
    for options in (Options(public=True), Options(public=True, proxies=1)):
        assert ask(guarded(options, app=behind), "/gradio_api/mcp/", "POST", **asked).status == 200
        assert seen[-1]["headers"] == [(b"host", b"10.0.0.7:7860")] and seen[-1]["scheme"] == "http"
    assert ask(guarded(app=behind), "/gradio_api/mcp", "POST", **asked | {"server": ("::1", 7860)}).status == 200
    assert seen[-1]["headers"] == [(b"host", b"[::1]:7860")]


def test_a_fault_of_what_answered_already_is_written_once(caplog):
    async def broken(scope, receive, send):
        await paths(scope, receive, send)
        raise RuntimeError("told by what is behind")

    assert ask(guarded(app=broken)).status == 200 and caplog.text.count("RuntimeError: told by") == 1


WIRE = [f"/playground/{each}" for each in ("view", "job", "stream", "model", "link")]


@pytest.mark.parametrize("asked", WIRE)
def test_questions_of_pages_are_counted_by_page_and_by_client_where_strangers_come(monkeypatch, asked):
    def status(ours, visit, **more):
        body = b'{"prompt":"\\"visit\\":\\"x\\"","visit":"%s","values":{}}' % visit
        return ask(ours, asked, "POST", body=(body,), **more).status

    monkeypatch.setattr(middleware, "COMPUTING", Rate(burst=5, per_second=0.01))
    monkeypatch.setattr(middleware, "COMPUTING_EACH", Rate(burst=2, per_second=0.01))
    public, own = guarded(), guarded(Options())
    assert [status(public, b"a") for _ in range(3)] == [200, 200, 429]
    assert [status(public, b"b") for _ in range(2)] == [200, 200]  # another page
    assert [status(public, b"c%d" % n) for n in range(3)] == [200, 429, 429]  # but all of them are one client's
    assert status(public, b"a", client=("10.0.0.2", 1)) == 200
    assert {status(own, b"a") for _ in range(9)} == {200}


def test_answers_to_lessons_are_counted_where_strangers_come(monkeypatch):
    monkeypatch.setattr(middleware, "COMPUTING", Rate(burst=2, per_second=0.01))
    public, own = guarded(Options(public=True, allowed=PUBLIC)), guarded(Options())
    asked = "/playground/lessons/tokens"
    assert [ask(public, asked, "POST").status for _ in range(3)][-1] == 429
    assert ask(public, asked).status == 200  # the lesson itself costs nothing
    assert {ask(own, asked, "POST").status for _ in range(4)} == {200}
