"""The lessons as a visitor takes them: every one of them, a part of the course at a time."""

import re

import pytest

from model.loading.sources import available
from tests.support.lessons import of_runs, right, right_of_runs
from tests.support.visitor import SOON, expect, settle
from viz.lessons.check import judged
from viz.lessons.lesson import PARTS
from viz.lessons.library import library
from viz.words import words
from viz.work.playground import Options, Playground

pytestmark = pytest.mark.browser
PATH = library().path("en")
FORM = ".pg-learn-form"


@pytest.fixture(scope="module")
def ours():
    """The same model in the test's own process."""
    return Playground(Options(offline=True))


def give(page, question, answer: str) -> None:
    """Answer a question of the panel."""
    form = page.locator(FORM)
    if question.kind == "choice":
        form.locator(f"input[value={answer}]").check()
    else:
        form.locator(".pg-learn-input").fill(answer)
    form.locator(".pg-primary").click()


def wrong(question, answer: str) -> str:
    """Another answer of that kind."""
    if question.kind == "choice":
        return next(each for each in question.choices if each != answer)
    return {"number": str(float(answer) + 1e6) if question.kind == "number" else "", "head": "0.0", "token": "zzz"}[
        question.kind
    ]


def some(question) -> str:
    """Any guess."""
    return next(iter(question.choices), "7")


def of_page(page, lesson, step) -> str:
    """The right answer where the page's own runs have it; those of the lessons before are left out.

    After the last step all its numbers are judged, as where nothing is trained.
    """
    parts = {run.part for run in lesson.runs.values()}
    runs = [run for run in page.evaluate("playground.page.runs") if run["part"] in parts and run["ended"]]
    runs = runs[-sum(bool(each.run) for each in lesson.steps[: lesson.steps.index(step) + 1]) :]  # of this lesson
    url = page.url.split("?")[0].split("#")[0]
    if step is lesson.steps[-1]:
        assert judged(lesson, {name: of_runs(url, runs, lesson, name) for name in lesson.values}) == []
    return right_of_runs(url, runs, lesson, step.check)


def step_through(page, ours, lesson, step, act, answer_wrong: bool) -> None:
    """One step: a guess, the action, what is seen, an answer that is wrong and the right one."""
    panel = page.locator(".pg-learn")
    if step.ask:
        expect(panel.locator(FORM)).to_be_visible(timeout=SOON)
        if step.check.hidden:  # a hidden question is shown for a guess
            give(page, step.ask, some(step.ask))
        else:
            panel.get_by_role("button", name=words("en")["learn.no_guess"]).click()
    expect(panel.locator(".pg-learn-do")).to_be_visible()
    expect(page.locator("[data-pg-pointed]")).to_be_visible(timeout=SOON)  # what the step speaks of is on the page
    settle(page)
    expect(panel.locator(".pg-learn-see")).to_have_count(0)  # it is not done before the act
    act(step)
    expect(panel.locator(".pg-learn-see")).to_be_visible(timeout=5 * SOON if "trained" in step.done else SOON)
    expect(page.locator("[data-pg-pointed]")).to_be_visible(timeout=SOON)
    assert "{" not in panel.locator(".pg-learn-body").inner_text()
    answer = of_page(page, lesson, step) if lesson.runs else right(ours, lesson, step.check)
    if answer_wrong:
        give(page, step.check, wrong(step.check, answer))
        expect(panel.locator(".pg-learn-check .pg-learn-wrong")).to_be_visible(timeout=SOON)
    give(page, step.check, answer)
    expect(panel.locator(".pg-learn-why")).to_be_visible(timeout=SOON)
    panel.locator(".pg-learn-next").click()


def pass_review(panel) -> None:
    """Pass the question of an earlier lesson, which may come first."""
    panel.locator(".pg-learn-review, .pg-learn-opens").first.wait_for(timeout=SOON)
    if panel.locator(".pg-learn-review").count():
        panel.get_by_role("button", name=words("en")["learn.review_pass"]).click()
        expect(panel.locator(".pg-learn-opens")).to_be_visible(timeout=SOON)


def by_hints(page):
    """The third hint does it."""

    def act(step):
        for n in range(2):
            page.locator(".pg-learn-hint-open").click()
            page.locator(f".pg-learn-hint >> nth={n}").wait_for(timeout=SOON)
            expect(page.locator(".pg-learn-see")).to_have_count(0)
        page.locator(".pg-learn-hint-open").click()

    return act


