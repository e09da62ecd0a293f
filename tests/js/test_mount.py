"""A part of the page: a click that is under way when the part is drawn anew is still a click."""

import pytest

pytestmark = pytest.mark.browser

# A part whose drawing replaces the button or the slider in it, as forms and tables do. `seen` is what was drawn and
# clicked, one after the other.
PART = """async (module, kind) => {
  document.body.replaceChildren();
  const root = document.createElement("div");
  root.dataset.part = "pressed";
  document.body.append(root);
  window.seen = [];
  window.clock = 0; // milliseconds, as the test has them pass
  performance.now = () => clock;
  module.define(kind, (root) => (payload) => {
    const made = document.createElement(kind === "slider" ? "input" : "button");
    if (kind === "slider") made.type = "range";
    else made.textContent = payload.title;
    made.onclick = () => seen.push(`clicked ${payload.title}`);
    seen.push(`drawn ${payload.title}`);
    root.replaceChildren(made);
  });
  window.entry = module.mountPart(kind, root, {}, () => {});
  entry.show({ title: "one" });
}"""


@pytest.fixture
def pressed(call):
    """The page once the mouse is down on a part of a kind; `pressed.seen()` is what happened to it."""

    def press(kind):
        call("page/mount.js", f"({PART}).bind(null, module)", kind)
        box = call.page.locator("[data-part] > *").bounding_box()
        call.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        call.page.mouse.down()
        return call.page

    yield press
    call.page.mouse.up()
    call.page.evaluate("delete performance.now")


def show(page, title):
    page.evaluate("title => entry.show({ title })", title)


def seen(page):
    return page.evaluate("seen")


def test_a_part_that_is_drawn_anew_between_press_and_release_is_clicked_and_then_drawn_once(pressed):
    page = pressed("button")
    show(page, "two")
    show(page, "three")
    assert seen(page) == ["drawn one"]
    assert page.evaluate("entry.payload().title") == "three"
    page.mouse.up()
    page.wait_for_function("seen.length > 2")
    assert seen(page) == ["drawn one", "clicked one", "drawn three"]
    show(page, "four")
    assert seen(page)[3:] == ["drawn four"]


def test_a_press_that_has_become_a_drag_holds_nothing_up(pressed):
    page = pressed("button")
    show(page, "two")
    assert seen(page) == ["drawn one"]
    page.evaluate("clock = 600")
    page.wait_for_function("seen.length > 1")
    show(page, "three")
    assert seen(page) == ["drawn one", "drawn two", "drawn three"]


def test_a_slider_is_answered_while_it_is_held(pressed):
    page = pressed("slider")
    show(page, "two")
    assert seen(page) == ["drawn one", "drawn two"]


# Instructions that were opened, and are drawn anew: whether they have a line of their own before and after.
OPENED = """async (module) => {
  await import(path.replace("page/mount.js", "parts/howto.js"));
  const root = document.createElement("div");
  root.dataset.part = "map_howto";
  document.body.replaceChildren(root);
  const entry = module.mountPart("howto", root, {}, () => {});
  entry.show({ title: "How to read this", parts: { body: "So." } });
  const toggled = new Promise((done) => root.firstChild.addEventListener("toggle", done, { once: true }));
  root.firstChild.open = true;
  await toggled;
  const own = () => root.classList.contains("pg-howto-open");
  const before = own();
  entry.show({ title: "How to read this", parts: { body: "So." } });
  return [before, own(), root.firstChild.open];
}"""


def test_instructions_that_are_drawn_anew_are_closed(call):
    assert call("page/mount.js", f"({OPENED}).bind(null, module)") == [True, False, False]
