"""A map of tokens keeps a label for each where there is room, and every second or third in a narrow place."""

import pytest

pytestmark = pytest.mark.browser

# The labels of both axes at each width, one after the other on one layout, as a page that is made narrow and wide.
SCENE = """(module, n, widths, more) => {
  const names = Array.from({ length: n }, (_, at) => `${at} t`);
  const axis = () => ({ type: "category", tickvals: [...names], ticktext: [...names] });
  const layout = { meta: {}, xaxis: axis(), yaxis: axis(), ...more };
  return widths.map((width) => {
    module.thinned(layout, width);
    return [layout.xaxis, layout.yaxis].map(({ tickvals, ticktext }) => [tickvals ?? [], ticktext ?? []]);
  });
}"""


def labels(call, n: int, *widths: int, **more) -> list[list[str]]:
    shown = call("parts/figure/figure_look.js", f"(...given) => ({SCENE})(module, ...given)", n, list(widths), more)
    assert all(x == y and x[0] == x[1] for x, y in shown)
    return [x[0] for x, _ in shown]


def test_labels_go_where_a_map_is_narrow_and_come_back(call):
    everything, half, few, again = labels(call, 32, 900, 346, 200, 900)
    assert everything == again == [f"{at} t" for at in range(32)]
    assert half == everything[::2] and few == everything[::4]
    for width, shown in ((346, half), (200, few)):
        assert 13 * len(shown) <= width - 90 + 13  # a line of text for each


def test_few_labels_stay_at_any_width(call):
    assert labels(call, 8, 390, 10) == [[f"{at} t" for at in range(8)], ["0 t"]]


def test_other_axes_and_several_maps_stay_as_they_are(call):
    texts = [f"{at} t" for at in range(40)]
    assert labels(call, 40, 200, xaxis2={}) == [texts]
    lone = call(
        "parts/figure/figure_look.js",
        "() => { const layout = { meta: {}, xaxis: { type: 'category', tickvals: [1, 2] }, yaxis: {} };"
        " module.thinned(layout, 1); return layout; }",
    )
    assert lone == {"meta": {}, "xaxis": {"type": "category", "tickvals": [1, 2]}, "yaxis": {}}
