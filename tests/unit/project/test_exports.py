"""Every figure is taken away through the one menu of static/export/menu.js."""

import re

import pytest

from tests.support.scripts import STATIC
from viz.words import LANGUAGES, words

SCRIPTS = {
    path.relative_to(STATIC).as_posix(): path.read_text(encoding="utf-8")
    for path in STATIC.rglob("*.js")
    if path.parent.name != "vendor"
}
# What makes files: how, the menu, the report a file of its own, the state a link as a file.
MAKERS = {"export/files.js", "export/menu.js", "export/report.js", "page/address/share.js"}


def test_no_kind_saves_files_its_own_way():
    own = re.compile(r"(?<![.\w])(?:save|csv|npz|parquet)\(|createObjectURL|[{,] download\b.?:|pg-foot\b")
    found = {name: own.findall(code) for name, code in SCRIPTS.items() if name not in MAKERS}
    other = {"parts/run.js": [", download:", ", download:"]}  # models that were trained, and their adapters
    other |= {"views/assistant/pair_table.js": ["save("]}  # pairs as JSON lines, to be loaded again
    other |= {"views/effects/steer.js": ["save("]}  # vectors, to be opened again or read by llama.cpp
    other |= {"learn/ending.js": ["save("]}  # what was learned, as a page
    other |= {"viewer/viewer.js": ["save(", "csv(", "save("]}  # attention arrays, also alone in a file
    assert {name: hits for name, hits in found.items() if hits} == other


def test_what_tells_its_source_has_the_menu():
    # Only a part draws; what other scripts are given of a payload they do not show by themselves.
    telling = {
        name
        for name, code in SCRIPTS.items()
        if re.search(r"payload\.source|\bsource\b.*\} = payload|\btitled\(", code)
        and "define(" in code
        and name not in MAKERS
    }
    without = {name for name in telling if not re.search(r"\b(?:exporting|mountPlot|titled)\(", SCRIPTS[name])}
    assert len(telling) > 15 and without == set()
    assert "exporting(" in SCRIPTS["parts/titled.js"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_menu_says_what_reads_a_format_that_the_project_cannot(language):
    requirements = (STATIC.parent / "requirements.txt").read_text(encoding="utf-8")
    assert "pyarrow" in requirements or "pyarrow" in words(language)["exports.parquet"]