def tab_to(page, selector: str) -> None:
    """Press Tab until what is focused fits; it must come soon."""
    for _ in range(8):
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{selector} is not reached, but {page.evaluate('document.activeElement.outerHTML')[:99]}")


def typed(page, selector: str, text: str) -> None:
    """Another text in the field that is reached first."""
    tab_to(page, selector)
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.insert_text(text)
    page.keyboard.press("Enter")


def token(n: int):
    """Pick the n-th token: the chips have one stop, and arrows go through them."""

    def act(page):
        expect(page.locator(f"#pg-tokens [data-index='{n}']")).to_be_attached(timeout=SOON)
        tab_to(page, "#pg-tokens [data-index]")
        for _ in range(n):
            page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")

    return act


# What somebody does in four lessons who has a keyboard only, once F6 has led from the lesson to what it speaks of.
KEYS = {
    "tokens.word": lambda page: typed(page, "#prompt textarea", "internationalization"),
    "tokens.chinese": token(0),
    "one_guess.name": lambda page: page.keyboard.press("Enter"),  # the group "Write"; the view is its first
    "one_guess.sure": token(7),
    "dice.thousand": lambda page: page.keyboard.press("ArrowDown"),
    "dice.seed": lambda page: typed(page, "#pg-draws_bar input", "1"),
    "cuts.temperature": lambda page: typed(page, "#pg-pipeline input[type=number]", "0.5"),
    "cuts.top_p": token(0),
}


def by_keyboard(page, ours, lesson, step) -> None:
    """One step without a mouse: the focus is always where one goes on."""
    expect(page.locator(FORM)).to_be_visible(timeout=SOON)
    tab_to(page, f"{FORM} input")
    page.keyboard.press("Space") if step.ask.kind == "choice" else page.keyboard.type("7")
    page.keyboard.press("Enter")
    expect(page.locator(".pg-learn-do")).to_be_focused()
    expect(page.locator("[data-pg-pointed]")).to_be_visible(timeout=SOON)
    page.keyboard.press("F6")
    assert page.evaluate("!document.activeElement.closest('.pg-learn')")
    KEYS[f"{lesson.key}.{step.id}"](page)
    expect(page.locator(".pg-learn-check")).to_be_visible(timeout=SOON)
    expect(page.locator("[data-pg-pointed]")).to_be_visible(timeout=SOON)
    page.keyboard.press("F6")
    expect(page.locator(".pg-learn-check input").first).to_be_focused()
    answer = right(ours, lesson, step.check)
    if step.check.kind == "choice":
        for _ in range(list(step.check.choices).index(answer)):
            page.keyboard.press("ArrowDown")
        page.keyboard.press("Space")
    else:
        page.keyboard.type(answer)
    page.keyboard.press("Enter")
    expect(page.locator(".pg-learn-next")).to_be_focused(timeout=SOON)
    page.keyboard.press("Enter")


def black_on_white(page) -> None:
    """A finished lesson on paper: alone, as wide as the sheet, and not as dark as the page."""
    sheet = page.locator(".pg-learn-sheet")
    look = "(node) => { const { color, backgroundColor } = getComputedStyle(node); return [color, backgroundColor]; }"
    assert sheet.evaluate(look)[0] == "rgb(230, 233, 240)"  # on the screen light on dark
    window = page.viewport_size
    page.set_viewport_size({"width": 794, "height": 1123})  # A4 at 96 dots an inch
    page.emulate_media(media="print")
    for selector in ("body", ".pg-learn-sheet h3", ".pg-learn-results td >> nth=0"):
        assert page.locator(selector).evaluate(look) == ["rgb(0, 0, 0)", "rgb(255, 255, 255)"], selector
    for selector in ("#prompt", ".pg-learn-head", ".pg-learn-save"):
        expect(page.locator(selector).first).to_be_hidden()
    assert page.locator(".pg-learn-results").bounding_box()["width"] > 700
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.emulate_media(media="null")
    page.set_viewport_size(window)


def done(*lessons) -> dict:
    """Progress in which these lessons are finished, as the page keeps it."""
    return {each.key: {"at": len(each.steps), "finished": True, "steps": {}} for each in lessons}


