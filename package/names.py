"""Names of the project's modules once they are installed: those of a clone, behind `attention_playground.`."""

import re

NAME = "attention_playground"
# Imports and commands, also in the Python lines that the page shows.
IMPORT = re.compile(r"\b(from|python -m) (?=(?:model|viz)(?:\.[a-z_]| import ))")


def renamed(text: str) -> str:
    """Return a source file's text with the names that its modules have once installed."""
    return IMPORT.sub(rf"\1 {NAME}.", text)
