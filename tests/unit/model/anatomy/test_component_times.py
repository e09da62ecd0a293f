"""The clock at the seams of a forward: every moment belongs to one component, and the forward stays the same."""

import pytest
import torch

from model.anatomy import component_times
from model.anatomy.component_times import COMPONENTS, REST, clock, durations, measure
from model.anatomy.flops import next_token, operations, prompt, total
from tests.support.models.helpers import (
    MORE_VARIANTS,
    N_CTX,
    OWN_LAYERS,
    VARIANTS,
    assert_close,
    random_ids,
    tiny_model,
)
from tests.support.models.mixtures import MIXTURES
from tests.support.models.rounding import logits_within
from tests.support.models.states import STATES


def hooks_of(model):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


@pytest.mark.parametrize("name", VARIANTS)
def test_a_clocked_forward_is_the_forward(name):
    model, ids = tiny_model(VARIANTS[name]), random_ids(1, 9)
    model.join()
    with torch.inference_mode():
        expected = model(ids)
        with clock(model) as (stamps, attend):
            found = model.logits(model.trunk(ids, attend=attend))
    assert torch.equal(found, expected) and hooks_of(model) == 0
    times = [at for _, at in stamps]
    assert times == sorted(times)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_component_ends_as_often_as_it_runs(name):
    model = tiny_model(VARIANTS[name])
    with torch.inference_mode(), clock(model) as (stamps, attend):
        model.logits(model.trunk(random_ids(1, 5), attend=attend))
    n, count = model.config.n_layer, {}
    for key, _ in stamps:
        count[key] = count.get(key, 0) + 1
    norms = 2 * n + bool(model.config.final_norm)
    assert {key: count[key] for key in COMPONENTS if key in count} == {
        "embed": 1,
        "norms": norms,
        "qkv": n,
        "attention": n,
        "o": n,
        "mlp": n,
        "head": 1,
    }


def test_moments_by_hand():
    stamps = [(REST, 1.5), ("embed", 2.0), ("norms", 2.25), ("qkv", 3.0), ("norms", 4.0)]
    found = durations(stamps, 1.0, 5.0)
    assert found == dict.fromkeys(COMPONENTS, 0.0) | {"embed": 0.5, "norms": 1.25, "qkv": 0.75, REST: 1.5}
    assert sum(found.values()) == 4.0


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("T", [1, 9, N_CTX])
def test_a_measurement(name, T):
    model = tiny_model(VARIANTS[name])
    found = measure(model, random_ids(1, T)[0].tolist(), every=T != 9, budget=0.05)
    assert found.prompt.reading == prompt(T, 1 if T == 9 else None)
    assert found.step.reading == next_token(max(T - 1, 1)) and hooks_of(model) == 0
    for forward in (found.prompt, found.step):
        work = operations(model.config, forward.reading)
        assert forward.flops == total(work, useful=True)
        assert [part.key for part in forward.parts] == [
            *(key for key in COMPONENTS if key not in ("in_proj", "state")),
            REST,
        ]
        rounds = range(len(forward.plain.seconds))
        sums = [sum(part.times.seconds[n] for part in forward.parts) for n in rounds]
        assert sums == pytest.approx(forward.clocked.seconds)
        assert all(second >= 0 for part in forward.parts for second in part.times.seconds)
        products = {part.key for part in forward.parts if part.rate}
        assert products == {"qkv", "attention", "o", "mlp", "head"}


@pytest.mark.parametrize("name", STATES | MORE_VARIANTS | OWN_LAYERS | {"both": {}, "mixtral": {}})
def test_other_models_are_timed_by_what_they_have(name):
    """Every component ends in a forward that gives the same logits, and the FLOPs of all are the whole."""
    both = {"two_way": True, "norm_placement": "post", "head_dense": True, "n_segment": 2}
    model = tiny_model((STATES | MORE_VARIANTS | OWN_LAYERS | MIXTURES | {"both": both})[name])
    model.join()
    ids = random_ids(1, 9)
    with torch.inference_mode():
        expected = model(ids)
        with clock(model) as (stamps, attend):
            assert torch.equal(model.logits(model.trunk(ids, attend=attend)), expected)
    found = measure(model, ids[0].tolist(), budget=0.0)
    assert hooks_of(model) == 0 and (found.step is None) == model.config.two_way
    for forward in (found.prompt, *([found.step] if found.step else [])):
        assert forward.flops == total(operations(model.config, forward.reading), useful=True)
        keys = [part.key for part in forward.parts]
        assert set(keys) == {key for key, _ in stamps} and ("state" in keys) == (name in STATES)


@pytest.mark.parametrize("name", ["llama", "nemotron", "qwen-next", "retention"])
def test_the_token_reads_the_prompts_cache(name, monkeypatch):
    """What is measured of the token is the forward that follows the prompt."""
    model, ids = tiny_model((VARIANTS | STATES)[name]), random_ids(1, 12)
    expected, bound, seen, logits = model(ids)[0, -1], logits_within(model, ids)[0, -1], [], model.logits
    monkeypatch.setattr(model, "logits", lambda x: seen.append(logits(x)) or seen[-1])
    measure(model, ids[0].tolist(), budget=0.0)
    assert [len(each[0]) for each in seen[:4]] == [12, 12, 1, 1]
    for each in seen:
        assert_close(each[0, -1], expected, bound)


def test_the_clock_is_taken_off_where_a_forward_fails():
    model = tiny_model(VARIANTS["gpt2"])
    with pytest.raises(ValueError, match=r"ids must"), clock(model) as (_, attend):
        model.trunk(torch.tensor([[10**6]]), attend=attend)
    assert hooks_of(model) == 0


def test_rounds_end_with_the_time_and_can_be_cancelled(monkeypatch):
    model, ids = tiny_model(), random_ids(1, 5)[0].tolist()
    assert len(measure(model, ids, budget=0.0).prompt.plain.seconds) == 1
    assert len(measure(model, ids, budget=60.0).step.plain.seconds) == component_times.ROUNDS

    class Enough(Exception):
        pass

    def progress(done, total, what):
        assert total == component_times.ROUNDS + 1 and hooks_of(model) == 0
        if done == 2:
            raise Enough

    with pytest.raises(Enough):
        measure(model, ids, progress=progress, budget=60.0)
