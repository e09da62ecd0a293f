"""The compare tab: what is drawn of two runs, patching, and what is refused."""

import json

import numpy as np
import pytest

from model.api import LanguageModel
from model.attention import effects
from model.attention.effects import Target, metric, recovered
from model.attention.measures import MEASURES, measure
from model.errors import InputError
from model.gpt.head_metrics import HEAD_METRICS
from tests.support.helpers import tiny_model
from viz.charts.heatmap import PatternWords
from viz.page.pipeline import Asked, payloads, scene_of
from viz.page.playground import Options, Playground
from viz.views.compare.patching import view as patching
from viz.views.compare.runs import run_b
from viz.views.compare.runs import view as runs
from viz.views.compare.runs.figures import divergence, likely, shares_of
from viz.words import words

WORDS = PatternWords("query", "key", "weight", "largest of {n}")
HOSTILE = "<b>&\u202e\x00</b>"


@pytest.fixture
def with_models(playground, lm, monkeypatch):
    """The playground with a second model of the same shape and vocabulary, and one of neither."""
    alike = LanguageModel("alike", "Alike", tiny_model({"vocab_size": 256, "n_ctx": 300}, seed=5), lm.tokenizer)
    mapping = {i: (i + 1) % 256 for i in range(256)}

    class Shifted:
        """The same bytes under other ids."""

        vocab_size, bos_id, add_bos = 256, None, False

        def encode(self, text, special=False):
            tokens = lm.tokenizer.encode(text)
            return type(tokens)(
                np.array([mapping[i] for i in tokens.ids.tolist()]), tokens.pieces, tokens.raw, tokens.spans
            )

        def piece(self, i):
            return lm.tokenizer.piece((i - 1) % 256)

    small = tiny_model({"vocab_size": 256, "n_ctx": 300, "n_layer": 2})
    unlike = LanguageModel("unlike", "Unlike", small, Shifted())
    for model in (alike, unlike):
        playground.models.get(model.id, lambda model=model: model)
    monkeypatch.setattr(run_b, "models_ready", lambda scene: {"alike": "Alike", "unlike": "Unlike"})
    monkeypatch.setattr(runs, "models_ready", lambda scene: {"alike": "Alike", "unlike": "Unlike"})
    return playground


def asked(prompt="abcab", form=None, **changes):
    values = {"compare_form": form or {}, **changes.pop("values", {})}
    first = {"model_id": "tiny", "selection": {"heads": [[1, 2]]}, "shown": {}, "language": "en", "tab": "compare"}
    return Asked(**{**first, "prompt": prompt, "values": values, **changes})


def drawn(playground, *args, **changes):
    return payloads(playground, asked(*args, **changes))[0]


def cells(payload):
    """z of the first trace of a payload's figure, None as NaN."""
    return array(json.loads(payload["figure"])["data"][0]["z"])


def array(z):
    if isinstance(z, list):
        return np.array([[np.nan if v is None else v for v in row] for row in z], np.float32)
    import base64

    shape = [int(n) for n in z["shape"].split(",")]
    return np.frombuffer(base64.b64decode(z["bdata"]), dtype=z["dtype"]).reshape(shape)


def layout(payload):
    return json.loads(payload["figure"])["layout"]


# --- the tab ---


def test_first_view_compares_with_the_suggestion_and_fills_every_part(playground):
    parts = drawn(playground, "The cat")
    assert set(runs.TAB.parts) <= set(parts)
    assert parts["compare_form"]["controls"][1]["placeholder"] == "The dog"
    assert [step[0] for step in parts["alignment"]["steps"]] == ["same"] * 4 + ["replaced"] * 3
    assert parts["patch_map"] == {"absent": True} and parts["patch_job"]["state"] == "idle"


def test_maps_are_those_of_the_two_runs_and_their_difference(playground, lm):
    parts = drawn(playground, "abcab", {"prompt": "abxcab"})
    a, b = (lm.trace(text).pattern(1, 2) for text in ("abcab", "abxcab"))
    upper = np.triu_indices(5, 1)
    z = cells(parts["compare_a"])
    np.testing.assert_allclose(np.tril(np.nan_to_num(z)), a, atol=1e-6)
    assert np.isnan(z[upper]).all() and cells(parts["compare_b"]).shape == (6, 6)
    d, kept = cells(parts["compare_diff"]), [0, 1, 3, 4, 5]
    expected = a - b[np.ix_(kept, kept)]
    expected[upper] = np.nan
    np.testing.assert_allclose(d, expected, atol=1e-6)
    scale = layout(parts["compare_diff"])["coloraxis"]
    assert scale["cmax"] == -scale["cmin"] == pytest.approx(np.nanmax(np.abs(expected)))
    assert parts["compare_b"]["places"] == [0, 1, None, 2, 3, 4]


