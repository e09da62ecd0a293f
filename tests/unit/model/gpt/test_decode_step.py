"""A compiled step says what the model says, wherever it is taken, and it is taken where it is fastest."""

import gc
import json
import weakref

import numpy as np
import pytest
import torch

from model.generation.generate import generate
from model.generation.strategies import STRATEGIES, Plan
from model.generation.together import SharedBatch
from model.gpt import decode_step
from model.gpt.cache import KVCache
from model.gpt.decode_step import WAYS, step_of, trial, way
from model.gpt.linear import tune
from model.gpt.tap import identity
from model.kernels import ready
from model.loading.halves import halved
from model.quantization.int8 import quantised
from tests.support.models.helpers import VARIANTS, V, assert_close, random_ids, tiny_model, written
from tests.support.models.rounding import logits_within

T = 21
COMPILED = ("alone", "threads")
PIECES = ([1] * T, [3, 1, 1, 8, 1, 7], [16, 5])


def prepared(name: str = "llama", how: str | None = "alone", more=None):
    """A model as it is loaded, and the way in which its steps are taken; None: by trial."""
    model = tiny_model({**VARIANTS[name], **(more or {})})
    model.join()
    tune(model)
    if how is not None:
        step_of(model).fastest.update(dict.fromkeys((1, 2, 4, 8, 16), how))
    return model


def decoded(model, ids, pieces) -> torch.Tensor:
    cache = KVCache.empty(model.config, len(ids), ids.shape[1])
    with torch.inference_mode():
        out = torch.cat([model(part, cache=cache) for part in ids.split(pieces, 1)], 1)
    assert cache.length == ids.shape[1]
    return out


@pytest.fixture
def taken(monkeypatch):
    """How many rows went through compiled blocks, and in which way."""
    rows, real = [], decode_step.DecodeStep.blocks

    def blocks(self, x, places, how):
        rows.append((len(x), how))
        return real(self, x, places, how)

    monkeypatch.setattr(decode_step.DecodeStep, "blocks", blocks)
    return rows


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("how", COMPILED)
@pytest.mark.parametrize("pieces", PIECES, ids=str)
def test_steps_of_any_size_are_one_forward(name, how, pieces, taken):
    model, ids = prepared(name, how), random_ids(2, T)
    with torch.inference_mode():
        full = model(ids)
    assert_close(decoded(model, ids, pieces), full, logits_within(model, ids))
    assert taken == [(2 * n, how) for n in pieces if 2 * n <= 16]


@pytest.mark.parametrize("name", ["gpt2", "qwen3", "neox"])
@pytest.mark.parametrize("how", COMPILED)
def test_steps_with_8_bits(name, how, taken):
    """Beside float32 copies of the same rounded weights, by which many rows are multiplied."""
    model, ids = quantised(prepared(name, None)), random_ids(1, T)
    step_of(model).fastest.update(dict.fromkeys((1, 2, 4, 8, 16), how))
    with torch.inference_mode():
        full = model(ids)
    assert_close(decoded(model, ids, [1] * T), full, logits_within(model, ids))
    assert taken == [(1, how)] * T


@pytest.mark.parametrize("how", COMPILED)
def test_texts_of_several_visitors_share_a_step(how, taken):
    model, prompts = prepared("qwen3", how), [random_ids(1, n, seed=n)[0].tolist() for n in (3, 20, 9)]
    plan, greedy, room = Plan(6), [STRATEGIES["greedy"]], SharedBatch.of(model)
    known = [written(generate(tiny_model(VARIANTS["qwen3"]), ids, greedy, plan, V))[0] for ids in prompts]
    texts = [room.generate(ids, greedy, plan, V) for ids in prompts]
    ticks = [[next(text)] for text in texts]
    taken.clear()
    for _ in range(5):
        for at, text in enumerate(texts):
            ticks[at].append(next(text))
    assert [written(of)[0] for of in ticks] == known
    assert max(rows for rows, _ in taken) == 3


def test_nothing_is_copied_and_the_model_may_go():
    model = prepared()
    step = step_of(model)
    assert step_of(model) is step
    held = [each for layer in step.layers for each in (*layer.read, *layer.attend, *layer.write) if np.size(each) > 1]
    ours = [parameter.detach().numpy() for name, parameter in model.blocks.named_parameters()]
    assert len(held) >= 6 * len(step.layers)
    assert all(any(np.shares_memory(each, own) for own in ours) for each in held)
    assert np.shares_memory(step.head[5], model.embed.weight.detach().numpy())
    gone = weakref.ref(model)
    del model, ours
    gc.collect()
    assert gone() is None


