"""What stands between the network and the page: headers, sizes, hosts, rates."""

import asyncio
import types

import pytest

from tests.support.helpers import apart
from viz.page.playground import Options
from viz.server import middleware
from viz.server.limits import PUBLIC
from viz.server.middleware import Guard, cached, client_of, is_open, is_ours, is_outside, name_of, path_of
from viz.server.rate_limit import Buckets, Rate

JOIN = "/gradio_api/queue/join"
OURS = {"host": "127.0.0.1:7860"}
SHARED = Options(public=True, allowed=PUBLIC)


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Answer:
    """What a client is sent, in the pieces in which it is sent."""

    def __init__(self, messages):
        start, *rest = messages
        self.status = start["status"]
        self.headers = {name.decode(): value.decode() for name, value in start["headers"]}
        self.pieces = [message.get("body", b"") for message in rest]

    @property
    def text(self):
        return b"".join(self.pieces).decode()


def scope_of(path, method="GET", headers=OURS, **more):
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    app = types.SimpleNamespace(cookie_id="x", tokens={"let-in": "ann"})
    return {
        "type": "http",
        "path": path,
        "method": method,
        "headers": pairs,
        "query_string": b"",
        "root_path": "",
        "client": ("10.0.0.1", 5),
        "app": app,
    } | more


def ask(guarded, path="/", method="GET", *, headers=OURS, body=(b"",), **more):
    """Send a request, its body in pieces, and take the answer."""
    sent, left = [], list(body)

    async def receive():
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    async def send(message):
        sent.append(message)

    apart(guarded(scope_of(path, method, headers, **more), receive, send))
    return Answer(sent)


async def echo(scope, receive, send):
    """An app that answers with what it was sent."""
    message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": message["body"]})


def guarded(options=SHARED, app=echo, **changes):
    return Guard(app, options, **changes)


# --- headers ---


def test_every_answer_has_the_headers():
    for answer in (ask(guarded()), ask(guarded(), "/etc/passwd"), ask(guarded(), JOIN, "PUT")):
        said = answer.headers["content-security-policy"]
        assert "default-src 'self';" in said and "object-src 'none'" in said and "frame-ancestors 'self'" in said
        assert "http" not in said  # nothing of another host is ever loaded
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["x-frame-options"] == "SAMEORIGIN"
        assert "camera=()" in answer.headers["permissions-policy"]
        assert answer.headers["x-playground-server"] == middleware.SERVER
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

    answer = ask(guarded(app=stream), "/gradio_api/heartbeat/x")
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
    assert cached("/playground/plotly/plotly.min.js") == middleware.KEPT
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
        "/gradio_api/heartbeat/abc",
        "/gradio_api/call/tokens",
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
    answer = ask(guarded(), JOIN, "POST", body=(b"abc", b"", b"def"))
    assert answer.status == 200 and answer.text == "abcdef"


@pytest.mark.parametrize(("pieces", "status"), [(1, 200), (2, 413)])
def test_a_body_is_counted_however_it_comes(pieces, status):
    whole = b"x" * PUBLIC.body
    assert ask(guarded(), JOIN, "POST", body=(whole, *[b"y"] * (pieces - 1), b"")).status == status  # no length told
    length = OURS | {"content-length": str(len(whole) + pieces - 1)}
    assert ask(guarded(), JOIN, "POST", headers=length, body=(whole, *[b"y"] * (pieces - 1), b"")).status == status


def test_a_told_length_is_believed_before_anything_is_read():
    async def nobody(*_):
        pytest.fail("read")

    for length, status in ((PUBLIC.body + 1, 413), ("9" * 400, 413), ("-1", 400), ("1_0", 400), ("x", 400)):
        sent = []

        async def send(message, sent=sent):
            sent.append(message)

        scope = scope_of(JOIN, "POST", OURS | {"content-length": str(length)})
        apart(guarded(app=nobody)(scope, nobody, send))
        assert sent[0]["status"] == status


def test_a_body_that_never_ends_is_given_up(monkeypatch):
    monkeypatch.setattr(middleware, "BODY_SECONDS", 0.01)
    sent = []

    async def receive():
        await asyncio.sleep(30)

    async def send(message):
        sent.append(message)

    apart(guarded()(scope_of(JOIN, "POST"), receive, send))
    assert sent[0]["status"] == 408


def test_refusals_are_told_in_the_reader_s_language():
    large = {"body": (b"x" * (PUBLIC.body + 1),)}
    assert "Shorten it" in ask(guarded(), JOIN, "POST", **large).text
    chinese = OURS | {"accept-language": "zh-CN,zh;q=0.9"}
    assert "请缩短" in ask(guarded(), JOIN, "POST", headers=chinese, **large).text.encode().decode("unicode_escape")
    answer = ask(guarded(), JOIN, "POST", query_string=b"a=b&lang=zh", **large)
    assert answer.headers["content-type"] == "application/json" and '"detail"' in answer.text
    assert ask(guarded(), "/nothing", headers=chinese).text == "此地址没有内容。"