@pytest.mark.parametrize("name", runs.OF_HEADS)
def test_every_measure_of_heads_is_drawn_on_one_scale(playground, lm, name):
    parts = drawn(playground, "abcab", {"prompt": "xycab", "measure": name})
    scales = [layout(parts[f"compare_{side}"])["coloraxis"] for side in "ab"]
    assert (scales[0]["cmin"], scales[0]["cmax"]) == (scales[1]["cmin"], scales[1]["cmax"])
    np.testing.assert_allclose(cells(parts["compare_b"]), measure(lm.trace("xycab"), name, 1, 2), atol=1e-5)
    if MEASURES[name].scale == "share":
        assert scales[0]["cmax"] == 1


@pytest.mark.parametrize("name", HEAD_METRICS)
def test_heads_are_the_difference_of_their_numbers(playground, lm, name):
    parts = drawn(playground, "abcab", {"prompt": "abcabc"}, values={"compare_metric": {"metric": name}})
    n = list(HEAD_METRICS).index(name)
    expected = lm.trace("abcab").metrics[..., n] - lm.trace("abcabc").metrics[..., n]
    np.testing.assert_allclose(cells(parts["compare_heads"]), expected.T, atol=1e-6)


def test_heads_undefined_in_one_run_are_said_to_be(playground):
    parts = drawn(playground, "abcd", {"prompt": "wxyz"}, values={"compare_metric": {"metric": "induction"}})
    assert "undefined" in parts["compare_heads"]["empty"]["hint"]


def test_pattern_gap_of_every_head(playground, lm):
    parts = drawn(playground, "abcab", {"prompt": "abxcab"}, values={"compare_metric": {"metric": "pattern"}})
    a, b, kept = lm.trace("abcab"), lm.trace("abxcab"), [0, 1, 3, 4, 5]
    for layer in range(3):
        for head in range(4):
            apart = np.abs(a.pattern(layer, head) - b.pattern(layer, head)[np.ix_(kept, kept)])
            assert cells(parts["compare_heads"])[head, layer] == pytest.approx(apart.sum() / 15, abs=1e-6)


def test_too_many_patterns_are_not_compared_by_themselves(playground, monkeypatch):
    monkeypatch.setattr(runs, "MOST_CELLS", 100)
    parts = drawn(playground, values={"compare_metric": {"metric": "pattern"}})
    assert "too long" in parts["compare_heads"]["problem"]["text"] and parts["compare_heads"]["problem"]["hint"]


def test_next_tokens_of_both_runs_at_the_aligned_token(playground, lm):
    parts = drawn(playground, "abcab", {"prompt": "abxcab"}, selection={"heads": [[1, 2]], "tokens": [2]})
    (rows,) = parts["compare_next"]["lists"]
    a, b = (shares_of(lm.trace(text).logits_at(at)) for text, at in (("abcab", 2), ("abxcab", 3)))
    ids = {*likely(a, 10), *likely(b, 10)}
    assert sorted(row[1] for row in rows) == pytest.approx(sorted(a[i] for i in ids), abs=1e-6)
    assert sorted(row[2] for row in rows) == pytest.approx(sorted(b[i] for i in ids), abs=1e-6)
    assert f"{divergence(a, b):.3g}" in parts["compare_next"]["note"]


def test_a_token_without_a_counterpart_leaves_the_last_ones_compared(playground):
    parts = drawn(playground, "abxcab", {"prompt": "abcab"}, selection={"heads": [[1, 2]], "tokens": [2]})
    assert parts["compare_next"]["title"] == "Next token after “b” (A, 5) and “b” (B, 4)"


# --- the other run ---

EDIT = {"kind": "zero", "layer": 1, "head": 2}


def test_the_run_without_edits(playground, lm):
    selection = {"heads": [[2, 0]], "edits": [EDIT]}
    parts = drawn(playground, "abcab", {"with": "unedited"}, selection=selection)
    from model.gpt.edits import Edit

    edited = lm.trace("abcab").edit(Edit("zero", 1, 2))
    expected = edited.pattern(2, 0) - lm.trace("abcab").pattern(2, 0)
    np.testing.assert_allclose(np.nan_to_num(cells(parts["compare_diff"])), expected, atol=1e-6)
    assert np.abs(expected).max() > 1e-3
    assert parts["patch_job"]["state"] == "idle"  # as many tokens, the same model


