"""A polite visitor on a shared server while somebody attacks it, one attack after the other. Loopback only.

    python -m benchmarks.load.hostile [--seconds 15] [--memory 256] [--only NAME ...] [FOLDER ...]

Starts `python app.py --offline --public` of each checkout (this one without a FOLDER) anew for every attack. The
attacker is a process of its own, bounded in number, rate and size. Meanwhile a page clicks a head every 0.4 s and a
sign of life is asked for every 0.1 s. Reported: the page's p50, p95 and longest click, how often it was told that the
server is busy or failed, the longest time without a sign of life, and the server's memory before, at its peak, and 10 s
after the attack. Linux only.
"""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from benchmarks.load.page import LIMITS, TIMEOUT, Busy, Failed, Page
from benchmarks.load.report import quantile

ROOT = Path(__file__).parents[2]
LONG = "The quick brown fox jumps over the lazy dog and runs away. " * 30  # about 400 tokens
CLICK, SIGN = 0.4, 0.1  # seconds between two clicks, and between two signs of life


# --- attacks: each a bounded stream of requests, in a process of its own ------------------------------------


def _line(url: str, text: str) -> socket.socket:
    host = urlsplit(url)
    connection = socket.create_connection((host.hostname, host.port), timeout=5)
    connection.sendall(text.replace("HOST", host.netloc).encode())
    return connection


def _paced(seconds: float, per_second: float, act: Callable[[], object]) -> None:
    """Do something so often; what fails is the server's way of saying no."""
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        with contextlib.suppress(OSError, httpx.HTTPError):
            act()
        time.sleep(max(0.0, 1 / per_second - (time.monotonic() - now)))


def _refresh(client: httpx.Client) -> Callable[[str], dict]:
    """What the page sends when it asks for all of a prompt, in the name of a visit."""
    config = client.get("/config").json()
    prompt = next(each["id"] for each in config["components"] if each["props"].get("elem_id") == "prompt")
    asked = next(each for each in config["dependencies"] if [prompt, "change"] in each["targets"])
    values = {each["id"]: each["props"].get("value") for each in config["components"]} | {prompt: LONG}
    data = [values.get(number) for number in asked["inputs"]]
    return lambda visit: {"data": data, "fn_index": asked["id"], "session_hash": visit, "trigger_id": None}


def nothing(url: str, seconds: float) -> None:
    """Nobody attacks."""
    time.sleep(seconds)


def heartbeats(url: str, seconds: float) -> None:
    """Lines of visits that are not there, opened and closed, 150 a second."""

    def act() -> None:
        _line(url, f"GET /gradio_api/heartbeat/{uuid.uuid4().hex[:11]} HTTP/1.1\r\nHost: HOST\r\n\r\n").close()

    _paced(seconds, 150, act)


def half_headers(url: str, seconds: float) -> None:
    """2,000 connections that never end their headers."""
    kept: list[socket.socket] = []

    def act() -> None:
        if len(kept) < 2000:
            kept.append(_line(url, "GET / HTTP/1.1\r\nHost: HOST\r\nX-Slow: "))

    _paced(seconds, 400, act)


def unread(url: str, seconds: float) -> None:
    """Questions of invented visits, 5 a second, whose answers nobody comes for."""
    with httpx.Client(base_url=url, timeout=10) as client:
        body = _refresh(client)
        _paced(seconds, 5, lambda: client.post("/gradio_api/queue/join", json=body(uuid.uuid4().hex[:11])))


def invented(url: str, seconds: float) -> None:
    """300 invented visits ask at once, then 10 a second."""
    with httpx.Client(base_url=url, timeout=10) as client:
        body = _refresh(client)
        for _ in range(300):
            with contextlib.suppress(httpx.HTTPError):
                client.post("/gradio_api/queue/join", json=body(uuid.uuid4().hex[:11]))
        _paced(seconds, 10, lambda: client.post("/gradio_api/queue/join", json=body(uuid.uuid4().hex[:11])))


def deaf(url: str, seconds: float) -> None:
    """Visits that listen without ever reading, and ask again and again."""
    lines: list[socket.socket] = []
    visits = [uuid.uuid4().hex[:11] for _ in range(20)]
    with httpx.Client(base_url=url, timeout=10) as client:
        body, turn = _refresh(client), 0

        def act() -> None:
            nonlocal turn
            visit, turn = visits[turn % len(visits)], turn + 1
            client.post("/gradio_api/queue/join", json=body(visit))
            if len(lines) < 200:
                text = f"GET /gradio_api/queue/data?session_hash={visit} HTTP/1.1\r\nHost: HOST\r\n\r\n"
                lines.append(_line(url, text))

        _paced(seconds, 10, act)


def programs(url: str, seconds: float) -> None:
    """Calls for whole attention matrices, 10 a second, whose answers nobody comes for."""
    given = {"prompt": LONG, "layer": 0, "head": 0}
    with httpx.Client(base_url=url, timeout=10) as client:
        named = client.get("/gradio_api/info").json()["named_endpoints"]["/attention"]["parameters"]
        data = [given.get(each["label"], each.get("parameter_default")) for each in named]
        _paced(seconds, 10, lambda: client.post("/gradio_api/call/attention", json={"data": data}))


def files(url: str, seconds: float) -> None:
    """Arguments that name a file on another server, 10 a second."""
    file = {"path": "http://127.0.0.1:9/big.bin", "meta": {"_type": "gradio.FileData"}}
    with httpx.Client(base_url=url, timeout=10) as client:
        _paced(seconds, 10, lambda: client.post("/gradio_api/call/tokenize", json={"data": [file, ""]}))


def junk(url: str, seconds: float) -> None:
    """Functions that do not exist, wrong values, deep and broken JSON, 40 a second."""
    bodies = [b"{", b"[" * 20_000, b'{"data": [], "fn_index": 99999, "session_hash": "x"}', b'{"data": [1, 2, 3]}']
    with httpx.Client(base_url=url, timeout=10, headers={"content-type": "application/json"}) as client:
        turn = iter(range(10**9))
        _paced(seconds, 40, lambda: client.post("/gradio_api/queue/join", content=bodies[next(turn) % len(bodies)]))


ATTACKS = (nothing, heartbeats, half_headers, unread, invented, deaf, programs, files, junk)


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


async def polite(url: str, seen: Seen, until: float) -> None:
    """A page that opens before the attack and clicks heads."""
    async with httpx.AsyncClient(limits=LIMITS, timeout=TIMEOUT) as client:
        page = Page(client, url)
        await page.open()
        for each in page.loading:
            await page.ask(each)
        page.set("nav", {"tab": "attention"})
        await page.ask(page.refresh)
        number = 0
        while time.monotonic() < until:
            number += 1
            page.set("selection", {"heads": [[number % 6, (number // 6) % 6]], "tokens": []})
            began = time.monotonic()
            try:
                answer = await page.ask(page.refresh)
                if page.screens["map_plot"] not in answer.data:
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
    visitor = asyncio.create_task(polite(url, seen, time.monotonic() + seconds + 6))
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
