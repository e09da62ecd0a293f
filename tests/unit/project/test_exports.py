"""Every figure is taken away through the one menu of static/exports.js."""

import re
from pathlib import Path

import pytest

STATIC = Path(__file__).parents[3] / "static"
SCRIPTS = {path.name: path.read_text(encoding="utf-8") for path in STATIC.glob("*.js")}
# What makes files: formats.js how, exports.js the menu, the report a file of its own, the state a link as a file.
MAKERS = {"formats.js", "exports.js", "report.js", "address.js"}


def test_no_kind_saves_files_its_own_way():
    own = re.compile(r"(?<![.\w])(?:save|csv|npz|parquet)\(|createObjectURL|[{,] download\b.?:|pg-foot\b")
    found = {name: own.findall(code) for name, code in SCRIPTS.items() if name not in MAKERS}
    assert {name: hits for name, hits in found.items() if hits} == {"training.js": [", download:"]}  # the trained model


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_what_tells_its_source_has_the_menu(name: str):
    if re.search(r"payload\.source|\bsource\b.*\} = payload", SCRIPTS[name]) and name not in MAKERS:
        assert re.search(r"\bexporting\(|\bmountPlot\(", SCRIPTS[name]), name