def test_without_edits_there_is_no_unedited_run_to_compare_with(playground):
    parts = drawn(playground, "abcab", {"with": "unedited"})
    assert parts["alignment"]["problem"]["text"] == "No edits are active."
    assert "Effects" in parts["alignment"]["problem"]["hint"]
    assert all(parts[name] == {"absent": True} for name in ("compare_a", "compare_diff", "compare_next", "patch_map"))
    assert parts["patch_job"]["state"] == "unready" and parts["notice"] == {}


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize(
    ("prompt", "what"), [("x" * 41, "too long"), ("x" * 300_000, "300000 characters"), ("\ud800", "surrogate")]
)
def test_a_bad_prompt_of_b_is_said_in_this_tab_and_breaks_nothing(playground, prompt, what, language):
    parts = drawn(playground, "abcab", {"prompt": prompt}, language=language)
    told = parts["alignment"]["problem"]
    assert told["text"] and told["hint"] and parts["notice"] == {}
    assert what in told["text"] if language == "en" else "提示词太长" in told["text"] or "代理" in told["text"]


@pytest.mark.parametrize(
    "form",
    [
        None,
        "x",
        [1],
        {"with": "nonsense"},
        {"with": []},
        {"prompt": 7},
        {"prompt": None},
        {"measure": "rollout"},
        {"measure": {"a": 1}},
    ],
)
def test_form_values_nobody_checked_become_the_first_choice(playground, form):
    first = drawn(playground, "abcab")
    found = drawn(playground, "abcab", form)
    assert found["alignment"]["steps"] == first["alignment"]["steps"]
    assert found["compare_a"]["figure"] == first["compare_a"]["figure"]


def test_another_model_of_the_same_shape(with_models, lm):
    parts = drawn(with_models, "abcab", {"with": "model", "model": "alike"})
    other = with_models.load("alike").trace("abcab")
    np.testing.assert_allclose(np.nan_to_num(cells(parts["compare_b"])), other.pattern(1, 2), atol=1e-6)
    n = list(HEAD_METRICS).index("previous_token")
    expected = lm.trace("abcab").metrics[..., n] - other.metrics[..., n]
    np.testing.assert_allclose(cells(parts["compare_heads"]), expected.T, atol=1e-6)
    assert parts["patch_job"]["state"] == "unready" and "same model" in parts["patch_job"]["text"]


def test_another_model_with_other_tokens_has_no_difference_and_says_why(with_models):
    parts = drawn(with_models, "abcab", {"with": "model", "model": "unlike"})
    assert "different tokens" in parts["compare_diff"]["empty"]["hint"]
    assert "Unlike" in parts["compare_b"]["source"] and "Tiny" in parts["compare_a"]["source"]
    assert "no counterparts" in parts["compare_heads"]["empty"]["hint"]
    assert [step[0] for step in parts["alignment"]["steps"]] == ["same"] * 5  # by their bytes
    assert len(parts["compare_next"]["lists"]) == 2
    assert parts["patch_form"] == {"controls": []} and parts["patch_job"]["state"] == "unready"


def test_the_head_of_another_model_can_be_chosen_within_its_bounds(with_models):
    def title(**form):
        form = {"with": "model", "model": "unlike", **form}
        return drawn(with_models, "abcab", form)["compare_b"]["title"]

    assert title(layer=1, head=3) == "B: head 1.3"
    assert title(layer=99, head=-4) == "B: head 1.0"
    assert title(layer="1", head=True) == title()
    assert title(layer=float("nan")) == title()


@pytest.mark.parametrize("model_id", ["smollm2-360m", "/etc", "../x", "hub:a/b", 7, None, "tiny"])
def test_a_model_that_is_not_offered_is_never_loaded(with_models, model_id, monkeypatch):
    loaded = []
    original = Playground.load
    monkeypatch.setattr(Playground, "load", lambda self, name, *rest: (loaded.append(name), original(self, name))[1])
    drawn(with_models, "abcab", {"with": "model", "model": model_id})
    assert set(loaded) <= {"tiny", "alike"}


