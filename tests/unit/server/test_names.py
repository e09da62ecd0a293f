"""Whose page it is: the names it answers to, other websites' scripts, the address of a client."""

import pytest

from tests.support.guard import JOIN, OURS, SHARED, ask, guarded, scope_of
from viz.server import clients
from viz.server.clients import client_of, is_ours, name_of
from viz.work.playground import Options

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


def test_a_star_stands_for_every_name():
    assert is_ours("hub.example", Options(hosts=("*",))) and not is_ours("hub.example", Options(hosts=("a",)))


def test_a_foreign_name_is_told_how_to_be_allowed():
    answer = ask(guarded(Options()), headers={"host": "lab.example:80"})
    assert "--allow-host lab.example" in answer.text and answer.headers["content-type"].startswith("text/plain")


def test_this_machine_s_own_name_is_ours(monkeypatch):
    monkeypatch.setattr(clients.socket, "gethostname", lambda: "Lab7")
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
