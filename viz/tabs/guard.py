"""What stands between the network and the page: headers, sizes, rates."""

from starlette.middleware import Middleware

from viz.tabs.context import Options


def middleware(options: Options) -> list[Middleware]:
    """What every request passes through, outermost first."""
    return []