def test_models_offered_are_those_on_this_computer_but_not_this_one(playground, monkeypatch):
    monkeypatch.setattr(run_b, "available", lambda: ("tinygpt",))
    scene = scene_of(playground, asked())
    assert list(run_b.models_ready(scene)) == ["tinygpt"]
    monkeypatch.setattr(run_b, "available", lambda: ())
    parts = drawn(playground, "abcab", {"with": "model"})
    assert parts["alignment"]["problem"]["text"] == "No other model is on this computer."


def test_one_token_is_enough(playground):
    parts = drawn(playground, "a", {"prompt": "b"})
    assert cells(parts["compare_a"]).tolist() == [[1.0]] and cells(parts["compare_diff"]).tolist() == [[0.0]]
    assert "compare_next" in parts and parts["patch_job"]["state"] == "idle"


def test_hostile_prompts_are_drawn_as_text(playground):
    parts = drawn(playground, HOSTILE, {"prompt": HOSTILE + "!"})
    text = json.dumps(
        {name: part for name, part in parts.items() if name.startswith(("compare", "align")) and name != "compare_form"}
    )
    assert "\\u202e" not in text.replace("\\\\u202e", "")  # but in the Python lines, escaped there
    assert all("<b>" not in parts[name]["figure"] for name in ("compare_a", "compare_b", "compare_diff"))


def test_long_prompts_are_pooled_within_a_megabyte(lm):
    ours = Playground(Options(model="tiny", max_tokens=300))
    ours.models.get("tiny", lambda: lm)
    parts = drawn(ours, "abcdefghij" * 29, {"prompt": "abcdefghi!" * 29})
    assert cells(parts["compare_a"]).shape == (145, 145)
    assert sum(len(parts[name]["figure"]) for name in ("compare_a", "compare_b", "compare_diff")) < 1_200_000
    assert "2 × 2" in parts["compare_diff"]["note"]


@pytest.mark.parametrize("form", [{"prompt": "abxab"}, {"with": "unedited"}])
@pytest.mark.parametrize("metric_name", ["entropy", "pattern"])
def test_python_lines_make_the_numbers(playground, lm, monkeypatch, form, metric_name):
    monkeypatch.setattr("model.api.load_model", lambda name: lm)
    selection = {"heads": [[2, 1]], "edits": [EDIT]}
    values = {"compare_metric": {"metric": metric_name}}
    parts = drawn(playground, "abcab", form, selection=selection, values=values)

    def result(name):
        *lines, last = parts[name]["python"].splitlines()
        found = {}
        exec("\n".join([*lines, f"result = {last}"]), found)
        return np.asarray(found["result"], np.float32)

    np.testing.assert_allclose(result("compare_a"), cells(parts["compare_a"]), atol=1e-6)
    np.testing.assert_allclose(result("compare_b"), cells(parts["compare_b"]), atol=1e-6)
    np.testing.assert_allclose(result("compare_diff"), cells(parts["compare_diff"]), atol=1e-6)
    np.testing.assert_allclose(result("compare_heads"), cells(parts["compare_heads"]).T, atol=1e-6)


# --- patching ---


def patched(playground, prompt, form, patch_form):
    """Start the job as the button does, and draw again."""
    values = {"patch_form": patch_form}
    question = asked(prompt, form, values=values)
    job = patching.plan(scene_of(playground, question), question.values)
    from viz.page.background import perform

    list(perform(playground, job, "en"))
    return drawn(playground, prompt, form, values=values)


@pytest.mark.parametrize("site", effects.PATCH_SITES)
@pytest.mark.parametrize("into", ["a", "b"])
def test_patching_map_is_that_of_the_model_code(playground, lm, site, into):
    parts = patched(
        playground, "abcab", {"prompt": "axcab"}, {"site": site, "into": into, "token": "q", "distractor": "r"}
    )
    a, b = lm.trace("abcab"), lm.trace("axcab")
    clean, corrupted = (a, b) if into == "b" else (b, a)
    target = Target("difference", -1, ord("q"), ord("r"))
    raw = effects.patch(clean, corrupted, target, site)
    ends = metric(clean, target), metric(corrupted, target)
    expected = recovered(raw, *ends)
    np.testing.assert_allclose(cells(parts["patch_map"]), expected, atol=1e-5)
    assert parts["patch_job"]["state"] == "done"
    assert "“q” minus “r”" in parts["patch_map"]["title"]
    assert f"of {'A' if into == 'b' else 'B'} put into {'B' if into == 'b' else 'A'}" in parts["patch_map"]["title"]
    assert f"{ends[0]:+.3f}" in parts["patch_map"]["note"] and f"{ends[1]:+.3f}" in parts["patch_map"]["note"]
    if site == "resid_pre":  # the whole stream of the last token after the last layer decides; before it, token 1 does
        assert cells(parts["patch_map"])[0, 1] == pytest.approx(1, abs=1e-4)


