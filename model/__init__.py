"""The model and everything computed with it; and where the project is: in a clone, or installed."""

from pathlib import Path

PREFIX = __name__.removesuffix("model")  # before every module's name: "", or "attention_playground." if installed
FOLDER = Path(__file__).parents[1]  # contains model, viz, static and docs/mini_gpt.py
IMPORTED_FROM = Path(__file__).parents[1 + PREFIX.count(".")]  # where Python finds the modules


def version() -> str:
    """Return the version of the project: that of the installed package, or in a clone that of pyproject.toml."""
    import importlib.metadata
    import tomllib

    if PREFIX:
        return importlib.metadata.version("attention-playground")
    return tomllib.loads((FOLDER / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
