"""Logging in and out of a server that listens: its cookie, wrong tries, who is logged out, what a stranger is told."""

import hashlib

import pytest

from tests.support.guard import Clock, ask, guarded, scope_of
from tests.support.models.helpers import apart
from tests.support.public import TIGHT
from tests.support.wire import cookie, listening
from viz.server.framework.door import Door
from viz.server.guard import login
from viz.server.guard.rate_limit import Buckets
from viz.server.guard.tokens import Tokens
from viz.work.playground import Options
from viz.work.rates import Rate


@pytest.fixture(scope="module")
def server(lm, tmp_path_factory):
    people = tmp_path_factory.mktemp("people") / "people"
    people.write_text(f"ann:secret\nbob:{login.hashed('word')}\ncy:cy\n", encoding="utf-8")
    options = Options(model="tiny", max_tokens=40, training_minutes=0.0, allowed=TIGHT, public=True, login=people)
    with listening(lm, options) as running:
        yield running


def is_inside(server, headers):
    return server.ask("GET", "/config", headers).status == 200


def test_who_logs_in_is_inside(server):
    answer = server.log_in(" ann ", "secret")
    assert (answer.status, answer.body) == (200, b'{"success":true}')
    (sent,) = [value for name, value in answer.headers if name == "set-cookie"]
    kept = {each.strip().lower() for each in sent.split(";")[1:]}
    assert kept == {"httponly", "samesite=lax", "path=/"}  # http: a browser would not keep a secure one
    assert is_inside(server, cookie(answer)) and not is_inside(server, {"Cookie": "access-token-x=guess"})
    assert server.ask("GET", "/gradio_api/user", cookie(answer)).status == 404  # what the page does not need
    assert b'"username":"ann"' in server.ask("GET", "/", cookie(answer)).body


def test_a_browser_s_form_is_taken_too(server):
    body = b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
    form = body % (b"username", b"bob") + body % (b"password", b"word") + b"--x--\r\n"
    answer = server.ask("POST", "/login", {"Content-Type": "multipart/form-data; boundary=x"}, form)
    assert answer.status == 200 and is_inside(server, cookie(answer))


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b'{"username":"ann","password":"secret"}'),
        ("application/x-www-form-urlencoded", b"username=ann"),
        ("application/x-www-form-urlencoded", b"username=eve&password=secret"),
        ("application/x-www-form-urlencoded", b"username=ann&password=Secret"),
        ("multipart/form-data; boundary=x", b"--y"),
        ("multipart/form-data", b"--x"),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="username"; filename="a"\r\n',
        ),
        ("", b""),
    ],
)
def test_what_is_no_login_lets_nobody_in(server, kind, body):
    answer = server.ask("POST", "/login", {"Content-Type": kind}, body)
    assert answer.status == 400 and "set-cookie" not in answer.names


def test_another_website_logs_nobody_in(server):
    for said in (
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
        {"Origin": "null"},
        {"Origin": "https://evil.example"},
    ):
        assert server.log_in("ann", "secret", said).status == 403
    assert server.log_in("ann", "secret", {"Origin": f"http://{server.host}"}).status == 200


def test_logging_out_ends_one_session(server):
    one, other = cookie(server.log_in("ann", "secret")), cookie(server.log_in("ann", "secret"))
    for method in ("GET", "HEAD"):
        answer = server.ask(method, "/logout", one)  # a link, or a picture's address
        assert answer.status == 303 and answer.header("location") == "./" and "set-cookie" not in answer.names
    assert server.form("/logout", one | {"Origin": "https://evil.example"}).status == 403
    assert is_inside(server, one)
    answer = server.form("/logout", one)
    assert answer.status == 303 and "max-age=0" in answer.header("set-cookie").lower()
    assert not is_inside(server, one) and is_inside(server, other)


def test_logging_in_again_ends_the_session_before(server):
    one = cookie(server.log_in("ann", "secret"))
    other = cookie(server.log_in("bob", "word", one))
    assert is_inside(server, other) and not is_inside(server, one)


