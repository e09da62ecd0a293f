"""The worked example of docs/architecture.md: a view from outside the project is drawn, worded and refused clearly."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import app

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "docs" / "examples" / "views"
DRAW = """
from viz.page.pipeline import PageRequest, payloads
from viz.seam.playground import Options, Playground
from viz.views.tabs import TABS
from viz.words import words

assert TABS[-1].key == "own" and [view.key for view in TABS[-1].views] == ["token_lengths"]
playground = Playground(Options())
for language in ("en", "zh"):
    values = {"token_lengths_form": {"unit": "characters"}}
    parts, _ = payloads(playground, PageRequest("tinygpt", "The cat sat", None, values, {}, language, "own"))
    drawn = parts["token_lengths_lengths"]
    assert drawn["title"] == "How long each token is"
    assert list(drawn["figure"].data[0].y) == [3, 4, 4], drawn["figure"].data[0].y
    assert parts["token_lengths_form"]["controls"][0]["options"][1] == ["characters", "characters"]
assert words("zh")["tab.own"] == "自带视图"
"""


def run(folder: Path, code: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PLAYGROUND_VIEWS": str(folder), "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.long
def test_a_view_from_outside_is_drawn_in_every_language():
    done = run(EXAMPLE, DRAW)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("", "declares no VIEW"),
        ("1 / 0", "cannot be loaded"),
    ],
)
def test_a_broken_view_is_named(tmp_path, code, says):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "view.py").write_text(code)
    done = run(tmp_path, "import viz.views.outside as o\ntry: o.views()\nexcept Exception as e: print(e)")
    assert says in done.stdout and "mine" in done.stdout, done.stderr


def test_only_the_command_line_names_views(monkeypatch, tmp_path):
    monkeypatch.setenv("PLAYGROUND_VIEWS", "/somewhere")
    monkeypatch.setattr(os, "environ", dict(os.environ))
    app.environment(app.parse([]))
    assert os.environ["PLAYGROUND_VIEWS"] == ""
    app.environment(app.parse(["--views", str(tmp_path)]))
    assert os.environ["PLAYGROUND_VIEWS"] == str(tmp_path)
    with pytest.raises(SystemExit):
        app.parse(["--views", str(tmp_path / "none")])


def test_the_page_of_the_house_shows_the_example_as_it_is():
    """docs/architecture.md names every file of the example."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    files = {path.relative_to(EXAMPLE).as_posix() for path in EXAMPLE.rglob("*") if path.suffix in (".py", ".toml")}
    assert files <= set(re.findall(r"`([\w/.]+)`", text))
