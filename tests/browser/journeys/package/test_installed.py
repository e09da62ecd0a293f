"""The wheel, installed: the library and the command, in a folder with files named like the project's own packages."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from zipfile import ZipFile

import pytest

from model import version
from package.names import renamed
from tests.browser.conftest import FIRST, READY, blank_page
from tests.support.visitor import SOON, open_tab

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[4]
VERSION = version()
API = f"""
import sys
sys.path.append({str(ROOT / "tests/support")!r})
from pathlib import Path
from documented import imports
lines = imports(Path("api.md").read_text(encoding="utf-8"))
for line in lines:
    exec(line)
print(len(lines), [name for name in sys.modules if name.split(".")[0] in ("model", "viz", "app")])
"""
LIBRARY = """
import sys
import attention_playground as ap
assert "torch" not in sys.modules
page = ap.page_of(ap.load_model("tinygpt"), "The cat sat on the mat because it was tired")
print(page.figure("map_plot").data[0].z.shape)
from attention_playground.viz.seam.jobs.stored import content_of, decode, names
print(len([decode(content_of(name)["value"]) for name in names()]))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of the working tree."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def programs(wheel, tmp_path_factory):
    """The programs of a new environment with the wheel; the packages it needs are those of the tests."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    packages = sysconfig.get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)})
    Path(packages, "needed.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    install = [folder / "bin/python", "-m", "pip", "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    return folder / "bin"


@pytest.fixture
def elsewhere(tmp_path):
    """A folder with modules of the same names, which must not be imported."""
    for name in ("model", "viz", "app", "static"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('another module')", encoding="utf-8")
    return tmp_path


def output_of(*command: object, folder: Path) -> str:
    """Run a command and return its output; if it fails, show its errors."""
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_wheel_holds_one_package_with_every_tracked_file(wheel):
    tracked = subprocess.run(
        ["git", "ls-files", "model", "viz", "static"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    names = set(ZipFile(wheel).namelist())
    assert {f"attention_playground/{name}" for name in tracked if name} <= names
    assert {name.split("/")[0] for name in names} == {
        "attention_playground",
        f"attention_playground-{VERSION}.dist-info",
    }
    assert wheel.stat().st_size < 30e6


def test_the_library_is_imported_by_its_own_name(programs, elsewhere):
    shape, stored = output_of(programs / "python", "-c", LIBRARY, folder=elsewhere).splitlines()
    assert shape == "(10, 10)" and int(stored) > 20
    assert VERSION in output_of(programs / "attention-playground", "--version", folder=elsewhere)


def test_the_imports_of_the_api_page_are_found_under_the_name_of_the_package(programs, elsewhere):
    """Its examples are run elsewhere, from the project's folder."""
    text = renamed((ROOT / "docs/api.md").read_text(encoding="utf-8"))
    (elsewhere / "api.md").write_text(text, encoding="utf-8")
    count, own = output_of(programs / "python", "-c", API, folder=elsewhere).splitlines()[-1].split(maxsplit=1)
    assert int(count) > 10 and own == "[]"


def test_the_command_serves_the_page_and_its_python_runs(programs, elsewhere, profile):
    server = subprocess.Popen(
        [programs / "attention-playground", "--offline"],
        cwd=elsewhere,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    try:
        line = server.stdout.readline()
        assert line.startswith("Attention playground:"), server.stderr.read()[-3000:]
        page = blank_page(profile)
        errors = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(line.split()[-1])
        page.locator(FIRST).wait_for(timeout=SOON)
        open_tab(page, "Attention")
        page.locator(READY).wait_for(timeout=SOON)
        page.locator("#pg-map_plot .pg-foot").get_by_role("button", name="Python").click()
        lines = page.locator("#pg-map_plot .pg-code pre").text_content() + "\nprint(maps[0].shape)"
        assert output_of(programs / "python", "-c", lines, folder=elsewhere) == "(10, 10)\n"
        assert not errors
        page.close()
    finally:
        server.kill()
        server.wait(timeout=20)
