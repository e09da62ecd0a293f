"""A polite visitor on a shared server while somebody attacks it, one attack after the other. Loopback only.

    python -m benchmarks.load.hostile [--seconds 15] [--memory 256] [--only NAME ...] [FOLDER ...]

Starts `python app.py --offline --public` of each checkout (this one without a FOLDER) anew for every attack. The
attacker is a process of its own, bounded in number, rate and size. Meanwhile a page of another address clicks a head
every 0.4 s and a sign of life is asked for every 0.1 s. Reported: the page's p50, p95 and longest click, how often it
was told that the server is busy or failed, the longest time without a sign of life, and the server's memory before, at
its peak, and 10 s after the attack. Linux only.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import multiprocessing
import os
import random
import socket
import subprocess
import sys
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from benchmarks.load.page import LIMITS, TIMEOUT, Busy, Failed, Page
from benchmarks.load.report import quantile

ROOT = Path(__file__).parents[2]
MODEL = "tinygpt"
LONG = "The quick brown fox jumps over the lazy dog and runs away. " * 30  # about 400 tokens
POLITE = "the-polite-visitor"  # its visit
CLICK, SIGN = 0.4, 0.1  # seconds between two clicks, and between two signs of life


# --- attacks: each a bounded stream of requests, in a process of its own ------------------------------------


def _line(url: str, text: str, body: bytes = b"") -> socket.socket:
    host = urlsplit(url)
    connection = socket.create_connection((host.hostname, host.port), timeout=5)
    connection.sendall(text.replace("HOST", host.netloc).encode() + body)
    return connection


def _asked(url: str, path: str, **more: object) -> socket.socket:
    """Ask as a page does, in the name of a new visit unless one is named; nobody has read the answer yet."""
    asked = {"visit": uuid.uuid4().hex, "model": MODEL, "prompt": LONG, "tab": "attention", **more}
    body = json.dumps(asked).encode()
    head = f"POST /playground/{path} HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\n"
    return _line(url, f"{head}Content-Length: {len(body)}\r\n\r\n", body)


def _paced(seconds: float, per_second: float, act: Callable[[], object]) -> None:
    """Do something so often; what fails is the server's way of saying no."""
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        with contextlib.suppress(OSError, httpx.HTTPError):
            act()
        time.sleep(max(0.0, 1 / per_second - (time.monotonic() - now)))


def _kept(url: str, seconds: float, per_second: float, most: int, path: str, **more: object) -> None:
    """Send requests at a rate, and keep a number of them open without reading the answers."""
    kept: deque[socket.socket] = deque(maxlen=most)  # one that is pushed out is closed
    _paced(seconds, per_second, lambda: kept.append(_asked(url, path, **more)))


def nothing(url: str, seconds: float) -> None:
    """Attack nobody."""
    time.sleep(seconds)


def lines(url: str, seconds: float) -> None:
    """Open and close lines of visits that are not there, 150 a second."""
    text = "GET /playground/here/VISIT HTTP/1.1\r\nHost: HOST\r\n\r\n"
    _paced(seconds, 150, lambda: _line(url, text.replace("VISIT", uuid.uuid4().hex)).close())


def half_headers(url: str, seconds: float) -> None:
    """Open 2,000 connections that never end their headers."""
    kept: list[socket.socket] = []

    def act() -> None:
        if len(kept) < 2000:
            kept.append(_line(url, "GET / HTTP/1.1\r\nHost: HOST\r\nX-Slow: "))

    _paced(seconds, 400, act)


def unread(url: str, seconds: float) -> None:
    """Send 10 questions a second, each of a new visit, and never read the answers."""
    _kept(url, seconds, 10, 300, "view")


def invented(url: str, seconds: float) -> None:
    """Ask in the names of 300 visits at once, then of 10 a second."""
    with contextlib.suppress(OSError):
        at_once = [_asked(url, "view", prompt=f"{n} {LONG}") for n in range(300)]
    _kept(url, seconds, 10, 300, "view")
    del at_once


def closed(url: str, seconds: float) -> None:
    """Close questions, jobs and races as soon as they are asked for, 40 a second."""
    jobs = {"part": "many_samples_job"}, {"part": "sweep_job", "tab": "effects"}
    race = {"part": "side_by_side_feed", "event": "start", "sent": {"kind": "start", "tag": "x"}}
    asked = itertools.cycle([("view", {}), *(("job", each) for each in jobs), ("stream", race)])

    def act() -> None:
        path, more = next(asked)
        _asked(url, path, prompt=uuid.uuid4().hex, **more).close()

    _paced(seconds, 40, act)


