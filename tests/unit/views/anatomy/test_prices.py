"""The price of a conversation: tokens by hand, every line of the table, what is wrong with a table, and the view."""

import csv
import dataclasses
import datetime
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.anatomy.prices import MOST_ROWS, Price, bundled, cost, most_turns, read_prices, talk
from model.api import LanguageModel
from model.errors import InputError
from tests.support.models.helpers import VARIANTS, byte_tokenizer, serving, tiny_model
from viz.api.endpoints import ENDPOINTS
from viz.api.registry import call
from viz.numbers import money
from viz.page.pipeline import PageRequest, payloads
from viz.views.anatomy.prices.figures import CostBar, price_figure
from viz.views.anatomy.prices.view import priced
from viz.words import LANGUAGES, Words, words

HEAD = "model,context,input,output,currency,as_of,source\n"
LINE = "A,8000,2,10,USD,2024-01-31,a list\n"
ONE = Price("A", 8000, 2.0, 10.0, "USD", "2024-01-31", "a list")


def test_a_conversation_by_hand():
    """Three turns of 100 and 50: 100 read; then 150 again and 100; then 300 again and 100."""
    tokens = talk(100, 50, 3)
    assert (tokens.fresh, tokens.again, tokens.written, tokens.context) == (300, 450, 150, 450)
    full = cost(ONE, tokens)
    assert full.fresh == pytest.approx(300 * 2e-6) and full.again == pytest.approx(450 * 2e-6)
    assert full.written == pytest.approx(150 * 10e-6) and full.total == pytest.approx(0.003)
    cheaper = cost(dataclasses.replace(ONE, cached_input=0.5), tokens)
    assert cheaper.again == pytest.approx(450 * 0.5e-6) and cheaper.fresh == full.fresh
    assert talk(100, 50, 1).again == 0


@given(st.integers(1, 500), st.integers(1, 500), st.integers(1, 60))
def test_tokens_add_up_turn_by_turn(question, answer, turns):
    tokens = talk(question, answer, turns)
    read = sum(turn * question + (turn - 1) * answer for turn in range(1, turns + 1))
    assert tokens.fresh + tokens.again == read
    assert tokens.context == turns * question + turns * answer
    most = most_turns(ONE, question, answer)
    assert (turns <= most) == cost(ONE, tokens).fits


def test_the_table_of_the_app_is_dated_and_of_the_past():
    prices = read_prices(bundled())
    assert len(prices) >= 5 and len({price.model for price in prices}) == len(prices)
    for price in prices:
        assert datetime.date.fromisoformat(price.as_of) < datetime.date(2026, 1, 1)
        assert price.source and 0 < price.input <= price.output
        assert price.cached_input is None or price.cached_input < price.input


def test_a_table_is_read_as_it_stands():
    text = "\ufeff" + HEAD
    assert read_prices(text.lstrip("\ufeff") + LINE) == (ONE,)
    spaced = "Model, context ,input,output,currency,as_of,source\n\n" + LINE.replace(",", " , ")
    assert read_prices(spaced) == (ONE,)
    assert read_prices(HEAD + LINE.replace("A,", '"A, B",'))[0].model == "A, B"


BROKEN = {
    "": "empty",
    "model,context\nA,1\n": "lacks a column",
    HEAD: "too few",
    HEAD + LINE * (MOST_ROWS + 1): "too many",
    HEAD + LINE.replace("USD", "EUR") + "B" + LINE[1:]: "more than one currency",
    HEAD + LINE + LINE: "a model twice",
    HEAD + "A,8000,2\n": "wrong number of cells",
    HEAD + LINE.replace("2,10", "x,10"): "cannot be read",
    HEAD + LINE.replace("2,10", "-2,10"): "cannot be read",
    HEAD + LINE.replace("2,10", "nan,10"): "cannot be read",
    HEAD + LINE.replace("2,10", "2,inf"): "cannot be read",
    HEAD + LINE.replace("8000", "0"): "cannot be read",
    HEAD + LINE.replace("8000", "1.5"): "cannot be read",
    HEAD + LINE.replace("2024-01-31", "2024-02-30"): "cannot be read",
    HEAD + LINE.replace("2024-01-31", "yesterday"): "cannot be read",
    HEAD + LINE.replace("a list", ""): "cannot be read",
    HEAD.replace("source", "source,more") + LINE: "unknown column",
    HEAD + '"A': "not a CSV",
    "a" * 30_000: "too long",
}


@pytest.mark.parametrize("text", BROKEN, ids=lambda text: BROKEN[text])
def test_what_is_wrong_with_a_table_is_said(text):
    with pytest.raises(InputError) as refused:
        read_prices(text)
    assert BROKEN[text] in refused.value.what and refused.value.hint


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text):
    for table in (text, HEAD + text):
        try:
            assert read_prices(table)
        except InputError as refused:
            assert refused.what and refused.hint


