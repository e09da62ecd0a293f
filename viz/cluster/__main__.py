"""Command line for the replicas on a Ray cluster:

python -m viz.cluster list ray://HOST:10001       list the replicas with their contents and load
python -m viz.cluster restart ray://HOST:10001    restart them one by one, each when its long-running work has ended
python -m viz.cluster stop ray://HOST:10001       stop all replicas; open pages start new ones
"""

import argparse
import sys

from model.errors import PlaygroundError


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("list", "restart", "stop"))
    parser.add_argument("address", help='ray://HOST:PORT, or "ray" for the cluster of RAY_ADDRESS')
    options = parser.parse_args(arguments)
    from viz.cluster import care

    try:
        for line in care.DO[options.what](options.address):
            print(line, flush=True)
    except PlaygroundError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
