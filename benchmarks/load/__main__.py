"""A class at work: so many visitors at once, who type, click, start long work, cancel it, leave and come back.

    python -m benchmarks.load [--users 30] [--browsers 2] [--seconds 120] [--attack NAME] [--url http://...]
                             [--workers N] [--engine ray --replicas N] [--kill page proxy replica]

Starts `python app.py --offline --public` with a memory of its own, or asks the server at --url (then the figures of
its process are left out unless --pid is given). Every answer is checked against what that visitor asked for. At the
end it looks how soon the server is idle once a race is stopped, a job is cancelled, a page with a job is closed, and
has one visitor alone write some of the races again: the same texts must come out. Fails where anybody got somebody
else's answer or an error, where a visitor had no answers, or where the server's memory grew beyond its bounds. With
--attack one of the attacks of benchmarks/load/hostile.py goes on meanwhile, from another address. Thirty visitors
share an address of the loopback, as a class does. With --kill processes of these kinds are killed one after the other:
a visitor whose drawing is cut short opens the page anew and asks again, as the page does (retried), or is told (said);
nothing may be lost. Linux only.
"""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import httpx

from benchmarks.load.browser import browsers
from benchmarks.load.hostile import ATTACKS
from benchmarks.load.ledger import Ledger
from benchmarks.load.page import LIMITS, TIMEOUT
from benchmarks.load.processes import Watch, kill, wait_for_all
from benchmarks.load.report import Sample, Tally, look, summary, table, until_idle, watch
from benchmarks.load.users import User, race_lines, stop_race
from model.api import load_model
from viz.cluster.workers.pool import free_ports

ROOT = Path(__file__).parents[2]
ROOM = 400  # MB beyond --memory that the sessions of a class, threads and work under way may take
SESSION = 0.25  # MB for each visitor more than a class
CLASS = 30  # visitors behind one address, of this machine's loopback
ALONE = 5  # races that are written again


def server(options: argparse.Namespace) -> tuple[subprocess.Popen, str]:
    """`python app.py` and its address."""
    command = [sys.executable, "app.py", "--offline", "--model", options.model, "--memory", str(options.memory)]
    port = options.port or (free_ports(1)[0] if options.workers > 1 else 0)  # one process finds one itself
    command += ["--port", str(port)] * bool(port) + ["--public"] * options.public
    command += ["--workers", str(options.workers)] if options.workers > 1 else []
    command += ["--engine", options.engine, "--replicas", str(options.replicas)] if options.engine else []
    log = (Path(options.log) if options.log else Path(os.devnull)).open("w")
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    )
    for line in process.stdout:
        if line.startswith("Attention playground:"):
            wait_for_all(process.pid, options.workers)
            return process, line.split()[2].rstrip(",")
    raise SystemExit("the app did not start")


async def killed(options: argparse.Namespace, root: int, tally: Tally) -> None:
    """Kill one process after the other, evenly over the time."""
    for each in options.kill:
        await asyncio.sleep(options.seconds / (len(options.kill) + 1))
        under_way = tally.open
        number = kill(each, root, options.workers > 1)
        tally.kills.append({"what": each, "found": number is not None, "under_way": under_way})


async def crowd(options: argparse.Namespace, url: str, pid: int | None, root: int | None = None) -> dict:
    """The visit of all of them, and what came of it. `root`: the process that all of the server's descend from."""
    ledger, samples = Ledger(load_model(options.model, offline=True)), list[Sample]()
    tally, after = Tally(), Tally()  # what the crowd saw; what one visitor alone sees then
    async with contextlib.AsyncExitStack() as clients:

        async def visitor(number: int, *more: object) -> User:
            """A visitor with cookies of its own, as a browser has them."""
            address = f"127.0.1.{1 + (number - 1) // CLASS % 200}" if "127.0.0.1" in url else None
            wire = httpx.AsyncHTTPTransport(verify=False, limits=LIMITS, local_address=address)
            client = await clients.enter_async_context(httpx.AsyncClient(transport=wire, timeout=TIMEOUT))
            return User(number, client, url, ledger, *more)

        first = await visitor(0, Tally())
        if not await first.arrive():
            raise SystemExit(f"the page does not open: {first.tally.errors or first.tally.busy}")
        await first.leave()
        watching = asyncio.create_task(watch(pid, samples)) if pid else None
        watched = Watch(root, options.workers > 1) if root else None
        looking = asyncio.create_task(watched.go()) if watched else None
        killing = asyncio.create_task(killed(options, root, tally)) if options.kill and root else None
        until = tally.ends = time.monotonic() + options.seconds
        users = [await visitor(number, tally, options.seed) for number in range(1, options.users + 1)]
        real = [browsers(options.browsers, url, ledger, tally, until)] if options.browsers else []
        ended = await asyncio.gather(*(user.live(until) for user in users), *real, return_exceptions=True)
        for error in ended:
            if isinstance(error, BaseException):
                tally.errors[f"a visitor broke: {error!r}"[:160]] += 1
        found = {"idle": {}}
        if watched:
            looking.cancel()
            watched.look()
            found["processes"] = watched.summary(options.users)
        if killing:
            killing.cancel()
        if pid:
            found["idle"]["everybody left"] = await _idle(pid, tally)
            for name, act in ENDINGS.items():
                await act(await visitor(0, after))
                found["idle"][name] = await _idle(pid, tally)
        for user in [user for user in users if user.texts][:ALONE]:
            await rewritten(await visitor(user.number, after), user.texts[-1])
        tally.errors.update(after.errors)
        tally.crossings.extend(after.crossings)
        if watching:
            samples.append(look(pid))
            watching.cancel()
    return summary(tally, samples) | found


