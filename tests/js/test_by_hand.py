"""A block that is pasted into the tables of numbers: from a spreadsheet, a text, or lines of NumPy."""

import pytest

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("0.5", None),
        ("1\t2\r\n3\t4\r\n", [["1", "2"], ["3", "4"]]),
        ("1\t\t3", [["1", "", "3"]]),
        ("1, 2, 3", [["1", "2", "3"]]),
        ("1 2\n3 4 5", [["1", "2"], ["3", "4", "5"]]),
        ("[[1.0, -0.5],\n [0.25, 2.0]]", [["1.0", "-0.5"], ["0.25", "2.0"]]),
        ("1;2\n3;4", [["1", "2"], ["3", "4"]]),
        ("a\tb", [["a", "b"]]),
    ],
)
def test_what_is_pasted_is_cells(call, text, cells):
    assert call("views/by_hand/block.js", "module.block", text) == cells
