"""How the page's scripts and styles come to it: before anything is seen, once, and in any order."""

import re

import pytest

from tests.browser.conftest import FIRST, READY, blank_page, load
from tests.support.visitor import SOON, expect

pytestmark = pytest.mark.browser


@pytest.mark.long
def test_parts_that_are_there_before_the_scripts_are_drawn_later(profile, app_url):
    page, wrong = blank_page(profile), []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    whole = profile.request.get(app_url).text()
    (first,) = re.findall(r'<script type="module" src="(playground/static/[^"]+)"></script>', whole)
    bare = whole.replace(f'<script type="module" src="{first}"></script>', "")
    page.route(app_url, lambda route: route.fulfill(body=bare, content_type="text/html"))
    page.goto(app_url)
    page.wait_for_function("() => window.playground?.waiting?.length > 5", timeout=SOON)
    frame = page.locator(".gradio-container")
    assert frame.evaluate("node => getComputedStyle(node).maxWidth") == "2560px"  # styled before any script of ours
    assert page.locator("h1.pg-title").count() == 0
    page.add_script_tag(url=first, type="module")
    page.locator(FIRST).wait_for(timeout=SOON)
    expect(page.locator("h1.pg-title")).to_be_visible()
    parts = page.locator("[data-part]").evaluate_all("nodes => nodes.map((node) => node.dataset.part)")
    assert len(parts) == len(set(parts)) > 12 and not wrong
    page.close()


def test_the_page_has_one_name_and_asks_for_its_scripts_once(profile, app_url, kept):
    page = blank_page(profile)
    load(page, kept.watch, app_url, "", READY)
    own = page.evaluate("Object.keys(window).filter((name) => /playground/i.test(name))")
    assert own == ["playground"]
    sizes = """() => performance.getEntriesByType("resource")
        .filter(({ name }) => name.includes("/playground/static/")).map((each) => each.transferSize)"""
    assert len(page.evaluate(sizes)) == 2  # all scripts as one, and all styles
    page.goto(f"{app_url}?lang=zh")
    page.locator(FIRST).wait_for(timeout=SOON)
    found = page.evaluate(sizes)
    assert len(found) == 2 and not any(found)  # from the browser's own store
    page.close()


def test_every_script_and_the_styles_are_sent_packed(profile, app_url):
    answer = profile.request.get(app_url)
    whole = answer.text()
    names = re.findall(r'(?:href|src)="(playground/static/[^"]+)"', whole)
    assert len(names) == 2 and len(whole) < 400_000 and answer.headers["content-encoding"] == "gzip"
    assert whole.index("<base ") < whole.index(names[0]) < whole.index(names[-1]) < whole.index("window.gradio_config")
    for name in (names[0], names[-1]):
        found = profile.request.get(app_url + name, headers={"accept-encoding": "gzip, br"})
        assert found.status == 200 and found.headers["content-encoding"] == "gzip"
        assert found.headers["cache-control"] == "public, max-age=31536000, immutable"
    missing = profile.request.get(app_url + names[0].replace("/static/", "/static/0"))
    assert missing.status == 404 and missing.headers["cache-control"] == "no-store"
