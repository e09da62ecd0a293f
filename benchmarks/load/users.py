"""Visitors that type, click, move sliders, start long work, cancel some of it, leave and come back.

Each knows what it asked for, so every answer is checked: its run, its tokens, its head, its prompt.
"""

import asyncio
import itertools
import json
import random
import re
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import httpx

from benchmarks.load.ledger import ANYBODY, OBJECTS, SUBJECTS, VERBS, Ledger
from benchmarks.load.page import Busy, Failed, Page
from benchmarks.load.report import Tally
from viz.characters import token_chips
from viz.words import words

KEY = 0.13  # seconds between two keys, about 90 words a minute
THINK = (0.3, 1.6)  # seconds between two actions
PASSING = ("key", "slider")  # what the next one overtakes: only those that were quick are answered at all
SAYS_BUSY = ("The server is busy", "The server is still busy", "Another training run is using this server")
VIEWS = {
    "sampling": ("distribution", "temperature", "draws", "side_by_side", "many_samples"),
    "predictions": ("surprise", "guess", "follow", "lens", "logit_parts"),
    "activations": ("one_norm", "neurons", "sizes"),
    "heads": (),
    "effects": ("edits", "sweep"),
    "attention": (),
}
FEED = "side_by_side_feed"  # the stream of races
_NAME = re.compile(r"\b[0-9a-f]{12}\b")
Pictures = list[tuple[str, dict[str, Any]]]


