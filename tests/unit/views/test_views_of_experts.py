"""Every view and quick endpoint on a mixture of experts: it draws, or says in plain words why it cannot."""

import pytest

from model.api import LanguageModel
from model.errors import PlaygroundError
from tests.support.models.helpers import VARIANTS, byte_tokenizer, serving, tiny_model
from tests.support.views.endpoints import TEXT
from tests.unit.views.test_views import VIEWS, drawn
from viz.api.endpoints import ENDPOINTS
from viz.api.registry import arguments, call


@pytest.fixture(scope="module")
def playground(tmp_path_factory):
    sizes = {"vocab_size": 256, "n_ctx": 300, "n_expert": 3, "experts_per_token": 2}
    model = tiny_model({**VARIANTS["llama"], **sizes})
    return serving(LanguageModel("tiny", "Tiny", model, byte_tokenizer(tmp_path_factory.mktemp("bytes"))))


def test_every_view_draws_or_says_why_not(playground):
    refused = set()
    for tab, view in VIEWS:
        parts, notice = drawn(playground, tab, view)
        told = [part["problem"]["text"] for part in parts.values() if "problem" in part]
        told += [notice["text"]] if notice else []  # where the form itself cannot be made
        assert all("experts" in text for text in told), (view, told)
        refused |= {view} if told else set()
    shown = {"map", "lens", "which_mixer", "parameters", "diagram", "logit_parts", "turns"}
    assert {"neurons", "formats"} <= refused and not shown & refused


@pytest.mark.parametrize("endpoint", [each for each in ENDPOINTS if not each.long], ids=lambda each: each.name)
def test_every_quick_endpoint_answers_or_says_why_not(playground, endpoint):
    given = {"prompt": TEXT} if any(each.name == "prompt" for each in arguments(endpoint)) else {}
    given |= {each.name: 0 for each in arguments(endpoint) if each.default is None or each.name in ("layer", "head")}
    try:
        assert call(playground, endpoint, given)
    except PlaygroundError as error:
        assert error.what