def keep_progress(page, kept: dict) -> None:
    """Have the browser remember this progress, and nothing else."""
    page.evaluate("(it) => localStorage.setItem('playground-lessons', JSON.stringify(it))", kept)
    page.evaluate("localStorage.removeItem('playground-lesson-reviews')")


def take(page, ours, lesson, *, answer_wrong: bool) -> None:
    """A whole lesson, to its sheet, which counts every answer as right."""
    panel = page.locator(".pg-learn")
    expect(page.locator(".pg-learn-title")).to_have_text(lesson.title, timeout=SOON)
    pass_review(panel)
    if lesson.model != PATH[0].model:  # no step is shown on another model: its numbers would be that model's
        expect(panel.locator(".pg-learn-opens")).to_be_visible()
        expect(panel.locator(FORM)).to_be_hidden()
        panel.get_by_role("button", name=words("en")["learn.load_model"].format(model=lesson.model)).click()
    page.wait_for_function("(model) => playground.page.shown?.model === model", arg=lesson.model, timeout=SOON)
    by_keys = all(f"{lesson.key}.{step.id}" in KEYS for step in lesson.steps)
    for step in lesson.steps:
        if by_keys:
            by_keyboard(page, ours, lesson, step)
        else:
            step_through(page, ours, lesson, step, by_hints(page), answer_wrong)
    expect(panel.locator(".pg-learn-sheet h3")).to_have_text(lesson.title)
    score = words("en")["learn.score"].format(n=len(lesson.steps), all=len(lesson.steps))
    expect(panel.locator(".pg-learn-sheet")).to_contain_text(score)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def go_on(page) -> None:
    """From the end of a lesson to the next one."""
    tab_to(page, ".pg-learn-next")
    page.keyboard.press("Enter")


@pytest.mark.parametrize("part", PARTS[1:6])
def test_every_lesson_can_be_taken_and_its_answers_are_the_model_s(open_page, ours, part):
    lessons = [each for each in PATH if each.part == part and each.model in available()]  # SmolLM2 may be missing
    page = open_page(f"?lesson={lessons[0].key}", ready=".pg-learn")
    page.emulate_media(reduced_motion="reduce")
    for lesson in lessons:
        take(page, ours, lesson, answer_wrong=part == "block")
        if lesson is not lessons[-1]:
            go_on(page)
    page.emulate_media(reduced_motion="null")


def test_the_course_begins_on_the_start_page_and_ends_with_a_sheet(open_page, ours):
    lessons = [each for each in PATH if each.part == PARTS[0]]
    page = open_page(ready="#pg-start_next [data-run]", color_scheme="dark")
    page.emulate_media(reduced_motion="reduce")
    keep_progress(page, done(*PATH[len(lessons) :]))
    assert not page.evaluate("performance.getEntriesByType('resource').filter((e) => /learn\\//.test(e.name)).length")
    page.locator(".pg-learn-way").focus()  # on the start page
    page.keyboard.press("Enter")
    panel = page.locator(".pg-learn")
    expect(panel.locator(".pg-learn-start")).to_have_count(len(PATH))
    expect(panel).to_be_focused()
    tab_to(page, ".pg-learn-start")
    page.keyboard.press("Enter")
    for lesson in lessons:
        take(page, ours, lesson, answer_wrong=True)
        if lesson is lessons[0]:
            black_on_white(page)
            page.locator(".pg-learn-next").focus()  # it is not on paper
        if lesson is not lessons[-1]:
            go_on(page)
    page.emulate_media(reduced_motion="null")
    with page.expect_download() as file:
        panel.locator(".pg-learn-save").click()
    saved = file.value.path().read_text(encoding="utf-8")
    assert lessons[-1].title in saved and lessons[-1].goals[0] in saved
    panel.get_by_role("button", name=words("en")["learn.to_list"]).click()
    expect(panel.locator(".pg-learn-count")).to_have_text(re.compile(f"^{len(PATH)} of {len(PATH)}"))
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    # The start page, where it was opened, is not open any more.
    expect(page.locator(".pg-learn-open:focus, .pg-group[data-group=learn]:focus")).to_have_count(1)


