"""Alignment from the command line: `python -m model.alignment --help`."""

import argparse
import sys
from collections.abc import Sequence

from model.alignment import reward_command
from model.alignment.reinforcement import command as reinforcement
from model.command_line import run

COMMANDS = (reward_command, reinforcement)  # each module adds its own commands and sets `act`


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Returns 0 on success and a nonzero exit status for an invalid request."""
    parser = argparse.ArgumentParser(prog="python -m model.alignment", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for each in COMMANDS:
        each.add(commands)
    return run(parser, arguments)


if __name__ == "__main__":
    sys.exit(main())
