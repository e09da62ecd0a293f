"""What the command lines have in common."""

import argparse
import sys
from collections.abc import Sequence

from model.errors import PlaygroundError


def run(parser: argparse.ArgumentParser, arguments: Sequence[str] | None = None) -> int:
    """Do what the chosen command's `act` says; the exit status is 0 unless the request is invalid, which is told."""
    options = parser.parse_args(arguments)
    try:
        options.act(options)
    except (PlaygroundError, ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0