def test_patching_lines_make_the_map(playground, lm, monkeypatch):
    monkeypatch.setattr("model.api.load_model", lambda name: lm)
    parts = patched(playground, "abcab", {"prompt": "axcab"}, {"site": "attn_out", "into": "a"})
    *lines, last = parts["patch_map"]["python"].splitlines()
    found = {}
    exec("\n".join([*lines, f"result = {last}"]), found)
    np.testing.assert_allclose(found["result"], cells(parts["patch_map"]), atol=1e-5)


def test_default_tokens_are_the_likeliest_of_a_and_of_b(playground, lm):
    scene = scene_of(playground, asked("abcab"))
    other = run_b.other_run(scene, {"prompt": "axcab"}, {})
    found = patching.patching_of(scene, other, {})
    a, b = (shares_of(lm.trace(text).logits_at(-1)) for text in ("abcab", "axcab"))
    if a.argmax() != b.argmax():
        assert (found.target.token, found.target.distractor) == (a.argmax(), b.argmax())
    else:
        assert (found.target.token, found.target.distractor) == ((a - b).argmax(), (b - a).argmax())


def test_tokens_that_both_runs_find_likeliest_give_way_to_those_that_change_most(playground, monkeypatch):
    scene = scene_of(playground, asked("abcab"))
    other = run_b.other_run(scene, {"prompt": "axcab"}, {})
    logits = {id(scene.trace): [5.0, 2.0, 1.0], id(other.trace): [5.0, 1.0, 2.5]}
    monkeypatch.setattr("model.gpt.trace.Trace.logits_at", lambda self, at: np.array(logits[id(self)]))
    assert patching.opposed(scene, other) == (0, 2) or patching.opposed(scene, other) == (1, 2)
    a, b = (shares_of(np.array(each)) for each in logits.values())
    assert patching.opposed(scene, other) == ((a - b).argmax(), (b - a).argmax())


@pytest.mark.parametrize(
    ("form", "patch_form", "why"),
    [
        ({"prompt": "abcabc"}, {}, "A has 5, B has 6"),
        ({"prompt": "abcab"}, {}, "nothing to patch"),
        ({"prompt": "axcab"}, {"token": "two"}, "not one token"),
        ({"prompt": "axcab"}, {"token": "q", "distractor": "q"}, "no gap"),
        ({"prompt": "axcab"}, {"token": "\ud800"}, "surrogate"),
        ({"with": "unedited"}, {}, "No edits"),
    ],
)
def test_what_cannot_be_patched_says_why(playground, form, patch_form, why):
    question = asked("abcab", form, values={"patch_form": patch_form})
    with pytest.raises(InputError, match=why.split("(")[0]):
        patching.plan(scene_of(playground, question), question.values)
    parts, _ = payloads(playground, question)
    assert parts["patch_job"]["state"] == "unready" and parts["patch_map"] == {"absent": True}
    assert why in parts["patch_job"]["text"] or form == {"with": "unedited"}


def test_a_map_of_too_many_places_is_refused(playground, monkeypatch):
    monkeypatch.setattr(patching, "MOST_PLACES", 12)
    parts = drawn(playground, "abcab", {"prompt": "axcab"})
    assert parts["patch_job"]["state"] == "unready" and "at most 4 tokens" in parts["patch_job"]["text"]


@pytest.mark.parametrize("value", [None, 3, [], {"site": "resid_post", "into": 4, "token": 7, "distractor": None}])
def test_patch_values_nobody_checked_become_the_first_choice(playground, value):
    scene = scene_of(playground, asked("abcab"))
    other = run_b.other_run(scene, {"prompt": "axcab"}, {})
    assert patching.patching_of(scene, other, value).key == patching.patching_of(scene, other, {}).key


@pytest.mark.parametrize("language", ["en", "zh"])
def test_suggestions_differ_from_every_example(language):
    from viz.page.pipeline import EXAMPLES

    for prompt in EXAMPLES.values():
        assert run_b.suggestion(prompt) != prompt
    assert run_b.suggestion("nothing to swap") == "nothing to swap"
    assert words(language)["compare.alike"]
