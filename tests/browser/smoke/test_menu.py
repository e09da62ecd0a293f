"""The first paint on a slow network, the theme, the list of keys, and the order of the Tab key."""

import pytest

from tests.browser.conftest import FIRST, READY
from tests.support.visitor import SOON, expect
from viz.api.endpoints import ENDPOINTS
from viz.words import words

pytestmark = pytest.mark.browser
WORDS = words("en")
DARK = "document.body.classList.contains('dark')"
SLOW_3G = {"offline": False, "latency": 400, "downloadThroughput": 50 * 1024, "uploadThroughput": 50 * 1024}
PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def choose(page, name: str) -> None:
    page.get_by_role("button", name=WORDS["header.menu"]).click()
    page.get_by_role("dialog", name=WORDS["header.menu"]).get_by_role("button", name=name).click()
    page.keyboard.press("Escape")


def test_a_slow_network_shows_a_frame_within_three_seconds(open_page, app_url):
    page = open_page()
    wire = page.context.new_cdp_session(page)
    wire.send("Network.enable")
    wire.send("Network.setCacheDisabled", {"cacheDisabled": True})
    wire.send("Network.emulateNetworkConditions", SLOW_3G)
    page.goto(f"{app_url}?slow", wait_until="commit")
    frame = page.locator("#pg-first")
    expect(frame).to_be_visible(timeout=3000)
    expect(frame.locator("h1")).to_have_text(WORDS["page.title"])
    assert page.wait_for_function(PAINTED, timeout=3000).json_value() < 3000
    assert page.locator(FIRST).count() == 0
    wire.send("Network.emulateNetworkConditions", SLOW_3G | {"downloadThroughput": -1, "latency": 0})
    page.locator(FIRST).wait_for(timeout=SOON)
    expect(frame).to_have_count(0)
    wire.detach()


def test_the_theme_is_chosen_remembered_and_followed_by_figures(open_page):
    page = open_page(ready=READY)
    color = "() => document.querySelector('#pg-map_plot .js-plotly-plot').layout.font.color"
    light = page.evaluate(color)
    assert not page.evaluate(DARK)
    choose(page, WORDS["header.theme_dark"])
    assert page.evaluate(DARK)
    page.wait_for_function(f"light => ({color})() !== light", arg=light, timeout=SOON)
    # Applied before anything is painted, and again after Gradio has set the system's theme.
    page.add_init_script("""addEventListener("DOMContentLoaded", () => {
      window.early = [document.documentElement.dataset.theme, document.getElementById("pg-first") !== null];
    });""")
    open_page.reload(page)
    page.locator(READY).wait_for(timeout=SOON)
    assert page.evaluate("early") == ["dark", True] and page.evaluate(DARK)
    page.emulate_media(color_scheme="dark")
    choose(page, WORDS["header.theme_light"])
    assert not page.evaluate(DARK)
    choose(page, WORDS["header.theme_system"])
    assert page.evaluate(DARK)
    page.emulate_media(color_scheme="light")
    page.wait_for_function(f"() => !{DARK}", timeout=SOON)


def test_a_question_mark_lists_the_keys(open_page):
    page = open_page()
    box = page.get_by_role("dialog", name=WORDS["header.keys"], exact=True)
    page.keyboard.press("?")
    expect(box).to_be_visible()
    expect(box.locator("dd")).to_have_text(
        [
            WORDS[f"header.keys_{name}"]
            for name in ("prompt", "search", "keys", "tab", "arrows", "ends", "enter", "more", "undo", "escape")
        ]
    )
    page.keyboard.press("Escape")
    expect(box).to_be_hidden()
    page.get_by_role("button", name=WORDS["header.menu"]).click()
    page.locator(".pg-keys-open").click()
    expect(box).to_be_visible()
    page.keyboard.press("Escape")
    page.locator("#prompt textarea").focus()
    page.keyboard.type("Why?")
    expect(box).to_be_hidden()
    expect(page.locator("#prompt textarea")).to_have_value("The cat sat on the mat because it was tiredWhy?")


