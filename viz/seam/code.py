"""The code beside a picture, as static/parts/code.js shows it."""

from model.source_code.excerpts import Code, Excerpt
from viz.seam.view import Payload
from viz.words import Catalogue, Words


def code_payload(code: Code, catalogue: Catalogue) -> Payload:
    """Return the project's lines, and those of docs/mini_gpt.py if there are any. Sets without lines are left out."""
    words = Words(catalogue, "code")
    sets = {"project": code.own, "mini": code.mini}
    return {
        "sets": [[words[name], [_excerpt(each) for each in found]] for name, found in sets.items() if found],
        "words": words.plain(),
    }


def _excerpt(excerpt: Excerpt) -> dict:
    return {
        "caption": f"{excerpt.file}: {excerpt.function}",
        "pieces": [[piece.line, piece.text] for piece in excerpt.pieces],
        "shapes": {str(line): text for line, text in excerpt.shapes},
    }


def code_answer(code: Code) -> dict:
    """Return the lines of code for programs."""

    def listed(found: tuple[Excerpt, ...]) -> list[dict]:
        return [
            {
                "file": each.file,
                "function": each.function,
                "lines": [[piece.line, piece.line + piece.text.count("\n")] for piece in each.pieces],
                "text": each.text,
                "shapes": [{"line": line, "shape": text} for line, text in each.shapes],
            }
            for each in found
        ]

    return {"code": listed(code.own), "mini": listed(code.mini)}