def test_a_stranger_is_not_told_what_there_is(server):
    page = server.ask("GET", "/?all_endpoints=1").body
    assert b'{"named_endpoints":{},"unnamed_endpoints":{}};</script>' in page and b"auth_required" in page
    assert b'"/tokenize"' not in page and b"playground/static" in page
    assert b'"/tokenize"' not in server.ask("GET", "/gradio_api/info").body
    ann = cookie(server.log_in("ann", "secret"))
    inside = server.ask("GET", "/", ann).body
    assert b"auth_required" not in inside and b'"components":[{' in inside
    assert b'"/tokenize"' not in inside  # only programs need it, and ask for it
    assert b'"/tokenize"' in server.ask("GET", "/gradio_api/info", ann).body


# --- guesses ---


def tried(server, monkeypatch, **rates):
    """The door of a running server with other bounds."""
    (route,) = [each for each in server.page.app.routes if getattr(each, "path", "") == "/login" and each.app][:1]
    door = route.endpoint.__self__
    for name, rate in rates.items():
        monkeypatch.setattr(door, name, Buckets(rate, clock=Clock()))


def test_guesses_at_one_password_are_counted_and_others_are_not_held_up(server, monkeypatch):
    tried(server, monkeypatch, wrong=Rate(3, 0.1), wrong_address=Rate(100, 1))
    assert [server.log_in("ann", "guess").status for _ in range(5)] == [400] * 3 + [429] * 2
    answer = server.log_in("ann", "secret")
    assert answer.status == 429 and answer.header("retry-after") == "11" and b"detail" in answer.body
    assert server.log_in("bob", "word").status == 200
    assert [server.log_in("nobody", "guess").status for _ in range(4)] == [400] * 3 + [429]  # as a known name


def test_guesses_at_many_names_are_counted(server, monkeypatch):
    tried(server, monkeypatch, wrong=Rate(100, 1), wrong_address=Rate(3, 0.5))
    assert [server.log_in(f"name{n}", "guess").status for n in range(5)] == [400] * 3 + [429] * 2


def test_a_login_that_succeeds_costs_nothing(server, monkeypatch):
    tried(server, monkeypatch, wrong=Rate(2, 0.01), wrong_address=Rate(2, 0.01))
    assert [server.log_in("ann", "secret").status for _ in range(6)] == [200] * 6


def test_an_unknown_name_takes_the_same_work(tmp_path, monkeypatch):
    path = tmp_path / "people"
    path.write_text(f"plain:secret\nkept:{login.hashed('word')}\n", encoding="utf-8")
    check = login.checker(login.read(path))
    whole, asked = hashlib.scrypt, []
    monkeypatch.setattr(hashlib, "scrypt", lambda *a, **k: (asked.append(k["n"]), whole(*a, **k))[1])
    for name in ("plain", "kept", "nobody"):
        for password in ("secret", "x"):
            apart(check(name, password))
    assert asked == [1 << 14] * 6


# --- behind the guard ---


def test_who_asks_is_told_to_what_is_behind(tmp_path):
    seen = []

    async def behind(scope, receive, send):
        seen.append(scope["playground.client"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    inside = {"host": "127.0.0.1:7860", "cookie": "access-token-x=let-in"}
    ask(guarded(app=behind), client=("1.2.3.4", 5))
    ask(guarded(app=behind), headers=inside)  # where there is no login, a cookie says nothing
    closed = guarded(Options(login=tmp_path / "people"), app=behind)
    ask(closed, "/config", headers=inside)
    ask(closed)
    assert seen == ["1.2.3.4", "10.0.0.1", "ann", "10.0.0.1"]


def test_the_cookie_of_a_safe_connection_stays_on_safe_ones():
    scope = scope_of("/login", "POST", {"content-type": "application/x-www-form-urlencoded"}, scheme="https")
    scope |= {"server": ("a.example", 443)}
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"username=ann&password=x"}

    async def send(message):
        sent.append(message)

    async def anybody(name, password):
        return True

    scope["app"].auth, scope["app"].tokens = anybody, Tokens(bytes(32))
    (route, *_) = Door().routes()
    apart(route.app(scope, receive, send))
    (value,) = [value.decode().lower() for name, value in sent[0]["headers"] if name == b"set-cookie"]
    assert "; secure" in value and "httponly" in value and "samesite=lax" in value
