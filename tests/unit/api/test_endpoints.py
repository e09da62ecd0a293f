"""The functions for programs: every view has one, each is described, and what they say of the model and the server."""

import inspect
import json
import re
import typing
from pathlib import Path

import pytest

from model.attention.surveys import random_survey
from model.checks.registry import CHECKS
from model.errors import InputError
from tests.support.models.helpers import assert_close
from tests.support.views.endpoints import NAMED, TEXT, ask
from viz.api import endpoints
from viz.api.endpoints import ENDPOINTS, WITHOUT, unique
from viz.api.registry import arguments, document, parse_docstring, table
from viz.views.tabs import TABS

PAGE = (Path(__file__).parents[3] / "docs" / "endpoints.md").read_text(encoding="utf-8")


def views() -> set[str]:
    """Every tab, and every view of the tabs that have views."""
    found = {f"{tab.key}.{view.key}" for tab in TABS for view in tab.all_views if view.key != tab.key}
    for tab in TABS:
        shown = [part.removesuffix("_about") for part in tab.parts if part.endswith("_about")]
        inner = {f"{tab.key}.{view}" for view in shown if f"{view}_howto" in tab.parts}
        found |= inner or {tab.key}
    return found


def test_every_view_has_a_function_or_a_reason():
    covered = {view for each in ENDPOINTS for view in each.views}
    assert len(views()) > 25
    assert views() - covered - set(WITHOUT) == set()
    assert covered <= views() and not covered & set(WITHOUT)
    assert all(len(reason) > 20 for reason in WITHOUT.values())


def test_the_documentation_tells_what_is_there():
    up_to_date = endpoints.documented(PAGE) == PAGE and table(ENDPOINTS) in PAGE
    assert up_to_date, "docs/endpoints.md is not of today: run `python -m viz.api.endpoints` and look at what changed"


def test_names_are_unique():
    assert len(NAMED) == len(ENDPOINTS) == len(unique(ENDPOINTS))
    with pytest.raises(InputError, match=r"name of an endpoint is taken. Got: models\."):
        unique((*ENDPOINTS, NAMED["models"]))


@pytest.mark.parametrize("name", NAMED)
def test_everything_is_described(name):
    endpoint = NAMED[name]
    about, told, back = parse_docstring(endpoint.function)
    hints = typing.get_type_hints(endpoint.function)
    assert about.endswith(".") and back.endswith(".")
    assert set(told) <= set(hints)
    for each in arguments(endpoint):
        assert each.description.endswith((".", ")")) and each.hint is not inspect.Parameter.empty, each.name
        if each.default in ("", None) and each.default is not inspect.Parameter.empty:
            assert re.search("empty|not given|omitted|default", each.description, re.IGNORECASE), each.name
    lines = document(endpoint).splitlines()
    assert [line.strip().partition(":")[0] for line in lines if line.startswith("    ")][:-1] == [
        each.name for each in arguments(endpoint)
    ]


def test_defaults_pass_their_own_rules(playground):
    for endpoint in ENDPOINTS:
        for each in arguments(endpoint):
            if each.default is not inspect.Parameter.empty:
                assert not callable(each.default)
                json.dumps(each.default)


def test_of_the_model(wired):
    playground, lm = wired
    info = ask(playground, "model_info")
    assert info["parameters"] == lm.n_params and info["config"]["n_head"] == 4
    assert info["about"] == {"model": "tiny", "dtype": "float32", "tokens": None, "kind": "listed"} | {
        "seconds": info["about"]["seconds"]
    }
    size = ask(playground, "cache_size", length=10, batch=2)
    assert size["bytes"] == 2 * 3 * 2 * lm.config.n_kv_head * 10 * lm.config.d_head * 4
    wired_to = ask(playground, "composition", layer=1, head=0, most=2)
    assert {row["layer"] for row in wired_to["reads"]["q"]} == {0}


def test_of_the_server(playground, lm):
    assert {row["id"] for row in ask(playground, "models")["models"]} >= {"tinygpt"}
    cut = ask(playground, "tokenize", prompt="aé")["tokens"]
    assert [(row["id"], row["start"], row["end"]) for row in cut] == [(97, 0, 1), (195, 1, 2), (169, 2, 3)]
    found = ask(playground, "head_survey")
    mean = random_survey(lm.model, pool=256).mean
    assert_close([row["first_token"] for row in found["random"]], mean["first_token"].to_numpy(), 1e-6)
    times = ask(playground, "cache_times", prompt="ab")
    assert all(row["agree"] in (True, None) for row in times["rows"])


def test_checks(playground):
    found = ask(playground, "checks", prompt=TEXT, names=["rows", "softmax", "embedding"])
    assert [row["state"] for row in found["checks"]] == ["agrees"] * 3
    assert found["summary"]["agrees"] == 3 and set(NAMED["checks"].function.__doc__.split(", ")) & set(CHECKS)


def test_header(playground):
    found = ask(playground, "attention", prompt="abc", layer=0, head=0)["about"]
    assert (found["model"], found["dtype"], found["tokens"], found["kind"]) == ("tiny", "float32", 3, "measured")
    assert found["seconds"] > 0


@pytest.mark.parametrize("name", [each.name for each in ENDPOINTS if "run" in each.reads])
def test_one_token_is_enough_or_refused_clearly(playground, name, monkeypatch):
    monkeypatch.setattr(
        "viz.views.design.attention_ways.measure.limit_of", lambda scene: 128
    )  # the times of long contexts take seconds
    own = {"layer": 1, "head": 1, "neuron": 0, "queries": [0], "keys": [0], "tokens": ["a"], "other_prompt": "b"}
    wanted = {each.name for each in arguments(NAMED[name]) if each.default is inspect.Parameter.empty}
    given = {key: value for key, value in own.items() if key in wanted}
    try:
        ask(playground, name, prompt="a", **given)
    except InputError as error:
        assert error.what and error.hint
