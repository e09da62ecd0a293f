"""The stored example: shown in place of a slow measure's missing result, marked as such, and gone with the result."""

import dataclasses

import pytest

from model.api import load_model
from viz.page.examples import FIRST
from viz.page.notebook import page_of
from viz.page.pipeline import payloads
from viz.seam.jobs import stored
from viz.seam.jobs.background import Result
from viz.views.tabs import TABS
from viz.work.playground import Playground

OTHER = "Once upon a time there was a little girl"
# The view of a conversation says how to begin one, that of a mixture of experts which models have them.
WITHOUT = ("turns_", "routing_")


@pytest.fixture(scope="module")
def other():
    return page_of(load_model("tinygpt"), OTHER)


def payload(page, part):
    (tab, view) = next((tab, view.key) for tab in TABS for view in tab.views if part.startswith(f"{view.key}_"))
    return page.payload(tab, view, part, {})


def test_another_prompt_shows_the_stored_example_until_it_is_measured(other):
    shown = payload(other, "kv_cache_times")
    assert shown["stored_example"] == "Stored example"
    assert shown["source"] == f"TinyGPT · stored example: “{FIRST}”"
    default_page = page_of(load_model("tinygpt"), FIRST)
    default, stored_key = payload(default_page, "kv_cache_times"), default_page.planned("kv_cache_job").key
    assert shown["figure"] == default["figure"] and "stored_example" not in default
    job = payload(other, "kv_cache_job")
    assert job["state"] == "idle" and job["text"].startswith("Shown below: a stored example. ")
    measured = Result(stored.stored(stored_key).value, 3.0)
    other.playground.results.put(other.planned("kv_cache_job").key, measured)
    assert "stored_example" not in payload(other, "kv_cache_times")
    assert payload(other, "kv_cache_job")["text"] == "Measured here in 3.0 s."


def test_typing_does_not_send_the_example_again(other):
    (tab,) = [tab for tab in TABS if tab.key == "sampling"]
    request = other._request(tab, "many_samples", {})
    first, shown = payloads(other.playground, request)
    assert first["many_samples_table"]["stored_example"]
    again, _ = payloads(other.playground, dataclasses.replace(request, prompt=f"{OTHER} and", shown=shown))
    assert "many_samples_table" not in again and "many_samples_job" in again


def test_a_server_without_examples_says_what_is_missing(other):
    options = dataclasses.replace(other.playground.options, examples=False)
    page = dataclasses.replace(other, playground=Playground(options))
    assert "empty" in payload(page, "kv_cache_times")


def test_an_example_is_in_the_language_of_the_page():
    page = page_of(load_model("tinygpt"), OTHER, language="zh")
    shown = payload(page, "kv_cache_times")
    assert shown["stored_example"] == "已存示例" and shown["source"].endswith(f"已存示例：“{FIRST}”")


@pytest.mark.parametrize("prompt", [FIRST, OTHER])
def test_no_part_of_a_view_is_empty_on_arrival(prompt):
    page, empty = page_of(load_model("tinygpt"), prompt), []
    for tab in TABS:
        for view in tab.views:
            parts, _ = payloads(page.playground, page._request(tab, "" if tab.is_single else view.key, {}))
            empty += [name for name, part in parts.items() if "empty" in part or "problem" in part]
    assert [name for name in empty if not name.startswith(WITHOUT)] == []
