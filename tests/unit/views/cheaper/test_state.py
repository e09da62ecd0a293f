"""The view of what a state holds, its function for programs and its Python lines, without a browser."""

import numpy as np
import pytest

from model.api import load_model
from model.attention.state_space import decay_tokens, state_space
from model.errors import InputError
from tests.support.models.helpers import assert_close, byte_tokenizer
from tests.support.views.views import array, no_holes, playground_of, run_lines, traces
from tests.support.views.views import drawn as drawn_in
from viz.api.registry import call
from viz.numbers import percent
from viz.views.cheaper.state.figures import ROWS, decay_figure, grouped, quartiles
from viz.views.cheaper.state.view import VIEW
from viz.work.limits import Allowed
from viz.work.playground import Options

PARTS = ("share", "kept", "decay", "delta", "written", "read")
PROMPT = "abcabd <b>ab"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return byte_tokenizer(tmp_path_factory.mktemp("bytes"))


@pytest.fixture(scope="module")
def playground(tokenizer):
    return playground_of(tokenizer, "llama", {"mixer": ("softmax", "mamba", "mamba")})


def drawn(playground, form=None, **changes):
    return drawn_in(playground, "cheaper", "state", form, **{"prompt": PROMPT, **changes})


def found_in(playground, layer, source):
    return state_space(playground.opened("tiny").trace(PROMPT), layer, source)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_picked_token_is_followed_through_the_chosen_layer(playground, language):
    parts = drawn(playground, {"layer": "2"}, tokens=[8, 3], language=language)
    no_holes(parts)
    found = found_in(playground, 2, 3)  # the first one that is picked
    middle, whole = traces(parts["share"])[2:4]
    assert_close(array(whole["y"]), found.whole[3:], 1e-5)
    assert_close(array(middle["y"]), np.median(found.share, 1)[3:], 1e-5)
    assert array(whole["x"]).tolist() == [*range(3, len(PROMPT))] and whole["customdata"][1] == {"tokens": [4]}
    assert percent(found.whole[-1]) in parts["share"]["note"]
    mean, heat = traces(parts["delta"])
    assert_close(array(mean["y"]), found.delta.mean(1), 1e-5)
    relative = (found.delta / found.delta.mean(0) - 1).mean(1)
    assert_close(array(heat["customdata"]).mean(0), relative, 1e-5)  # 96 channels in groups of two
    sizes = traces(drawn(playground, {"layer": "2", "steps": "size"}, tokens=[8, 3])["delta"])[1]
    assert_close(array(sizes["customdata"]).mean(0), found.delta.mean(1), 1e-5)
    assert (np.diff(array(sizes["customdata"]).mean(1)) >= 0).all()  # long steps on top
    assert_close(array(traces(parts["written"])[0]["customdata"]), found.B.T, 1e-6)
    assert_close(array(traces(parts["read"])[0]["customdata"]), found.C.T, 1e-6)
    kept = array(traces(parts["kept"])[0]["z"])
    assert np.isnan(kept[:, :3]).all() and (kept[:, 3] == 1).all()
    assert_close(kept.mean(0)[3:], found.kept.mean(1)[3:], 1e-5)
    held = kept[:, 3:].sum(1)
    assert (np.diff(held) >= 0).all()  # the axis begins at the bottom: the longest memory is on top
    assert array(traces(parts["decay"])[0]["y"]).sum() == found.A.size
    assert "&lt;" in traces(parts["kept"])[0]["x"][7] and "<b>" not in str(traces(parts["delta"])[1]["x"])


def test_the_layer_is_that_of_the_head_where_it_is_a_state_space(playground):
    title = "Layer {}: how much of the state comes from “a” (position 0)"
    assert drawn(playground)["share"]["title"] == title.format(1)  # head 0.0 has a softmax
    assert drawn(playground, heads=[[2, 0]])["share"]["title"] == title.format(2)
    assert drawn(playground, {"layer": "1"}, heads=[[2, 0]])["share"]["title"] == title.format(1)
    assert drawn(playground, {"layer": "0"}, heads=[[2, 0]])["share"]["title"] == title.format(2)  # none of Mamba
    assert [key for key, *_ in drawn(playground)["form"]["controls"][0]["options"]] == ["", "1", "2"]


def test_the_python_lines_give_what_is_drawn(playground):
    model, found = playground.opened("tiny"), found_in(playground, 1, 0)
    parts = drawn(playground, {"layer": "1"})
    values = [run_lines(parts[name]["python"], model)[1][-1] for name in PARTS]
    steps = found.delta / found.delta.mean(0) - 1
    wanted = [(found.whole, found.share), found.kept, decay_tokens(found), steps, found.B, found.C]
    for value, want in zip(values, wanted, strict=True):
        for each, other in zip(
            *((both if isinstance(both, tuple) else (both,)) for both in (value, want)), strict=True
        ):
            assert_close(each, other, 1e-6)


def test_one_token_and_the_last_token(playground):
    no_holes(drawn(playground, prompt="a"))
    assert array(traces(drawn(playground, prompt="a")["share"])[3]["y"]).tolist() == [1.0]
    assert "is the last token" in drawn(playground, tokens=[len(PROMPT) - 1])["share"]["note"]


