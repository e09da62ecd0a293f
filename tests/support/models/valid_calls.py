"""One valid call of every public function, and which odd values of its arguments are legal."""

from tests.support.models.calls import building, corpora, inside, learning, writing  # their rows stand in ROWS
from tests.support.models.calls.row import ROWS, Given

__all__ = ["ROWS", "Given", "building", "corpora", "inside", "learning", "writing"]
