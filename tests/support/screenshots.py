"""The README's pictures, made by driving the app: `python -m tests.support.screenshots`, or names of some of them.

Each is a function that puts the page into a state and returns what is cut out of it. They are of TinyGPT, light,
English, and small enough to live in the repository.
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
COLORS = 96
Box = dict[str, float]


def around(page, *selectors: str, pad: int = 8) -> Box:
    """The smallest rectangle of the page that holds all of these, with a margin."""
    boxes = [page.locator(selector).first.bounding_box() for selector in selectors]
    left, top = min(box["x"] for box in boxes) - pad, min(box["y"] for box in boxes) - pad
    right = max(box["x"] + box["width"] for box in boxes) + pad
    bottom = max(box["y"] + box["height"] for box in boxes) + pad
    return {"x": max(left, 0), "y": max(top, 0), "width": right - max(left, 0), "height": bottom - max(top, 0)}


def open_view(page, tab: str, view: str = "", part: str = "") -> None:
    """Open a tab by its label, and one of its views, and wait until a part of it is drawn."""
    open_tab(page, tab)
    if view:
        page.locator(f".pg-view:visible[data-key={view}]").click()
    if part:
        page.locator(f"#pg-{part} [data-run]").wait_for(timeout=LATE)


def start(page) -> Box:
    """What an untouched page shows."""
    page.wait_for_timeout(700)
    return around(page, "#pg-frame", "#pg-start_next", "#pg-start_way")


def overview(page) -> Box:
    """All heads, and two of them as lines."""
    open_view(page, "Attention", "map", "map_plot")
    page.get_by_role("textbox", name="Prompt").fill(
        "Mrs Pemberton keeps seven gray geese behind the mill, and Mrs Pemberton keeps seven gray geese"
    )
    page.locator("#pg-tokens .pg-chip").nth(18).wait_for(timeout=LATE)
    page.locator(".pg-view[data-key=lines]").click()
    for layer, head, keys in ((4, 1, []), (7, 1, ["Shift"])):
        page.get_by_role("button", name=f"Head {layer}.{head}", exact=True).first.click(modifiers=keys)
    page.locator("#pg-lines_links [data-run]").wait_for(timeout=LATE)
    page.mouse.move(0, 0)
    return {"x": 0, "y": 0, "width": 1280, "height": 860}


def sampling(page) -> Box:
    """Four strategies beside one another, one token of the last explained."""
    open_view(page, "Sampling", "side_by_side", "side_by_side_texts")
    page.get_by_label("New tokens").fill("40")
    page.wait_for_timeout(600)
    page.locator("#pg-side_by_side_texts [data-name=start]").click()
    page.wait_for_function(
        "() => document.querySelector('#pg-side_by_side_texts [data-part]').dataset.over", timeout=LATE
    )
    page.locator(".pg-race-row").nth(3).locator(".pg-reading-token").nth(6).click()
    page.wait_for_timeout(700)
    box = around(page, ".pg-strat", ".pg-race-row >> nth=3")
    return box | {"x": 24, "y": box["y"] - 36, "width": 1232, "height": box["height"] + 36}


def lens(page) -> Box:
    """What TinyGPT would answer after each block."""
    open_view(page, "Predictions", "lens", "lens_table")
    return around(page, "#pg-lens_table table", "#pg-lens_table h2")


def training(page) -> Box:
    """A run of the task in which induction heads form, to its end."""
    open_view(page, "Training")
    page.locator("#pg-training_lab").get_by_role("button", name="Start").click()
    page.locator("p.pg-train-line strong", has_text="Done").wait_for(timeout=3 * LATE)
    page.wait_for_timeout(1500)
    return {"x": 0, "y": 0, "width": 1280, "height": 900}


PICTURES: dict[str, Callable[[object], Box]] = {
    "start": start,
    "page": overview,
    "sampling": sampling,
    "lens": lens,
    "training": training,
}


def take(browser, url: str, name: str) -> None:
    """One picture into docs/."""
    page = browser.new_page(viewport={"width": 1280, "height": 1500}, color_scheme="light", locale="en-US")
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
