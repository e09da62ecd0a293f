"""What scripts work out without a page: imported by one blank page from where the app serves them."""

import base64
import csv
import io

import numpy as np
import pytest

pytestmark = pytest.mark.browser
NEWEST = {"v": 1, "model": "tiny", "prompt": "a b", "tab": "effects", "heads": [[0, 1], [2, 3]], "tokens": [1, 4],
          "pair": [4, 1], "edits": [{"kind": "zero", "layer": 0, "head": 1}], "target": 7, "distractor": 0,
          "values": {"lens_form": {"top": 3}}}  # fmt: skip
UNTOUCHED = {"v": 1, "model": "tiny", "prompt": "hello", "tab": "attention", "heads": [[0, 0]], "tokens": [],
             "pair": None, "edits": [], "target": None, "distractor": None, "values": {}}  # fmt: skip


# --- the address ---


def fragment(call, state):
    return call("page/address/address_format.js", "module.fragment", state, UNTOUCHED)


@pytest.mark.parametrize("change", [
    {}, {"tab": "lens"}, {"heads": []}, {"prompt": "50 % of #1 & more = ü\n"}, {"tokens": [0]}, {"pair": [3, 3]},
    {"distractor": 0}, {"edits": NEWEST["edits"]}, {"values": {"lens_form": {"text": "a,b:c&d"}}}, NEWEST,
])  # fmt: skip
def test_an_address_says_all_that_differs(call, change):
    state = UNTOUCHED | change
    text = fragment(call, state)
    assert (text == "") == (state == UNTOUCHED)
    said = call("page/address/address_format.js", "module.parse", text) or {}
    empty = {"heads": []} if text else {}
    assert UNTOUCHED | empty | said == state


@pytest.mark.parametrize(("text", "said"), [
    ("", None), ("#", None), ("#nothing=1", None), ("#tab=lens", {"tab": "lens"}),
    ("#heads=1.2,3.4,x,5.6.7,-1.2", {"heads": [[1, 2], [3, 4]]}),
    ("#heads=" + ",".join(f"0.{n}" for n in range(12)), {"heads": [[0, n] for n in range(4, 12)]}),
    ("#tokens=3,x,1e3,2", {"tokens": [3, 2]}), ("#pair=1", {}), ("#pair=1,2", {"pair": [1, 2]}),
    ("#target=12&distractor=1.5", {"target": 12}), ("#target=x", {}), ("#target=-1", {}),
    ("#edits=nothing", {}), ("#edits=[1]", {}), ('#edits=[{"kind":{"a":{}}}]', {}),
    ('#values={"a":{"b":1}}', {"values": {"a": {"b": 1}}}), ('#values={"a b":{}}', {}),
    ("#tab=../x", {}), ("#model=", {}), ("#prompt=%00%0a", {"prompt": "\0\n"}),
])  # fmt: skip
def test_a_link_is_read_with_care(call, text, said):
    assert call("page/address/address_format.js", "module.parse", text) == said


def test_what_a_file_says_wrongly_is_named(call):
    found = call(
        "page/address/address_format.js", "module.checked", {"tab": 3, "prompt": "a", "tokens": [-1], "other": 1}
    )
    assert found == {"state": {"prompt": "a"}, "wrong": ["tab", "tokens"]}


# --- the conversation ---

TALK = [["system", "Be brief."], ["user", "Hi"], ["assistant", ""]]
BEGUN = [*TALK[:2], ["assistant", "Hel"]]


@pytest.mark.parametrize(("sent", "kept"), [
    ({"on": True, "turns": TALK, "more": 1}, {"on": True, "turns": TALK, "special": False, "open": False}),
    ({"turns": TALK, "special": True, "open": 1}, {"on": False, "turns": TALK, "special": True, "open": False}),
    ({"special": True}, {"on": False, "turns": [], "special": True, "open": False}),
    ({"on": True, "turns": BEGUN, "open": True}, {"on": True, "turns": BEGUN, "special": False, "open": True}),
    ({}, None), (None, None), ("x", None), ({"on": True}, None), ({"on": "yes", "special": 1}, None),
    ({"on": True, "turns": [["tool", "x"]]}, None), ({"on": True, "turns": [["user", 7]]}, None),
    ({"on": True, "turns": [*TALK, ["user"]]}, None), ({"on": True, "turns": {"length": 1}}, None),
    ({"on": True, "turns": [["user", "x"]] * 65}, None), ({"on": True, "turns": [["user", "x" * 200_001]]}, None),
])  # fmt: skip
def test_a_conversation_of_a_link_is_read_with_care(call, sent, kept):
    assert call("page/chat/chat_value.js", "module.chatState", sent) == kept