def test_the_prompt_is_the_third_stop_and_the_model_comes_before_its_facts(open_page):
    page = open_page()
    page.evaluate("document.activeElement.blur()")
    stops = []
    for _ in range(4):
        page.keyboard.press("Tab")
        stops.append(
            page.evaluate("""() => {
          const at = document.activeElement;
          return at.closest("#model, #prompt")?.id ?? at.className.split(" ").at(-1);
        }""")
        )
    assert stops == ["pg-skip", "model", "prompt", "pg-models-open"]
    model, facts, prompt = (page.locator(each).bounding_box()["x"] for each in ("#model", ".pg-models-open", "#prompt"))
    assert model < facts < prompt


def test_the_lessons_are_the_first_item_of_learn(open_page):
    page = open_page()
    nav = page.locator(".pg-nav")
    expect(nav.locator(".pg-learn-open")).to_be_hidden()
    nav.get_by_role("button", name=WORDS["group.learn"]).click()
    expect(nav.locator(".pg-tab:visible").first).to_have_text(WORDS["header.learn"])
    nav.locator(".pg-learn-open").click()
    expect(page.locator(".pg-learn-title")).to_be_visible(timeout=SOON)


@pytest.mark.parametrize(("language", "scheme"), [("en", "light"), ("zh", "dark")])
def test_the_functions_for_programs_are_listed_at_the_foot_of_the_page(open_page, app_url, language, scheme):
    own = words(language)
    page = open_page(f"?lang={language}", color_scheme=scheme)
    foot = page.get_by_role("button", name=own["programs.api"])
    foot.scroll_into_view_if_needed()
    assert foot.bounding_box()["y"] > page.locator(FIRST).bounding_box()["y"]
    expect(page.locator("footer").get_by_role("link")).to_be_visible()  # the framework's own
    foot.click()
    box = page.get_by_role("dialog", name=own["programs.api"])
    expect(box.locator("summary code").first).to_have_text("/models", timeout=SOON)
    expect(box.locator(".pg-about").first).to_have_text(own["programs.about"].format(n=len(ENDPOINTS)))
    expect(box.locator("pre")).to_contain_text(f'Client("{app_url}")')  # the address that the browser used
    page.keyboard.press("Escape")
    expect(box).to_be_hidden()


def test_an_open_lesson_leaves_the_name_the_search_and_the_menu_in_one_line(open_page):
    page = open_page("?lesson=tokens", viewport={"width": 1280, "height": 800})
    page.locator(".pg-learn-title").wait_for(timeout=SOON)
    places = [page.locator(each) for each in ("#pg-nav .pg-title", ".pg-search-open kbd", ".pg-more")]
    prompt = page.locator("#prompt textarea").bounding_box()
    assert prompt["y"] < 80 and prompt["width"] > 800  # a line of its own
    for place in places:
        expect(place).to_be_visible()
        assert place.bounding_box()["y"] < 40
    places[-1].click()
    share = page.locator(".pg-header-items .pg-share")
    share.click()
    expect(page.locator("#pg-share-box")).to_be_visible()
    link = page.locator(".pg-share-link input").input_value()
    assert link.startswith(page.evaluate("location.origin"))  # the host that the browser used


def test_the_formula_of_by_hand_covers_no_step(open_page):
    page = open_page(
        "#tab=by_hand", ready="#pg-hand_attention_steps .pg-hand-made", viewport={"width": 1280, "height": 800}
    )
    assert page.locator("#pg-hand_attention_desk .pg-hand-grid").first.bounding_box()["y"] < 400
    cards, formula = page.locator(".pg-hand-steps:visible > li"), page.locator(".pg-hand-made:visible")
    for scroll in (0, 250):
        page.evaluate(f"scrollTo(0, {scroll})")
        made = formula.bounding_box()
        for card in cards.all():
            assert card.bounding_box()["x"] + card.bounding_box()["width"] <= made["x"]
    assert made["y"] >= 56 and made["y"] + made["height"] <= 800
