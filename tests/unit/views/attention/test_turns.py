"""By turn: the bars are sums of what the attention, the logit parts and the gradients say of each token."""

import numpy as np
import pytest

from model import api
from model.predictions.attribution import attribute, components
from model.predictions.gradients import affordable, gradients
from tests.support.models.talking import talking_model, talking_server
from tests.support.picking import asked
from tests.support.views.endpoints import ask
from viz.numbers import logit, signed
from viz.page.pipeline import payloads, scene_of
from viz.seam import panels
from viz.seam.jobs import background
from viz.views.attention.turns.view import VIEW
from viz.words import LANGUAGES

TURNS = [["system", "ab"], ["user", "abc"], ["assistant", "c"], ["user", "d"], ["assistant", ""]]
MESSAGES = [{"role": role, "content": text} for role, text in TURNS[:-1]]
HEADS = [[0, 1], [2, 3]]
NAMES = ["system", "user 1", "assistant", "user 2", "template"]


@pytest.fixture(scope="module")
def talker(tmp_path_factory):
    return talking_model(tmp_path_factory.mktemp("talking"))


@pytest.fixture
def server(talker):
    return talking_server(talker)


def question(chat=True, language="en", **selection):
    picked = {"heads": HEADS, **selection}
    values = {"attention_view": {"view": "turns"}}
    talk = {"on": chat, "turns": TURNS}
    return asked("else", chat=talk, values=values, selection=picked, language=language)


def drawn(server, **changes):
    return payloads(server, question(**changes))[0]


def pressed(server, **changes):
    """The parts after the gradients were computed."""
    scene = scene_of(server, question(**changes))
    list(background.perform(server, panels.job_of(VIEW, "rests", scene, panels.settings_of(VIEW, scene, {})), "en"))
    return drawn(server, **changes)


def rows_of(part):
    return [np.array(trace.y) for trace in part["figure"].data]


def expected(talker, values):
    turns = talker.turns(MESSAGES)[: len(values)]
    return [values[turns == turn].sum() for turn in (0, 1, 2, 3, -1)]


@pytest.mark.parametrize("tokens", [[], [9]])
def test_the_bars_are_the_attention_of_each_head(server, talker, tokens):
    parts = drawn(server, tokens=tokens)
    run = talker.trace(talker.chat(MESSAGES).ids)
    query = tokens[0] if tokens else len(run.tokens) - 1
    for (layer, head), row in zip(HEADS, rows_of(parts["turns_reads"]), strict=True):
        np.testing.assert_allclose(row, expected(talker, run.pattern(layer, head)[query]), atol=1e-6)
        assert row.sum() == pytest.approx(1, abs=1e-6)
    assert list(parts["turns_reads"]["figure"].data[0].x) == NAMES


def test_the_parts_of_the_logit_add_up_to_the_heads(server, talker):
    run = talker.trace(talker.chat(MESSAGES).ids)
    token = int(run.logits_at(-1).argmax())
    heads = attribute(components(run, -1), talker.model, token).heads
    for (layer, head), row in zip(HEADS, rows_of(drawn(server)["turns_writes"]), strict=True):
        assert row.sum() == pytest.approx(heads[layer, head], abs=1e-4)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_plain_prompt_is_divided_into_sentences(server, talker, language):
    values, selection = {"attention_view": {"view": "turns"}}, {"heads": [[2, 3]]}
    parts = payloads(server, asked("ab. cd", values=values, selection=selection, language=language))[0]
    figure = parts["turns_reads"]["figure"].data[0]
    run = talker.trace("ab. cd")
    assert list(run.tokens.pieces) == list("ab. cd")
    row = run.pattern(2, 3)[-1]
    np.testing.assert_allclose(figure.y, [row[1:3].sum(), row[3:].sum(), row[0]], atol=1e-6)
    assert figure.x[-1] == {"en": "first token", "zh": "第一个词元"}[language]
    assert not any("empty" in parts[f"turns_{name}"] for name in ("reads", "writes"))