def test_a_finished_lesson_comes_back_at_its_end(open_page):
    page, lesson = open_page(), PATH[0]
    keep_progress(page, done(lesson))
    page.evaluate("(key) => sessionStorage.setItem('playground-learn', key)", lesson.key)
    page.reload()
    expect(page.locator(".pg-learn-sheet h3")).to_have_text(lesson.title, timeout=SOON)


def test_a_link_opens_a_lesson_alone_on_a_narrow_chinese_page(open_page):
    page = open_page("?lesson=dice&workshop&lang=zh", ready=FORM, viewport={"width": 390, "height": 844})
    lesson = library().lesson("dice", "zh")
    expect(page.locator(".pg-learn-title")).to_have_text(lesson.title)
    expect(page.locator("#prompt textarea")).to_have_value(lesson.state["prompt"], timeout=SOON)
    expect(page.locator("#prompt textarea")).to_have_attribute("readonly", "")
    for hidden in ("#model", ".pg-search-place", ".pg-learn .pg-cross"):
        expect(page.locator(hidden)).to_be_hidden()
    sheet = page.locator(".pg-learn")
    box = sheet.bounding_box()
    assert box["width"] <= 390 and box["y"] > 844 / 3 and box["y"] + box["height"] <= 845
    fold = page.locator(".pg-learn-fold")
    fold.click()
    expect(fold).to_have_attribute("aria-expanded", "false")
    assert sheet.bounding_box()["height"] < 80
    expect(page.locator(FORM)).to_be_hidden()
    fold.click()
    expect(page.locator(FORM)).to_be_visible()


def test_a_question_of_a_finished_lesson_comes_back_and_a_hidden_one_waits_for_a_guess(open_page):
    texts = words("en")
    lesson, later = library().lesson("tokens", "en"), library().lesson("circuit", "en")
    page = open_page("", ready="#pg-tokens")
    done = {"tokens": {"at": 2, "finished": True, "steps": {}}}
    asked = {"begun": 9, "last": "tokens", "asked": {"tokens": {"bytes": {"gap": 1, "begun": 7, "time": 0}}}}
    for key, kept in (("playground-lessons", done), ("playground-lesson-reviews", asked)):
        page.evaluate("([key, it]) => localStorage.setItem(key, JSON.stringify(it))", [key, kept])
    page.goto(f"{page.url.split('?')[0].split('#')[0]}?lesson=circuit&lang=en")
    panel = page.locator(".pg-learn")
    expect(panel.locator(".pg-learn-review")).to_be_visible(timeout=SOON)
    expect(panel).to_contain_text(lesson.reviews["bytes"].text)
    give(page, lesson.reviews["bytes"], "3")
    expect(panel.locator(".pg-learn-right")).to_be_visible(timeout=SOON)
    kept = page.evaluate("JSON.parse(localStorage['playground-lesson-reviews'])")["asked"]["tokens"]["bytes"]
    assert (kept["gap"], kept["begun"]) == (2, 10)  # twice as far away now
    panel.locator(".pg-learn-next").click()
    expect(panel.locator(".pg-learn-opens")).to_have_text(later.opens, timeout=SOON)
    expect(panel.locator(".pg-learn-level")).to_be_visible()
    expect(panel.get_by_role("button", name=texts["learn.no_guess"])).to_have_count(0)
    step, other = later.steps[0], next(iter(later.steps[0].ask.choices))
    assert step.check.hidden and step.check.text not in panel.inner_text()
    give(page, step.ask, other)
    by_hints(page)(step)
    expect(panel.locator(".pg-learn-check")).to_contain_text(step.check.text, timeout=SOON)
    for n, told in enumerate(("learn.wrong_number", "learn.wrong_high")):
        give(page, step.check, str(99 - n))
        expect(panel.locator(".pg-learn-wrong")).to_have_text(texts[told], timeout=SOON)
    for each in step.check.hints:
        panel.locator(".pg-learn-hint-open").click()
        expect(panel.locator(".pg-learn-hint").last).to_have_text(each, timeout=SOON)
    panel.locator(".pg-learn-hint-open").click()  # the answer is shown, and counts as skipped
    expect(panel.locator(".pg-learn-told")).to_be_visible(timeout=SOON)
    assert page.evaluate("JSON.parse(localStorage['playground-lessons']).circuit.steps.hurt.skipped") is True
