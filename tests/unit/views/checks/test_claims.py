"""The view of claims without a browser: the list, the figure and the verdict, before and after a test."""

import json

import numpy as np
import pytest

from model.claims.registry import CLAIMS, GROUPS
from model.claims.study import Study
from model.claims.verdict import judge
from model.errors import InputError
from tests.support.views.views import opened, playground_of
from viz.page.parts import packed
from viz.page.pipeline import PageRequest, payloads
from viz.seam import panels
from viz.seam.jobs import stored
from viz.seam.jobs.background import Result
from viz.seam.tasks import MeasureTask
from viz.views.checks.claims import view
from viz.views.checks.claims.measure import FEW, key_of, texts_for
from viz.words import LANGUAGES, words
from viz.work.playground import Options, Playground

EXAMPLES = Options(model="tiny", max_tokens=40, examples=True)
RULE = "mean_matters"  # a claim that a model with RMSNorm does not allow


@pytest.fixture
def playground(lm):
    """A server that shows stored results beside its own model."""
    ours = Playground(EXAMPLES)
    ours.models.get("tiny", lambda: lm)
    return ours


def parts(playground, claim="first_token", language="en"):
    sent = {"checks_view": {"view": "claims"}, "claims_list": claim}
    request = PageRequest("tiny", "abcabd ab", None, sent, {}, language, "checks")
    found, _ = payloads(playground, request)
    assert not found["notice"]
    return {key.removeprefix("claims_"): json.loads(packed(each)) for key, each in found.items() if "claims_" in key}


@pytest.fixture
def found():
    """Numbers of all claims on 20 texts, drawn at random, with one that cannot be measured."""
    rng = np.random.default_rng(0)
    values = {key: rng.random(20).astype(np.float32) for key in CLAIMS if key != RULE}
    values["pronoun"][:] = np.nan
    return Study(tuple(range(0, 200, 10)), 800, values, {RULE: "layernorm"})


def put(playground, found, name="all", claim="first_token", threads=0):
    """Put a result there, as if the button had been pressed; with `threads` as one that is stored."""
    scene = opened(playground, "checks", "claims")
    settings = panels.settings_of(view.VIEW, scene, {"claims_list": claim})
    key = panels.key_of(MeasureTask(view.VIEW, view.VIEW.measure(name), scene, settings))
    playground.results.get(key, lambda: Result(found, 2.5, threads=threads))


@pytest.mark.parametrize("language", LANGUAGES)
def test_before_a_test_every_claim_waits_beside_the_stored_verdicts(playground, language):
    shown = parts(playground, language=language)
    rows = [row for group in shown["list"]["groups"] for row in group["rows"]]
    assert [row["key"] for row in rows] == list(CLAIMS) and len(shown["list"]["groups"]) == len(GROUPS)
    assert len({row["claim"] for row in rows}) == len(CLAIMS)
    assert shown["list"]["models"] == ["Tiny", "TinyGPT", "SmolLM2"]
    for row in rows:
        mine, *others = row["verdicts"]
        assert mine is None and {each["state"] for each in others} <= {"true", "false", "depends", "unable"}
    assert shown["job"]["state"] == shown["one"]["state"] == "idle" and str(len(CLAIMS)) in shown["job"]["start"]
    assert len(shown["numbers"]["rows"]) == 2 and "TinyGPT" in shown["figure"]["source"]


