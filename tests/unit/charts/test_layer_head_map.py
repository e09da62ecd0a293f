"""The map of layers and heads that several views draw."""

import numpy as np

from viz.charts.layer_head_map import HeadWords, head_figure


def test_layers_run_down_from_the_top_and_heads_across():
    z = np.zeros((3, 5), np.float32)
    z[2, 1] = -4  # layer 2, head 1
    figure = head_figure(z, HeadWords("layer", "head", "value"), "%{z}", signed=True)
    (heat,), layout = figure.data, figure.layout
    assert np.array(heat.z).shape == (3, 5) and heat.z[2][1] == -4
    assert list(heat.x) == [0, 1, 2, 3, 4] and list(heat.y) == [0, 1, 2]
    assert layout.xaxis.title.text == "head" and layout.yaxis.title.text == "layer"
    assert layout.yaxis.autorange == "reversed"  # layer 0 is on top
    assert "layer %{y}, head %{x}" in heat.hovertemplate
    assert (layout.coloraxis.cmin, layout.coloraxis.cmax) == (-4, 4)
