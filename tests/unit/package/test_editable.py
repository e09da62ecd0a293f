"""`pip install -e .`: the command and the library run the clone's files as they are now, by the names of the wheel."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MODULES = """
import sys
import attention_playground as ap
from attention_playground.model.errors import InputError
from attention_playground.model import said
assert InputError.__module__ == "attention_playground.model.errors" and issubclass(InputError, ap.PlaygroundError)
print(said, ap.__doc__.split(":")[0], [name for name in sys.modules if name.split(".")[0] in ("model", "viz", "app")])
"""


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A clone without weights and views."""
    folder = tmp_path_factory.mktemp("clone")
    for name in ("model", "package"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("weights", "__pycache__"))
    for name in ("app.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture(scope="module")
def programs(clone, tmp_path_factory):
    """The programs of a new environment with the clone; the packages it needs are those of the tests."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    packages = sysconfig.get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)})
    Path(packages, "needed.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    install = ["install", "-q", "--no-deps", "--no-index", "--no-build-isolation", "--no-warn-script-location"]
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin/python"), *install, "-e", str(clone)]
    subprocess.run(pip, check=True, capture_output=True)
    return folder / "bin"


@pytest.fixture
def elsewhere(tmp_path):
    """A folder with modules of the same names, which must not be imported."""
    for name in ("model", "viz", "app"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('another module')", encoding="utf-8")
    return tmp_path


def output_of(*command: object, folder: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        list(map(str, command)), cwd=folder, capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_edits_of_the_clone_are_seen(clone, programs, elsewhere):
    source = clone / "model/__init__.py"
    text = source.read_text(encoding="utf-8")
    for said in ("one", "two and more"):
        source.write_text(f'{text}\nsaid = "{said}"\n', encoding="utf-8")
        printed = output_of(programs / "python", "-c", MODULES, folder=elsewhere)
        assert printed == f"{said} Attention playground []\n"
    stored = {path.name for path in source.parent.glob("__pycache__/*")}
    assert stored and all(name.endswith(".installed.pyc") for name in stored)  # the clone's own are others


def test_the_command_and_its_module_run(programs, elsewhere):
    version = output_of(programs / "attention-playground", "--version", folder=elsewhere)
    assert version.startswith("attention-playground ")
    assert output_of(programs / "python", "-m", "attention_playground", "--version", folder=elsewhere) == version


def test_what_does_not_exist_is_not_found(programs, elsewhere):
    lines = "from importlib.util import find_spec; print(find_spec('attention_playground.nothing'))"
    assert output_of(programs / "python", "-c", lines, folder=elsewhere) == "None\n"
