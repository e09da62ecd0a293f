"""Texts of numbers: one rule for percents, and parts that add up to the sum as printed."""

import pytest

from viz.numbers import addends, decimals, percent


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0%"), (0.002, "0.20%"), (0.00996, "1.00%"), (0.0005, "0.050%"), (0.342, "34.2%"), (1.2e-7, "1.2 × 10⁻⁵%")],
)
def test_percents_have_trailing_zeros(share, text):
    assert percent(share) == text


@pytest.mark.parametrize("values", [(0.235, 5.335, 4.335, 0.0), (-0.994, -0.994, -0.994), (1.004, 1.004, 1.004), ()])
def test_the_printed_parts_of_a_sum_add_up(values):
    printed = addends(values)
    read = [float(text.replace("−", "-")) for text in printed]
    assert decimals(sum(read)) == decimals(sum(values))
    assert all(abs(one - other) < 0.0101 for one, other in zip(read, values, strict=True))
