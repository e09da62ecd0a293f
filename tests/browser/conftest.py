"""A real server, a real Chromium: the app in a process of its own, driven through Playwright."""

import re
from dataclasses import dataclass, field
from typing import Any

import pytest

from model.api import load_model
from tests.support.elsewhere import App
from tests.support.light import CHROMIUM, quick_stacks, stay_light
from tests.support.models.small_models import save_tiny
from tests.support.visitor import SOON, open_tab

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # nothing but the app can be reached
)
DESKTOP = {"width": 1280, "height": 900}
FIRST = "#pg-start_next [data-run]"  # what an untouched page shows first
READY = "#pg-map_plot [data-run]"  # the first map, on another tab
# What the framework says of a page that is left while it is answered.
LEFT = re.compile(r"^AbortError: signal is aborted|^Unexpected error Connection errored out")
PASSED = pytest.StashKey[bool]()


@pytest.fixture(scope="session")
def start_app(tmp_path_factory):
    """Start `python app.py` with options, after some imports; return its address.

    Its log is printed where it does not come up.
    """
    apps = []

    def start(*options: str, imports: tuple[str, ...] = ()) -> str:
        apps.append(App(options, tmp_path_factory.mktemp("app") / "log", imports))
        line = apps[-1].line()
        if not line.startswith("Attention playground:"):
            apps[-1].kill()
            pytest.fail(f"the app did not start:\n{line}{apps[-1].log.read_text(encoding='utf-8')}")
        return line.split()[-1]

    yield start
    for each in apps:
        each.kill()  # how it stops when asked to is another test's subject


@pytest.fixture(scope="session")
def app_url(start_app):
    """The address of an app with the bundled model."""
    return start_app("--offline", "--max-tokens", "512")


@pytest.fixture(scope="session")
def tiny_app(start_app, tmp_path_factory):
    """The address of an app whose first model is tiny: for what trains, where the model only has to be there."""
    return start_app("--offline", "--model", str(save_tiny(tmp_path_factory.mktemp("tiny")).path))


@pytest.fixture(scope="session")
def lm():
    """The model of `app_url`, in the test's own process."""
    return load_model("tinygpt", offline=True)


@pytest.fixture(scope="session")
def profile(playwright_driver, tmp_path_factory):
    """Debian's Chromium where it is installed, else the one Playwright finds; every page of it shares one profile.

    The profile is a folder, not a private window: only there does Chromium keep what it fetched also compiled, and
    compiling Plotly is a quarter of what a page costs.
    """
    playwright, driver = playwright_driver
    playwright.expect.set_options(timeout=SOON)
    stay_light(playwright.Page, playwright.Locator)
    quick_stacks()
    try:
        folder = tmp_path_factory.mktemp("profile")
        chromium = driver.chromium.launch_persistent_context(
            folder, executable_path=CHROMIUM, args=list(FLAGS), viewport=DESKTOP
        )
    except playwright.Error as error:
        pytest.skip(f"no Chromium to drive; install it with `playwright install chromium`: {error}")
    chromium.set_default_timeout(SOON)
    yield chromium
    chromium.close()


def blank_page(profile, viewport: dict = DESKTOP, color_scheme: str = "light", locale: str = "en-US", page=None):
    """An empty page of a size, for a reader who likes it light or dark, in a language; `page`: one to use again."""
    page = page or profile.new_page()
    page.bring_to_front()
    page.set_viewport_size(viewport)
    page.emulate_media(color_scheme=color_scheme)
    if locale != "en-US":
        agent = page.evaluate("navigator.userAgent")
        session = profile.new_cdp_session(page)
        session.send("Emulation.setUserAgentOverride", {"userAgent": agent, "acceptLanguage": locale})
    return page


@dataclass(frozen=True)
class Shelf:
    """Pages to use again: opening the app in one that showed it before takes half of what a fresh one does."""

    profile: Any
    free: list[Any] = field(default_factory=list)

    def take(self, options: dict):
        """An empty page; in a language of its own always a fresh one, which `give` closes."""
        page = self.free.pop() if self.free and "locale" not in options else None
        return blank_page(self.profile, page=page, **options)

    def give(self, page, options: dict) -> None:
        """Take a page back as a new visitor would find it."""
        if page.is_closed():
            return
        page.evaluate("""() => {
          if (!location.protocol.startsWith("http")) return; // an empty page has no storage
          for (const key of ["playground-theme", "playground-mistakes"]) localStorage.removeItem(key);
          addEventListener("pagehide", () => sessionStorage.clear());
        }""")
        if "locale" in options or len(self.free) == 2:
            page.close()
            return
        page.goto("about:blank")
        page.mouse.move(0, 0)
        self.free.append(page)


