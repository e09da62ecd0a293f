"""What the search fetches when it is first opened: in the reader's language, packed, and small."""

import gzip
import json

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from viz.page.search import payload
from viz.server.search import packed, route
from viz.words import LANGUAGES

PATH = "/playground/search"


@pytest.fixture
def client():
    return TestClient(Starlette(routes=[route()]))


@pytest.mark.parametrize(
    ("query", "accepted", "language"), [("", "en", "en"), ("?lang=zh", "en", "zh"), ("", "zh-CN,zh;q=0.9", "zh")]
)
def test_the_entries_are_in_the_language_of_the_page(client, query, accepted, language):
    answer = client.get(f"{PATH}{query}", headers={"accept-language": accepted})
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == json.loads(json.dumps(payload(language)))


@pytest.mark.parametrize("language", LANGUAGES)
def test_they_are_packed_and_stay_small(client, language):
    with client.stream("GET", f"{PATH}?lang={language}", headers={"accept-encoding": "gzip"}) as answer:
        body = b"".join(answer.iter_raw())
    assert answer.headers["content-encoding"] == "gzip" and gzip.decompress(body) == packed(language).body
    assert len(body) < 40_000
