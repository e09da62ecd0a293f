"""What a load run measured: seconds by kind of action and by visitor, what went wrong, and what the server held."""

import asyncio
import math
import os
import statistics
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")
LEAST = 5  # answers of a visitor whose median says something
IDLE = 0.1  # of a core: a server that uses less does nothing


@dataclass(eq=False)
class Tally:
    """Everything that the visitors saw."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))  # by kind of action
    of_user: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))  # answers of the page alone
    busy: Counter = field(default_factory=Counter)  # by kind of action
    errors: Counter = field(default_factory=Counter)  # by what went wrong
    crossings: list[str] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)  # for a turn at the desk
    ends: float = math.inf  # moment from which visitors leave, so that who is still there waits for less
    open: int = 0  # questions under way now
    kills: list[dict] = field(default_factory=list)  # what was killed when, and the questions under way then
    cut: Counter = field(default_factory=Counter)  # questions that a kill cut short: retried, said or lost
    bytes: int = 0

    def add(self, kind: str, seconds: float, user: int | None = None) -> None:
        """An action that was answered."""
        self.seconds[kind].append(seconds)
        if user is not None and time.monotonic() - seconds < self.ends:
            self.of_user[user].append(seconds)


def quantile(values: list[float], share: float) -> float:
    """The value below which so much of the values lies; that of rank ceil(share * n), 0 for none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


# --- the server as the operating system sees it ------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """One look at a process."""

    at: float  # seconds, monotonic
    cpu: float  # seconds of processor time used so far, its children's apart
    resident: float  # MB
    threads: int


def look(pid: int) -> Sample:
    """The process now; raises FileNotFoundError where there is none. Linux only."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    resident = int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    return Sample(time.monotonic(), (int(fields[11]) + int(fields[12])) / TICK, resident, int(fields[17]))


async def watch(pid: int, samples: list[Sample]) -> None:
    """A look a second until it is cancelled."""
    while True:
        samples.append(look(pid))
        await asyncio.sleep(1)


async def until_idle(pid: int, most: float = 30.0) -> float:
    """Seconds from now until the server does nothing for half a second; raises TimeoutError after `most`."""
    began, quiet, before = time.monotonic(), None, look(pid)
    while time.monotonic() - began < most:
        await asyncio.sleep(0.1)
        now = look(pid)
        busy = (now.cpu - before.cpu) / (now.at - before.at) >= IDLE
        quiet = None if busy else quiet or before.at
        if quiet is not None and now.at - quiet >= 0.5:
            return max(0.0, quiet - began)
        before = now
    raise TimeoutError(f"the server still computes after {most:g} s")


# --- in words ----------------------------------------------------------------------------------------


def summary(tally: Tally, samples: list[Sample]) -> dict:
    """The figures as one value that JSON can hold; times in milliseconds."""
    ms = {
        kind: {
            "count": len(found),
            "p50": quantile(found, 0.5),
            "p95": quantile(found, 0.95),
            "p99": quantile(found, 0.99),
            "max": max(found),
        }
        for kind, found in sorted(tally.seconds.items())
    }
    kinds = {
        kind: {name: value if name == "count" else round(1000 * value, 1) for name, value in row.items()}
        | {"busy": sum(n for what, n in tally.busy.items() if what.startswith(f"{kind.split(':')[0]}: "))}
        for kind, row in ms.items()
    }
    medians = {user: statistics.median(found) for user, found in tally.of_user.items() if len(found) >= LEAST}
    fair = {
        "best_user_p50": round(1000 * min(medians.values(), default=0), 1),
        "worst_user_p50": round(1000 * max(medians.values(), default=0), 1),
        "worst_over_best": round(max(medians.values()) / min(medians.values()), 2) if medians else None,
        "visitors": len(medians),
        "longest_wait": round(1000 * max((each for found in tally.of_user.values() for each in found), default=0), 1),
        "fewest_answers": min(map(len, tally.of_user.values()), default=0),
    }
    held = {}
    if samples:
        span = samples[-1].at - samples[0].at
        held = {
            "resident_first": round(samples[0].resident),
            "resident_most": round(max(s.resident for s in samples)),
            "resident_last": round(samples[-1].resident),
            "threads_most": max(s.threads for s in samples),
            "threads_last": samples[-1].threads,
            "cores": round((samples[-1].cpu - samples[0].cpu) / span, 2) if span else 0.0,
        }
    return {
        "kinds": kinds,
        "fairness": fair,
        "server": held,
        "busy": dict(tally.busy),
        "errors": dict(tally.errors),
        "crossings": tally.crossings,
        "kills": tally.kills,
        "cut": dict(tally.cut),
        "waited_most": round(1000 * max(tally.waited, default=0), 1),
        "megabytes": round(tally.bytes / 1e6, 1),
    }


def table(found: dict) -> str:
    """The same for people, as Markdown."""
    lines = ["| action | count | p50, ms | p95, ms | p99, ms | most, ms | busy |", "|---|---|---|---|---|---|---|"]
    for kind, row in found["kinds"].items():
        numbers = [f"{row[name]:.0f}" for name in ("p50", "p95", "p99", "max")]
        lines.append(f"| {kind} | {row['count']} | {' | '.join(numbers)} | {row['busy']} |")
    fair, held = found["fairness"], found["server"]
    lines += [
        "",
        f"Medians of the {fair['visitors']} visitors with {LEAST} answers or more: {fair['best_user_p50']:.0f} to "
        f"{fair['worst_user_p50']:.0f} ms ({fair['worst_over_best']} times), longest wait "
        f"{fair['longest_wait']:.0f} ms, for a turn of long work {found['waited_most']:.0f} ms, "
        f"{found['megabytes']} MB received.",
    ]
    for kind, row in found.get("processes", {}).items():
        lines.append(
            f"{kind}: {row['processes']} processes, the largest {row['first']} MB at first, {row['most']} at most, "
            f"{row['last']} at last; {row['cores']} cores."
        )
    if found["kills"]:
        lines.append(f"Killed: {found['kills']}. Of what was under way: {found['cut']}.")
    if held:
        lines.append(
            f"Server: {held['resident_first']} MB resident at first, {held['resident_most']} at most, "
            f"{held['resident_last']} at last; threads {held['threads_most']} at most, {held['threads_last']} at last; "
            f"{held['cores']} cores busy."
        )
    if "idle" in found:
        lines.append(
            "Idle again, seconds after: " + ", ".join(f"{name} {s}" for name, s in found["idle"].items()) + "."
        )
    lines.append(
        f"Busy: {found['busy'] or 'never'}. Errors: {found['errors'] or 'none'}. "
        f"Answers of somebody else: {len(found['crossings'])}."
    )
    return "\n".join([*lines, *(f"- {text}" for text in found["crossings"][:10])])