@pytest.fixture(scope="module")
def without(tokenizer):
    return playground_of(tokenizer)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_model_without_a_state_space_is_shown_beside_a_bundled_one(without, language):
    parts = drawn(without, {"layer": "2"}, tokens=[7], language=language)
    no_holes(parts)
    lm = load_model("tinymamba", offline=True)
    run = lm.trace(PROMPT)
    source = next(at for at, (start, end) in enumerate(run.tokens.spans) if start <= 7 < end)
    found = state_space(run, 2, source)
    assert_close(array(traces(parts["share"])[3]["y"]), found.whole[source:], 1e-5)
    assert_close(array(traces(parts["written"])[0]["customdata"]), found.B.T, 1e-6)
    # A click selects the token of the loaded model, which has one token per byte.
    chosen = [each["tokens"][0] for each in traces(parts["delta"])[0]["customdata"]]
    assert chosen == run.tokens.spans[:, 0].tolist()
    example = parts["example"]
    assert example["model"] == "tinymamba" and "TinyMamba" in example["open"] and "Tiny " in example["reason"]
    for name in PARTS:
        assert (
            parts[name]["source"].startswith("TinyMamba · float32")
            and "load_model('tinymamba')" in parts[name]["python"]
        )
    assert [key for key, *_ in parts["form"]["controls"][0]["options"]] == ["0", "2"]


def test_the_python_lines_of_the_bundled_model(without):
    lm, parts = load_model("tinymamba", offline=True), drawn(without)
    value = run_lines(parts["written"]["python"].replace("load_model('tinymamba')", "lm"), lm)[1][-1]
    assert_close(value, state_space(lm.trace(PROMPT), 0, 0).B, 1e-6)


def test_a_model_with_a_state_space_is_shown_itself(playground):
    assert set(drawn(playground)["example"]) <= {"scene", "run", "source", "file"}


def test_a_long_prompt_is_shortened_to_the_context_of_the_bundled_model(tokenizer):
    parts = drawn(playground_of(tokenizer, options=Options(max_tokens=300)), prompt="xq" * 140)
    no_holes(parts)
    assert len(array(traces(parts["delta"])[0]["y"])) == 256


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_server_that_does_not_offer_the_bundled_model_says_what_to_do(tokenizer, language):
    parts = drawn(playground_of(tokenizer, options=Options(allowed=Allowed(models=("tiny",)))), language=language)
    assert not parts["form"]["controls"] and "reason" not in parts["example"]
    for name in PARTS:
        empty = parts[name]["empty"]
        assert empty["text"] and "Mamba" in empty["hint"] and ("softmax" in empty["hint"]) == (name == "share")
    assert len({parts[name]["empty"]["text"] for name in PARTS}) == len(PARTS)


def test_a_program_is_not_given_another_model(without):
    with pytest.raises(InputError, match="not a state-space layer"):
        call(without, VIEW.api[0], {"prompt": PROMPT, "layer": 0})


def test_for_programs(playground):
    told, found = (
        call(playground, VIEW.api[0], {"prompt": PROMPT, "layer": 2, "source": -4}),
        found_in(playground, 2, 8),
    )
    assert told["source"] == 8 and told["layer"] == 2
    assert_close(np.array(told["whole"]), found.whole, 1e-6)
    assert_close(np.array(told["kept"], float)[8:], np.quantile(found.kept, (0.25, 0.5, 0.75), axis=1).T[8:], 1e-6)
    assert_close(np.array(told["decay"]), np.quantile(decay_tokens(found), (0.25, 0.5, 0.75)), 1e-4)
    for layer, message in ((0, "not a state-space layer"), (3, "layer")):
        with pytest.raises(InputError, match=message):
            call(playground, VIEW.api[0], {"prompt": PROMPT, "layer": layer})


def test_channels_are_put_together_in_their_order():
    values = np.array([[4.0, 1.0, 3.0, 2.0]])
    assert grouped(values, values[0]).values[:, 0].tolist() == [1, 2, 3, 4]
    many = np.arange(2.0 * ROWS)[None]
    rows = grouped(many, many[0])
    assert rows.values.shape == (ROWS, 1) and rows.values[0, 0] == 0.5 and rows.first[-1] == 2 * ROWS
    holes = grouped(np.where(many < 3, np.nan, many), many[0]).values[:, 0]
    assert np.isnan(holes[0]) and holes[1] == 3


def test_channels_without_a_number_are_left_out():
    values = np.array([[np.nan, np.nan, np.nan], [1.0, np.nan, 3.0]])
    assert np.isnan(quartiles(values)[:, 0]).all() and quartiles(values)[:, 1].tolist() == [1.5, 2, 2.5]


def test_rates_that_are_all_the_same_are_one_bar():
    words = dict.fromkeys(("tokens", "count", "rates", "length"), "x")
    counts = np.array(decay_figure(np.full((2, 3), 10.0), 4, words).data[0].y)
    assert counts.sum() == 6 and (counts > 0).sum() == 1