def test_an_edited_output_is_no_sum(server):
    parts = drawn(server, edits=[{"kind": "zero", "layer": 2, "head": 3}])
    assert "edited" in parts["turns_writes"]["empty"]["text"] and "figure" in parts["turns_reads"]


@pytest.mark.parametrize("tokens", [[], [9]])
def test_the_gradients_of_all_turns_add_up_to_what_is_told(server, talker, tokens):
    before = drawn(server, tokens=tokens)
    assert "empty" in before["turns_rests"] and (before["turns_job"]["state"], before["turns_job"]["auto"]) == (
        "idle",
        True,
    )
    parts = pressed(server, tokens=tokens)
    run = talker.trace(talker.chat(MESSAGES).ids)
    at = tokens[0] if tokens else len(run.tokens) - 1
    token = int(run.logits_at(at).argmax())
    own = gradients(run, at, token, None, affordable(at + 1))
    activation, integrated = rows_of(parts["turns_rests"])
    np.testing.assert_allclose(activation, expected(talker, own.gradient_x_activation), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(integrated, expected(talker, own.integrated), rtol=1e-4, atol=1e-6)
    assert integrated.sum() == pytest.approx(float(run.logits_at(at)[token]) - own.baseline + own.gap, abs=1e-4)
    note = parts["turns_rests"]["note"]
    assert f"add up to {logit(integrated.sum())};" in note and f"adds up to {logit(activation.sum())}." in note
    assert f"a gap of {signed(own.gap)}." in note and f"({logit(own.baseline)} → {logit(own.value)})" in note
    assert list(parts["turns_rests"]["figure"].data[0].x) == NAMES and parts["turns_job"]["state"] == "done"


def test_other_heads_need_no_other_gradients(server):
    pressed(server)
    assert "figure" in drawn(server, heads=[[1, 1]])["turns_rests"]
    assert "empty" in drawn(server, tokens=[9])["turns_rests"]


def test_tables_have_a_name_for_every_column(server):
    parts = pressed(server)
    for name in ("reads", "writes", "rests"):
        part = parts[f"turns_{name}"]
        assert len(part["columns"]) == 3 and all(trace.text is None for trace in part["figure"].data)


def test_the_python_lines_make_the_bars(server, talker, monkeypatch):
    monkeypatch.setattr(api, "load_model", lambda model_id: talker)
    parts = pressed(server)
    for name in ("turns_reads", "turns_writes", "turns_rests"):
        part = parts[name]
        *lines, last = part["python"].rsplit("\n", 1)
        space = {}
        exec("\n".join([*lines, f"found = {last}"]), space)
        np.testing.assert_allclose(space["found"], rows_of(part), atol=1e-5)


def test_for_programs(server, talker):
    found = ask(server, "attention_by_turn", prompt="", messages=MESSAGES, layer=2, head=3)
    assert [turn["role"] for turn in found["turns"]] == ["system", "user", "assistant", "user", "template"]
    assert sum(turn["weight"] for turn in found["turns"]) == pytest.approx(1, abs=1e-6)
    assert sum(turn["tokens"] for turn in found["turns"]) == len(talker.chat(MESSAGES))
    plain = ask(server, "attention_by_turn", prompt="ab. cd", layer=2, head=3)["turns"]
    assert [(turn["role"], turn["tokens"]) for turn in plain] == [("sentence", 2), ("sentence", 3), ("first_token", 1)]


def test_gradients_for_programs(server):
    found = ask(server, "gradients_by_turn", prompt="", messages=MESSAGES)
    assert [turn["role"] for turn in found["turns"]] == ["system", "user", "assistant", "user", "template"]
    moved = found["value"] - found["baseline"]
    assert sum(turn["integrated"] for turn in found["turns"]) == pytest.approx(moved + found["gap"], abs=1e-6)
    bars = [turn["gradient_x_activation"] for turn in found["turns"]]
    np.testing.assert_allclose(bars, rows_of(drawn(server)["turns_rests"])[0], rtol=1e-4, atol=1e-6)
    plain = ask(server, "gradients_by_turn", prompt="a")["turns"]
    assert [turn["role"] for turn in plain] == ["first_token"]
