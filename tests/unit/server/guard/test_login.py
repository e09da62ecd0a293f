"""Who may come in: the file of names and passwords, and what is kept of them."""

import stat

import pytest

import app
from model.errors import InputError
from tests.support.models.helpers import apart
from viz import serve
from viz.server.guard import login


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people"
    path.write_text(f"# staff\nann:{login.hashed('a:b c')}\n\nbob:plain pass: word\n", encoding="utf-8")
    path.chmod(stat.S_IRUSR)
    return login.read(path)


@pytest.mark.parametrize(
    ("name", "password", "right"),
    [
        ("ann", "a:b c", True),
        ("bob", "plain pass: word", True),
        ("ann", "a:b", False),
        ("bob", "plain pass", False),
        ("bob", "", False),
        ("eve", "a:b c", False),
        ("", "", False),
        ("ann", "x" * 2000, False),
        ("# staff", "", False),
    ],
)
def test_who_may_come_in(people, name, password, right):
    assert apart(login.checker(people)(name, password)) is right


def test_a_hash_is_no_password(people):
    assert apart(login.checker(people)("ann", people["ann"])) is False


def test_the_same_password_is_kept_differently_each_time():
    first, second = login.hashed("x"), login.hashed("x")
    assert first != second and login.matches(first, "x") and login.matches(second, "x")
    assert first.startswith("scrypt:") and "x" not in first.removeprefix("scrypt:")


@pytest.mark.parametrize("text", ["", "# none", "ann", ":secret", "ann:", "ann:scrypt:12:34", "ann:scrypt:zz:"])
def test_a_file_that_is_none_is_told_at_the_start(tmp_path, text):
    path = tmp_path / "people"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as told:
        serve.options_of(app.parse(["--login", str(path)], {}))
    assert "secret" not in str(told.value)
    with pytest.raises(InputError, match="cannot be read"):
        login.read(tmp_path / "nowhere")


def test_the_line_for_the_file_is_printed(monkeypatch, capsys, people):
    monkeypatch.setattr("builtins.input", lambda _: "cy")
    monkeypatch.setattr(app.getpass, "getpass", lambda: "s3cret")
    app.hash_password()
    name, _, kept = capsys.readouterr().out.strip().partition(":")
    assert name == "cy" and login.matches(kept, "s3cret")
    monkeypatch.setattr("builtins.input", lambda _: "c:y")
    with pytest.raises(SystemExit):
        app.hash_password()