@pytest.fixture(scope="session")
def shelf(profile):
    return Shelf(profile)


@dataclass(frozen=True)
class Watch:
    """What went wrong on the pages of a test: errors of scripts, and addresses beyond the app."""

    errors: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    over_pages: list[tuple[Any, dict]] = field(default_factory=list)

    def over(self, page, url: str) -> None:
        """Look at a page from now on."""
        errors, elsewhere = self.errors, self.elsewhere

        def look(request):
            if not request.url.startswith((url, "data:", "blob:", "about:")):
                elsewhere.append(request.url)

        heard = {
            "pageerror": lambda error: errors.append(str(error)),
            "console": lambda message: errors.append(message.text) if message.type == "error" else None,
            "dialog": lambda dialog: (errors.append(f"dialog: {dialog.message}"), dialog.dismiss()),
            "request": look,
        }
        for event, hear in heard.items():
            page.on(event, hear)
        self.over_pages.append((page, heard))

    def end(self) -> None:
        """Look no more."""
        while self.over_pages:
            page, heard = self.over_pages.pop()
            for event, hear in heard.items():
                page.remove_listener(event, hear)

    def reload(self, page) -> None:
        """Load a page again; that what it was answered ended there is no fault of it."""
        self.check()
        page.reload()
        self.errors[:] = [error for error in self.errors if not LEFT.search(error)]

    def forgive(self, pattern: str) -> None:
        """Leave out the errors that a test asked for; there has to be one."""
        kept = [error for error in self.errors if not re.search(pattern, error)]
        assert len(kept) < len(self.errors), pattern
        self.errors[:] = kept

    def check(self) -> None:
        """Fail where anything went wrong since the last check."""
        errors, elsewhere = self.errors.copy(), self.elsewhere.copy()
        self.errors.clear()
        self.elsewhere.clear()
        assert not errors
        assert not elsewhere


def load(page, watch: Watch, url: str, query: str, ready: str) -> None:
    """Open an address and wait until the page shows what it is to show."""
    watch.over(page, url)
    page.goto(url + query)
    if ready == READY and "#" not in query:
        page.locator(FIRST).wait_for(timeout=SOON)
        open_tab(page, "Attention")
    page.locator(ready).wait_for(timeout=SOON)


@pytest.fixture
def open_page(shelf, app_url):
    """Open the page at a size; at the end no script may have failed and no other host been asked for anything."""
    pages, watch = [], Watch()

    def open_at(query: str = "", *, url: str = app_url, ready: str = FIRST, **options):
        page = shelf.take(options)
        pages.append((page, options))
        load(page, watch, url, query, ready)
        return page

    open_at.reload, open_at.forgive = watch.reload, watch.forgive
    yield open_at
    watch.end()
    for page, options in pages:
        shelf.give(page, options)
    watch.check()


@dataclass(frozen=True)
class Kept:
    """The pages that a file's tests hand on to one another, by how they were opened."""

    pages: dict[str, tuple[Any, dict]] = field(default_factory=dict)
    watch: Watch = field(default_factory=Watch)


@pytest.fixture(scope="module")
def kept(shelf):
    """What `same_page` keeps until the file's last test."""
    kept = Kept()
    yield kept
    kept.watch.end()
    for page, options in kept.pages.values():
        shelf.give(page, options)
    kept.watch.check()  # what was told after the last test had ended


@pytest.fixture
def same_page(request, shelf, app_url, kept):
    """Like open_page, but a page that an earlier test of the file opened in the same way is handed on as it is.

    For tests that first put into place all they rely on. After a test that failed its pages are closed.
    """

    def open_at(query: str = "", *, url: str = app_url, ready: str = FIRST, **options):
        key = repr((url, query, sorted(options.items())))
        if key not in kept.pages:
            kept.pages[key] = shelf.take(options), options
            load(kept.pages[key][0], kept.watch, url, query, ready)
        page, _ = kept.pages[key]
        page.bring_to_front()
        page.mouse.move(0, 0)
        return page

    yield open_at
    if not request.node.stash.get(PASSED, False):
        kept.watch.end()
        while kept.pages:
            kept.pages.popitem()[1][0].close()
    kept.watch.check()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Tell `same_page` how the test went."""
    report = yield
    if report.when == "call":
        item.stash[PASSED] = report.passed
    return report
