"""The page's modules as one script: all of them are in it, in order, and what cannot be joined is refused.

That it does what the modules do is seen in a browser (tests/js/test_joined.py).
"""

import re

import pytest

from tests.support.scripts import STATIC
from viz.server.assets import MAIN, POLICY, read
from viz.server.headers import WORKER
from viz.server.joined import ALONE, FINDER, LEARN, VIEWER, alone, hand_on, join, joined, module, order

RAW = read(STATIC)
SENT = joined(RAW)


def modules(**texts: str):
    return {f"{name}.js": module(f"{name}.js", text) for name, text in texts.items()}


def text(name: str) -> str:
    return SENT.files[name].body.decode()


def named(script: str) -> list[str]:
    """The modules that a script has."""
    return re.findall(r"^// (\S+\.js)\nconst \$", text(script), re.MULTILINE)


def test_every_module_is_in_one_script():
    every = [name for name in RAW.files if name.endswith(".js") and not name.startswith("vendor/")]
    have = [*named(MAIN), *named(LEARN), *named(FINDER), *named(VIEWER)]
    assert sorted([*have, WORKER, POLICY, ALONE]) == sorted(every) and len(have) > 130
    assert named(MAIN)[-1] == MAIN and all(name.startswith("learn/") for name in named(LEARN))
    assert all(name.startswith("page/search/") for name in named(FINDER)) and len(named(FINDER)) == 4
    assert all(name.startswith("viewer/") for name in named(VIEWER)) and len(named(VIEWER)) > 10
    assert named(WORKER) == ["page/server/line.js", WORKER]  # whole: it has no page to take it from


def test_the_viewer_alone_asks_for_nothing_and_is_small():
    found = alone(STATIC)
    assert not re.search(r"^(?:import|export) .* from ", found.script, re.MULTILINE)
    assert len(found.script) + len(found.style) < 150_000
    assert all(color in found.style for color in ("--pg-text: #1d2330", ".pg-viewer-head", ".pg-lines-token"))


def test_what_is_imported_has_run_before():
    scripts = {name: module(name, RAW.files[name].body.decode()) for name in named(MAIN)}
    at = {name: n for n, name in enumerate(scripts)}
    links = [(other, name) for name, each in scripts.items() for other in each.imports]
    assert len(links) > 300 and all(at[other] < at[name] for other, name in links)


def test_a_module_that_is_in_a_script_hands_on_what_that_has():
    for name in [*named(MAIN), *named(LEARN), *named(FINDER), *named(VIEWER)]:
        if name not in (MAIN, LEARN, FINDER, VIEWER):
            assert re.fullmatch(
                r'import \{ modules \} from "\.[^"]+(main|learn|finder|overlay)\.js";\n(export const .*\n)?', text(name)
            )
    assert text("page/dom.js").startswith('import { modules } from "../main.js";\nexport const { ')


def test_other_files_and_the_address_stay_as_they_are():
    assert SENT.digest == RAW.digest and SENT.files.keys() == RAW.files.keys()
    assert all(SENT.files[name] == file for name, file in RAW.files.items() if not name.endswith(".js"))
    assert all(SENT.files[name] == file for name, file in RAW.files.items() if name.startswith("vendor/"))


def test_modules_run_in_the_order_of_their_imports():
    some = modules(main='import "./b.js";\nimport "./a.js";', a='import "./c.js";', b='import "./c.js";', c="")
    assert order(some, "main.js") == ["c.js", "b.js", "a.js", "main.js"]


def test_a_circle_is_refused():
    with pytest.raises(ValueError, match=r"^b\.js imports itself by way of others$"):
        order(modules(main='import "./b.js";', b='import "./c.js";', c='import "./b.js";'), "main.js")


@pytest.mark.parametrize(
    "line",
    [
        "export default 1;",
        "export let a = 1;",
        "export { a };",
        'export * from "./b.js";',
        'import a from "./b.js";',
        'import { a } from "elsewhere";',
        "await b();",
        "const a = await b();",
    ],
)
def test_what_is_not_known_is_refused(line):
    with pytest.raises(ValueError, match=rf"^main\.js cannot be joined with others: {re.escape(line)}$"):
        join(modules(main=f"const x = 1;\n{line}\n", b=""), "main.js")


@pytest.mark.parametrize("exports", ["export const a = 1;", "export const a = 1,\n  b = 2;", "const a = 1, b = 2;"])
def test_a_name_that_is_not_found_among_the_exports_is_refused(exports):
    some = modules(main='import { a as c, b } from "./one.js";\n', one=exports)
    with pytest.raises(ValueError, match=r"^main\.js imports what one\.js does not export: (a, )?b$"):
        join(some, "main.js")


def test_a_script_takes_from_others_what_they_have():
    some = modules(late='import { a as b } from "./one.js";\nimport "./own.js";', one="export const a = 1;", own="")
    found = join(some, "late.js", {"one.js": "main.js"})
    assert found.startswith('import { modules as $from_0 } from "./main.js";\nconst $one = $from_0["one.js"];\n')
    assert "const { a: b } = $one;" in found and found.count("(() => {") == 2


def test_a_module_without_exports_is_only_run():
    assert hand_on(module("a/b.js", "x();"), "main.js") == 'import { modules } from "../main.js";\n'
