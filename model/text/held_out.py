"""The text for evaluation: held out from the training of the bundled model."""

from pathlib import Path

TEXT = Path(__file__).parents[1] / "texts_data" / "little_princess.txt"  # see the README in the same folder


def bundled_text() -> str:
    """Read a chapter of A Little Princess (Burnett 1905, public domain), 34 kB, held out from TinyGPT's training."""
    return TEXT.read_text(encoding="utf-8")
