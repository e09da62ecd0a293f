"""The page's scripts and styles as they are served, and what its head says of them."""

import gzip
import re

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Route
from starlette.testclient import TestClient

from tests.support.scripts import STATIC
from viz.server.assets import (
    MAIN,
    POLICY,
    ROUTE,
    STUB,
    STYLE,
    VIEWER_STYLE,
    HeadMiddleware,
    answer,
    policy_of,
    read,
    stylesheet,
    tags,
)
from viz.server.headers import cached, hashed
from viz.work.playground import Options

ASSETS = read(STATIC)
CLIENT = TestClient(Starlette(routes=[Route(ROUTE, answer(ASSETS))]))
MODULES = sorted(path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*.js") if path.parent.name != "vendor")

LATER, WORKER = "learn/learn.js", "page/server/line_worker.js"  # fetched when a lesson is opened; run beside the pages
FINDER = "page/search/finder.js"  # fetched when the search is opened
FINDS = {FINDER, *(f"page/search/{name}.js" for name in ("entries", "ranking", "ways"))}
VIEWER, ALONE = "viewer/overlay.js", "viewer/alone.js"  # fetched with attention arrays; in a file of its own
VIEWS = {name for name in MODULES if name.startswith("viewer/") and name != ALONE}
LATE = {WORKER, POLICY, ALONE, *FINDS, *VIEWS}
AT_ONCE = [name for name in MODULES if not name.startswith("learn/") and name not in LATE]


def ask(name: str, encoding: str = "identity", **headers: str):
    """An answer as it comes, not unpacked."""
    with CLIENT.stream("GET", f"/{ASSETS.address(name)}", headers={"accept-encoding": encoding, **headers}) as found:
        return found, b"".join(found.iter_raw())


@pytest.mark.parametrize("name", [MAIN, STYLE, "page/mount.js", "vendor/modern-screenshot.min.js"])
def test_a_file_is_sent_as_it_is_or_packed(name):
    plain, body = ask(name)
    assert plain.status_code == 200 and body == ASSETS.files[name].body and "content-encoding" not in plain.headers
    packed, small = ask(name, "gzip, br")
    assert packed.headers["content-encoding"] == "gzip" and gzip.decompress(small) == body and len(small) < len(body)
    for found in (plain, packed):
        assert found.headers["vary"] == "Accept-Encoding" and found.headers["etag"] == ASSETS.files[name].etag
        kind = "text/css" if name.endswith(".css") else "text/javascript"
        assert found.headers["content-type"] == f"{kind}; charset=utf-8"
    same, nothing = ask(name, **{"if-none-match": ASSETS.files[name].etag})
    assert same.status_code == 304 and nothing == b""


@pytest.mark.parametrize("name", ["nothing.js", "style/base.css", "../app.py", "..%2fapp.py", ""])
def test_nothing_else_is_served(name):
    assert ask(name)[0].status_code == 404


def test_another_version_is_not_there():
    assert CLIENT.get(f"/playground/static/{'0' * 16}/{MAIN}").status_code == 404


def test_what_is_there_may_be_kept_for_ever():
    assert "immutable" in cached(f"/{ASSETS.address(MAIN)}")


def test_any_change_is_another_version(tmp_path):
    (tmp_path / "style").mkdir()
    seen = set()
    for name, text in (("a.js", "1"), ("a.js", "2"), ("b.js", ""), ("style/a.css", "a {}"), ("style/b.css", "a {}")):
        (tmp_path / name).write_text(text)
        assert read(tmp_path) == read(tmp_path)
        seen.add(read(tmp_path).digest)
    assert len(seen) == 5


def test_the_head_runs_one_script_and_asks_for_no_other():
    head = tags(ASSETS)
    assert re.findall(r'<script type="module" src="([^"]+)"', head) == [ASSETS.address(MAIN)]
    assert head.count(".js") == 1 and head.index(STUB) < head.index("stylesheet") < head.index(MAIN) and len(STUB) < 200
    assert not re.search(r'(?:src|href)="/', head)  # the app may live in any folder


def test_a_browser_without_scripts_says_so_in_both_languages():
    head = tags(read(STATIC))
    (style,) = re.findall(r"<noscript><style>(.*?)</style></noscript>", head)
    assert "needs JavaScript" in style and "需要 JavaScript" in style
    page = f"<!doctype html><html><head>{head}</head><body></body></html>".encode()
    assert hashed(style.encode()) in policy_of(page, Options())


def test_all_styles_are_one_sheet_the_page_s_own_first():
    sheet = ASSETS.files[STYLE].body
    assert sheet == stylesheet(STATIC / "style") and sheet.startswith((STATIC / "style" / "base.css").read_bytes())
    own = ASSETS.files[VIEWER_STYLE].body  # asked for only with attention arrays
    assert len(own) > 5000 and own not in sheet
    for path in STATIC.rglob("*.css"):
        assert path.read_bytes() in (own if path.parent.name == "viewer" else sheet), path.name


def reached(name: str, seen: set[str]) -> set[str]:
    """The modules that a module imports, and what those import."""
    if name not in seen:
        seen.add(name)
        folder = (STATIC / name).parent
        for other in re.findall(r'^(?:import|.* from) "(\.[^"]+)";', (STATIC / name).read_text(), re.M):
            reached((folder / other).resolve().relative_to(STATIC.resolve()).as_posix(), seen)
    return seen


def test_no_style_looks_for_an_attribute_within():
    """With `:has([...])` of anything around a figure, Chromium looks at all of that for each label that is drawn."""
    for path in (STATIC / "style").rglob("*.css"):
        assert not re.findall(r":has\([^{]*\[", path.read_text(encoding="utf-8")), path.name


def test_no_table_of_fixed_layout_is_as_wide_as_what_it_holds():
    """Firefox makes it 18 million pixels wide: of the table of all heads nothing but their names was seen."""
    for path in (STATIC / "style").rglob("*.css"):
        for rule in re.findall(r"{([^{}]*)}", path.read_text(encoding="utf-8")):
            assert "table-layout: fixed" not in rule or "max-content;" not in rule, path.name


def test_every_module_is_reached_from_the_first():
    assert sorted(reached(MAIN, set())) == AT_ONCE
    assert reached(FINDER, set(AT_ONCE)) - set(AT_ONCE) == FINDS
    assert reached(VIEWER, set(AT_ONCE)) - set(AT_ONCE) == VIEWS
    assert 'import("../../viewer/overlay.js")' in (STATIC / "page" / "menu" / "arrays.js").read_text()
    assert sorted(reached(LATER, reached(MAIN, set())) | LATE) == MODULES
    assert f'import("../{LATER}")' in (STATIC / "guide" / "learn_item.js").read_text()
    assert 'import("./finder.js")' in (STATIC / "page" / "search" / "search.js").read_text()
    assert 'new URL("./line_worker.js", import.meta.url)' in (STATIC / "page" / "server" / "here.js").read_text()
    assert reached(WORKER, set()) == {WORKER, "page/server/line.js"}  # it has no page


def test_files_are_short_and_put_nothing_on_the_window():
    paths = [path for path in sorted(STATIC.rglob("*.[jc]s*")) if path.parent.name != "vendor"]
    texts = {path.relative_to(STATIC).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    assert [name for name, text in texts.items() if len(text.splitlines()) > 400] == []
    own = {name: set(re.findall(r"\b(?:window|globalThis)\.(\w+) = ", text)) for name, text in texts.items()}
    assert {name: each for name, each in own.items() if each} == {"main.js": {"playground"}}  # nothing of the browser's
    asks = {name for name, text in texts.items() if re.search(r"\bwindow\.playground\b", text)}
    assert asks == {"main.js"}


def test_a_folder_can_be_taken_in_at_a_glance():
    folders = [path for path in STATIC.rglob("*") if path.is_dir()]
    files = {folder.relative_to(STATIC): sum(path.is_file() for path in folder.iterdir()) for folder in folders}
    assert len(files) > 20 and {path.as_posix(): n for path, n in files.items() if n > 16} == {}


# --- the page's head ---

PAGE = b'<head><meta charset="utf-8" /><base href="./" /><script>own</script></head>'


def page_client(body: bytes = PAGE, media_type: str = "text/html", root: str = "") -> TestClient:
    """An app of one page with a head of ours."""

    async def page(request):
        return Response(body, media_type=media_type)

    routes = [Route(path, page) for path in ("/", "/other", "/config")]
    return TestClient(Starlette(routes=routes, middleware=[Middleware(HeadMiddleware, tags="<i>")]), root_path=root)


@pytest.mark.parametrize("root", ["", "/attn"])
def test_the_page_s_head_begins_with_ours(root):
    client = page_client(root=root)
    for encoding in ("identity", "gzip"):
        with client.stream("GET", f"{root}/", headers={"accept-encoding": encoding}) as found:
            body = b"".join(found.iter_raw())
        assert found.headers["content-length"] == str(len(body)) and found.headers["vary"] == "Accept-Encoding"
        assert found.headers.get("content-encoding", "identity") == encoding
        body = gzip.decompress(body) if encoding == "gzip" else body
        assert body == PAGE.replace(b"<script>", b"<i><script>")


def test_what_programs_read_first_is_packed():
    client = page_client(b'{"a": 1}' * 99, "application/json")
    with client.stream("GET", "/config", headers={"accept-encoding": "gzip"}) as found:
        body = b"".join(found.iter_raw())
    assert found.headers["content-encoding"] == "gzip" and gzip.decompress(body) == b'{"a": 1}' * 99
    assert client.get("/other").headers.get("content-encoding") is None


def test_other_answers_stay_as_they_are():
    assert page_client().get("/other").content == PAGE
    assert page_client(media_type="text/plain").get("/").content == PAGE
    assert page_client().head("/").content == b""


def test_a_page_that_does_not_say_where_it_is_is_not_sent():
    with pytest.raises(ValueError, match="no <base>"):
        page_client(b"<head></head>").get("/")
