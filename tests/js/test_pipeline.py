"""Sliders of a pipeline: where a number stands, and which number a place is, also where the smallest is 0."""

import pytest

from model.sampling.warps import WARPS

pytestmark = pytest.mark.browser
PARAMETERS = {each.name: each for warp in WARPS.values() for each in warp.parameters}
FILE = "views/sampling/pipeline.js"


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_number_is_found_again_at_its_place(call, name):
    parameter = vars(PARAMETERS[name])
    smallest = parameter["low"] or parameter["step"]
    values = [parameter["low"], smallest, parameter["default"], parameter["high"]]
    found_again = "(p, list) => list.map((value) => module.valueAt(p, module.placeOf(p, value)))"
    back = call(FILE, found_again, parameter, values)
    assert back == pytest.approx(values, abs=parameter["step"] / 100)


@pytest.mark.parametrize("name", ["k", "epsilon", "eta"])
def test_a_long_range_from_zero_has_zero_first_and_then_powers(call, name):
    parameter = vars(PARAMETERS[name])
    step, high = parameter["step"], parameter["high"]
    zero, first, middle, last = call(
        FILE, "(p, places) => places.map((place) => module.valueAt(p, place))", parameter, [0, 1, 500.5, 1000]
    )
    assert (zero, first, last) == (0, step, high)
    assert middle == pytest.approx((step * high) ** 0.5, abs=step)
    places = call(FILE, "(p, list) => list.map((value) => module.placeOf(p, value))", parameter, [0, step, high])
    assert places == [0, 1, 1000]
