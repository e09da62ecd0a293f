"""Texts that are written under edits, alone and together: each step is what an edited run of the text predicts."""

import dataclasses

import numpy as np
import pytest

from model.errors import InputError
from model.forgetting.policies import Policy
from model.generation.generate import generate
from model.generation.strategies import STRATEGIES, DecodingPlan, Strategy
from model.generation.together import SharedBatch
from model.gpt.edits import Edit
from model.tracing.trace import run
from tests.support.models.edited import VECTOR
from tests.support.models.helpers import VARIANTS, V, byte_model, random_ids, tiny_model, tokens_of, written

EDITS = {
    "none": (),
    "heads": (Edit("zero", 1, 2), Edit("scale", 0, 1, factor=-2.0)),
    "mlp": (Edit("mlp_zero", 1), Edit("neuron_value", 0, neuron=7, value=3.0), Edit("mlp_scale", 2, factor=0.5)),
    "direction": (Edit("project_out", 1, token=5), Edit("add_direction", 0, token=9, factor=6.0)),
    "vector": (
        Edit("add_vector", 1, factor=3.0, site="resid_mid", vector=VECTOR, positions="2,5-"),
        Edit("add_vector", 0, factor=-2.0, site="resid_post", vector=VECTOR, positions="1-3,6"),
    ),
    "hidden": (Edit("hide_token", positions="1,3-"), Edit("hide_token", 0, 1, positions="2")),
    "embedded": (
        Edit("embed_token", positions="1", token=9),
        Edit("embed_mean", positions="0,4"),
        Edit("embed_zero", positions="3,6-"),
        Edit("place_vector", 1, site="resid_post", vector=VECTOR, positions="2,6-"),
    ),
    "patterns": (
        Edit("previous_token", 0, 0),
        Edit("first_token", 1, 1),
        Edit("uniform", 2, 3),
        Edit("block_edge", query=3, key=1),
    ),
}
PLAN = DecodingPlan(7, seed=3)
PROMPTS = {
    name: random_ids(1, 7 if name in ("vector", "embedded") else 4 + at, seed=at)[0].tolist()
    for at, name in enumerate(EDITS)
}


def made(ticks, row=0):
    return [token for tick in ticks if tick.changes[row] for token in tick.changes[row].made]


def assert_of_edited_runs(model, name, ticks):
    """Every token's log-probability and rank are those of a run under the edits of all tokens before it."""
    ids = list(PROMPTS[name])
    for token in made(ticks):
        logits = run(model, tokens_of(ids), edits=EDITS[name]).logits[-1].astype(np.float64)
        expected = logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
        assert token.log_probability == pytest.approx(expected[token.id], abs=2e-4)
        assert token.rank == 1 and token.id == logits.argmax()
        ids.append(token.id)


@pytest.mark.parametrize("variant", ["gpt2", "llama"])
def test_a_text_under_edits_is_what_edited_runs_predict_alone_and_in_a_batch(variant):
    model = tiny_model(VARIANTS[variant])
    batch, greedy = SharedBatch(model), [STRATEGIES["greedy"], STRATEGIES["beam"]]
    plans = {name: dataclasses.replace(PLAN, edits=edits) for name, edits in EDITS.items()}
    alone = {name: list(generate(model, PROMPTS[name], greedy, plan, V)) for name, plan in plans.items()}
    texts = {name: batch.generate(PROMPTS[name], greedy, plan, V) for name, plan in plans.items()}
    together = dict(zip(texts, zip(*zip(*texts.values(), strict=True), strict=True), strict=True))
    for name in EDITS:
        assert_of_edited_runs(model, name, alone[name])
        assert_of_edited_runs(model, name, together[name])
        assert written(together[name], 1) == written(alone[name], 1)
    plain = list(generate(model, PROMPTS["patterns"], greedy, PLAN, V))
    assert made(plain)[0].log_probability != pytest.approx(made(alone["patterns"])[0].log_probability, abs=1e-3)


def test_all_texts_with_edits_share_one_forward(monkeypatch):
    import model.generation.together as module

    model, forwards, whole = tiny_model(), [], module.forward_all
    monkeypatch.setattr(module, "forward_all", lambda model, needs: forwards.append(len(needs)) or whole(model, needs))
    batch = SharedBatch(model)
    texts = [
        batch.generate([1, 2, 3, 4, 5, 6, 7], [Strategy()], DecodingPlan(4, edits=edits), V) for edits in EDITS.values()
    ]
    list(zip(*texts, strict=True))
    assert forwards == [len(EDITS)] * 3


def test_a_model_with_states_writes_under_edits_too():
    model = tiny_model({"mixer": ("softmax", "mamba", "linear")})
    plan = dataclasses.replace(PLAN, edits=(Edit("mlp_zero", 1), Edit("zero", 0, 1)))
    ids = list(PROMPTS["heads"])
    ticks = list(SharedBatch(model).generate(ids, [STRATEGIES["greedy"]], plan, V))
    for token in made(ticks):
        assert token.id == run(model, tokens_of(ids), edits=plan.edits).logits[-1].argmax()
        ids.append(token.id)


@pytest.mark.parametrize(
    ("edit", "strategy", "changes"),
    [
        (Edit("mean", 0, 1), Strategy(), {}),
        (Edit("mlp_mean", 0), Strategy(), {}),
        (Edit("zero", 99, 1), Strategy(), {}),
        (Edit("block_edge", query=9, key=1), Strategy(), {}),
        (Edit("uniform", 0, 1), Strategy(memory=Policy("h2o", 6)), {}),
        (Edit("uniform", 1, 1), Strategy(), {"mixer": ("softmax", "sliding_window", "softmax"), "window": 3}),
    ],
)
def test_edits_that_cannot_be_held_are_refused_before_the_model_runs(edit, strategy, changes):
    model = tiny_model(changes)
    for write in (SharedBatch(model).generate, lambda *rest: generate(model, *rest)):
        with pytest.raises(InputError):
            write([1, 2, 3, 4], [strategy], DecodingPlan(4, edits=(edit,)), V)


def test_a_language_model_writes_under_edits(tmp_path):
    lm = byte_model(tmp_path)
    edits = (Edit("mlp_zero", 0), Edit("zero", 1, 0))
    alone, plain = (list(lm.generate("once upon", "greedy", 5, edits=each)) for each in (edits, ()))
    texts = [lm.generate("once upon", "greedy", 5, edits=each, together=True) for each in (edits, ())]
    together = list(zip(*zip(*texts, strict=True), strict=True))
    assert [written(each) for each in together] == [written(alone), written(plain)]
    ids = lm.encode("once upon").ids.tolist()
    assert made(alone)[0].id == lm.trace(ids).edit(*edits).logits[-1].argmax()
