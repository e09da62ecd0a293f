"""Lines of code are found by the names in them, as they stand."""

import ast

import pytest

from model.source_code.excerpts import Span, excerpt, excerpts

SIZES = {"x": (1, 9), "y": (1, 7)}


class Taps:
    """Stands for a module with a tap."""

    def at(self, site: str, value: int) -> int:
        return value

    def steps(self, first: int, last: int) -> int:
        """A few statements to choose among."""
        total = first  # the first
        for each in range(last):
            total = total + each
        if first:
            total = self.at("x", total)
        else:
            total = self.at("y", -total)
            total += 1
        return min((total, last), key=lambda one: self.at("x", one) - self.at("y", last))


def found(*lines: str, gives=()) -> tuple[list[str], dict[int, str]]:
    """The pieces, and the shapes by line counted from the function's own."""
    made = excerpt(Span(Taps.steps, lines, gives), SIZES)
    own = excerpt(Span(Taps.steps), {}).pieces[0].line
    return [piece.text for piece in made.pieces], {line - own: text for line, text in made.shapes}


def test_all_of_a_function_with_its_place():
    made = excerpt(Span(Taps.steps), {})
    assert (made.file, made.function) == ("tests/unit/model/source_code/test_excerpts.py", "Taps.steps")
    assert made.text.startswith("def steps(self, first: int, last: int)") and made.text.endswith('self.at("y", last))')
    ast.parse(made.text)


@pytest.mark.parametrize(
    ("lines", "pieces"),
    [
        (("range",), None),  # only in a loop's own line
        (("each",), ["total = total + each"]),
        (("if first",), ['total = self.at("x", total)']),
        (("else first",), ['total = self.at("y", -total)\ntotal += 1']),
        (("=key",), ['return min((total, last), key=lambda one: self.at("x", one) - self.at("y", last))']),
        (("return",), ['return min((total, last), key=lambda one: self.at("x", one) - self.at("y", last))']),
        (('"y"', "each"), None),
        (("=nothing",), None),
        (("if nothing",), None),
    ],
)
def test_statements_by_the_names_in_them(lines, pieces):
    if pieces is None and lines != ('"y"', "each"):
        with pytest.raises(LookupError):
            found(*lines)
    elif pieces is None:
        texts, _ = found(*lines)
        assert texts[0] == "total = total + each" and texts[1] == 'total = self.at("y", -total)' and len(texts) == 3
    else:
        assert found(*lines)[0] == pieces


def test_shapes_stand_at_the_lines_that_make_them():
    assert found("if first")[1] == {6: "[1, 9]"}
    assert found("return")[1] == {10: "x [1, 9], y [1, 7]"}
    assert found("each", gives=(("each", "x"), ("each", "unknown")))[1] == {4: "[1, 9]"}


def test_what_cannot_be_found_is_left_out_on_a_page():
    spans = [Span(Taps.steps, ("gone",)), Span(("docs/gone.py", "f")), Span(len), Span(Taps.at)]
    assert [each.function for each in excerpts(spans, {})] == ["Taps.at"]
    with pytest.raises(LookupError):
        excerpt(Span(("docs/mini_gpt.py", "Attention.gone")), {})