def test_without_stored_results_nothing_is_shown_for_others(lm):
    playground = playground_of(lm.tokenizer)
    shown = parts(playground)
    assert shown["list"]["models"] == ["Tiny"] and shown["numbers"]["absent"]
    assert shown["figure"]["empty"]["text"] == words("en")["claims.claim.first_token"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_claim_is_drawn_with_its_numbers(playground, found, language):
    put(playground, found)
    for claim in CLAIMS:
        check(playground, found, claim, language)


def check(playground, found, claim, language):
    shown = parts(playground, claim, language)
    assert shown["list"]["chosen"] == claim
    row = next(row for group in shown["list"]["groups"] for row in group["rows"] if row["key"] == claim)
    mine = row["verdicts"][0]
    expected = judge(CLAIMS[claim], found.values[claim]).state if claim in found.values else "unable"
    assert mine["state"] == expected and shown["figure"]["title"] == row["claim"]
    assert shown["numbers"]["rows"][0][0] == "Tiny" and len(shown["numbers"]["rows"]) == 3
    catalogue = words(language)
    assert catalogue[f"claims.how.{claim}"] in shown["figure"]["note"] and "{" not in shown["figure"]["note"]
    if expected == "unable":
        assert mine["effect"] == "" and shown["numbers"]["rows"][0][1] == catalogue["claims.state.unable"]
    else:
        names = [trace["name"] for trace in shown["figure"]["figure"]["data"]]
        assert names[0] == "Tiny" and mine["effect"] in shown["numbers"]["verdict"][0]


def test_the_reason_is_said_where_a_claim_cannot_be_measured(playground, found):
    put(playground, found)
    assert "RMSNorm" in parts(playground, RULE)["numbers"]["verdict"][0]
    assert "too few" in parts(playground, "pronoun")["numbers"]["verdict"][0]


def test_one_claim_is_tested_alone(playground, found):
    one = Study(found.passages, 800, {"swap": found.values["swap"]}, {})
    put(playground, one, "one", "swap")
    shown = parts(playground, "swap")
    states = {row["key"]: row["verdicts"][0] for group in shown["list"]["groups"] for row in group["rows"]}
    assert states["swap"] is not None and [key for key, cell in states.items() if cell] == ["swap"]
    assert shown["one"]["state"] == "done" and shown["job"]["state"] == "idle"
    assert len(shown["numbers"]["rows"]) == 3 and shown["figure"]["figure"]["data"][0]["name"] == "Tiny"
    later = parts(playground, "knows")  # its verdict stays while another claim is chosen
    states = {row["key"]: row["verdicts"][0] for group in later["list"]["groups"] for row in group["rows"]}
    assert [key for key, cell in states.items() if cell] == ["swap"] and later["one"]["state"] == "idle"


def test_numbers_measured_here_are_not_called_stored(playground, found):
    """The stored test of all claims stays behind one of a claim alone, whose figure and verdict are new."""
    put(playground, found, threads=1)
    stored_source = words("en")["job.stored_source"]
    for part in ("figure", "numbers"):
        assert parts(playground, "swap")[part]["source"].endswith(stored_source)
    put(playground, Study(found.passages, 800, {"swap": found.values["swap"]}, {}), "one", "swap")
    for part in ("figure", "numbers"):
        assert parts(playground, "swap")[part]["source"] == words("en")["claims.numbers.tested_source"].format(
            model="Tiny", dtype="float32", n=20, tokens=800
        )
        assert parts(playground, "knows")[part]["source"].endswith(stored_source)


@pytest.mark.parametrize("sent", [None, 7, "sixty", {"a": 1}, ["swap"], "<b>"])
def test_what_is_no_claim_becomes_the_first(playground, sent):
    assert parts(playground, sent)["list"]["chosen"] == next(iter(CLAIMS))


@pytest.mark.parametrize("model", stored.MODELS)
def test_the_stored_results_have_all_claims(model):
    result = stored.stored(key_of(model)).value
    reasons = {} if model == "tinygpt" else {RULE: "layernorm", "positions": "position_vectors"}
    assert result.reasons == reasons and set(result.values) | set(reasons) == set(CLAIMS)
    assert len(result.passages) == (200 if model == "tinygpt" else FEW) and result.tokens > 30 * len(result.passages)
    states = [judge(CLAIMS[key], values).state for key, values in result.values.items()]
    assert min(states.count("true"), states.count("false")) > 10 and "unable" not in states


def test_a_large_model_reads_fewer_texts():
    assert texts_for(8_000_000) == 200 and texts_for(135_000_000) == FEW


def test_programs_get_verdicts_with_their_thresholds(lm):
    playground = playground_of(lm.tokenizer)
    scene = opened(playground, "checks", "claims")
    answer = view.test_claims(playground, scene.model, ["swap", "top_half"], texts=20)
    first, second = answer["claims"]
    assert [first["claim"], second["claim"]] == ["swap", "top_half"] and answer["texts"] == 20
    assert first["group"] == "layers" and (first["low"], first["high"]) == (None, 0.1)
    assert first["interval"][0] <= first["mean"] <= first["interval"][1] and first["texts"] == 20
    assert first["verdict"] in ("true", "false", "depends")
    with pytest.raises(InputError, match="No claim has this name"):
        view.test_claims(playground, scene.model, ["sixty"])
    llama = playground_of(scene.model.tokenizer, "llama")
    record = view.test_claims(llama, opened(llama, "checks", "claims").model, [RULE], texts=20)["claims"][0]
    assert (record["verdict"], record["reason"]) == ("unable", "layernorm") and "mean" not in record
