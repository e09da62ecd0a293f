"""The first screen of the Assistant tab: three numbers, two texts, the rail, and the rest folded."""

import pytest

from tests.support.visitor import expect
from viz.words import words

pytestmark = pytest.mark.browser

WIDTH, HEIGHT = 1280, 800
VIEWS = ("fine_tune", "preferences", "reward_model", "reinforcement")


@pytest.fixture(scope="module")
def app_url(tiny_app):
    """An app whose first model is another than the one of the stored runs."""
    return tiny_app


def rail(page, view):
    return page.locator(f"#pg-assistant_view .pg-view[data-key={view}]")


def glance_in(page):
    return page.locator(".pg-glance:visible")


def test_every_stage_shows_three_numbers_and_two_texts_on_the_first_screen(open_page):
    """On a model without a stored run, too, where they are named as the default model's."""
    page = open_page("#tab=assistant", ready="#pg-fine_tune_form [data-name=set]")
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    answers = []
    for view in VIEWS:
        page.get_by_role("tab", name=words("en")[f"{view}.view"], exact=True).click()
        expect(rail(page, view)).to_have_attribute("aria-selected", "true")
        expect(rail(page, view)).to_contain_text(words("en")[f"{view}.stage"])
        expect(page.locator(f"#pg-{view}_form")).to_be_visible()
        glance = glance_in(page)
        expect(glance).to_have_count(1)
        expect(glance.locator(".pg-glance-number strong")).to_have_count(3)
        cards = glance.locator(".pg-glance-text")
        expect(cards).to_have_count(2)
        for each in (*glance.locator(".pg-glance-number").all(), *cards.all()):
            expect(each).to_be_visible()
            box = each.bounding_box()
            assert box["y"] > 0 and box["y"] + box["height"] < HEIGHT, (view, box)
            assert each.inner_text().strip()
        expect(page.locator(".pg-stored-note:visible")).to_contain_text("Stored run of TinyGPT")
        expect(page.locator(".pg-problem:visible")).to_have_count(0)
        glance.get_by_role("button", name="Tom and Lily").click()
        answers.append(cards.last.inner_text())
        assert all("Tom and Lily" in each for each in cards.all_inner_texts())
    assert len(set(answers)) == 4, "each stage answers the same prompt in its own way"


@pytest.mark.parametrize("view", ["fine_tune", "reward_model", "reinforcement"])
def test_more_opens_with_figures_of_full_width(open_page, view):
    page = open_page("#tab=assistant", ready="#pg-fine_tune_form [data-name=set]")
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    rail(page, view).click()
    expect(glance_in(page)).to_have_count(1)
    expect(page.locator(".js-plotly-plot:visible")).to_have_count(0)
    page.locator(".pg-more-fold > summary:visible, .pg-more-button:visible").first.click()
    plots = page.locator(".js-plotly-plot:visible")
    expect(plots.first).to_be_visible()
    expect(plots.last.locator(".main-svg").first).to_be_visible()
    for plot in plots.all():
        inner, outer = plot.locator(".main-svg").first.bounding_box(), plot.locator("..").bounding_box()
        assert outer["width"] >= 380 and abs(inner["width"] - outer["width"]) < 24, (inner, outer)