def test_what_is_given_is_left_as_it_was():
    model = prepared()
    x, cache = torch.ones(1, model.config.d_model), KVCache.empty(model.config, 1, 4)
    cache.k.zero_(), cache.v.zero_()
    out = step_of(model).blocks(x, [decode_step.Place.of(cache, 1, model.prepare(0, 1).rope)], "alone")
    assert (x == 1).all() and (out != 1).any() and cache.length == 0
    assert cache.k[:, :, :, 0].any() and not cache.k[:, :, :, 1:].any()


@pytest.mark.parametrize(("rows", "width", "tokens"), [(2, 0, 1), (1, 1, 1), (1, -1, 1), (5, 0, 5)])
def test_what_would_be_read_or_written_beyond_is_refused(rows, width, tokens):
    model = prepared()
    x, cache = torch.ones(rows, model.config.d_model + width), KVCache.empty(model.config, 1, 4)
    with pytest.raises(ValueError, match="no step of"):
        step_of(model).blocks(x, [decode_step.Place.of(cache, tokens, model.prepare(0, tokens).rope)], "alone")


def test_who_is_not_ready_or_another_kind_is_torch_s():
    assert step_of(tiny_model()) is None, "neither joined nor tuned"
    joined = tiny_model()
    joined.join()
    assert step_of(joined) is None, "not tuned"
    tuned = tiny_model()
    tune(tuned)
    assert step_of(tuned) is None, "not joined"
    assert step_of(halved(tiny_model(VARIANTS["llama"]), torch.bfloat16)) is None, "16 bits"
    for more in (
        {"n_expert": 2},
        {"mixer": "sliding_window", "window": 4},
        {"mixer": ("softmax", "retention", "softmax")},
    ):
        other = tiny_model(more)
        other.join()
        tune(other)
        assert step_of(other) is None, more


def test_taps_gradients_prompts_and_other_attention_are_torch_s(taken):
    model, ids = prepared(), random_ids(1, T)

    def run(ids, **options):
        return model.trunk(ids, cache=KVCache.empty(model.config, 1, T), **options)

    run(ids[:, :4])
    run(ids)
    with torch.no_grad():
        run(ids)
        run(ids[:, :4], tap=identity)
        run(ids[:, :4], attend=lambda layer, q, k, v: q)
        model.trunk(ids[:, :4])
        assert taken == []
        run(ids[:, :4])
    assert taken == [(4, "alone")]


def test_as_long_as_nothing_is_compiled_torch_computes(taken, monkeypatch):
    model, ids = prepared(how=None), random_ids(1, T)
    monkeypatch.setattr(ready, "soon", lambda: None)
    with torch.inference_mode():
        assert_close(decoded(model, ids, [1] * T), model(ids), logits_within(model, ids))
    assert taken == []


@pytest.mark.parametrize("fastest", WAYS)
def test_the_fastest_way_is_taken_and_tried_once_for_a_number_of_rows(fastest, monkeypatch, taken):
    tried = []

    def clock(model, rows):
        tried.append(rows)
        return {how: 1.0 if how == fastest else 2.0 for how in WAYS}, True

    monkeypatch.setattr(decode_step, "trial", clock)
    model = prepared(how=None)
    with torch.inference_mode():
        found = [way(model, rows) for rows in (1, 1, 2, 3, 2, 7, 16, 17)]
    assert tried == [1, 2, 4, 16]
    assert [each and each[1] for each in found[:-1]] == [None if fastest == "torch" else fastest] * 7
    assert found[-1] is None, "more rows are not tried"


@pytest.mark.parametrize("rows", [1, 8])
def test_a_trial_times_whole_steps_and_leaves_nothing_behind(rows, taken):
    model = prepared()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    times, _ = trial(model, rows)
    assert set(times) == set(WAYS) and all(0 < seconds < 60 for seconds in times.values())
    assert {how for _, how in taken} == set(COMPILED) and {n for n, _ in taken} == {rows}
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


FASTER = [9 * 0.8**n for n in range(9)]


@pytest.mark.parametrize(
    ("seconds", "rounds", "best", "reliable"),
    [
        ({"torch": [9], "alone": [5], "threads": [4]}, {"torch": 3, "alone": 3, "threads": 3}, "threads", True),
        ({"torch": [9], "alone": [5], "threads": [8, 8, 4]}, {"torch": 3, "alone": 4, "threads": 4}, "threads", True),
        ({"torch": [9], "alone": [5], "threads": FASTER}, {"torch": 3, "alone": 6, "threads": 9}, "threads", False),
        ({"torch": [1], "alone": [5], "threads": [4]}, {"torch": 3, "alone": 1, "threads": 1}, "torch", True),
    ],
    ids=["quiet", "a slow moment", "never alike", "torch"],
)
def test_a_trial_goes_on_until_its_times_can_be_relied_on(seconds, rounds, best, reliable, monkeypatch):
    """The times of each way, round by round, the last one again and again."""
    now, count = [0.0], dict.fromkeys(WAYS, 0)

    def take(model, ids, cache, how):
        now[0] += seconds[how][min(count[how], len(seconds[how]) - 1)]
        count[how] += 1

    monkeypatch.setattr(decode_step, "taken", take)
    monkeypatch.setattr(decode_step.time, "perf_counter", lambda: now[0])
    times, found = trial(prepared(), 1)
    assert min(times, key=times.__getitem__) == best and count == rounds and found == reliable


