"""The Dockerfile, as far as it can be followed without Docker: its files, its command, its health check."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

import app
from model import version
from package.hook import PACKAGED

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
STEPS = [line.split(maxsplit=1) for line in TEXT.splitlines() if line and not line.startswith("#")]
PORT = "7860"


def step(name: str) -> str:
    """Return the rest of the only line of a kind."""
    (rest,) = [rest for kind, rest in STEPS if kind == name]
    return rest


def copies() -> list[tuple[list[str], str]]:
    """Return the files of each COPY, and where they go."""
    return [(parts[:-1], parts[-1]) for kind, rest in STEPS if kind == "COPY" for parts in [rest.split()]]


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """The folder /app of the image."""
    folder = tmp_path_factory.mktemp("image")
    for files, target in copies():
        for each in files:
            place = folder / target / (Path(each).name if target.endswith("/") else "")
            place.parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (ROOT / each).is_dir() else shutil.copy
            copy(ROOT / each, place)
    return folder


def test_all_that_the_package_holds_is_copied_and_not_ignored():
    copied = {each for files, _ in copies() for each in files}
    assert {*PACKAGED, "requirements.txt"} <= copied and all((ROOT / each).exists() for each in copied)
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert not copied & set(lines) and "!docs/mini_gpt.py" in lines
    assert not {"requirements-cluster.txt", "*.txt"} & set(lines)  # docs/cluster/Dockerfile copies that one


def test_it_installs_the_torch_of_the_requirements_and_runs_as_nobody_special():
    torch = re.search(r"torch==\S+", (ROOT / "requirements.txt").read_text(encoding="utf-8"))
    assert torch and f"{torch[0]} --index-url https://download.pytorch.org/whl/cpu" in TEXT
    assert f"useradd --create-home --uid 1000 {step('USER')}" in TEXT
    assert STEPS[0] == ["FROM", "python:3.12-slim"] and step("EXPOSE") == PORT


def test_its_command_line_is_a_public_server_without_downloads():
    python, script, *arguments = json.loads(step("ENTRYPOINT")) + json.loads(step("CMD"))
    options = app.parse(arguments, {})
    assert (python, script) == ("python", "app.py") and options.public and options.offline
    assert (options.host, str(options.port)) == ("0.0.0.0", PORT)


@pytest.mark.long
def test_its_files_alone_serve_the_page_and_are_healthy(image):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    line = json.loads(step("ENTRYPOINT")) + json.loads(step("CMD"))
    line = [sys.executable, *(port if each == PORT else each for each in line[1:])]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    server = subprocess.Popen(
        line, cwd=image, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert server.stdout.readline().startswith("Attention playground:"), server.stderr.read()[-3000:]
        assert httpx.get(f"http://127.0.0.1:{port}/").status_code == 200
        _, *check = json.loads(step("HEALTHCHECK").partition(" CMD ")[2].replace(PORT, port))
        assert subprocess.run([sys.executable, *check], check=False).returncode == 0
        said = subprocess.run([*line[:2], "--version"], cwd=image, capture_output=True, text=True, check=True).stdout
        assert said == f"attention-playground {version()}\n"
    finally:
        server.kill()
        server.wait(timeout=20)
    assert subprocess.run([sys.executable, *check], check=False, capture_output=True).returncode != 0
