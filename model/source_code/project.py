"""Where the project is: packages `model` and `viz` in a clone, below `attention_playground` once installed."""

import importlib.metadata
import tomllib
from pathlib import Path

PREFIX = __name__.removesuffix(
    "model.source_code.project"
)  # before the name of every module: "" or "attention_playground."
FOLDER = Path(__file__).parents[2]  # contains model, viz, static and docs/mini_gpt.py
IMPORTED_FROM = Path(__file__).parents[__name__.count(".")]  # where Python finds the modules


def version() -> str:
    """Return the version of the project: that of the installed package, or in a clone that of pyproject.toml."""
    if PREFIX:
        return importlib.metadata.version("attention-playground")
    return tomllib.loads((FOLDER / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
