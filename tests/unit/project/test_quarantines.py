"""No test is left out in silence: every way of skipping is listed with its reason, and REQUIRE_ALL=1 makes it fail."""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import LONG

TESTS = Path(__file__).parents[2]
LIST = TESTS / "QUARANTINES.md"
WAYS = {"skip", "skipif", "xfail", "importorskip", "SkipTest", "skipIf", "skipUnless", "skipTest"}


def skips(source: str) -> list[str]:
    """Every place where a test can be left out, as it is written."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in WAYS:
            root = ast.unparse(node.value).split(".")[0]
            found += [ast.unparse(node)] if root in ("pytest", "unittest", "mark", "self") else []
        elif isinstance(node, ast.ImportFrom) and node.module in ("pytest", "unittest"):
            found += [f"{node.module}.{alias.name}" for alias in node.names if alias.name in WAYS]
    return found


def listed() -> list[tuple[str, ...]]:
    """The rows of the table: file, what, reason."""
    rows = re.findall(r"^\| `([^`]+)` \| (.*?) \| (.*?) \|$", LIST.read_text(), re.MULTILINE)
    return [tuple(cell.strip() for cell in row) for row in rows]


@pytest.mark.long
def test_every_skip_is_listed_and_every_listed_one_exists():
    present = Counter()
    for path in TESTS.rglob("*.py"):
        if count := len(skips(path.read_text())):
            present[path.relative_to(TESTS).as_posix()] = count
    assert Counter(file for file, _, _ in listed()) == present, "one row in tests/QUARANTINES.md for each skip"


def test_every_listed_skip_has_a_reason():
    assert listed()
    for file, what, reason in listed():
        assert len(what) > 5 and len(reason) > 15, file


@pytest.mark.parametrize(
    "source",
    [
        "import pytest\npytest.skip('x')",
        "import pytest\nx = pytest.importorskip('x')",
        "@pytest.mark.xfail\ndef f(): 1",
        "@pytest.mark.skipif(True, reason='x')\ndef f(): 1",
        "pytestmark = pytest.mark.skip",
        "from pytest import skip",
        "import pytest\npytest.param(1, marks=pytest.mark.skip)",
        "import unittest\nraise unittest.SkipTest",
    ],
)
def test_every_way_to_skip_is_seen(source: str):
    assert len(skips(source)) == 1


def test_other_names_are_no_skips():
    assert skips("gr.skip()\nlines.skip\n'pytest.skip'\n# pytest.skip()") == []


FILE = """
import pytest

from tests.conftest import LONG

@pytest.fixture
def weights():
    pytest.skip("no weights")

def test_runs(): pass
def test_skips(): pytest.skip("no reason")
def test_fixture_skips(weights): pass
@pytest.mark.skip(reason="marked")
def test_marked(): pass
@pytest.mark.xfail(reason="known")
def test_expected(): assert False
"""


@pytest.mark.long
@pytest.mark.parametrize(("required", "status"), [("1", 1), ("0", 0)])
def test_with_require_all_a_skip_is_a_failure(required: str, status: int, tmp_path: Path):
    shutil.copy(TESTS / "conftest.py", tmp_path)
    (tmp_path / "test_some.py").write_text(FILE)
    (tmp_path / "test_whole_file.py").write_text("import pytest\npytest.importorskip('no_such_module')\n")

    def pytest_on(name: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", name]
        result = subprocess.run(
            command,
            cwd=tmp_path,
            env={**os.environ, "REQUIRE_ALL": required, "PYTHONPATH": str(TESTS.parent)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        return result.returncode, result.stdout

    code, output = pytest_on("test_some.py")
    assert code == status, output
    assert output.count("REQUIRE_ALL=1, but this did not run") >= 4 * status
    assert ("no weights" in output) and ("1 passed" in output)
    assert ("2 failed" not in output) or status
    if required == "1":
        code, output = pytest_on("test_whole_file.py")
        assert code != 0 and "REQUIRE_ALL=1, but this did not run" in output and "no_such_module" in output


def test_every_file_that_the_quick_command_leaves_out_is_there():
    assert [name for name in sorted(LONG) if not (TESTS / name).is_file()] == []
