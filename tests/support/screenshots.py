"""Take the README's pictures by driving the app: `python -m tests.support.screenshots`, or with names of some of them.

Each picture is a function that puts the page into a state and returns the rectangle to cut out, all of one shape. They
show TinyGPT in light mode and English, and are small enough to live in the repository.
"""

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from PIL import Image

from tests.support.visitor import open_tab

ROOT = Path(__file__).parents[2]
READY = "#pg-start_way [data-run]"
LATE = 120_000  # milliseconds
COLORS = 64
WIDTH, HEIGHT = 1280, 800  # pixels of every picture
Box = dict[str, float]


def below(page, selector: str) -> Box:
    """Return the rectangle of a picture's size, as wide as the page, whose top is a little above an element."""
    return {"x": 0, "y": max(page.locator(selector).first.bounding_box()["y"] - 8, 0), "width": WIDTH, "height": HEIGHT}


def open_view(page, tab: str, view: str = "", part: str = "") -> None:
    """Open a tab by its label, and one of its views, and wait until a part of it is drawn."""
    open_tab(page, tab)
    if view:
        page.locator(f".pg-view:visible[data-key={view}]").click()
    if part:
        page.locator(f"#pg-{part} [data-run]").wait_for(timeout=LATE)


def start(page) -> Box:
    """Show the next tokens and the model as a picture, as on an untouched page once the picture has ended."""
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})  # the picture is as high as the window
    page.locator("#pg-start_curve .js-plotly-plot .scatterlayer").wait_for(timeout=LATE)
    page.wait_for_timeout(700)
    return below(page, "body")


def attention_map(page) -> Box:
    """Show all heads, and the map of an induction head on a text that repeats."""
    open_view(page, "Attention", "map", "map_plot")
    page.get_by_role("textbox", name="Prompt").fill(
        "Mrs Pemberton keeps seven grey geese behind the mill, and Mrs Pemberton keeps seven grey geese"
    )
    page.locator("#pg-tokens .pg-chip").nth(18).wait_for(timeout=LATE)
    page.get_by_role("button", name="Head 7.7", exact=True).first.click()
    page.wait_for_timeout(1500)
    page.mouse.move(0, 0)
    return below(page, "#pg-overview_heads")


def sampling(page) -> Box:
    """Show four strategies side by side, with one token of the last one explained."""
    open_view(page, "Sampling", "side_by_side", "side_by_side_texts")
    page.wait_for_function(
        "() => document.querySelector('#pg-side_by_side_texts [data-part]').dataset.over", timeout=LATE
    )
    page.locator(".pg-race-row").nth(3).locator(".pg-reading-token").nth(6).click()
    page.wait_for_timeout(700)
    return below(page, "#pg-side_by_side_texts")


PICTURES: dict[str, Callable[[object], Box]] = {"start": start, "map": attention_map, "sampling": sampling}


def take(browser, url: str, name: str) -> None:
    """Write one picture to docs/."""
    page = browser.new_page(viewport={"width": WIDTH, "height": 1500}, color_scheme="light", locale="en-US")
    page.goto(url)
    page.locator(READY).wait_for(timeout=LATE)
    box = PICTURES[name](page)
    picture = Image.open(io.BytesIO(page.screenshot(clip=box)))
    few = picture.convert("RGB").quantize(COLORS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    path = ROOT / "docs" / f"{name}.png"
    few.save(path, optimize=True)
    print(f"{path.relative_to(ROOT)}: {few.size[0]} x {few.size[1]}, {path.stat().st_size // 1000} kB")
    page.close()


def main(names: list[str]) -> None:
    """Start the app, take the pictures, stop it."""
    import shutil

    from playwright.sync_api import sync_playwright

    command = [sys.executable, "app.py", "--offline"]
    told = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=told
    ) as app:
        try:
            url = app.stdout.readline().split()[-1]
            with sync_playwright() as p:
                browser = p.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
                for name in names or PICTURES:
                    take(browser, url, name)
        finally:
            app.terminate()


if __name__ == "__main__":
    main(sys.argv[1:])
