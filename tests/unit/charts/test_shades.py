"""Numbers of many sizes as colors: logarithmic where they span a lot, and the labels beside a color bar."""

import numpy as np
import pytest

from viz.charts.shades import colored, decades, label, shade_of


def test_numbers_that_span_orders_of_magnitude_get_logarithmic_colors():
    assert shade_of(np.array([[1.0, 30.0]]), False) == "log" and shade_of(np.array([[1.0, 29.0]]), False) == "even"
    assert shade_of(np.array([[-1.0, 1.0, 40.0]]), True) == "symlog"
    assert shade_of(np.array([[-0.01, 1.0, 20.0]]), True) == "signed"  # against the median: one is always near 0
    assert shade_of(np.zeros((2, 2)), False) == "even" and shade_of(np.full((1, 1), np.nan), True) == "signed"


def test_a_few_numbers_do_not_take_all_colors():
    most = np.linspace(4.0, 5.0, 90)
    values = np.concatenate([np.full(5, 0.5), most, np.full(5, 9.0)])[None]
    assert shade_of(values, False) == "robust" and shade_of(most[None], False) == "even"
    z, bar, _ = colored(values, "robust")
    low, high = np.percentile(values, [15, 85], method="nearest")
    assert (bar["cmin"], bar["cmax"]) == pytest.approx((low, high)) and 4 < low < high < 5
    assert (z.min(), z.max()) == pytest.approx((low, high)) and z[0, 50] == values[0, 50]
    small = np.where(values == 0.5, 0.01, values)  # a logarithm would give these few most of the colors, too
    assert shade_of(small, False) == "robust" and shade_of(np.geomspace(1, 100, 50)[None], False) == "log"
    assert shade_of(np.array([[1.0] * 20 + [3.0]]), False) == "even"  # nothing in the middle to tell apart


def test_places_of_numbers_by_hand():
    z, bar, _ = colored(np.array([[1.0, 1000.0, 0.0, np.nan]]), "log")
    assert z[0, :2].tolist() == [0, 3] and np.isnan(z[0, 2:]).all()
    assert (bar["cmin"], bar["cmax"]) == (0, 3)
    assert bar["colorbar"]["ticktext"] == ["1", "10", "100", "1,000"] and bar["colorbar"]["tickvals"] == [0, 1, 2, 3]
    z, bar, _ = colored(np.array([[1e9, 1.0]]), "log")
    assert (bar["cmin"], z[0, 1]) == (3, 3)  # six orders of magnitude are shown
    z, bar, _ = colored(np.array([[-2.0, 2.0, 2000.0, 0.0]]), "symlog")
    assert z[0] == pytest.approx(np.arcsinh([-1, 1, 1000, 0])) and bar["cmin"] == -bar["cmax"] == -np.arcsinh(1000)
    assert bar["colorbar"]["ticktext"] == ["−1,000", "−100", "−10", "0", "10", "100", "1,000"]
    z, bar, _ = colored(np.array([[-2.0, 1.0]]), "signed")
    assert z.tolist() == [[-2, 1]] and (bar["cmin"], bar["cmax"]) == (-2, 2)
    z, bar, _ = colored(np.array([[0.5, 0.9]]), "even")
    assert (bar["cmin"], bar["cmax"]) == (0.5, 0.9) and bar["colorbar"]["tickvals"][2] == pytest.approx(0.7)
    assert colored(np.full((1, 2), 3.0), "even")[1]["cmax"] > 3  # one number only


def test_labels_by_hand():
    assert decades(0.1, 100) == [0.1, 1, 10, 100]
    assert decades(1, 30) == [1, 2, 5, 10, 20]
    assert decades(3, 4) == [3, 4]
    labels = ["12,346", "99.9", "5 × 10⁻⁴", "0", "−250", "2 × 10⁷"]
    assert [label(x) for x in (12345.6, 99.94, 0.0005, 0, -250, 2e7)] == labels


@pytest.mark.parametrize(
    ("top", "labels"),
    [
        (0.35, ["0%", "10%", "20%", "30%", "40%"]),
        (1.0, ["0%", "20%", "40%", "60%", "80%", "100%"]),
        (0.04, ["0%", "1%", "2%", "3%", "4%"]),
    ],
)
def test_fractions_have_round_percentages_from_0(top, labels):
    z, bar, _ = colored(np.array([[0.01, top]]), "share")
    assert bar["colorbar"]["ticktext"] == labels and bar["cmin"] == 0 and bar["cmax"] == bar["colorbar"]["tickvals"][-1]
    assert z.max() == top <= bar["cmax"]