def streams(url: str, seconds: float) -> None:
    """Open 200 streams of as many visits, and keep them."""
    sent = {"kind": "start", "tag": "x"}
    values = {"strategies": {"settings": {"tokens": 128}}}
    _kept(url, seconds, 100, 200, "stream", part="side_by_side_feed", event="start", sent=sent, values=values)


def jobs(url: str, seconds: float) -> None:
    """Start 20 jobs a second in the names of as many visits, and keep 200."""
    _kept(url, seconds, 20, 200, "job", part="sweep_job", tab="effects")


def others(url: str, seconds: float) -> None:
    """Ask, stop and come and go in the name of the polite visitor, 40 times a second."""
    feed = {"part": "side_by_side_feed", "event": "stop"}
    acts = itertools.cycle(
        [
            lambda: _asked(url, "view", visit=POLITE),
            lambda: _asked(url, "stream", visit=POLITE, **feed),
            lambda: _asked(url, "job", visit=POLITE, part="sweep_job"),
            lambda: _line(url, f"GET /playground/here/{POLITE} HTTP/1.1\r\nHost: HOST\r\n\r\n"),
        ]
    )
    _paced(seconds, 40, lambda: next(acts)().close())


def made_up(url: str, seconds: float) -> None:
    """Name parts, events, models and places that do not exist, and send values that no part has, 40 a second."""
    odd: list = [None, True, -1, 1e308, "x" * 1000, [[[]]], {"a": {"b": []}}, ["__proto__"]]
    names = itertools.cycle(odd)

    def act() -> None:
        each, path = next(names), random.choice(("view", "job", "stream", "model", "link"))
        fields = ("part", "event", "sent", "values", "selection", "shown", "choose", "to", "chat", "done", "tab")
        named = {name: random.choice(odd) for name in fields}
        client.post(f"/playground/{path}", json={"visit": uuid.uuid4().hex, "prompt": "a", **named, "model": each})

    with httpx.Client(base_url=url, timeout=10) as client:
        _paced(seconds, 40, act)


def bodies(url: str, seconds: float) -> None:
    """Send huge and broken questions, 40 a second."""
    most = 512 << 10  # what a shared server takes
    whole = json.dumps({"visit": "a", "prompt": "a" * 19_000, "values": {"strategies": [0] * 150_000}}).encode()
    sent = [b"{", b"[" * 20_000, b"[" * (most - 1), b'{"a":' * 80_000, b"0" * (most + 1), b'"\xff"', whole[: most - 9]]
    turn = itertools.cycle([*sent, whole])
    with httpx.Client(base_url=url, timeout=10, headers={"content-type": "application/json"}) as client:
        _paced(seconds, 40, lambda: client.post("/playground/view", content=next(turn)))


def programs(url: str, seconds: float) -> None:
    """Call for whole attention matrices, 10 a second, whose answers nobody comes for."""
    given = {"prompt": LONG, "layer": 0, "head": 0}
    with httpx.Client(base_url=url, timeout=10) as client:
        named = client.get("/gradio_api/info").json()["named_endpoints"]["/attention"]["parameters"]
        data = [given.get(each["label"], each.get("parameter_default")) for each in named]
        _paced(seconds, 10, lambda: client.post("/gradio_api/call/attention", json={"data": data}))


def files(url: str, seconds: float) -> None:
    """Call with arguments that name a file on another server, 10 a second."""
    file = {"path": "http://127.0.0.1:9/big.bin", "meta": {"_type": "gradio.FileData"}}
    with httpx.Client(base_url=url, timeout=10) as client:
        _paced(seconds, 10, lambda: client.post("/gradio_api/call/tokenize", json={"data": [file, ""]}))


def junk(url: str, seconds: float) -> None:
    """Call functions that do not exist, with wrong values, deep and broken JSON, 40 a second."""
    sent = [b"{", b"[" * 20_000, b'{"data": [], "fn_index": 99999, "session_hash": "x"}', b'{"data": [1, 2, 3]}']
    turn = itertools.cycle(sent)
    with httpx.Client(base_url=url, timeout=10, headers={"content-type": "application/json"}) as client:
        _paced(seconds, 40, lambda: client.post("/gradio_api/queue/join", content=next(turn)))


