"""A page without a browser: it holds what the page is set to and what it shows, and asks by the page's own wire."""

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import httpx

LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=None)
TIMEOUT = httpx.Timeout(60.0, read=180.0)

CONFIG = "window.gradio_config = "


class Failed(Exception):
    """The server did not do what a page asked for; the first argument says in a word or two what went wrong."""


class Busy(Failed):
    """It said that it has no room."""


@dataclass(eq=False)
class Page:
    """One visit, from opening the address to closing the window."""

    client: httpx.AsyncClient
    url: str
    visit: str = field(default_factory=lambda: uuid.uuid4().hex)
    model: str = ""
    prompt: str = ""
    tab: str = "start"
    selection: dict[str, Any] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)  # of the tabs' parts
    shown: dict[str, Any] = field(default_factory=dict)  # as the server named it last
    done: str = ""  # the last job that ended
    bytes: int = 0
    _line: asyncio.Task | None = None

    async def open(self) -> None:
        """Get the page with what it comes with, and hold the line by which the server knows of it."""
        answer = await self.client.get(self.url)
        _check(answer)
        self.bytes += len(answer.content)
        config, _ = json.JSONDecoder().raw_decode(answer.text, answer.text.index(CONFIG) + len(CONFIG))
        parts = {each["props"].get("elem_id"): each["props"] for each in config["components"]}
        for name, props in parts.items():
            if str(name).startswith("pg-screen-"):
                self.values |= json.loads(props["props"]["payload"])["values"]
        wire = json.loads(parts["pg-wire"]["props"]["payload"])
        self.model, self.shown = wire["model"], wire["shown"]
        self.prompt, self.selection = parts["prompt"]["value"], parts["pg-selection"]["value"]
        self._line = asyncio.create_task(self._here())

    async def close(self) -> None:
        """Close the window."""
        if self._line:
            self._line.cancel()
            await asyncio.wait((self._line,))

    def take(self, other: "Page") -> None:
        """Set everything as it is on another page."""
        self.prompt, self.tab, self.done = other.prompt, other.tab, other.done
        self.selection, self.values = other.selection, dict(other.values)

    def question(self, **more: Any) -> dict[str, Any]:
        """Return what the page sends."""
        names = ("visit", "model", "prompt", "tab", "selection", "values", "shown", "done")
        return {name: getattr(self, name) for name in names} | more

    async def ask(self, path: str, **more: Any) -> AsyncGenerator[dict[str, Any]]:
        """Yield the lines of an answer as they come; closing the iterator closes the request. Raises Failed."""
        answer = await self._sent(f"{self.url}playground/{path}", self.question(**more))
        try:
            if answer.status_code != 200:
                await answer.aread()
            _check(answer)
            async for line in answer.aiter_lines():
                self.bytes += len(line)
                yield json.loads(line)
        finally:
            await answer.aclose()

    async def view(self) -> list[tuple[str, dict[str, Any]]]:
        """Ask for what has changed, take it over and return it: pairs of a part and its payload, early ones first."""
        found: list[tuple[str, dict]] = []
        async with aclosing(self.ask("view")) as lines:
            async for line in lines:
                for name in line.get("early", {}):
                    self.shown.get("drawn", {}).pop(name, None)
                found += (line.get("parts") or line.get("early") or {}).items()
                if "parts" in line:
                    self.shown = line["shown"]
                    if heads := line["parts"].get("selection", {}).get("heads"):
                        self.selection["heads"] = heads
                    return found
        raise Failed("no answer")

    async def _sent(self, address: str, body: dict[str, Any]) -> httpx.Response:
        def request() -> httpx.Request:
            return self.client.build_request("POST", address, json=body)

        try:
            return await self.client.send(request(), stream=True)
        except (httpx.ReadError, httpx.RemoteProtocolError):  # a kept connection had just been closed
            return await self.client.send(request(), stream=True)

    async def _here(self) -> None:
        address = f"{self.url}playground/here/{self.visit}"
        with contextlib.suppress(httpx.HTTPError):
            async with self.client.stream("GET", address, timeout=None) as answer:
                async for _ in answer.aiter_raw():
                    pass


def _check(answer: httpx.Response) -> None:
    if answer.status_code in (429, 503):
        raise Busy(f"HTTP {answer.status_code}", answer.text[:120])
    if answer.status_code != 200:
        raise Failed(f"HTTP {answer.status_code}", answer.text[:120])