# --- names ---


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("127.0.0.1:7860", True),
        ("localhost:7860", True),
        ("LOCALHOST", True),
        ("[::1]:7860", True),
        ("192.168.1.7", True),
        ("box.example:7860", True),
        ("listens.example", True),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("", False),
        ("a@127.0.0.1.evil.example", False),
        ("[::1", False),
    ],
)
def test_a_private_server_answers_to_its_own_names(host, ours):
    options = Options(host="listens.example", hosts=("Box.example",))
    assert is_ours(name_of(host), options) is ours
    assert ask(guarded(options), headers={"host": host}).status == (200 if ours else 403)
    assert ask(guarded(), headers={"host": host}).status == 200  # a shared one has a name that it need not know


def test_a_foreign_name_is_told_how_to_be_allowed():
    answer = ask(guarded(Options()), headers={"host": "lab.example:80"})
    assert "--allow-host lab.example" in answer.text and answer.headers["content-type"].startswith("text/plain")


def test_this_machine_s_own_name_is_ours(monkeypatch):
    monkeypatch.setattr(middleware.socket, "gethostname", lambda: "Lab7")
    assert is_ours("lab7", Options()) and is_ours("lab7.local", Options()) and not is_ours("lab8", Options())


@pytest.mark.parametrize("options", [Options(), SHARED])
def test_another_website_s_scripts_are_refused(options):
    foreign = OURS | {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}
    assert ask(guarded(options), JOIN, "POST", headers=foreign).status == 403
    assert ask(guarded(options), "/config", headers=foreign).status == 403
    assert ask(guarded(options), headers=foreign | {"sec-fetch-mode": "navigate"}).status == 200  # a link
    assert ask(guarded(options), JOIN, "POST", headers=OURS | {"sec-fetch-site": "same-origin"}).status == 200


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:7860", 200),
        ("http://evil.example", 403),
        ("null", 403),
        ("file://", 403),
        ("http://[", 403),
    ],
)
def test_without_fetch_metadata_the_origin_tells(origin, status):
    assert ask(guarded(Options()), JOIN, "POST", headers=OURS | {"origin": origin}).status == status


# --- who asks ---


@pytest.mark.parametrize(
    ("sent", "proxies", "found"),
    [
        (None, 0, "10.0.0.1"),
        ("6.6.6.6", 0, "10.0.0.1"),  # anybody can write that
        ("6.6.6.6, 1.2.3.4", 1, "1.2.3.4"),  # what the proxy saw is last
        ("6.6.6.6, 1.2.3.4, 5.5.5.5", 2, "1.2.3.4"),
        ("1.2.3.4", 2, "1.2.3.4"),
        (None, 1, "10.0.0.1"),
        ("2001:db8:1:2:3::9", 1, "2001:db8:1:2::/64"),  # one household
        ("[2001:db8:1:2:ffff::1]", 1, "2001:db8:1:2::/64"),
        ("::ffff:1.2.3.4", 1, "1.2.3.4"),
        ("nonsense" * 20, 1, ("nonsense" * 20)[:64]),
    ],
)
def test_the_address_of_a_client(sent, proxies, found):
    headers = OURS | ({"x-forwarded-for": sent} if sent else {})
    assert client_of(scope_of("/", headers=headers), proxies) == found


def test_several_lines_of_proxies_are_one_list():
    scope = scope_of("/")
    scope["headers"] += [(b"x-forwarded-for", b"6.6.6.6"), (b"x-forwarded-for", b"1.2.3.4")]
    assert client_of(scope, 1) == "1.2.3.4"


# --- rates ---


