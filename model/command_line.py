"""Code shared by the command lines."""

import argparse
import sys
from collections.abc import Sequence

from model.errors import PlaygroundError


def run(parser: argparse.ArgumentParser, arguments: Sequence[str] | None = None) -> int:
    """Run the selected command's `act`. Returns exit status 0, or another one after printing the error of an invalid
    request.
    """
    options = parser.parse_args(arguments)
    try:
        options.act(options)
    except (PlaygroundError, ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0