@pytest.fixture
def tried(monkeypatch):
    """The rows that were tried, and what a trial finds: the fastest way, and whether that can be relied on."""
    rows, finds = [], {"best": "threads", "reliable": True}

    def clock(model, n):
        rows.append(n)
        return {how: 1.0 if how == finds["best"] else 2.0 for how in WAYS}, finds["reliable"]

    monkeypatch.setattr(decode_step, "trial", clock)
    return rows, finds


@torch.inference_mode()
def started(folder, more=None, rows=1, small=False):
    """The way of a step of so many texts, of a model as a start loads it."""
    model = prepared(how=None, more=more)
    model = quantised(model) if small else model
    decode_step.remember(model, lambda: folder)
    return way(model, rows)[1]


def test_what_a_trial_found_is_remembered_at_the_next_start(tried, tmp_path):
    rows, _ = tried
    assert [started(tmp_path) for _ in range(3)] == ["threads"] * 3 and rows == [1]
    assert started(tmp_path, {"n_layer": 5}) == "threads" and rows == [1, 1], "a step of another size is tried"
    assert started(tmp_path / "another") == "threads" and rows == [1, 1, 1]
    assert started(tmp_path, rows=3) == "threads" and rows == [1, 1, 1, 2], "so is another number of rows"
    assert started(tmp_path, small=True) == "threads" and rows == [1, 1, 1, 2, 1], "and one of other numbers"
    assert started(tmp_path) == "threads" and rows == [1, 1, 1, 2, 1]


@torch.inference_mode()
def test_where_nothing_can_be_compiled_nothing_is_asked_for(monkeypatch):
    model = prepared(how=None)
    decode_step.remember(model, lambda: pytest.fail("no numba here"))
    monkeypatch.setattr(ready, "soon", lambda: None)
    assert way(model, 1) is None


def test_what_cannot_be_relied_on_is_tried_again_at_the_next_start(tried, tmp_path):
    rows, finds = tried
    finds["reliable"] = False
    assert [started(tmp_path), started(tmp_path)] == ["threads"] * 2 and rows == [1, 1] and not [*tmp_path.iterdir()]


@torch.inference_mode()
def test_that_one_thread_was_fastest_holds_for_a_while(tried, tmp_path, monkeypatch):
    """Something else may have taken the other cores meanwhile."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    now = [0.0]
    monkeypatch.setattr(decode_step.time, "monotonic", lambda: now[0])
    rows, finds = tried
    finds["best"] = "alone"
    model = prepared(how=None)
    decode_step.remember(model, lambda: tmp_path)
    assert [way(model, 1)[1] for _ in range(3)] == ["alone"] * 3 and rows == [1]
    assert not [*tmp_path.iterdir()], "the next start tries it again"
    finds["best"], now[0] = "threads", decode_step.AGAIN
    assert [way(model, 1)[1] for _ in range(3)] == ["threads"] * 3 and rows == [1, 1]
    now[0] = 1e9
    assert way(model, 1)[1] == started(tmp_path) == "threads" and rows == [1, 1]


@torch.inference_mode()
def test_of_one_thread_alone_it_lasts(tried, tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    rows, finds = tried
    finds["best"] = "alone"
    assert [started(tmp_path), started(tmp_path)] == ["alone"] * 2 and rows == [1]


@pytest.mark.parametrize("text", ["", "[]", '{"NAME": "other"}', '{"NAME": ["alone"]}', '{"NAME": "alone"}', "\0"])
def test_a_file_that_is_not_in_order_is_written_anew(text, tried, tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    rows, _ = tried
    started(tmp_path)
    (file,) = tmp_path.iterdir()
    whole = file.read_text(encoding="utf-8")
    (name,) = json.loads(whole)
    file.write_text(text.replace("NAME", name), encoding="utf-8")
    assert started(tmp_path) == "threads" and rows == [1, 1]
    assert file.read_text(encoding="utf-8") == whole


def test_weights_are_reordered_only_where_torch_will_read_them(monkeypatch):
    packed = []
    monkeypatch.setattr(decode_step, "pack", packed.append)
    compiled, other = prepared(), tiny_model({"n_expert": 2})
    for model in (compiled, other):
        decode_step.pack_where_needed(model, 3)
        decode_step.pack_where_needed(model, 6)
    assert packed == [other]
    monkeypatch.setattr(ready, "never", lambda: True)
    decode_step.pack_where_needed(compiled, 6)
    assert packed == [other, compiled]