ON_PAGES = (lines, half_headers, unread, invented, closed, streams, jobs, others, made_up, bodies)
ATTACKS = (nothing, *ON_PAGES, programs, files, junk)


# --- the server and its polite visitor ----------------------------------------------------------------------


@dataclass
class Seen:
    """What the polite visitor went through."""

    clicks: list[float] = field(default_factory=list)
    refused: Counter = field(default_factory=Counter)
    freeze: float = 0.0
    memory: list[float] = field(default_factory=list)


def server(folder: Path, memory: int) -> tuple[subprocess.Popen, str]:
    """`python app.py` of a checkout, and its address."""
    command = [sys.executable, "app.py", "--offline", "--public", "--memory", str(memory)]
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    for line in process.stdout:
        if line.startswith("Attention playground:"):
            return process, line.split()[-1]
    raise SystemExit(f"the app of {folder} did not start")


def resident(process: subprocess.Popen) -> float:
    """Memory of a process, MB."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def watch(process: subprocess.Popen, url: str, seen: Seen) -> None:
    """Ask for signs of life, and look at the memory."""
    async with httpx.AsyncClient(timeout=60) as client:
        while True:
            began = time.monotonic()
            with contextlib.suppress(httpx.HTTPError):
                await client.get(f"{url}playground/alive")
            seen.freeze = max(seen.freeze, time.monotonic() - began)
            seen.memory.append(resident(process))
            await asyncio.sleep(SIGN)


async def polite(url: str, seen: Seen, ended: Callable[[], bool], heads: int = 6) -> None:
    """Open a page before the attack, then click heads in the first `heads` layers."""
    wire = httpx.AsyncHTTPTransport(limits=LIMITS, local_address="127.0.1.1")
    async with httpx.AsyncClient(transport=wire, timeout=TIMEOUT) as client:
        page = Page(client, url, POLITE)
        await page.open()
        page.tab = "attention"
        await page.view()
        number = 0
        while not ended():
            number += 1
            page.selection = {"heads": [[number % heads, (number // heads) % heads]], "tokens": []}
            began = time.monotonic()
            try:
                if "map_plot" not in dict(await page.view()):
                    seen.refused["no map"] += 1
            except (Busy, Failed, httpx.HTTPError) as error:
                seen.refused[f"{type(error).__name__} {error}"[:60]] += 1
            seen.clicks.append(time.monotonic() - began)
            await asyncio.sleep(CLICK)
        await page.close()


async def under(process: subprocess.Popen, url: str, attack: Callable, seconds: float) -> Seen:
    """What a polite visitor goes through under an attack."""
    seen, calm = Seen(), resident(process)
    watching = asyncio.create_task(watch(process, url, seen))
    end = time.monotonic() + seconds + 6
    visitor = asyncio.create_task(polite(url, seen, lambda: time.monotonic() >= end))
    await asyncio.sleep(3)
    attacker = multiprocessing.get_context("spawn").Process(target=attack, args=(url, seconds), daemon=True)
    attacker.start()
    await visitor
    attacker.terminate()
    attacker.join()
    await asyncio.sleep(10)
    watching.cancel()
    seen.memory = [calm, max(seen.memory), seen.memory[-1]]
    return seen


def measure(folder: Path, attack: Callable, options: argparse.Namespace) -> dict:
    """One attack on a server of one checkout."""
    process, url = server(folder, options.memory)
    try:
        seen = asyncio.run(under(process, url, attack, options.seconds))
    finally:
        process.terminate()
        process.wait()
    clicks = sorted(seen.clicks)
    return {
        "attack": attack.__name__,
        "clicks": len(clicks),
        "p50 s": round(quantile(clicks, 0.5), 2),
        "p95 s": round(quantile(clicks, 0.95), 2),
        "longest s": round(clicks[-1], 2),
        "refused": sum(seen.refused.values()),
        "longest freeze s": round(seen.freeze, 2),
        "MB before, peak, after": [round(each) for each in seen.memory],
        "why": dict(seen.refused),
    }


def main() -> None:
    """Attack each checkout's server with each attack, checkouts in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, default=[ROOT])
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--memory", type=int, default=256)
    parser.add_argument("--only", nargs="*", choices=[each.__name__ for each in ATTACKS])
    options = parser.parse_args()
    for attack in ATTACKS:
        if options.only and attack.__name__ not in options.only:
            continue
        for folder in options.folders:
            print(folder.resolve().name, json.dumps(measure(folder, attack, options)), flush=True)


if __name__ == "__main__":
    main()