async def _idle(pid: int, tally: Tally) -> float | None:
    try:
        return round(await until_idle(pid), 1)
    except TimeoutError as error:
        tally.errors[str(error)] += 1
        return None


# --- how soon work stops ----------------------------------------------------------------------------


async def _begun(asking: AsyncGenerator[dict]) -> asyncio.Task:
    """Return the task that follows long work, once that is under way."""
    begun = asyncio.Event()

    async def follow() -> None:
        async with aclosing(asking) as lines:
            async for line in lines:
                if "payload" in line or "bar" in line:
                    begun.set()

    task = asyncio.create_task(follow())
    await asyncio.wait_for(begun.wait(), 60)
    await asyncio.sleep(0.3)
    return task


async def _race(user: User) -> asyncio.Task:
    user.page.values["strategies"] = {"settings": {"tokens": 128}}
    return await _begun(race_lines(user.page, "last"))


async def _samples(user: User) -> asyncio.Task:
    user.page.values["strategies"] = {"settings": {"tokens": 128, "seed": user.random.randrange(10_000)}}
    user.page.values["many_samples_form"] = {"count": "16"}
    return await _begun(user.page.ask("job", part="many_samples_job"))


async def _closed(task: asyncio.Task) -> None:
    task.cancel()
    await asyncio.wait((task,))


async def stop_a_race(user: User) -> None:
    """Stop it by its button."""
    await user.arrive()
    task = await _race(user)
    await stop_race(user.page)
    await task
    await user.leave()


async def cancel_a_job(user: User) -> None:
    """Close its request, as its button does."""
    await user.arrive()
    await _closed(await _samples(user))
    await user.leave()


async def close_a_page(user: User) -> None:
    """Close it with a race and a job under way."""
    await user.arrive()
    for task in [await _samples(user), await _race(user)]:
        await _closed(task)
    await user.leave()


ENDINGS = {"a race stopped": stop_a_race, "a job cancelled": cancel_a_job, "a page closed at work": close_a_page}


# --- the same texts without the crowd ---------------------------------------------------------------


async def rewritten(user: User, text: dict) -> None:
    """Write a race again, alone; note where another text comes out."""
    if not await user.arrive():
        return
    user.page.prompt, user.page.values["strategies"] = text["prompt"], {"settings": text["settings"]}
    await user.write(text, False)
    if [ids_of(each["ticks"]) for each in user.texts] != [ids_of(text["ticks"])]:
        user.wrong(f"the race of “{text['prompt']}” wrote another text in the crowd than alone")
    await user.leave()


def ids_of(ticks: list[list]) -> list[list]:
    """The tokens of a race, step by step: its numbers are those of other forwards, which round otherwise."""
    return [
        [change and ([record[0] for record in change[0]], change[1], change[2]) for change in tick] for tick in ticks
    ]


def bad(found: dict, options: argparse.Namespace) -> list[str]:
    """Why the run is a failure; nothing where it is none."""
    reasons = [f"{len(found['crossings'])} answers were not the visitor's own"] if found["crossings"] else []
    if found["errors"]:
        reasons.append(f"{sum(found['errors'].values())} errors")
    if found["cut"].get("lost"):
        reasons.append(f"{found['cut']['lost']} questions were lost")
    if any(not each["found"] for each in found["kills"]):
        reasons.append("there was nothing to kill")
    if found["fairness"]["fewest_answers"] == 0:
        reasons.append("a visitor had no answer")
    held = found["server"]
    room = options.memory + ROOM + SESSION * max(0, options.users - CLASS)
    if held and options.memory and held["resident_most"] > held["resident_first"] + room:
        reasons.append(f"memory grew to {held['resident_most']} MB")
    return reasons


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=30)
    parser.add_argument("--browsers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--model", default="tinygpt")
    parser.add_argument("--memory", type=int, default=256, help="MB of traces of the server that is started")
    parser.add_argument("--url", default="", help="a server that runs already")
    parser.add_argument("--pid", type=int, default=0, help="its process, on this machine")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--public", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--attack", choices=[each.__name__ for each in ATTACKS], help="what a rude neighbor does")
    parser.add_argument("--workers", type=int, default=1, help="page processes")
    parser.add_argument("--engine", default="", help='"ray" for a cluster on this machine')
    parser.add_argument("--replicas", type=int, default=1, help="of the model on that cluster")
    parser.add_argument(
        "--kill", nargs="+", default=[], choices=("page", "proxy", "replica"), help="one after the other"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", default="", help="a file for the server's log")
    parser.add_argument("--json", default="", help="a file for the figures")
    return parser.parse_args(arguments)


def main() -> None:
    options, process = parse(), None
    if options.url:
        url, pid = options.url.rstrip("/") + "/", options.pid or None
    else:
        process, url = server(options)
        pid = process.pid if options.workers == 1 and not options.engine else None
    rude = None
    if options.attack:
        attack = next(each for each in ATTACKS if each.__name__ == options.attack)
        rude = multiprocessing.get_context("spawn").Process(target=attack, args=(url, options.seconds), daemon=True)
        rude.start()
    try:
        found = asyncio.run(crowd(options, url, pid, process.pid if process else None))
    finally:
        if rude:
            rude.terminate()
        if process:
            process.terminate()
            process.wait(timeout=20)
    found["options"] = {name: value for name, value in vars(options).items() if name not in ("json", "log")}
    print(table(found))
    print(json.dumps(found, ensure_ascii=False))
    if options.json:
        Path(options.json).write_text(json.dumps(found, ensure_ascii=False, indent=1))
    if reasons := bad(found, options):
        raise SystemExit("; ".join(reasons))


if __name__ == "__main__":
    main()
