"""Two of the visitors are real: Chromium types and clicks on the page itself, and says when a picture is painted."""

import asyncio
import random
import shutil
import time

from benchmarks.load.ledger import OBJECTS, SUBJECTS, VERBS, Ledger
from benchmarks.load.report import Tally
from benchmarks.workbench import FLAGS, TIMED
from viz.characters import token_chips
from viz.words import words

READY = "#pg-map_plot [data-run]"
CHIPS = "[...document.querySelectorAll('#pg-tokens .pg-chip')].map((chip) => chip.textContent)"
RUN = "(document.querySelector('#pg-map_plot [data-run]')?.dataset.run ?? '')"


async def browse(browser, number: int, url: str, ledger: Ledger, tally: Tally, until: float) -> None:
    """One visitor with a window of its own."""
    context = await browser.new_context(viewport={"width": 1280, "height": 900})
    page = await context.new_page()
    chance, errors = random.Random(number), tally.errors
    page.on("pageerror", lambda error: errors.update([f"browser: {error.stack or error}"[:300]]))
    began = time.perf_counter()
    try:
        await page.goto(f"{url}?lang=en")
        await page.locator(READY).wait_for(timeout=120_000)
        tally.add("browser: open the page", time.perf_counter() - began)
        while time.monotonic() < until:
            await _type(page, number, chance, ledger, tally)
            for _ in range(5):
                await _head(page, number, chance, ledger, tally)
                await asyncio.sleep(chance.uniform(0.5, 1.5))
    except Exception as error:  # what Playwright raises where something never happened
        errors[f"browser: {type(error).__name__} {str(error)[:100]}"] += 1
    finally:
        await context.close()


async def _type(page, number: int, chance: random.Random, ledger: Ledger, tally: Tally) -> None:
    text = f"{number}z{chance.randrange(100)} {' '.join(chance.choice(words) for words in (SUBJECTS, VERBS, OBJECTS))}"
    run, _ = ledger.names(text, number)
    box = page.locator("#prompt textarea")
    await box.fill("")
    await box.press_sequentially(text, delay=130)
    began = time.perf_counter()
    await page.wait_for_function(f"(run) => {RUN}.startsWith(run)", arg=run, timeout=120_000)
    tally.add("browser: last key to map", time.perf_counter() - began, number)
    shown, wanted = (
        await page.evaluate(CHIPS),
        [chip["text"] for chip in token_chips(ledger.lm.encode(text), words("en"))],
    )
    if shown != wanted:
        tally.crossings.append(f"browser {number}: the chips of “{text}” are {shown}")


async def _head(page, number: int, chance: random.Random, ledger: Ledger, tally: Tally) -> None:
    config, before = ledger.lm.config, await page.evaluate(RUN)
    layer, head = chance.randrange(config.n_layer), chance.randrange(config.n_head)
    if before.endswith(f" {layer}.{head}"):
        return
    act = f"document.querySelector('.pg-head[aria-label=\"Layer {layer}, head {head}\"]').click()"
    took, _ = await page.evaluate(TIMED, ["map_plot", act])
    tally.add("browser: click to painted", took / 1000, number)
    run = await page.evaluate(RUN)
    if run != f"{before.split(' ')[0]} {layer}.{head}":
        tally.crossings.append(f"browser {number}: {run} after a click on {layer}.{head} of {before}")


async def browsers(count: int, url: str, ledger: Ledger, tally: Tally, until: float) -> None:
    """So many of them, in one Chromium."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        await asyncio.gather(*(browse(browser, 1000 + n, url, ledger, tally, until) for n in range(count)))
        await browser.close()