def test_the_prompts_box_holds_the_last_text_of_a_user(call):
    talk = [*TALK[:2], ["assistant", "Yes?"], ["user", "Go"], ["assistant", ""]]
    assert call("page/chat/chat_value.js", "module.ownText", talk) == "Go"
    assert call("page/chat/chat_value.js", "module.withOwn", talk, "x") == [*talk[:3], ["user", "x"], talk[4]]
    assert call("page/chat/chat_value.js", "module.ownText", [["assistant", "a"]]) == "a"
    assert call("page/chat/chat_value.js", "module.firstTurns", "Be brief.", "Hi") == TALK
    assert call("page/chat/chat_value.js", "module.firstTurns", "", "Hi") == TALK[1:]
    opens = [call("page/chat/chat_value.js", "module.isOpen", talk, at) for at in range(5)]
    assert opens == [False, False, False, False, True]
    assert [call("page/chat/chat_value.js", "module.nextRole", turns) for turns in (talk, talk[:4])] == [
        "user",
        "assistant",
    ]


# --- files ---

TABLE = {"names": ["name", "n", "n"], "title": 'T "1"', "source": "tiny · float32",
         "lines": [["=1+1", 1, None], ['a"b', 2.5, 3], ["", -1e-9, ""]]}  # fmt: skip


def test_csv_holds_every_digit_and_starts_no_formula(call):
    text = call("export/files.js", "async (table) => module.csv(table, 'of').text()", TABLE)
    rows = list(csv.reader(io.StringIO(text.removeprefix("\ufeff"))))
    assert rows[0] == ["name", "n", "n", "of"] and rows[1][:2] == ["'=1+1", "1"] and rows[2][:3] == ['a"b', "2.5", "3"]
    assert rows[1][3] == 'T "1" · tiny · float32' and rows[2][3] == "" and float(rows[3][1]) == -1e-9


def test_npz_is_read_by_numpy(call):
    code = "async (table) => [...new Uint8Array(await module.npz(module.arraysOf(table), table).arrayBuffer())]"
    found = np.load(io.BytesIO(bytes(call("export/files.js", code, TABLE))))
    assert sorted(found) == ["n", "n_2", "name", "source", "title"]
    assert found["name"].tolist() == ["=1+1", 'a"b', ""] and found["source"].tolist() == ["tiny · float32"]
    assert np.array_equal(found["n"], [1, 2.5, -1e-9]) and np.array_equal(found["n_2"], [np.nan, 3, np.nan], True)


def test_parquet_needs_its_library_only_then(call):
    code = "async (table) => [...new Uint8Array(await (await module.parquet(table)).arrayBuffer())]"
    made = bytes(call("export/files.js", code, TABLE))
    assert made[:4] == made[-4:] == b"PAR1"


def test_a_library_that_did_not_come_is_asked_for_again(call):
    code = """async () => {
        const failed = await module.vendor("late.js").catch(() => "failed");
        return [failed, await module.vendor("late.js")]; }"""
    assert call("export/vendor.js", code) == ["failed", {"there": True}]


@pytest.mark.parametrize(("name", "clean"), [
    ("a b.csv", "a-b.csv"), ("../../x.PNG", "x.png"), ("é.csv", "e.csv"), ("con.csv", "file-con.csv"),
    ("…", "figure"), ("a" * 200 + ".npz", "a" * 76 + ".npz"), ("a..b", "a.b"), (".hidden", "figure.hidden"),
])  # fmt: skip
def test_a_file_has_a_name_that_every_system_takes(call, name, clean):
    assert call("export/files.js", "module.fileName", name) == clean


# --- figures ---


