"""Load runs as a table, and what more machines give by them: `python -m benchmarks.load.model RUN.json ...`

A run of benchmarks.load says how many cores each kind of process used for a lively visitor. From that follows how many
such visitors some machines serve:

    visitors = use * machines * cores / (cores that a visitor takes of page processes and replicas)

The assumptions:
* The cores of all machines are as fast as those measured, and nothing else runs on them.
* Visitors and prompts are spread evenly: by the cookie over page processes, by hashing over replicas.
* A visitor asks as often as in the measured run. Where that run was short of cores, one that is not asks more often,
  and the figure is too large by as much.
* `use` of the cores is what one plans with; the rest is for moments in which many ask at once.
* The proxy stands on a machine of its own and must use less than `use` of one core.
* The network between the machines adds its delay to each answer, and no processor time that was not measured.
"""

import argparse
import json
import math
from dataclasses import dataclass
from pathlib import Path

USE = 0.7


@dataclass(frozen=True)
class Plan:
    """What some machines serve, and the cores that this takes."""

    visitors: int
    page: float  # of all page processes
    replica: float  # of all replicas and of Ray's own processes
    proxy: float


def plan(run: dict, machines: int, cores: int, use: float = USE) -> Plan:
    """The visitors that so many machines of so many cores serve by the measured `processes` of a run.

    Raises ValueError for a run in which no processor time was measured.
    """
    each = {kind: row["cores_a_visitor"] for kind, row in run["processes"].items()}
    page, proxy = each.get("page", 0.0) + each.get("child", 0.0), each.get("proxy", 0.0)
    replica = each.get("replica", 0.0) + each.get("ray", 0.0)
    if page + replica <= 0:
        raise ValueError("this run has no figures of processes")
    served = use * machines * cores / (page + replica)
    count = math.floor(min(served, use / proxy) if proxy else served)
    return Plan(count, count * page, count * replica, count * proxy)


def name_of(run: dict) -> str:
    """The set-up of a run in words."""
    options = run["options"]
    if options["engine"]:
        return f"a page and {options['replicas']} replica" + "s" * (options["replicas"] > 1)
    return f"{options['workers']} page processes" if options["workers"] > 1 else "one page process"


def table(runs: list[dict], machines: tuple[int, ...], cores: int) -> str:
    """A row for each run, as Markdown."""
    heads = " | ".join(f"{count} machines" if count > 1 else "one machine" for count in machines)
    lines = [
        f"| measured with | visitors there | cores a visitor | {heads} | cores of page, replicas, proxy then |",
        "|---" * (4 + len(machines)) + "|",
    ]
    for run in runs:
        plans = [plan(run, count, cores) for count in machines]
        took = sum(row["cores_a_visitor"] for kind, row in run["processes"].items() if kind != "proxy")
        served, last = " | ".join(f"{each.visitors:,}" for each in plans), plans[-1]
        then = f"{last.page:.1f}, {last.replica:.1f}, {last.proxy:.2f}"
        lines.append(f"| {name_of(run)} | {run['options']['users']} | {took:.3f} | {served} | {then} |")
    return "\n".join(lines)


def measured(runs: list[dict]) -> str:
    """What each run measured, a row each, as Markdown."""
    lines = [
        "| server | visitors | answers | click on a head, s: p50, p95 | page open, s: p50 | visitors' medians, s | "
        "longest wait, s | refused | errors | cores | MB of a page process: first, most, last | of a replica |",
        "|---" * 12 + "|",
    ]
    for run in runs:
        kinds, fair, processes = run["kinds"], run["fairness"], run["processes"]
        head, opened = kinds["head"], kinds["open the page"]
        answers = sum(row["count"] for row in kinds.values())
        spread = f"{fair['best_user_p50'] / 1000:.1f} to {fair['worst_user_p50'] / 1000:.1f}"
        held = [
            f"{row['first']:,}, {row['most']:,}, {row['last']:,}" if (row := processes.get(kind)) else "-"
            for kind in ("page", "replica")
        ]
        cells = [
            name_of(run),
            run["options"]["users"],
            f"{answers:,}",
            f"{head['p50'] / 1000:.1f}, {head['p95'] / 1000:.1f}",
            f"{opened['p50'] / 1000:.1f}",
            spread,
            f"{fair['longest_wait'] / 1000:.0f}",
            sum(run["busy"].values()),
            sum(run["errors"].values()),
            f"{sum(row['cores'] for row in processes.values()):.2f}",
            *held,
        ]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="what `benchmarks.load --json` wrote")
    parser.add_argument("--machines", nargs="+", type=int, default=[1, 10])
    parser.add_argument("--cores", type=int, default=2, help="of each")
    options = parser.parse_args()
    runs = [json.loads(file.read_text()) for file in options.runs]
    print(measured(runs), table(runs, tuple(options.machines), options.cores), sep="\n\n")


if __name__ == "__main__":
    main()
