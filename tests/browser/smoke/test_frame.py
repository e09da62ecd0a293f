"""The frame around the views: groups, the search, one line that stays, and room for the picture at every width."""

import pytest

from tests.browser.conftest import FIRST, READY
from tests.support.visitor import SOON, expect, open_tab, settle
from viz.lessons.library import library
from viz.views.tabs import GROUPS, TABS
from viz.words import words

pytestmark = pytest.mark.browser
WORDS = words("en")


def top(page, selector: str) -> float:
    return page.locator(selector).first.bounding_box()["y"]


def test_groups_hold_the_tabs_and_the_open_one_shows_its_own(same_page):
    page = same_page("", ready=FIRST)
    nav = page.locator(".pg-nav")
    expect(nav.locator(".pg-group")).to_have_count(len(GROUPS))
    expect(nav.locator(".pg-tab:visible")).to_have_count(0)  # the start is a group of itself
    nav.get_by_role("button", name="Prove").click()
    expect(nav.locator(".pg-tab:visible")).to_have_text(["Heads", "Effects", "Compare", "Checks"])
    expect(nav.locator("[aria-current=page]")).to_have_text("Heads")
    nav.get_by_role("button", name="Effects").click()
    expect(page.locator("#pg-effects_question")).to_be_visible(timeout=SOON)
    nav.get_by_role("button", name="Start").click()
    nav.get_by_role("button", name="Prove").click()
    expect(nav.locator("[aria-current=page]")).to_have_text("Effects")  # where one was
    assert not page.locator(".tab-wrapper").is_visible()  # the framework's own row
    keys = page.locator("[data-tab]").evaluate_all("all => all.map((node) => node.dataset.tab)")
    assert keys == [tab.key for tab in TABS]


def test_a_tab_opens_although_the_framework_misses_the_first_click(same_page):
    page = same_page("", ready=FIRST)
    page.locator(".pg-nav").get_by_role("button", name="Start").click()
    page.evaluate("""() => {
      window.missed = 0;
      const miss = (event) => {
        if (event.target.closest(".tab-container") && !missed++) event.stopImmediatePropagation();
      };
      addEventListener("click", miss, { capture: true });
      setTimeout(() => removeEventListener("click", miss, { capture: true }), 5000);
    }""")
    page.locator(".pg-nav").get_by_role("button", name="Look").click()
    expect(page.locator(".pg-nav [aria-current=page]")).to_have_text("Attention")
    page.wait_for_timeout(600)  # and it is left alone then
    assert page.evaluate("missed") == 2


def test_opening_a_tab_is_one_question_that_names_it(same_page):
    page = same_page("", ready=FIRST)
    asked = []
    page.on("request", lambda sent: asked.append(sent.post_data_json) if "/playground/view" in sent.url else None)
    for tab in ("Anatomy", "Norms", "Anatomy"):
        open_tab(page, tab)
    expect(page.locator("#pg-screen-anatomy [data-run]").first).to_be_visible(timeout=SOON)
    named = [each["tab"] for each in asked]  # a group opens the tab of it that was open last
    assert [tab for tab in named if tab != "attention"] == ["anatomy", "activations", "anatomy"]


@pytest.mark.parametrize(
    ("query", "first", "lands"),
    [
        ("logit lens", "When it appears", "#pg-lens_table"),
        ("patching", "Patching", "#pg-patching_about"),
        ("GQA", "Shared KV heads", "#pg-kv_heads_about"),
    ],
)
def test_a_view_is_found_by_the_textbooks_word(same_page, query, first, lands):
    page = same_page("", ready=FIRST)
    page.keyboard.press("Control+k")
    box = page.get_by_role("dialog", name=WORDS["search.title"])
    box.get_by_role("combobox").fill(query)
    views = box.locator("[data-kind=view]")
    expect(views.first).to_contain_text(first)
    views.first.click()
    expect(box).to_be_hidden()
    expect(page.locator(lands)).to_be_visible(timeout=SOON)