def test_a_figure_as_lines_and_arrays(call):
    figure = {"data": [{"type": "heatmap", "z": [[1, None], [0.25, 0.75]], "x": ["a", "&lt;b&gt;"], "y": ["q", "r"]},
                       {"type": "scatter", "name": "skipped", "hoverinfo": "skip", "x": [1], "y": [2]}]}  # fmt: skip
    lines = call("parts/figure/figure_numbers.js", "module.lines", figure)
    assert lines == [["q", "a", 1], ["r", "a", 0.25], ["r", "<b>", 0.75]]
    code = (
        "(figure) => { const { values, rows } = module.arrays(figure); return [[...values.data], values.shape, rows]; }"
    )
    figure["data"].pop()
    values, shape, rows = call("parts/figure/figure_numbers.js", code, figure)
    assert (values[0], values[2:], shape, rows) == (1, [0.25, 0.75], [2, 2], ["q", "r"]) and np.isnan(values[1])


@pytest.mark.parametrize(("dtype", "code"), [("f4", "<f4"), ("f8", "<f8"), ("u1", "|u1"), ("i2", "<i2"), ("i4", "<i4")])
def test_packed_numbers_are_unpacked(call, dtype, code):
    given = np.arange(6).astype(code)
    packed = {"dtype": dtype, "bdata": base64.b64encode(given.tobytes()).decode(), "shape": "2, 3"}
    code = "(x) => { const d = module.decoded(x); return [[...d.data], d.shape]; }"
    out = call("parts/figure/figure_numbers.js", code, packed)
    assert out == [list(range(6)), [2, 3]]


def test_a_bar_is_a_line_with_its_name(call):
    bars = {"data": [{"type": "bar", "name": "A", "x": ["1", "two"], "y": [0.5, 0.25]}]}
    assert call("parts/figure/figure_numbers.js", "module.lines", bars) == [["A", 1, 0.5], ["A", "two", 0.25]]


# --- tables and text ---


@pytest.mark.parametrize(("keys", "down", "order"), [
    ([3, 1, 2], False, [1, 2, 0]), ([3, 1, 2], True, [0, 2, 1]), ([1, 1, 1], True, [0, 1, 2]),
    ([None, 2, None, 1], False, [3, 1, 0, 2]), ([None, 2, None, 1], True, [1, 3, 0, 2]),
])  # fmt: skip
def test_rows_are_sorted_with_what_is_no_number_last(call, keys, down, order):
    code = "(keys, down) => module.sorted(keys.map((_, at) => at), keys.map((key) => key ?? NaN), down)"
    assert call("views/heads/head_table.js", code, keys, down) == order


@pytest.mark.parametrize(("template", "values", "text"), [
    ("{n} tokens", {"n": 3}, "3 tokens"), ("{n} {m}", {"n": 0}, "0 {m}"), ("$&{a}", {"a": "$&"}, "$&$&"),
])  # fmt: skip
def test_a_template_is_filled(call, template, values, text):
    assert call("page/dom.js", "module.fill", template, values) == text


@pytest.mark.parametrize("ground", [[0, 0, 0], [255, 255, 255], [120, 120, 120], [200, 40, 40]])
def test_text_can_be_read_on_any_ground(call, ground):
    code = "(ground) => module.contrast(module.channels(module.ink(ground, '#1d2330')), ground)"
    assert call("parts/colors.js", code, ground) >= 4.5


# --- lines ---


def test_links_are_shown_until_they_reach_the_share_of_their_row(call):
    code = """(share, hide) => {
        const panel = { starts: [0, 1, 3], keys: [0, 1, 0], weights: [1, 0.7, 0.3], totals: [1, 1],
          readers: { starts: [0, 2, 3], links: [0, 2, 1], rows: [0, 1, 1] } };
        const settled = { panels: [panel], tokens: 2, share, hide }, found = [];
        module.sift([panel], settled);
        module.visitLinks(settled, null, (_, row, key) => found.push([row, key]));
        const partners = module.partnersOf(settled, { left: true, tokens: [1] });
        return [found, partners.map(({ other, value }) => [other, value])]; }"""
    path = "views/attention/lines_links.js"
    assert call(path, code, 1, False) == [[[0, 0], [1, 1], [1, 0]], [[1, 0.7], [0, 0.3]]]
    assert call(path, code, 0.5, False) == [[[0, 0], [1, 1]], [[1, 0.7]]]
    assert call(path, code, 1, True) == [[[1, 1]], [[1, 0.7]]]


# --- mounting ---


