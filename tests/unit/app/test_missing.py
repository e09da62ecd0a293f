"""A start without a package: one sentence where it is needed, the page where it is not."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CODE = """
import builtins, os, sys, urllib.request

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
import app

say = builtins.print

def served(*what, **how):
    say(*what, **how)
    if what and str(what[0]).startswith("Attention playground:"):
        say(urllib.request.urlopen(what[0].split()[-1]).status, flush=True)
        os._exit(0)

builtins.print = served
app.main({arguments})
"""


def started(missing: set[str], *arguments: str) -> subprocess.CompletedProcess:
    code = CODE.format(missing=missing, arguments=["--offline", *arguments])
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )


@pytest.mark.parametrize("name", ["gradio", "pandas", "plotly", "torch"])
def test_what_is_missing_is_said_in_one_sentence(name):
    done = started({name})
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.splitlines()[-1] == (
        f"The package {name} is missing. Install it with: pip install -r requirements.txt"
    )
    assert "Traceback" not in done.stderr


def test_the_page_is_served_without_what_it_can_do_without():
    done = started({"numba", "ray", "mcp", "transformers", "peft"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "200" and "Traceback" not in done.stderr
