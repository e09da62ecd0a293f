"""A server with its functions, asked as programs ask: the lines of the documentation, and a client of MCP."""

import json
import re
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

from tests.support.models.helpers import apart
from viz.api.endpoints import ENDPOINTS
from viz.api.registry import arguments
from viz.page.build import build
from viz.serve import start
from viz.work.playground import Options, Playground

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "endpoints.md").read_text(encoding="utf-8")
NAMES = {each.name for each in ENDPOINTS}


def served(playground: Playground):
    """The page as serve.launch starts it."""
    return start(playground, ROOT / "static", build(playground), host="127.0.0.1", port=None)


@pytest.fixture(scope="module")
def playground():
    ours = Playground(Options(max_tokens=64))
    ours.load("tinygpt")
    return ours


@pytest.fixture(scope="module")
def address(playground):
    running = served(playground)
    yield running.url
    running.close()


@pytest.fixture(scope="module")
def client(address):
    return Client(address, verbose=False)


@pytest.mark.long
def test_the_lines_of_the_documentation_run(address):
    (block,) = re.findall(r"```py\n(.*?)\n```", PAGE, re.DOTALL)
    found: dict = {}
    exec(block.replace("http://127.0.0.1:7860", address), found)
    assert len(found["run"]["rows"]) == found["run"]["about"]["tokens"] == 6
    assert found["texts"][0]["text"]


def test_names_and_arguments_are_told(client):
    told = client.view_api(return_format="dict")["named_endpoints"]
    assert set(told) == {f"/{name}" for name in NAMES}
    for each in ENDPOINTS:
        asked = told[f"/{each.name}"]["parameters"]
        assert [one["parameter_name"] for one in asked] == [one.name for one in arguments(each)]
        assert all(one["python_type"]["description"] for one in asked)
        assert [one["parameter_has_default"] for one in asked] == [
            one.default is not arguments(ENDPOINTS[2])[0].default for one in arguments(each)
        ]


def test_answers_and_errors_reach_a_program(client):
    found = client.predict("The cat sat", layer=1, head=2, api_name="/attention")
    assert found["tokens"] == ["The", " cat", " sat"]
    assert found["rows"][0] == [1.0, None, None] and sum(found["rows"][2]) == pytest.approx(1, abs=1e-6)
    edited = client.predict("The cat sat", edits=[{"kind": "zero", "layer": 0, "head": 0}], api_name="/next_token")
    assert edited["kl"] > 0
    with pytest.raises(AppError) as caught:
        client.predict("The cat sat", layer=8, head=2, api_name="/attention")
    assert str(caught.value) == "This layer does not exist. Got: 8. Layers run from 0 to 7."
    with pytest.raises(AppError, match="wrong type"):
        client.predict("The cat sat", layer="x", head=2, api_name="/attention")


def test_short_work_is_answered_while_long_work_waits(playground, client):
    tickets = [playground.queue.join(f"visitor {n}") for n in range(playground.queue.bounds.running)]
    with ThreadPoolExecutor(1) as pool:
        try:
            long = pool.submit(client.predict, "The cat sat", new_tokens=8, api_name="/generate")
            for n in range(3):
                client.predict(f"The cat sat {n}", api_name="/head_metrics")
            assert not long.done()
        finally:
            for ticket in tickets:
                ticket.leave()
        assert len(long.result()["texts"]) == 4


def test_a_page_is_not_made_heavier_by_them(address):
    sent = urllib.request.urlopen(address).read().decode()
    assert '"type":"api"' not in sent and '"api_name":"attention_links"' not in sent
    assert '"api_name":"attention_links"' in urllib.request.urlopen(f"{address}config").read().decode()


def test_other_events_stay_private(client):
    with pytest.raises(ValueError, match="api_name"):
        client.predict(api_name="/refresh")


def test_functions_cannot_be_called_past_the_queue(address):
    body = json.dumps({"data": ["abc", "", [], []]}).encode()
    asked = urllib.request.Request(f"{address}gradio_api/run/head_metrics", body, {"content-type": "application/json"})
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(asked)
    assert caught.value.code == 404


# --- MCP -------------------------------------------------------------------------------------------------


async def as_client(address: str, work):
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async with (
        streamable_http_client(f"{address}gradio_api/mcp/") as (read, write, _),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        return await work(session)


@pytest.mark.long
def test_tools_of_a_language_model():
    playground = Playground(Options(max_tokens=64, mcp=True))
    playground.load("tinygpt")
    running = served(playground)

    async def work(session):
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert set(tools) == NAMES
        for tool in tools.values():
            assert len(tool.description) > 40 and "Returns:" in tool.description
            assert all(one["description"] for one in tool.inputSchema["properties"].values()), tool.name
        assert tools["attention"].inputSchema["required"] == ["prompt", "layer", "head"]
        assert "value_weighted" in tools["attention"].inputSchema["properties"]["measure"]["enum"]
        answer = await session.call_tool("attention", {"prompt": "The cat sat", "layer": 1, "head": 2})
        rows = json.loads(answer.content[0].text)["rows"]
        assert not answer.isError and rows[0] == [1.0, None, None]
        texts = await session.call_tool("generate", {"prompt": "Once", "presets": ["greedy"], "new_tokens": 4})
        assert json.loads(texts.content[0].text)["texts"][0]["ended"] == "length"
        for given in (
            {"prompt": "a", "layer": 8, "head": 0},
            {"prompt": "a", "layer": "x", "head": 0},
            {"prompt": "a"},
        ):
            refused = await session.call_tool("attention", given)
            assert refused.isError and "Traceback" not in refused.content[0].text
            assert any(word in refused.content[0].text for word in ("layer", "integer"))

    try:
        apart(as_client(running.url, work))
    finally:
        running.close()


def test_the_option_says_what_is_missing(capsys, monkeypatch):
    import app

    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SystemExit) as ended:
        app.parse(["--mcp"])
    assert ended.value.code == 2 and "gradio[mcp]" in capsys.readouterr().err
    assert not app.parse([]).mcp
