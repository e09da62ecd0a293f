"""Percents that the page computes are written as those that the server sends."""

import pytest

from viz.numbers import percent

pytestmark = pytest.mark.browser


def test_the_page_and_the_server_write_the_same_percents(call):
    shares = [0, 1, 0.5, 0.342, 0.0999, 0.0123, 0.002, 0.0005, 0.000123, 0.00002]
    shown = call("parts/percent.js", "(shares) => shares.map(module.percent)", shares)
    assert shown == [percent(share) for share in shares]
