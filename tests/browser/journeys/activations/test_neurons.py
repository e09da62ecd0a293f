"""The views of neurons and of the stream's picture as a visitor uses them."""

import re

import pytest

from model.activations.neurons import layer_activations, ranked
from model.activations.principal_components import principal
from model.api import load_model
from tests.support.visitor import SOON, expect, exported_rows, open_tab, still

pytestmark = pytest.mark.browser

COREFERENCE = "The cat sat on the mat because it was tired"
ROUNDING = 2e-4  # the app and the test may have chosen different float32 products


@pytest.fixture(scope="module")
def run():
    return load_model("tinygpt", offline=True).trace(COREFERENCE)


def open_view(open_page, view, query="", name="Norms & activations", **context):
    page = open_page(query, **context)
    open_tab(page, name)
    page.locator(f"#pg-activations_view button[data-key={view}]").click()
    first = {"neurons": "#pg-neurons_one [data-run]", "stream_picture": "#pg-stream_picture_map .js-plotly-plot"}[view]
    page.locator(first).wait_for(timeout=SOON)
    return page


def title(page, part):
    return page.locator(f"#pg-{part} h2").first


def point(page, part, x, y):
    """Where a point of a figure is on the screen; x and y are numbers of its axes, or places in their categories."""
    still(page, f"#pg-{part} .pg-chart")
    return page.evaluate(
        """([part, x, y]) => { const plot = document.querySelector(`#pg-${part} .pg-chart`);
           plot.scrollIntoView({block: 'center'}); const l = plot._fullLayout, r = plot.getBoundingClientRect();
           return [r.left + l.xaxis._offset + l.xaxis.l2p(x), r.top + l.yaxis._offset + l.yaxis.l2p(y)]; }""",
        [part, x, y],
    )


def click(page, place):
    page.mouse.move(place[0] - 2, place[1])
    page.mouse.move(*place)
    page.mouse.click(*place)


def test_neurons_from_the_list_the_map_the_text_and_by_number(open_page, run):
    page = open_view(open_page, "neurons")
    layer = page.evaluate("playground.selection.heads.at(-1)[0]")
    post = layer_activations(run, layer).post
    first = ranked(post, post[0], "here", 9).tolist()
    expect(title(page, "neurons_one")).to_have_text(f"Neuron {first[0]} of layer {layer}")
    picks = page.locator(".pg-neuron-pick")
    expect(picks).to_have_text([str(neuron) for neuron in first[:12]])
    picks.first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(title(page, "neurons_one")).to_have_text(f"Neuron {first[1]} of layer {layer}", timeout=SOON)
    expect(picks.nth(1)).to_be_focused()
    expect(picks.nth(1)).to_have_attribute("aria-pressed", "true")

    page.locator("#pg-neurons_top .js-plotly-plot").wait_for(timeout=SOON)
    click(page, point(page, "neurons_top", 4, 5))
    expect(title(page, "neurons_top")).to_have_text(
        f"Layer {layer}: most active neurons at “·the” (position 4)", timeout=SOON
    )
    expect(title(page, "neurons_one")).to_have_text(f"Neuron {first[5]} of layer {layer}", timeout=SOON)
    expect(page.locator(".pg-neuron-facts")).to_contain_text("At “·the” (position 4)", timeout=SOON)

    page.locator(".pg-neuron-text button").nth(7).click()
    expect(page.locator(".pg-neuron-facts")).to_contain_text("At “·it” (position 7)", timeout=SOON)
    expect(page.locator("#pg-selection")).to_contain_text("·it (7)")
    page.locator(".pg-neuron-number input").fill("33")
    expect(title(page, "neurons_one")).to_have_text(f"Neuron 33 of layer {layer}", timeout=SOON)
    names, *lines = exported_rows(page.locator("#pg-neurons_one"))
    assert names == ["position", "token", "pre-activation", "activation"]
    assert [float(line[3]) for line in lines] == pytest.approx(post[:, 33].tolist(), abs=ROUNDING)

    page.locator("#pg-neurons_form [data-name=layer] select").select_option("2")
    page.locator("#pg-neurons_form [data-name=order] select").select_option("prompt")
    best = ranked(layer_activations(run, 2).post, post[0], "prompt", 7)[0]
    expect(title(page, "neurons_one")).to_have_text(f"Neuron {best} of layer 2", timeout=SOON)
    expect(title(page, "neurons_curve")).to_have_text(re.compile(rf"GELU.*: layer 2, neuron {best}$"), timeout=SOON)
    page.locator("#pg-neurons_bins .js-plotly-plot").wait_for(timeout=SOON)
    page.locator("#pg-neurons_shares .js-plotly-plot").wait_for(timeout=SOON)


def test_the_stream_moves_with_the_layer_and_follows_tokens(open_page, run):
    page = open_view(open_page, "stream_picture")
    found = principal(run).coordinates
    expect(title(page, "stream_picture_map")).to_have_text("Residual stream entering layer 4, components 1 and 2")
    data = "document.querySelector('#pg-stream_picture_map .pg-chart')._fullData"
    assert page.evaluate(f"Array.from({data}.at(-1).x)") == pytest.approx(found[4, :, 0].tolist(), abs=ROUNDING)
    assert page.evaluate(f"{data}.map((each) => each.name).filter((_, n) => n % 2 === 0).slice(0, 2)") == [
        "9 ·tired",
        "0 The",
    ]
    page.locator("#pg-stream_picture_form input[type=range]").fill("8")
    expect(title(page, "stream_picture_map")).to_have_text(
        "Residual stream after the last layer, components 1 and 2", timeout=SOON
    )
    page.wait_for_function(f"(x) => Math.abs({data}.at(-1).x[2] - x) < 1e-3", arg=float(found[8, 2, 0]))
    click(page, point(page, "stream_picture_map", float(found[8, 5, 0]), float(found[8, 5, 1])))
    expect(page.locator("#pg-selection")).to_contain_text("·mat (5)", timeout=SOON)
    page.wait_for_function(f"() => {data}[0].name === '5 ·mat'")
    page.locator("#pg-stream_picture_form [data-name=first] input").uncheck()
    expect(page.locator("#pg-stream_picture_map .pg-about")).to_contain_text("all 81 states", timeout=SOON)
    page.locator("#prompt textarea").fill("The")
    expect(page.locator("#pg-stream_picture_map")).to_contain_text(
        "Without the first token nothing is left", timeout=SOON
    )
    page.locator("#pg-stream_picture_form [data-name=first] input").check()
    expect(page.locator("#pg-stream_picture_map .pg-about")).to_contain_text("all 9 states", timeout=SOON)
