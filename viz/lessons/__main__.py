"""Check a folder of lessons: `python -m viz.lessons check FOLDER`."""

import argparse
import sys
from pathlib import Path

from viz.lessons.check import computed, faults_of


def main(arguments: list[str] | None = None) -> int:
    """Print a line for every fault. Returns 0 if no fault was found, else 1."""
    parser = argparse.ArgumentParser(prog="python -m viz.lessons", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="say what is wrong with the lessons of a folder")
    check.add_argument("folder", type=Path)
    check.add_argument("--no-model", action="store_true", help="only read the files; compute no answers")
    options = parser.parse_args(arguments)
    if not options.folder.is_dir():
        print(f"There is no folder {options.folder}.", file=sys.stderr)
        return 2
    lessons, faults = faults_of(options.folder)
    if not faults and not options.no_model:
        faults = computed(lessons)
    for fault in faults:
        print(fault)
    if not faults:
        print(f"{len(lessons)} lessons: no faults.")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