def test_a_bucket_empties_and_fills():
    clock = Clock()
    bucket = Buckets(Rate(burst=3, per_second=2), clock=clock)
    assert [bucket.wait("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert bucket.wait("b") == 0  # another client's own
    clock.now += 0.25
    assert bucket.wait("a") == 0.25  # asking too early costs nothing
    clock.now += 0.25
    assert bucket.wait("a") == 0
    clock.now += 1000
    assert [bucket.wait("a") for _ in range(4)] == [0, 0, 0, 0.5]  # never more than the burst


def test_buckets_of_many_clients_take_bounded_memory():
    bucket = Buckets(Rate(2, 1), most=10, clock=Clock())
    bucket.wait("kept"), bucket.wait("kept")
    for n in range(100):
        bucket.wait(n)
        assert bucket.wait("kept") > 0  # seen lately, so not forgotten
    assert len(bucket) == 10


def join(guarded, session="abc", **more):
    return ask(guarded, JOIN, "POST", body=(b'{"data":["x"],"session_hash":"%s"}' % session.encode(),), **more)


def test_a_page_is_asked_to_wait_and_others_are_not():
    clock = Clock()
    ours = guarded(asked_each=Buckets(Rate(2, 1), clock=clock))
    assert [join(ours).status for _ in range(3)] == [200, 200, 429]
    answer = join(ours)
    assert answer.headers["retry-after"] == "2" and "busy" in answer.text
    assert join(ours, "other").status == 200  # another page behind the same address
    assert join(ours, client=("10.0.0.2", 1)).status == 200
    clock.now += 1
    assert join(ours).status == 200


def test_an_address_cannot_have_more_by_many_pages():
    ours = guarded(asked=Buckets(Rate(5, 1), clock=Clock()))
    assert [join(ours, f"page{n}").status for n in range(7)] == [200] * 5 + [429] * 2
    assert join(ours, "page", client=("10.0.0.2", 1)).status == 200


def test_every_request_of_a_shared_server_is_counted_and_none_of_a_private_one():
    def few():
        return {name: Buckets(Rate(3, 1), clock=Clock()) for name in ("visits", "asked", "asked_each")}

    assert [ask(ours, "/config").status for ours in [guarded(**few())] * 5] == [200] * 3 + [429] * 2
    private = guarded(Options(), **few())
    assert [join(private).status for _ in range(9)] == [200] * 9


def test_a_text_cannot_pretend_to_be_another_page():
    ours = guarded(asked_each=Buckets(Rate(1, 1), clock=Clock()))
    forged = rb'{"data":["\"session_hash\":\"forged%d\""],"session_hash":"abc"}'
    assert [ask(ours, JOIN, "POST", body=(forged % n,)).status for n in range(3)] == [200, 429, 429]


def test_so_many_connections_of_one_address(monkeypatch):
    monkeypatch.setattr(middleware, "MOST_OPEN", 2)
    ours, inner = guarded(), []

    async def nested(scope, receive, send):
        if len(inner) < 3:
            messages = []

            async def keep(message):
                messages.append(message)

            inner.append(messages)
            await ours(scope_of("/"), receive, keep)
        await echo(scope, receive, send)

    ours.app = nested
    assert ask(ours, body=[b""] * 3).status == 200
    assert [messages[0]["status"] for messages in inner] == [200, 429]
    assert not ours.under_way  # nothing is left over


def test_a_class_behind_one_address_is_not_held_up():
    """Thirty pages are opened within a second, then each is typed into at seven keys a second for a minute."""
    clock = Clock()
    rates = {"visits": middleware.VISITS, "asked": middleware.ASKED, "asked_each": middleware.ASKED_EACH}
    ours = guarded(**{name: Buckets(rate, clock=clock) for name, rate in rates.items()})
    for _ in range(30 * 80):
        assert ours.visits.wait("class") == 0
    for _ in range(10 * 60):  # the model answers some dozens of questions a second, and a page asks one at a time
        clock.now += 0.1
        for page in range(6):
            assert ours.asked_each.wait(("class", page)) == 0 and ours.asked.wait("class") == 0
            assert ours.visits.wait("class") == 0 and ours.visits.wait("class") == 0


# --- those who have not logged in ---


def test_a_stranger_sees_the_login_and_nothing_else(tmp_path):
    ours = guarded(Options(login=tmp_path / "people"))
    inside = {"cookie": "a=b; access-token-unsecure-x=let-in"}
    for path in (
        "/playground/alive",
        "/playground/trained/1.zip",
        "/playground/plotly/plotly.js",
        "/config",
        JOIN,
        "/gradio_api/info",
        "/gradio_api/heartbeat/a",
        "/gradio_api/mcp",
    ):
        assert not is_outside(path)
        for headers in (OURS, OURS | {"cookie": "access-token-x=guess"}, OURS | {"cookie": "access-token-y=let-in"}):
            assert ask(ours, path, headers=headers).status == 401
        assert ask(ours, path, headers=OURS | inside).status == 200
    scripts = "/playground/static/0a/main.js"
    for path in ("/", "/login", "/theme.css", "/assets/a.js", scripts, "/gradio_api/startup-events"):
        assert ask(ours, path).status == 200
    assert ask(guarded(), "/config").status == 200  # nobody is asked where there is no login


def test_guesses_at_passwords_are_counted(tmp_path):
    ours = guarded(Options(login=tmp_path / "people"), logins=Buckets(Rate(2, 0.5), clock=Clock()))
    assert [ask(ours, "/login", "POST").status for _ in range(4)] == [200, 200, 429, 429]
    assert [ask(ours, "/login/", "POST", client=("10.0.0.2", 1)).status for _ in range(3)] == [404] * 3
