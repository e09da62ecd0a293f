"""Logging in and out of a server that listens: its cookie, wrong tries, who is logged out, what a stranger is told."""

import hashlib

import pytest

from tests.support.guard import INSIDE, OURS, TOKENS, Clock, anybody, ask, guarded, scope_of
from tests.support.models.helpers import apart
from tests.support.public import TIGHT
from tests.support.wire import cookie, listening
from viz.server.guard import login
from viz.server.guard.door import STYLE, Door, page
from viz.server.guard.rate_limit import Buckets
from viz.server.headers import hashed
from viz.words import Catalogue, words
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
    assert (answer.status, answer.header("location")) == (303, "./")
    (sent,) = [value for name, value in answer.headers if name == "set-cookie"]
    kept = {each.strip().lower() for each in sent.split(";")[1:]}
    assert kept == {"httponly", "samesite=lax", "path=/"}  # http: a browser would not keep a secure one
    assert is_inside(server, cookie(answer))
    assert not is_inside(server, {"Cookie": cookie(answer)["Cookie"].partition("=")[0] + "=guess"})
    assert server.ask("GET", "/gradio_api/user", cookie(answer)).status == 404  # what the page does not need
    assert b'"username":"ann"' in server.ask("GET", "/", cookie(answer)).body


def test_a_browser_s_form_is_taken_too(server):
    body = b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
    form = body % (b"username", b"bob") + body % (b"password", b"word") + b"--x--\r\n"
    answer = server.ask("POST", "/login", {"Content-Type": "multipart/form-data; boundary=x"}, form)
    assert answer.status == 303 and is_inside(server, cookie(answer))


def test_the_form_leads_back_to_the_page_that_was_opened(server):
    for path in ("/", "/?lang=zh&tab=heads"):  # the form names no address: a browser sends it where it was opened
        asked = server.form(path, username="ann", password="secret")
        assert asked.status == 303 and asked.header("location") == f".{path}"
        again = server.form(path, cookie(asked), username="bob", password="word")  # in another tab, once more
        assert again.status == 303
    inside = cookie(again)
    assert server.ask("GET", "/login", inside).header("location") == "./"
    assert server.ask("GET", "/login?to=https://evil.example", inside).header("location").startswith("./?")


def test_the_form_is_a_page_without_scripts_in_the_reader_s_language(server):
    for path, headers, language in (("/", {}, "en"), ("/login", {"Accept-Language": "zh-CN"}, "zh")):
        answer = server.ask("GET", path, headers)
        text, said = answer.body.decode(), words(language)
        assert answer.status == 200 and f'lang="{language}"' in text and said["login.hint"] in text
        assert "<script" not in text and 'method="post"' in text and "src=" not in text
        policy = answer.header("content-security-policy")
        assert hashed(STYLE.encode()) in policy and "form-action 'self'" in policy
        assert answer.header("cache-control") == "no-store"
    wrong = server.form("/?lang=zh", username="ann", password="<b>")
    assert wrong.status == 400 and words("zh")["login.wrong"] in wrong.body.decode() and b"<b>" not in wrong.body
    assert server.ask("HEAD", "/").status == 200
    odd = page(Catalogue(dict(words("en")) | {"login.hint": "<i>", "page.title": "<u>"}), "en")
    assert "<i>" not in odd and "<u>" not in odd and "&lt;i&gt;" in odd


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
    assert server.log_in("ann", "secret", {"Origin": f"http://{server.host}"}).status == 303


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
    assert b"gradio" not in page and b"playground/static" not in page and len(page) < 4000
    for path in ("/config", "/gradio_api/info", "/theme.css", "/assets/index.js", "/gradio_api/startup-events"):
        assert server.ask("GET", path).status == 401
    ann = cookie(server.log_in("ann", "secret"))
    inside = server.ask("GET", "/", ann).body
    assert b'"components":[{' in inside
    assert b'"/tokenize"' not in inside  # only programs need it, and ask for it
    assert b'"/tokenize"' in server.ask("GET", "/gradio_api/info", ann).body


# --- guesses ---


def tried(server, monkeypatch, **rates):
    """Give the door of a running server other bounds."""
    door = next(each.endpoint.__self__ for each in server.running.app.routes if getattr(each, "path", "") == "/login")
    for name, rate in rates.items():
        monkeypatch.setattr(door, name, Buckets(rate, clock=Clock()))


def test_guesses_at_one_password_are_counted_and_others_are_not_held_up(server, monkeypatch):
    tried(server, monkeypatch, wrong=Rate(3, 0.1), wrong_address=Rate(100, 1))
    assert [server.log_in("ann", "guess").status for _ in range(5)] == [400] * 3 + [429] * 2
    answer = server.log_in("ann", "secret")
    assert answer.status == 429 and answer.header("retry-after") == "11"
    assert words("en")["login.often"] in answer.body.decode()
    assert server.log_in("bob", "word").status == 303
    assert [server.log_in("nobody", "guess").status for _ in range(4)] == [400] * 3 + [429]  # as a known name


def test_guesses_at_many_names_are_counted(server, monkeypatch):
    tried(server, monkeypatch, wrong=Rate(100, 1), wrong_address=Rate(3, 0.5))
    assert [server.log_in(f"name{n}", "guess").status for n in range(5)] == [400] * 3 + [429] * 2


def test_a_login_that_succeeds_costs_nothing(server, monkeypatch):
    tried(server, monkeypatch, wrong=Rate(2, 0.01), wrong_address=Rate(2, 0.01))
    assert [server.log_in("ann", "secret").status for _ in range(6)] == [303] * 6


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

    inside = OURS | INSIDE
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
        return {"type": "http.request", "body": b"username=ann&password=secret"}

    async def send(message):
        sent.append(message)

    route = Door(Options(), TOKENS, anybody).routes()[1]
    apart(route.app(scope, receive, send))
    (value,) = [value.decode().lower() for name, value in sent[0]["headers"] if name == b"set-cookie"]
    assert "; secure" in value and "httponly" in value and "samesite=lax" in value
