"""Target and distractor: which token a typed text means, and what the fields offer."""

import base64

import numpy as np
import pytest

from model.api import LanguageModel
from model.errors import InputError
from model.text.tokenizer import from_tiktoken
from tests.support.models.helpers import serving, tiny_model
from viz.page.pipeline import PageRequest, payloads, scene_of
from viz.seam.settings import Settings
from viz.seam.targets import LIKELY, MOST, measure_offered, read
from viz.seam.typed import readings, typed_token
from viz.work.playground import Options

PIECES = [b"Jo", b" Jo", b"Joe", b" Joe", b" J", b"th"]
JO, SPACED_JO, JOE, SPACED_JOE, SPACED_J, TH = range(256, 262)


@pytest.fixture(scope="module")
def playground(tmp_path_factory):
    """A model in whose vocabulary a name stands with its space and without."""
    ranks = tmp_path_factory.mktemp("names") / "names.tiktoken"
    pieces = [bytes([i]) for i in range(256)] + PIECES
    ranks.write_text("".join(f"{base64.b64encode(piece).decode()} {i}\n" for i, piece in enumerate(pieces)))
    lm = LanguageModel("tiny", "Tiny", tiny_model({"vocab_size": 280, "n_ctx": 60}), from_tiktoken(ranks))
    return serving(lm, Options(model="tiny", max_tokens=60))


def asked(prompt="abcab", **selection):
    values = {"effects_view": {"view": "sweep"}, "sweep_targets": selection.pop("sent", None)}
    return PageRequest("tiny", prompt, selection or None, values, {"language": "en", "step": 0}, "en", "effects")


def scene(playground, prompt="abcab", likely=(), **selection):
    """A scene after whose last token these are the likeliest next ones, then those with small ids."""
    opened = scene_of(playground, asked(prompt, **selection))
    logits = -np.arange(280, dtype=np.float32)
    logits[list(likely)] = np.arange(len(likely), 0, -1)
    object.__setattr__(opened.trace, "logits_at", lambda at: logits)
    return opened


@pytest.fixture(autouse=True)
def fresh(playground):
    """Traces with other logits are not for the next test."""
    yield
    playground.traces.drop(lambda key: False)


def offered(opened, text):
    return measure_offered(opened, Settings((("targets", text),)))


@pytest.mark.parametrize(
    ("prompt", "likely", "taken"),
    [
        ("abcab", (), [JO, SPACED_JO]),  # neither is expected here: as it was typed
        ("ab Jo ab", (), [SPACED_JO, JO]),
        ("Jo ab", (), [JO, SPACED_JO]),
        ("Jo and Jo", (), [SPACED_JO, JO]),  # both stand in the prompt
        ("abcab", (SPACED_JO,), [SPACED_JO, JO]),
        ("abcab", (JO,), [JO, SPACED_JO]),
    ],
)
def test_the_space_in_front_need_not_be_typed_where_the_token_is_expected(playground, prompt, likely, taken):
    opened = scene(playground, prompt, likely)
    assert readings(opened, "Jo")[0] == taken
    assert typed_token(opened, {"more": "Jo"}, "more") == taken[0]
    found = offered(opened, "Jo")
    assert list(found.ids[:2]) == taken and found.exact == 2


def test_the_last_of_the_expected_tokens_counts_and_the_next_one_does_not(playground):
    for rank, first in ((LIKELY, SPACED_JO), (LIKELY + 1, JO)):
        before = [id for id in range(200) if id != SPACED_JO][: rank - 1]
        assert readings(scene(playground, "abcab", (*before, SPACED_JO)), "Jo")[0][0] == first


@pytest.mark.parametrize("text", [" Jo", "·Jo"])
def test_a_typed_space_is_meant(playground, text):
    assert readings(scene(playground, "Jo ab", (JO,)), text)[0] == [SPACED_JO]


@pytest.mark.parametrize(
    ("text", "token"), [("a", ord("a")), ("th", TH), (" ", 32), ("↵", 10), ("\n", 10), ("⇥", 9), ("\ud800", ord("?"))]
)
def test_typed_text_is_a_token(playground, text, token):
    assert readings(scene(playground), read({"typed": text}, None))[0] == [token]


def test_text_that_is_no_token_is_said_with_what_it_is_cut_into(playground):
    opened = scene(playground)
    assert readings(opened, "than") == ([], ["th", "a", "n"])
    with pytest.raises(InputError, match="is 3 tokens here: “th” “a” “n”"):
        typed_token(opened, {"more": "than"}, "more")
    parts = payloads(playground, asked(sent={"typed": "than"}))[0]["sweep_targets"]
    assert "is 3 tokens here" in parts["cut"] and parts["offered"] == [] and parts["exact"] == 0


def test_what_begins_with_the_text_is_offered_the_likeliest_first(playground):
    found = offered(scene(playground, "ab", (SPACED_JOE,)), "j")
    assert found.ids[:2] == (ord("j"), SPACED_JOE) and found.exact == 1  # the text itself, then what begins with it
    assert set(found.ids) == {ord("j"), ord("J"), JO, SPACED_JO, JOE, SPACED_JOE, SPACED_J}
    assert found.places[found.ids.index(SPACED_JOE)] == "likely"


def test_an_empty_field_offers_what_is_likely_and_what_the_prompt_holds(playground):
    found = offered(scene(playground, "zyx", (SPACED_JO, JOE)), "")
    assert found.ids[:2] == (SPACED_JO, JOE) and set(b"zyx") <= set(found.ids) and len(found.ids) == MOST
    places = dict(zip(found.ids, found.places, strict=True))
    assert places[SPACED_JO] == "likely" and places[ord("z")] == "prompt" and found.exact == 0


@pytest.mark.parametrize("sent", [None, 3, [], "x", {"typed": 3}, {"typed": None}])
def test_what_is_no_text_is_an_empty_field(sent):
    assert read(sent, None) == ""


def test_the_fields_show_what_is_picked_whichever_view_picked_it(playground):
    fields = payloads(playground, asked(target=SPACED_JO, of="tiny"))[0]["sweep_targets"]["fields"]
    assert fields[0]["token"] == {"id": SPACED_JO, "text": "·Jo"}
    parts = payloads(playground, asked(target=SPACED_JO, edits=[{"kind": "zero", "layer": 0, "head": 0}], of="other"))[
        0
    ]
    assert parts["sweep_targets"]["fields"][0]["token"] is None
    assert parts["selection"]["target"] is None and parts["selection"]["of"] == "tiny"
    assert parts["selection"]["dropped"] == ["edits", "watched"]


def test_a_page_whose_picks_all_stay_is_told_of_nothing(playground):
    sent = {"heads": [[0, 0]], "edits": [], "target": TH, "distractor": None, "of": "tiny"}
    assert "selection" not in payloads(playground, asked(**sent))[0]
    moved = payloads(playground, asked(**sent | {"target": None, "of": "other"}))[0]["selection"]
    assert moved["of"] == "tiny" and moved["dropped"] == []