def test_a_part_needs_no_framework(call):
    code = """() => {
        const root = document.createElement("div"), told = [], seen = [];
        root.dataset.part = "tried";
        document.body.append(root);
        module.define("tried", (root, props, ask) => {
          const draw = (payload) => { root.textContent = payload.text; };
          root.onclick = () => ask("select");
          return draw;
        });
        module.onAsk((root) => seen.push(root.dataset.part));
        const entry = module.mountPart("tried", root, { value: null }, (...given) => told.push(given));
        entry.show({ text: "<b>" });
        root.click();
        entry.show({ problem: { text: "wrong", hint: "other" } });
        const { hidden, textContent } = root.previousSibling;
        return [root.textContent, told, seen, hidden, textContent, module.mounted.get("tried") === entry];
      }"""
    shown = call("page/mount.js", code)
    assert shown == ["<b>", [["select"]], ["tried"], False, "wrongother", True]


def test_a_value_from_a_link_that_cannot_be_drawn_goes_back(call):
    code = """() => {
        const root = document.createElement("div"), props = { value: { n: 1 } };
        root.dataset.part = "foreign";
        document.body.append(root);
        module.define("foreign", (root, props) => () => { root.textContent = props.value.n.toFixed(1); });
        const entry = module.mountPart("foreign", root, props, () => {});
        props.value = { n: "x" };
        entry.foreign = true;
        entry.show({});
        return [root.textContent, props.value];
      }"""
    assert call("page/mount.js", code) == ["1.0", {"n": 1}]


def test_a_form_that_is_drawn_anew_keeps_its_caret(call, address):
    code = """async (path) => {
        const root = document.createElement("div"), props = { value: null };
        root.dataset.part = "form";
        document.body.append(root);
        await import(path);
        const entry = module.mountPart("controls", root, props, () => {});
        const text = (placeholder) => ({ kind: "text", name: "word", label: "Word", value: "", placeholder });
        const form = (placeholder) => ({ controls: [text("other"), text(placeholder)].map((each, i) =>
          ({ ...each, name: `${each.name}${i}` })) });
        entry.show(form("first"));
        const box = root.querySelectorAll("input")[1];
        box.focus();
        box.value = "token";
        box.oninput();
        box.setSelectionRange(1, 3);
        entry.show(form("second"));
        const { activeElement: at } = document;
        return [at !== box, at.placeholder, at.value, at.selectionStart, at.selectionEnd];
      }"""
    form = f"/{address[1].address('parts/form.js')}"
    assert call("page/mount.js", code, form) == [True, "second", "token", 1, 3]


def test_a_part_is_drawn_with_what_came_for_it_before_it_was_there(call, address):
    code = """async (path) => {
        const { define, mountPart, mounted, onEvent, showParts } = await import(path), told = [];
        define("shown", (root, props, ask) => {
          root.onclick = () => ask("select");
          return (payload) => { root.textContent = `${payload.text}${props.value ?? ""}`; };
        });
        onEvent((...given) => told.push(given));
        const element = document.createElement("div");
        element.innerHTML = '<div data-screen="tab"></div>';
        element.firstChild.dataset.places = JSON.stringify([["one", "shown"], ["two", "shown"]]);
        document.body.append(element);
        showParts({ two: { text: "c" } }); // the answer to a question comes before the tab's parts are there
        const parts = { one: { text: "a" }, two: { text: "b" } };
        module.screen(element, { payload: JSON.stringify({ values: { two: 1 }, parts }) });
        const text = () => element.innerText.split(/\\s+/).join(" ");
        const first = text();
        showParts({ one: { text: "d" } });
        mounted.get("two").root.click();
        return [first, text(), told];
      }"""
    answer = call("page/screen.js", code, f"/{address[1].address('page/mount.js')}")
    assert answer == ["a c1", "d c1", [["two", "select", 1]]]


def test_a_way_to_a_tab_goes_on_where_gradio_tells_of_the_first_one_once_more(call):
    code = """async () => {
        const box = document.createElement("div"), button = document.createElement("button"), seen = [];
        box.className = "tab-container";
        button.dataset.tabId = "heads";
        box.append(button);
        document.body.append(box);
        let clicks = 0;
        button.onclick = () => ++clicks === 2 && module.arrived("heads"); // the first click is missed
        module.onTab((tab) => seen.push(tab));
        module.arrived("start");
        module.go("heads");
        module.arrived("start");
        await new Promise((done) => setTimeout(done, 500));
        return [clicks, seen, module.currentTab()];
      }"""
    assert call("page/address/places.js", code) == [2, ["start", "heads"], "heads"]