def test_amounts_are_told_in_few_digits():
    assert [money(x, "USD") for x in (0, 1234.5, 1, 0.01234, 1e-7)] == [
        "0 USD",
        "1,234.50 USD",
        "1.00 USD",
        "0.0123 USD",
        "1.00 × 10⁻⁷ USD",
    ]


def test_the_bars_are_the_costs():
    labels = Words(words("en"), "prices.figure").plain() | {"seen": "price of"}
    bars = [CostBar("<b>A</b>", {"fresh": 1.0, "again": 2.0, "written": 3.0}, "2024-01-31", False)]
    figure = json.loads(price_figure(bars, "USD", labels).to_json())
    assert [trace["x"] for trace in figure["data"]] == [[1.0], [2.0], [3.0]]
    assert "<b>" not in json.dumps(figure["data"][0]["y"])
    assert "2024-01-31" in figure["data"][0]["hovertext"][0] and labels["too_long"] in figure["data"][0]["hovertext"][0]


def test_what_is_measured_is_every_line_cheapest_first():
    result = priced(100, 50, 3, HEAD + LINE + LINE.replace("A,", "B,").replace("2,10", "1,10"))
    assert [line.price.model for line in result.lines] == ["B", "A"] and result.talk == talk(100, 50, 3)
    assert result.lines[1].cost == cost(ONE, result.talk) and result.lines[1].most_turns == 8000 // 150


# --- the view --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def playground(tmp_path_factory):
    tokenizer = byte_tokenizer(tmp_path_factory.mktemp("bytes"))
    model = tiny_model({**VARIANTS["gpt2"], "vocab_size": 256, "n_ctx": 300})
    return serving(LanguageModel("tiny", "Tiny", model, tokenizer))


def drawn(playground, value=None, language="en"):
    values = {"anatomy_view": {"view": "prices"}, "prices_form": value}
    return payloads(playground, PageRequest("tiny", "abcabd ab", None, values, {}, language, "anatomy"))[0]


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_view_counts_the_prompt(playground, language):
    parts = drawn(playground, {"answer": 50, "turns": 3, "times": 7}, language)
    tokens = talk(9, 50, 3)  # one token per byte
    figure, table = json.loads(parts["prices_figure"]["figure"].to_json()), parts["prices_table"]
    costs = sorted(7 * cost(price, tokens).total for price in read_prices(bundled()))
    assert [sum(bar) for bar in zip(*(trace["x"] for trace in figure["data"]), strict=True)] == pytest.approx(costs)
    assert [7 * line[5] for line in table["lines"]] == pytest.approx(costs)
    assert "Tiny" in table["source"] and "2023-03-01" in table["source"]
    assert parts["prices_figure"]["title"].count("7")


def test_a_table_of_ones_own_takes_its_place(playground):
    parts = drawn(
        playground,
        {
            "of": "number",
            "question": 100,
            "answer": 50,
            "turns": 3,
            "table": "own",
            "csv": HEAD + LINE.replace("A,", "<i>M</i>,").replace("8000", "400"),
        },
    )
    (row,) = parts["prices_table"]["rows"]
    assert row[0]["text"] == "<i>M</i>" and row[-1] == {"text": "full after 2 turns", "bar": 450 / 400}
    assert "Tiny" not in parts["prices_table"]["source"] and "your table" in parts["prices_table"]["source"]
    broken = drawn(playground, {"table": "own", "csv": "x"})
    assert "lacks a column" in broken["prices_figure"]["problem"]["text"]


def test_the_python_lines_make_the_bars(playground):
    for value in ({"times": 3}, {"table": "own", "csv": HEAD + LINE, "times": 3}):
        parts, space = drawn(playground, value), {}
        exec(parts["prices_figure"]["python"], space)
        bars = json.loads(parts["prices_figure"]["figure"].to_json())["data"]
        assert sorted(space["costs"].values()) == pytest.approx(
            [sum(each) for each in zip(*(bar["x"] for bar in bars), strict=True)]
        )


def test_the_endpoint_gives_the_same(playground):
    endpoint = next(each for each in ENDPOINTS if each.name == "prices")
    answer = call(playground, endpoint, {"question": 100, "answer": 50, "turns": 3, "table": HEAD + LINE})
    assert answer["tokens"]["again"] == 450 and answer["prices"][0]["total"] == pytest.approx(0.003)
    assert len(call(playground, endpoint, {})["prices"]) == len(list(csv.reader(io.StringIO(bundled())))) - 1
