"""The metadata in pyproject.toml: bounds, extras and Python versions."""

import ast
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[3]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
OLDEST = (3, 11)


def pinned(file: str) -> dict[str, Requirement]:
    """Return the packages of a file of requirements, without the files that it includes."""
    lines = (ROOT / file).read_text(encoding="utf-8").split("\n")
    return {each.name: each for each in map(Requirement, [line for line in lines if line and line[:2] != "-r"])}


def test_bounds_and_exact_versions_name_the_same_packages():
    lower = {each.name: each for each in map(Requirement, PROJECT["dependencies"])}
    exact = pinned("requirements.txt")
    assert set(lower) == set(exact)
    for name, requirement in exact.items():
        versions = [each.version for each in requirement.specifier if each.operator == "=="]
        assert all(lower[name].specifier.contains(version) for version in versions)


@pytest.mark.parametrize(("extra", "file"), [("dev", "requirements-dev.txt"), ("cluster", "requirements-cluster.txt")])
def test_an_extra_names_the_packages_of_its_file(extra, file):
    named = {(each.name, *each.extras): each for each in map(Requirement, PROJECT["optional-dependencies"][extra])}
    written = {(each.name, *each.extras) for each in pinned(file).values()}
    assert set(named) - {("gradio", "mcp")} == written


def test_the_oldest_python_is_one_number():
    oldest = ".".join(map(str, OLDEST))
    assert PROJECT["requires-python"] == f">={oldest}"
    assert PYPROJECT["tool"]["ruff"]["target-version"] == f"py{oldest.replace('.', '')}"
    assert PYPROJECT["tool"]["mypy"]["python_version"] == oldest
    versions = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if " :: Python :: " in each]
    assert versions == ["3.11", "3.12", "3.13", "3.14"]
    said = f"Python {versions[0]} to {versions[-1]}"
    for page in ("README.md", "docs/install.md"):
        assert said in (ROOT / page).read_text(encoding="utf-8")
    front = yaml.safe_load((ROOT / "README.md").read_text(encoding="utf-8").split("---\n")[1])
    assert front["python_version"] in versions


def test_every_file_is_read_by_the_oldest_python():
    files = [*(ROOT / "model").rglob("*.py"), *(ROOT / "viz").rglob("*.py"), *(ROOT / "package").rglob("*.py")]
    for path in (ROOT / "app.py", *files):
        ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=OLDEST)
