"""Visitors that type, click, move sliders, start long work, cancel some of it, leave and come back.

Each knows what it asked for, so every answer is checked: its run, its tokens, its head, its prompt.
"""

import asyncio
import itertools
import json
import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx

from benchmarks.load.ledger import ANYBODY, OBJECTS, SUBJECTS, VERBS, Ledger
from benchmarks.load.page import Answer, Busy, Failed, Page, payload, pieces
from benchmarks.load.report import Tally
from viz.characters import token_chips
from viz.words import words

KEY = 0.13  # seconds between two keys, about 90 words a minute
THINK = (0.3, 1.6)  # seconds between two actions
SAYS_BUSY = ("The server is busy", "The server is still busy", "Another training run is using this server")
VIEWS = {
    "sampling": ("distribution", "temperature", "draws", "side_by_side", "many_samples"),
    "predictions": ("surprise", "guess", "follow", "lens", "logit_parts"),
    "activations": ("one_norm", "neurons", "sizes"),
    "heads": (),
    "effects": ("edits", "sweep"),
    "attention": (),
}
_NAME = re.compile(r"\b[0-9a-f]{12}\b")


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
    page: Page | None = None
    prompt: str = ""
    heads: list[list[int]] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    tab: str = "start"
    texts: list[dict] = field(default_factory=list)  # races that ended, to be written again by one visitor alone
    _dirty: tuple[str, float] | None = None
    _again: tuple[str, list[list[int]]] | None = None  # prompt and heads of a drawing that was asked for anew
    _drawing: asyncio.Task | None = None
    _background: set[asyncio.Task] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.random = random.Random(f"{self.seed} {self.number}")
        self.marks = itertools.count()

    # --- the page's one pipeline: a new question only when the last one is answered, and then the latest ---

    def draw(self, kind: str) -> None:
        """Ask for a drawing of what is picked now, because of an action of this kind."""
        self._dirty = kind, time.perf_counter()
        if self._drawing is None or self._drawing.done():
            self._drawing = asyncio.create_task(self._draw())

    async def settled(self) -> None:
        """Wait until the page shows what was asked for last."""
        if self._drawing is not None:
            await self._drawing

    async def _draw(self) -> None:
        while self._dirty:
            (kind, since), self._dirty = self._dirty, None
            prompt, heads = self.prompt, [list(head) for head in self.heads]
            self._again = None
            answer = await self.attempt(kind, self.page.ask(self.page.refresh))
            if answer is not None:
                self.tally.add(kind, time.perf_counter() - since, self.number)
                self.check(answer, *(self._again or (prompt, heads)))

    async def attempt(self, kind: str, asking) -> Answer | None:
        """What is asked for, or None where the server was busy or failed, which is noted."""
        self.tally.open += 1
        try:
            return await asking
        except Busy as error:
            self.tally.busy[f"{kind}: {error.args[0]}"] += 1
        except (Failed, httpx.HTTPError) as error:
            if not self.tally.kills:
                self.failed(kind, error)
            else:
                return await self.retried()
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

    async def retried(self, patience: float = 180.0) -> Answer | None:
        """What a page does whose server is gone: it opens itself anew as it was, and asks again."""
        until, kept = time.monotonic() + patience, self.page
        while time.monotonic() < until:
            page = Page(self.client, self.url)
            try:
                await page.open()
                page.take(kept)
                self._again = self.prompt, [list(head) for head in self.heads]  # what is picked now
                answer = await page.ask(page.refresh)
            except (Failed, httpx.HTTPError):
                await page.close()
                await asyncio.sleep(1)
                continue
            await kept.close()
            page.take(kept)  # what was picked meanwhile
            self.page = page
            self.tally.cut["retried"] += 1
            return answer
        self.tally.cut["lost"] += 1
        return None

    # --- whose answer it is ---

    def check(self, answer: Answer, prompt: str, heads: list[list[int]]) -> None:
        """Note everything in a drawing that is not of this prompt, this head, this visitor."""
        names = self.ledger.names(prompt, self.number)
        parts = {number: name for name, number in self.page.parts.items()}
        for number, value in answer.data.items():
            for name, told in pieces(parts.get(number, ""), value).items():
                self.check_part(name, told, prompt, heads, names)

    def check_part(self, name: str, told: dict, prompt: str, heads: list[list[int]], names: tuple[str, ...]) -> None:
        """The same for one part."""
        self.own(told, f"{name} of “{prompt}”")
        if told.get("problem") or (name == "notice" and told.get("kind") == "error"):
            self.tally.errors[f"{name}: {json.dumps(told)[:160]}"] += 1
        run = str(told.get("run") or "").split(" ")[0]
        if _NAME.fullmatch(run) and name != "header" and run not in names:
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
        """An answer that is not what this visitor asked for."""
        self.tally.crossings.append(f"user {self.number}: {text}")

    # --- actions ---

    async def arrive(self) -> bool:
        """Open the page in a new session; whether that worked."""
        began = time.perf_counter()
        self.page = Page(self.client, self.url)
        try:
            await self.page.open()
        except (Failed, httpx.HTTPError) as error:
            kind = self.tally.busy if isinstance(error, Busy) or self.tally.kills else self.tally.errors
            kind[f"open: {' '.join(error.args)[:80] or type(error).__name__}"] += 1
            return False
        self.prompt, self.heads, self.tokens, self.tab = (
            self.page.values[self.page.parts["prompt"]],
            [],
            [],
            "start",
        )
        for name in self.ledger.names(self.prompt, ANYBODY):
            self.ledger.owners[name] = ANYBODY
        self.draw("first drawing")
        for dependency in self.page.loading:
            if dependency is not self.page.refresh:
                await self.attempt("first words", self.page.ask(dependency))
        await self.settled()
        self.tally.add("open the page", time.perf_counter() - began)
        return True

    async def leave(self) -> None:
        """Close the window, whatever is under way."""
        self._dirty = None
        for task in (*self._background, *([self._drawing] if self._drawing else [])):
            task.cancel()
        await asyncio.gather(*self._background, *([self._drawing] if self._drawing else []), return_exceptions=True)
        self._background.clear()
        if self.page is not None:
            await self.page.close()
            self.tally.bytes += self.page.bytes

    async def type(self) -> None:
        """A new prompt, letter by letter; no two are alike."""
        words = [self.random.choice(each) for each in (SUBJECTS, VERBS, OBJECTS)]
        text = f"{self.number}{'abcdefgh'[next(self.marks) % 8]} {' '.join(words)}"
        self.tokens = []
        self._select()
        for end in range(1, len(text) + 1):
            self.prompt = text[:end]
            self.page.set("prompt", self.prompt)
            self.ledger.names(self.prompt, self.number)
            self.draw("key")
            await asyncio.sleep(KEY * self.random.uniform(0.5, 1.5))
        await self.settled()

    def _select(self) -> None:
        self.page.set("selection", {"heads": self.heads, "tokens": self.tokens, "pair": None, "edits": []})

    async def head(self) -> None:
        """A click on a head."""
        config = self.ledger.lm.config
        self.heads = [[self.random.randrange(config.n_layer), self.random.randrange(config.n_head)]]
        self._select()
        self.draw("head")
        await self.settled()

    async def token(self) -> None:
        """A click on a token."""
        self.tokens = [self.random.randrange(len(self.ledger.lm.encode(self.prompt)))]
        self._select()
        self.draw("token")
        await self.settled()

    async def open_tab(self, key: str, view: str = "") -> None:
        """A click on a tab, and on one of its views."""
        if key != self.tab:
            self.page.set("nav", {"tab": key})
            self.tab = key
        if view:
            self.page.set(f"{key}_view", {"view": view})
        self.draw("tab or view")
        await self.settled()

    async def look_around(self) -> None:
        """Any tab and view."""
        key = self.random.choice(list(VIEWS))
        await self.open_tab(key, self.random.choice(VIEWS[key]) if VIEWS[key] else "")

    async def slide(self) -> None:
        """A slider of the sampling pipeline, moved through several places."""
        await self.open_tab("sampling", "distribution")
        for _ in range(6):
            step = {"warp": "temperature", "values": {"temperature": round(self.random.uniform(0.3, 2.0), 2)}}
            self.page.set("pipeline", {"steps": [step]})
            self.draw("slider")
            await asyncio.sleep(0.12)
        await self.settled()

    def meanwhile(self, work) -> None:
        """Let work go on while the visitor clicks elsewhere."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def race(self) -> None:
        """Strategies side by side; one in three is stopped on the way."""
        await self.open_tab("sampling", "side_by_side")
        tag, page = f"u{self.number} {next(self.marks)}", self.page
        prompt, stopping = self.prompt, self.random.random() < 0.33
        settings = {"tokens": self.random.choice(self.lengths), "seed": self.random.randrange(1000)}
        page.set("strategies", {"settings": settings})
        page.set("side_by_side_feed", {"kind": "start", "tag": tag})
        asked = {"prompt": prompt, "settings": settings, "tag": tag}
        work = self.write(page, asked, stopping)
        if self.random.random() < 0.5:
            self.meanwhile(work)
            await asyncio.sleep(0.2)
        else:
            await work

    async def write(self, page: Page, asked: dict, stopping: bool) -> None:
        """Follow a race to its end, or to a moment after its first tokens where it is to be stopped."""
        began, stopped, feed = time.perf_counter(), 0.0, page.parts["side_by_side_feed"]
        ids, ticks, told = self.ledger.lm.encode(asked["prompt"]).ids.tolist(), [], {}
        try:
            async for answer in page.follow(page.of("side_by_side_feed", "start")):
                told = payload(answer.data.get(feed)) or told
                now = time.perf_counter() - began
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
                    await page.ask(page.of("side_by_side_feed", "stop"))
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
        """A sweep of all heads, or many samples; one in three is cancelled."""
        many = self.random.random() < 0.5
        await self.open_tab(*(("sampling", "many_samples") if many else ("effects", "sweep")))
        if many:
            seed = self.random.randrange(1000)
            self.page.set("strategies", {"settings": {"tokens": 24, "seed": seed}})
            self.page.set("many_samples_form", {"count": "8"})
            self.draw("slider")
            await self.settled()
        work = self._job(self.page, "many_samples_job" if many else "sweep_job", self.random.random() < 0.33)
        if self.random.random() < 0.5:
            self.meanwhile(work)
            await asyncio.sleep(0.2)
        else:
            await work

    async def _job(self, page: Page, name: str, cancelling: bool) -> None:
        began, cancelled, told, fresh = time.perf_counter(), 0.0, {}, False
        try:
            page.set("jobs", {"part": name})
            async for answer in page.follow(page.of("jobs", "start")):
                bars = (payload(answer.data.get(page.parts["jobs"])) or {}).get("parts", {})
                told = bars[name]["payload"] if name in bars else told
                fresh = fresh or bool(answer.changed)
                if "before you" in told.get("text", ""):
                    self.tally.waited.append(time.perf_counter() - began)
                if cancelling and not cancelled:
                    cancelled = time.perf_counter()
                    page.set("jobs", {"part": name})
                    await page.ask(page.of("jobs", "cancel"))
        except Busy as error:
            self.tally.busy[f"job: {error.args[0]}"] += 1
            return
        except (Failed, httpx.HTTPError) as error:
            self.failed(name, error)
            return
        if told.get("state") == "failed":
            self._refused(name, told["text"])
        elif fresh:
            self.tally.add("job: start to result", time.perf_counter() - began)
            if page is self.page:
                self.draw("result of a job")
        elif cancelled:
            self.tally.add("job: cancel to cancelled", time.perf_counter() - cancelled)

    async def again(self) -> None:
        """Leave and come back."""
        await self.leave()
        await asyncio.sleep(self.random.uniform(0.2, 1.0))
        while not await self.arrive():
            await asyncio.sleep(1)

    async def live(self, until: float) -> None:
        """All of it, in any order, until a moment."""
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
            if action is self.head and self.tab != "attention":
                await self.open_tab("attention")
            await action()
            await asyncio.sleep(self.random.uniform(*THINK))
        await self.settled()
        await asyncio.wait(self._background, timeout=20) if self._background else None
        await self.leave()
