"""The code beside a figure, as static/parts/code.js shows it."""

from model.source_code.excerpts import Code, Excerpt
from viz.seam.view import Payload
from viz.words import Catalogue, Words


def code_payload(code: Code, catalogue: Catalogue) -> Payload:
    """Build the excerpts of the project's code, and those of docs/mini_gpt.py if there are any."""
    words = Words(catalogue, "code")
    sets = {"project": code.own, "mini": code.mini}
    return {
        "sets": [[words[name], [_excerpt(each) for each in excerpts]] for name, excerpts in sets.items() if excerpts],
        "words": words.plain(),
    }


def _excerpt(excerpt: Excerpt) -> dict:
    return {
        "caption": f"{excerpt.file}: {excerpt.function}",
        "pieces": [[piece.line, piece.text] for piece in excerpt.pieces],
        "shapes": {str(line): text for line, text in excerpt.shapes},
    }


def code_answer(code: Code) -> dict:
    """Build the excerpts of code for the answer to a program."""

    def listed(excerpts: tuple[Excerpt, ...]) -> list[dict]:
        return [
            {
                "file": each.file,
                "function": each.function,
                "lines": [[piece.line, piece.line + piece.text.count("\n")] for piece in each.pieces],
                "text": each.text,
                "shapes": [{"line": line, "shape": text} for line, text in each.shapes],
            }
            for each in excerpts
        ]

    return {"code": listed(code.own), "mini": listed(code.mini)}