@dataclass(eq=False)
class User:
    """One visitor: a page at a time, and what it did on it."""

    number: int
    client: httpx.AsyncClient
    url: str
    ledger: Ledger
    tally: Tally
    seed: int = 0
    lengths: tuple[int, ...] = (16, 48, 120)  # tokens of a race
    texts: list[dict] = field(default_factory=list)  # races that ended, to be written again by one visitor alone
    _drawing: asyncio.Task | None = None
    _background: set[asyncio.Task] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.random = random.Random(f"{self.seed} {self.number}")
        self.marks = itertools.count()
        self.page = Page(self.client, self.url)

    # --- the page's questions: a new one closes the one before ---

    def draw(self, kind: str) -> None:
        """Ask for a drawing of what is picked now, because of an action of this kind."""
        if self._drawing:
            self._drawing.cancel()
        self._drawing = asyncio.create_task(self._draw(kind))

    async def settled(self) -> None:
        """Wait until the page shows what was asked for last."""
        while task := self._drawing:
            await asyncio.wait((task,))
            if task is self._drawing:
                task.result()
                return

    async def _draw(self, kind: str) -> None:
        began, prompt, heads = time.perf_counter(), self.page.prompt, self.page.selection["heads"]
        pictures = await self.attempt(kind)
        if pictures is not None:
            self.tally.add(kind, time.perf_counter() - began, None if kind in PASSING else self.number)
            self.check(pictures, prompt, heads)

    async def attempt(self, kind: str) -> Pictures | None:
        """Return the pictures that have changed, or None where the server was busy or failed, which is noted."""
        self.tally.open += 1
        try:
            return await self.page.view()
        except Busy as error:
            self.tally.busy[f"{kind}: {error.args[0]}"] += 1
        except (Failed, httpx.HTTPError) as error:
            if self.tally.kills:
                return await self.retried()
            self.failed(kind, error)
        finally:
            self.tally.open -= 1
        return None

    def failed(self, kind: str, error: Exception) -> None:
        """Note what went wrong; where something was killed, that a visitor was told."""
        text = " ".join(map(str, error.args))[:80] or type(error).__name__
        if self.tally.kills:
            self.tally.cut["said"] += 1
        else:
            self.tally.errors[f"{kind}: {text}"] += 1

    async def retried(self, patience: float = 180.0) -> Pictures | None:
        """Do what a page does whose server is gone: it opens itself anew as it was, and asks again."""
        until = time.monotonic() + patience
        while time.monotonic() < until:
            page = Page(self.client, self.url)
            try:
                await page.open()
                page.take(self.page)
                pictures = await page.view()
            except (Failed, httpx.HTTPError):
                await asyncio.sleep(1)
            else:
                page, self.page = self.page, page
                self.tally.cut["retried"] += 1
                return pictures
            finally:
                await page.close()  # the one that is not shown
        self.tally.cut["lost"] += 1
        return None

    # --- whose answer it is ---

    def check(self, pictures: Pictures, prompt: str, heads: list[list[int]]) -> None:
        """Note everything in a drawing that is not of this prompt, this head, this visitor."""
        names = self.ledger.names(prompt, self.number)
        for name, told in pictures:
            self.check_part(name, told, prompt, heads, names)

    def check_part(self, name: str, told: dict, prompt: str, heads: list[list[int]], names: tuple[str, ...]) -> None:
        """Note the same for one part."""
        self.own(told, f"{name} of “{prompt}”")
        if told.get("problem") or (name == "notice" and told.get("kind") == "error"):
            self.tally.errors[f"{name}: {json.dumps(told)[:160]}"] += 1
        for run in {str(told.get(each) or "").split(" ")[0] for each in ("run", "scene")}:
            if _NAME.fullmatch(run) and run not in names and not told.get("stored_example"):
                self.wrong(f"{name} shows run {run} instead of {names[0]} (“{prompt}”)")
        if name == "tokens" and told["tokens"] != token_chips(self.ledger.lm.encode(prompt), words("en")):
            self.wrong(f"tokens of “{prompt}” are {[token['text'] for token in told['tokens']]}")
        if name == "map_plot" and heads and told["run"] != f"{names[0]} {heads[-1][0]}.{heads[-1][1]}":
            self.wrong(f"plot shows {told['run']} instead of head {heads[-1]}")

    def own(self, told: dict, what: str) -> None:
        """Note where a payload names a run of somebody else."""
        for name in set(_NAME.findall(json.dumps(told))):
            if self.ledger.owners.get(name, ANYBODY) not in (ANYBODY, self.number):
                self.wrong(f"{what} is of user {self.ledger.owners[name]}: {name}")

    def wrong(self, text: str) -> None:
        """Note an answer that is not what this visitor asked for."""
        self.tally.crossings.append(f"user {self.number}: {text}")

    # --- actions ---

    async def arrive(self) -> bool:
        """Open the page in a new visit; return whether that worked."""
        began = time.perf_counter()
        self.page = Page(self.client, self.url)
        try:
            await self.page.open()
        except (Failed, httpx.HTTPError) as error:
            kind = self.tally.busy if isinstance(error, Busy) or self.tally.kills else self.tally.errors
            kind[f"open: {' '.join(map(str, error.args))[:80] or type(error).__name__}"] += 1
            return False
        for name in self.ledger.names(self.page.prompt, ANYBODY):
            self.ledger.owners[name] = ANYBODY
        self.draw("first drawing")
        await self.settled()
        self.tally.add("open the page", time.perf_counter() - began)
        return True

    async def leave(self) -> None:
        """Close the window, whatever is under way."""
        under_way = (*self._background, *([self._drawing] if self._drawing else []))
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        self._background.clear()
        self._drawing = None
        await self.page.close()
        self.tally.bytes += self.page.bytes

    async def type(self) -> None:
        """Write a new prompt, letter by letter; no two are alike."""
        parts = [self.random.choice(each) for each in (SUBJECTS, VERBS, OBJECTS)]
        text = f"{self.number}{'abcdefgh'[next(self.marks) % 8]} {' '.join(parts)}"
        self._select(tokens=[])
        for end in range(1, len(text) + 1):
            self.page.prompt = text[:end]
            self.ledger.names(text[:end], self.number)
            self.draw("key" if end < len(text) else "last key")
            await asyncio.sleep(KEY * self.random.uniform(0.5, 1.5))
        await self.settled()

    def _select(self, **more: list) -> None:
        self.page.selection = {"pair": None, "edits": [], **self.page.selection, **more}

    async def head(self) -> None:
        """Click a head."""
        config = self.ledger.lm.config
        self._select(heads=[[self.random.randrange(config.n_layer), self.random.randrange(config.n_head)]])
        self.draw("head")
        await self.settled()

    async def token(self) -> None:
        """Click a token."""
        self._select(tokens=[self.random.randrange(len(self.ledger.lm.encode(self.page.prompt)))])
        self.draw("token")
        await self.settled()

    async def open_tab(self, key: str, view: str = "") -> None:
        """Click a tab, and one of its views."""
        self.page.tab = key
        if view:
            self.page.values[f"{key}_view"] = {"view": view}
        self.draw("tab or view")
        await self.settled()

    async def look_around(self) -> None:
        """Open any tab and view."""
        key = self.random.choice(list(VIEWS))
        await self.open_tab(key, self.random.choice(VIEWS[key]) if VIEWS[key] else "")

    async def slide(self) -> None:
        """Move a slider of the sampling pipeline through several places."""
        await self.open_tab("sampling", "distribution")
        for left in reversed(range(6)):
            step = {"warp": "temperature", "values": {"temperature": round(self.random.uniform(0.3, 2.0), 2)}}
            self.page.values["pipeline"] = {"steps": [step]}
            self.draw("slider" if left else "last slider")
            await asyncio.sleep(0.12)
        await self.settled()

    async def meanwhile(self, work: Coroutine) -> None:
        """Wait for work, or let it go on while the visitor clicks elsewhere."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        if self.random.random() < 0.5:
            await asyncio.sleep(0.2)
        else:
            await asyncio.wait((task,))

    async def race(self) -> None:
        """Write strategies side by side; one in three is stopped on the way."""
        await self.open_tab("sampling", "side_by_side")
        settings = {"tokens": self.random.choice(self.lengths), "seed": self.random.randrange(1000)}
        self.page.values["strategies"] = {"settings": settings}
        asked = {"prompt": self.page.prompt, "settings": settings, "tag": f"u{self.number} {next(self.marks)}"}
        await self.meanwhile(self.write(asked, self.random.random() < 0.33))

    async def write(self, asked: dict, stopping: bool) -> None:
        """Follow a race to its end, or to a moment after its first tokens where it is to be stopped."""
        page, began, stopped = self.page, time.perf_counter(), 0.0
        ids, ticks, told = self.ledger.lm.encode(asked["prompt"]).ids.tolist(), [], {}
        try:
            async with aclosing(race_lines(page, asked["tag"])) as lines:
                async for line in lines:
                    told, now = line["payload"], time.perf_counter() - began
                    self.own(told, "a race")
                    if told.get("tag") != asked["tag"]:
                        self.wrong(f"a piece of race {told.get('tag')!r} instead of {asked['tag']!r}")
                    if "error" in told:
                        return self._refused("race", told["error"]["text"])
                    if "ahead" in told:
                        self.tally.waited.append(now)
                        continue
                    if "opening" in told:
                        self.tally.add("race: first tokens", now)
                        if told["opening"]["prompt"] != ids:
                            self.wrong("a race of another prompt")
                    if told["from"] == len(ticks):
                        ticks += told["ticks"]
                    if stopping and not stopped and ticks:
                        stopped = time.perf_counter()
                        await stop_race(page)
        except Busy as error:
            self.tally.busy[f"race: {error.args[0]}"] += 1
        except (Failed, httpx.HTTPError) as error:
            self.failed("race", error)
        else:
            if stopped:
                self.tally.add("race: stop to stopped", time.perf_counter() - stopped)
            elif told.get("state") == "done":
                self.tally.add("race: all of it", time.perf_counter() - began)
                self.texts.append(asked | {"ticks": ticks})

    def _refused(self, kind: str, text: str) -> None:
        if text.startswith(SAYS_BUSY):
            self.tally.busy[f"{kind}: {text}"] += 1
        else:
            self.tally.errors[f"{kind}: {text[:120]}"] += 1

    async def job(self) -> None:
        """Start a sweep of all heads, or many samples; one in three is cancelled."""
        many = self.random.random() < 0.5
        await self.open_tab(*(("sampling", "many_samples") if many else ("effects", "sweep")))
        if many:
            self.page.values["strategies"] = {"settings": {"tokens": 24, "seed": self.random.randrange(1000)}}
            self.page.values["many_samples_form"] = {"count": "8"}
            self.draw("last slider")
            await self.settled()
        await self.meanwhile(self._job("many_samples_job" if many else "sweep_job", self.random.random() < 0.33))

    async def _job(self, name: str, cancelling: bool) -> None:
        page, began, told, done = self.page, time.perf_counter(), {}, ""
        try:
            async with aclosing(page.ask("job", part=name)) as lines:
                async for line in lines:
                    told, done = line.get("bar") or told, line.get("done") or done
                    if "ahead of yours" in told.get("text", ""):
                        self.tally.waited.append(time.perf_counter() - began)
                    if cancelling and told.get("state") == "running":
                        return  # closing the request is the cancel
        except Busy as error:
            self.tally.busy[f"job: {error.args[0]}"] += 1
            return
        except (Failed, httpx.HTTPError) as error:
            self.failed(name, error)
            return
        if told.get("state") == "failed":
            self._refused(name, told["text"])
        elif done:
            self.tally.add("job: start to result", time.perf_counter() - began)
            page.done = done
            if page is self.page:
                self.draw("result of a job")

    async def again(self) -> None:
        """Leave and come back."""
        await self.leave()
        await asyncio.sleep(self.random.uniform(0.2, 1.0))
        while not await self.arrive():
            await asyncio.sleep(1)

    async def live(self, until: float) -> None:
        """Do all of it, in any order, until a moment."""
        _ = self.tally.of_user[self.number]  # so that whoever has no answer is seen
        await asyncio.sleep(self.random.uniform(0, 3))
        while not await self.arrive() and time.monotonic() < until:
            await asyncio.sleep(1)
        habits: dict[Callable, int] = {
            self.type: 5,
            self.head: 10,
            self.token: 4,
            self.look_around: 4,
            self.slide: 3,
            self.race: 2,
            self.job: 2,
            self.again: 1,
        }
        while time.monotonic() < until:
            (action,) = self.random.choices(list(habits), list(habits.values()))
            if action is self.head and self.page.tab != "attention":
                await self.open_tab("attention")
            await action()
            await asyncio.sleep(self.random.uniform(*THINK))
        await self.settled()
        await asyncio.wait(self._background, timeout=20) if self._background else None
        await self.leave()


def race_lines(page: Page, tag: str) -> AsyncGenerator[dict[str, Any]]:
    """Start to write side by side; yields the lines."""
    return page.ask("stream", part=FEED, event="start", sent={"kind": "start", "tag": tag})


async def stop_race(page: Page) -> None:
    """Press the button that stops it."""
    async with aclosing(page.ask("stream", part=FEED, event="stop")) as lines:
        async for _ in lines:
            pass
