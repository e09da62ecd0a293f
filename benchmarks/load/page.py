"""A page without a browser: it holds the values of the page's components and speaks the page's protocol."""

import asyncio
import contextlib
import html
import json
import re
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

import httpx
from gradio_client.utils import apply_diff

BUSY = "The server is busy"
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=None)
TIMEOUT = httpx.Timeout(60.0, read=180.0)


_PLACES = re.compile(r'data-places="([^"]*)"')


def _names(places: list) -> Iterator[str]:
    """The parts of a screen."""
    for each in places:
        if isinstance(each, list):
            yield each[0]
        else:
            yield from _names(each["of"])


class Failed(Exception):
    """The server did not do what a page asked for; the first argument says in a word or two what went wrong."""


class Busy(Failed):
    """It said that it has no room."""


@dataclass(eq=False)
class Answer:
    """What an event brought at a time: the outputs that it changes, by component; seconds until the first and now."""

    data: dict[int, object]
    first: float
    last: float
    pieces: int
    changed: list[int]  # states that it changed


@dataclass(eq=False)
class Page:
    """One visit: a session of its own, from opening the address to closing the window."""

    client: httpx.AsyncClient
    url: str
    session: str = field(default_factory=lambda: uuid.uuid4().hex[:11])
    values: dict[int, object] = field(default_factory=dict)
    parts: dict[str, int] = field(default_factory=dict)  # components by name
    screens: dict[str, int] = field(default_factory=dict)  # by name of a part, the screen of a tab that holds it
    events: dict[tuple[int, str], dict] = field(default_factory=dict)  # (component, event) -> dependency
    loading: list[dict] = field(default_factory=list)  # what a page asks for when it opens
    bytes: int = 0
    _inboxes: dict[str, asyncio.Queue] = field(default_factory=dict)
    _open: set[str] = field(default_factory=set)  # events that have not ended
    _stream: asyncio.Task | None = None
    _beat: asyncio.Task | None = None

    async def open(self) -> None:
        """The address, the page's description, and the line by which the server knows that the page is there."""
        page = await self.client.get(self.url)
        self._check(page)
        answer = await self.client.get(f"{self.url}config")
        self._check(answer)
        config = answer.json()
        self.bytes += len(page.content) + len(answer.content)
        for component in config["components"]:
            props = component["props"]
            name = str(props.get("elem_id") or "")
            self.parts[name.removeprefix("pg-")] = component["id"]
            self.values[component["id"]] = props.get("value")
            if found := _PLACES.search(str(props.get("html_template") or "")):
                self.screens |= dict.fromkeys(_names(json.loads(html.unescape(found[1]))), component["id"])
        for dependency in config["dependencies"]:
            for target, event in dependency["targets"]:
                self.events[target, event] = dependency
                if event == "load":
                    self.loading.append(dependency)
        self._beat = asyncio.create_task(self._heartbeat())

    async def close(self) -> None:
        """Close the window."""
        for task in (self._beat, self._stream):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task

    def take(self, other: "Page") -> None:
        """Everything as it is on another page."""
        names = {number: name for name, number in other.parts.items()}
        self.values |= {self.parts[names[n]]: value for n, value in other.values.items() if names.get(n) in self.parts}

    def set(self, name: str, value: object) -> None:
        """Give a component a value, as typing or a click does."""
        if name in self.screens:
            screen = self.screens[name]
            given = self.values[screen] or {}
            self.values[screen] = {**given, "values": {**given.get("values", {}), name: value}}
        else:
            self.values[self.parts[name]] = value

    def of(self, name: str, event: str) -> dict:
        """The dependency that an event of a component starts."""
        return self.events[self.parts[name], event]

    @property
    def refresh(self) -> dict:
        """The one dependency that draws the page again."""
        return self.of("prompt", "change")

    async def ask(self, dependency: dict) -> Answer:
        """Start a dependency and wait until it ends."""
        return [answer async for answer in self.follow(dependency)][-1]

    async def follow(self, dependency: dict) -> AsyncIterator[Answer]:
        """Start a dependency; everything it brings, as it comes. Raises Busy and Failed."""
        began, event = time.perf_counter(), await self._begin(dependency)
        found, whole = None, []
        try:
            while True:
                message = await asyncio.wait_for(self._inboxes[event].get(), 180)
                if message["msg"] not in ("process_generating", "process_completed"):
                    continue
                now, output = time.perf_counter() - began, message["output"]
                if output.get("error") == BUSY:  # nobody listened in time: the page asks again
                    self._end(event)
                    event = await self._begin(dependency)
                    continue
                if not message["success"]:
                    raise Failed("event failed", str(output.get("error"))[:120])
                sent, more = output.get("data") or [], message["msg"] == "process_generating" and found
                whole = [apply_diff(old, new) for old, new in zip(whole, sent, strict=True)] if more else sent
                data = {n: each for n, each in zip(dependency["outputs"], whole, strict=False) if not skipped(each)}
                first, pieces = (found.first, found.pieces + 1) if found else (now, 1)
                found = Answer(data, first, now, pieces, output.get("changed_state_ids") or [])
                yield found
                if message["msg"] == "process_completed":
                    return
        except TimeoutError:
            raise Failed("no answer in 180 s") from None
        finally:
            self._end(event)

    async def _begin(self, dependency: dict) -> str:
        """Ask, listen for the answer, and name it."""
        event = await self._join(dependency)
        self._inboxes.setdefault(event, asyncio.Queue())
        self._open.add(event)
        if self._stream is None or self._stream.done():
            self._stream = asyncio.create_task(self._listen())
        return event

    def _end(self, event: str) -> None:
        self._open.discard(event)
        self._inboxes.pop(event, None)

    async def _join(self, dependency: dict) -> str:
        body = {
            "data": [self.values.get(number) for number in dependency["inputs"]],
            "fn_index": dependency["id"],
            "session_hash": self.session,
            "trigger_id": dependency["targets"][0][0],
            "event_data": None,
        }
        address = f"{self.url}gradio_api/queue/join"
        try:
            answer = await self.client.post(address, json=body)
        except (httpx.ReadError, httpx.RemoteProtocolError):  # a kept connection had just been closed
            answer = await self.client.post(address, json=body)
        self._check(answer)
        return answer.json()["event_id"]

    def _check(self, answer: httpx.Response) -> None:
        if answer.status_code in (429, 503):
            raise Busy(f"HTTP {answer.status_code}", answer.text[:120])
        if answer.status_code != 200:
            raise Failed(f"HTTP {answer.status_code}", answer.text[:120])

    async def _listen(self) -> None:
        """Hand on what comes until nothing is open any more, as the page does."""
        address = f"{self.url}gradio_api/queue/data"
        try:
            async with self.client.stream("GET", address, params={"session_hash": self.session}) as answer:
                async for line in answer.aiter_lines():
                    self.bytes += len(line)
                    if not line.startswith("data:"):
                        continue
                    message = json.loads(line[5:])
                    if message["msg"] == "close_stream":
                        break
                    if message["msg"] == "unexpected_error":
                        self._tell_all(Failed("stream failed", str(message.get("message"))[:120]))
                        break
                    if event := message.get("event_id"):
                        self._inboxes.setdefault(event, asyncio.Queue()).put_nowait(message)
        except httpx.HTTPError as error:
            self._tell_all(Failed("stream broke", repr(error)[:120]))
            return
        if self._open:  # something was asked for in the very moment in which the server closed
            self._stream = asyncio.create_task(self._listen())

    def _tell_all(self, error: Failed) -> None:
        for event in self._open:
            message = {"msg": "process_completed", "success": False, "output": {"error": " ".join(error.args)}}
            self._inboxes.setdefault(event, asyncio.Queue()).put_nowait(message)

    async def _heartbeat(self) -> None:
        with contextlib.suppress(httpx.HTTPError):
            async with self.client.stream(
                "GET", f"{self.url}gradio_api/heartbeat/{self.session}", timeout=None
            ) as answer:
                async for _ in answer.aiter_lines():
                    pass


def skipped(value: object) -> bool:
    """Whether an output leaves its component as it is."""
    return (
        isinstance(value, dict)
        and value.get("__type__") == "update"
        and set(value.get("props", value)) == {"__type__"}
        and set(value) <= {"__type__", "props"}
    )


def payload(value: object) -> dict | None:
    """The payload in a part's update; None where there is none."""
    props = value.get("props", value) if isinstance(value, dict) else {}
    text = props.get("payload")
    return json.loads(text) if isinstance(text, str) else None


def pieces(name: str, value: object) -> dict[str, dict]:
    """The payloads by part of what a component got: those of a screen, or its own."""
    told = payload(value)
    if told is None:
        return {}
    return told["parts"] if {"seq", "parts"} <= set(told) else {name: told}
