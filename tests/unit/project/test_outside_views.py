"""The worked example of docs/architecture.md: a view from outside the project is drawn, worded and refused clearly."""

import os
import re
import shutil
from pathlib import Path

import pytest

import app
from model.errors import InputError
from tests.support import elsewhere
from viz.seam.tab import Tab
from viz.seam.view import Custom, View
from viz.views.outside import EXPLAINED, check
from viz.views.tabs import TABS

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "docs" / "examples" / "views"
DRAW = """
from viz.page.pipeline import PageRequest, payloads
from viz.work.playground import Options, Playground
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
assert words("zh")["tab.own"] == "自定义视图"
"""


@pytest.fixture
def run(tmp_path_factory):
    """Run code in a process whose page has the views of a folder."""

    def run_with(folder: Path, code: str) -> elsewhere.Done:
        return elsewhere.run(code, {"PLAYGROUND_VIEWS": str(folder)}, tmp_path_factory.mktemp("written") / "out")

    return run_with


@pytest.mark.long
def test_a_view_from_outside_is_drawn_in_every_language(run):
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
def test_a_broken_view_is_named(run, tmp_path, code, says):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "view.py").write_text(code)
    done = run(tmp_path, "import viz.views.outside as o\ntry: o.views()\nexcept Exception as e: print(e)")
    assert says in done.stdout and "mine" in done.stdout, done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("view.py", '    "token_lengths",', '    "map",', "The key of a view is taken. Got: map."),
        ("words/en.toml", "formula =", "# ", "A view has missing words. Got: token_lengths.howto.formula."),
        ("words/en.toml", "[token_lengths.howto]", "[token_lengths.howto", "words/en.toml: "),
        (
            "view.py",
            "    parts=",
            "    api=(Endpoint(models),),\n    parts=",
            "The name of an endpoint is taken. Got: models.",
        ),
    ],
)
def test_a_view_that_the_page_cannot_show_is_refused_at_the_start(run, tmp_path, file, old, new, says):
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    changed = tmp_path / "token_lengths" / file
    text = changed.read_text(encoding="utf-8")
    assert old in text
    offered = "from viz.seam.programs.endpoint import Endpoint\nfrom viz.api.page import models\n"
    changed.write_text(("" if file != "view.py" else offered) + text.replace(old, new), encoding="utf-8")
    if file == "view.py":  # as the app says it
        done = run(tmp_path, f"import app\napp.main(['--views', {str(tmp_path)!r}])")
        assert done.returncode == 1 and says in done.stderr and "Traceback" not in done.stderr, done.stderr
    else:  # where it is found, without a page
        done = run(tmp_path, "import model.errors as e\ntry: import viz.views.tabs\nexcept e.InputError as x: print(x)")
        assert says in done.stdout, done.stderr


def own(*views: View) -> None:
    """Have views checked as those of a folder, their words with them."""
    texts = {f"{view.key}.{name}": "x" for view in views for name in EXPLAINED}
    check(Tab("own", views), TABS, texts)


def test_names_of_the_page_are_taken():
    drawn = {"plot": Custom("x", lambda seen: {})}
    own(View("mine", ("plot",), drawn), View("other", ("plot",), drawn))
    for taken in ("map", "sampling", "page", "own"):
        with pytest.raises(InputError, match=rf"key of a view is taken\. Got: {taken}\."):
            own(View(taken, ("plot",), drawn))
    with pytest.raises(InputError, match=r"key of a view is taken\. Got: mine"):
        own(View("mine", ("plot",), drawn), View("mine", ("plot",), drawn))
    with pytest.raises(InputError, match=r"name of a part is taken\. Got: lens_curve"):
        own(View("mine", ("lens_curve",), {"lens_curve": Custom("x", lambda seen: {}, shared=True)}))
    with pytest.raises(InputError, match=r"Got: mine\.view, mine\.about, mine\.howto\.body"):
        check(Tab("own", (View("mine", ("plot",), drawn),)), TABS, {})


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
