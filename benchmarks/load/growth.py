"""Replicas come and go with the work: `python -m benchmarks.load.growth [--cpus 3] [--asking 12] [--seconds 40]`

On a Ray cluster of this machine (its processors are a number that Ray is told), so many threads ask about prompts of
their own for a while, then one, then nobody. Every second it says how many replicas there are and how many questions
wait for them. A replica too many goes after --idle seconds here instead of ten minutes.
"""

import argparse
import threading
import time

from viz.cluster import join
from viz.page.pipeline import PageRequest, scene_of
from viz.work.playground import Options, Playground


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpus", type=int, default=3)
    parser.add_argument("--asking", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--idle", type=float, default=10)
    options = parser.parse_args()
    join.connect("ray", cpus=options.cpus)
    from viz.cluster import cluster  # after it: importing ray decides what it listens on

    cluster.IDLE, cluster.SETTLED, cluster.TEND = options.idle, options.idle / 2, 1.0
    engine = cluster.Cluster(Options(memory_mb=128))
    playground = Playground(engine.options, engine)
    playground.load("tinygpt")
    began, ends, failed = time.monotonic(), threading.Event(), []

    def ask(number: int, until: threading.Event) -> None:
        turn = 0
        while not until.is_set():
            turn += 1
            try:
                scene_of(playground, PageRequest("tinygpt", f"{number} {turn} once upon a time", None, {}, {}, "en"))
            except Exception as error:
                failed.append(repr(error))
            if number == 0:
                time.sleep(1.0)

    def watch(seconds: float, what: str) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            found = engine.status()
            ready, waiting = sum(each.ready for each in found), sum(each.under_way for each in found)
            free = cluster.ray.available_resources().get("CPU", 0.0)
            now = time.monotonic() - began
            print(
                f"{now:5.1f} s, {what}: {ready} of {len(found)} replicas ready, {waiting} wait, {free:g} CPUs free",
                flush=True,
            )
            time.sleep(2.0)

    many = [threading.Thread(target=ask, args=(number, ends), daemon=True) for number in range(1, options.asking + 1)]
    for each in many:
        each.start()
    watch(options.seconds, f"{options.asking} ask")
    ends.set()
    for each in many:
        each.join(60)
    one = threading.Event()
    threading.Thread(target=ask, args=(0, one), daemon=True).start()
    watch(options.idle * 2.5, "one asks")
    one.set()
    watch(options.idle * 1.5, "nobody asks")
    print(f"failed: {failed or 'none'}")
    engine.close()


if __name__ == "__main__":
    main()