def test_the_search_knows_terms_actions_and_its_keys(same_page):
    page = same_page("", ready=FIRST)
    page.get_by_role("button", name="Search").click()
    box = page.get_by_role("dialog", name=WORDS["search.title"])
    expect(box.get_by_role("option")).to_have_count(sum(len(tab.views) for tab in TABS))  # all views, to look through
    box.get_by_role("combobox").fill("induction")
    expect(box.locator("[data-kind=term]").first).to_contain_text("induction")
    box.get_by_role("combobox").fill("share")
    expect(box.locator("[data-kind=action]").first).to_contain_text("Share")
    box.get_by_role("combobox").press("ArrowUp")
    box.locator("[data-kind=action]").first.click()
    expect(page.locator(".pg-share-box")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Search").click()
    box.get_by_role("combobox").fill("zzzz")
    expect(box.get_by_text(WORDS["search.none"].format(query="zzzz"))).to_be_visible()
    box.get_by_role("combobox").fill("IOj")
    expect(box.get_by_text(WORDS["search.nearest"].format(query="IOj"))).to_be_visible()
    expect(box.get_by_role("option").first).to_contain_text(WORDS["sweep.view"])
    page.keyboard.press("Escape")
    expect(box).to_be_hidden()


def search(page, query: str):
    """Open the search and type; the dialog."""
    page.keyboard.press("Control+k")
    box = page.get_by_role("dialog", name=WORDS["search.title"])
    box.get_by_role("combobox").fill(query)
    return box


def test_beam_search_opens_side_by_side_with_it_and_a_setting_is_in_sight(open_page):
    page = open_page("", ready=FIRST)
    box = search(page, "beam width")
    expect(box.get_by_role("option").first).to_have_attribute("data-kind", "strategy")
    page.keyboard.press("Enter")
    line = page.locator(".pg-strat").filter(has=page.locator(".pg-strat-name", has_text="Beam search"))
    expect(line.locator(".pg-strat-open")).to_have_attribute("aria-expanded", "true", timeout=SOON)
    expect(page.locator("#pg-strat-editor")).to_be_in_viewport()
    expect(page.locator("#pg-strategies .pg-strat")).to_have_count(5)
    search(page, "beam width").get_by_role("combobox").press("Enter")  # it is there: not once more
    expect(page.locator("#pg-strategies .pg-strat")).to_have_count(5)

    search(page, "LoRA rank").get_by_role("combobox").press("Enter")  # shown only while LoRA is chosen, as it is
    rank = page.locator("#pg-fine_tune_form [data-name=rank] select")
    expect(rank).to_be_focused(timeout=SOON)
    expect(rank).to_be_in_viewport()
    search(page, "bigbird").get_by_role("combobox").press("Enter")
    kind = page.locator("#pg-forget_form [data-name=kind] select")
    expect(kind).to_have_value("bigbird", timeout=SOON)
    expect(kind).to_be_in_viewport()
    search(page, "dilation").get_by_role("combobox").fill("Step between ke")
    page.keyboard.press("Enter")
    expect(page.locator("#pg-forget_form [data-name=dilation] input")).to_be_focused(timeout=SOON)
    expect(kind).to_have_value("dilated")  # what it depends on is set with it


def test_dark_is_found_and_switches(open_page):
    page = open_page("", ready=FIRST)
    assert not page.evaluate("document.body.classList.contains('dark')")
    search(page, "dark").get_by_role("combobox").press("Enter")
    page.wait_for_function("() => document.body.classList.contains('dark')")


def test_a_lesson_is_found_by_its_name_and_by_what_it_teaches_and_opens(open_page):
    page = open_page("", ready=FIRST)
    page.keyboard.press("Control+k")
    box = page.get_by_role("dialog", name=WORDS["search.title"])
    lesson = library().lesson("sinks", "en")
    for query in (lesson.title, lesson.goals[0]):
        box.get_by_role("combobox").fill(query)
        expect(box.locator("[data-kind=lesson]").first).to_contain_text(lesson.title)
    expect(box.locator("[data-kind=lesson]").first).to_contain_text(WORDS["learn.part_whole"])
    box.locator("[data-kind=lesson]").first.click()
    expect(box).to_be_hidden()
    expect(page.locator(".pg-learn-title")).to_have_text(lesson.title, timeout=SOON)


@pytest.mark.parametrize(("width", "height", "frame"), [(1280, 800, 120), (390, 844, 220), (2560, 1300, 120)])
def test_the_first_picture_is_on_the_first_screen_and_one_line_stays(open_page, width, height, frame):
    page = open_page("", ready=FIRST, viewport={"width": width, "height": height})
    assert page.locator("#pg-frame").bounding_box()["height"] <= frame
    assert top(page, ".pg-way-player") < 0.45 * height
    assert page.locator("[data-screen=start]").bounding_box()["width"] > 0.93 * width - 30  # the window is used
    open_tab(page, "Attention")
    page.locator("#pg-map_plot [data-run]").wait_for(timeout=SOON)
    assert top(page, ".pg-board") < 0.78 * height
    page.evaluate("scrollTo(0, 400)")
    page.wait_for_timeout(200)
    if page.evaluate("scrollY") > 200:
        assert -6 <= top(page, "#pg-tokens") <= 12  # the tokens and what is picked
        assert page.locator("#pg-nav .pg-title").bounding_box()["y"] < 0


def test_on_a_tablet_the_picture_follows_its_question(open_page):
    page = open_page(ready=READY, viewport={"width": 790, "height": 1000})
    about, heads = (page.locator(each).bounding_box() for each in ("#pg-map_about", "#pg-overview_heads"))
    assert 0 < heads["y"] - about["y"] - about["height"] < 150  # the form is between them
    assert top(page, "#pg-map_howto") < about["y"]  # beside the question


def test_the_models_are_described_and_one_is_chosen_there(open_page):
    page = open_page("", ready=FIRST)
    page.get_by_role("button", name=WORDS["models.label"]).click()
    box = page.get_by_role("dialog", name="The models in the list")
    expect(box.get_by_role("button")).to_have_count(3)
    expect(box.get_by_role("button").first).to_contain_text("8.55 M parameters · context 512 tokens · base model")
    expect(box).to_contain_text("hub:OWNER/NAME")
    page.keyboard.press("Escape")
    expect(box).to_be_hidden()


def test_a_picture_fills_the_screen_and_comes_back(open_page):
    page = open_page(ready=READY)
    page.locator("#pg-map_plot .pg-full").click()
    page.wait_for_function("() => document.fullscreenElement?.dataset.part === 'map_plot'", timeout=SOON)
    page.locator("#pg-map_plot .pg-full").click()
    page.wait_for_function("() => !document.fullscreenElement", timeout=SOON)


@pytest.mark.parametrize("size", [{"width": 1280, "height": 900}, {"width": 390, "height": 844}], ids=str)
def test_an_untouched_page_arrives_with_its_prompt_and_no_notice(open_page, app_url, size):
    page, asked = open_page(viewport=size, url=app_url), []
    page.on("request", lambda sent: asked.append(sent.post_data_json) if "/playground/view" in sent.url else None)
    for _ in range(3):
        open_page.reload(page)
        page.locator(FIRST).wait_for(timeout=SOON)
        page.wait_for_load_state("networkidle")
        expect(page.locator("[data-part=notice]")).to_be_hidden()
    assert len(asked) >= 3 and all(each["prompt"] and each["selection"] for each in asked)


LONG = "The cat sat on the mat because it was tired, and then it went out to look for something to eat and to drink"
HIGH = """() => {
  const box = document.querySelector("#prompt textarea");
  return box.checkVisibility() && box.scrollHeight <= box.clientHeight && box.clientHeight > 40;
}"""


def test_the_prompt_box_grows_when_it_becomes_narrower(open_page):
    page = open_page(ready=FIRST)
    box = page.locator("#prompt textarea")
    box.fill(LONG)
    before = box.bounding_box()["height"]
    page.set_viewport_size({"width": 760, "height": 900})  # as an open lesson does, too
    page.wait_for_function(HIGH, timeout=SOON)
    page.set_viewport_size({"width": 1280, "height": 900})
    page.wait_for_function(
        "(high) => document.querySelector('#prompt textarea').offsetHeight <= high + 1", arg=before, timeout=SOON
    )


@pytest.mark.parametrize("width", [1280, 390])
def test_what_was_clicked_stays_where_it_is_when_the_line_of_edits_appears(open_page, width):
    page = open_page(ready=FIRST, viewport={"width": width, "height": 800})
    open_tab(page, "Heads")
    settle(page)
    button = page.locator("#pg-heads_cards .pg-card-switch").locator("visible=true").first
    button.scroll_into_view_if_needed()
    box = button.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator("#pg-edited .pg-change")).to_contain_text("→", timeout=SOON)
    expect(page.locator("#pg-edited")).to_be_visible()
    page.wait_for_timeout(300)
    assert abs(button.bounding_box()["y"] - box["y"]) <= 2


def test_the_caption_of_sorted_heads_says_how_they_are_sorted(open_page):
    page = open_page(ready=READY)
    board = page.locator("#pg-overview_heads")
    expect(board.locator(".pg-about").first).to_contain_text("layer 0 on top")
    board.locator("select").first.select_option(index=1)
    expect(board.locator(".pg-about").first).to_contain_text("64 heads by")
    expect(board.locator(".pg-about").first).not_to_contain_text("layer 0 on top")
