"""The whole numbers of a GGUF file are its weights, and a step that reads them says what the weights say."""

import os

import gguf
import numpy as np
import pytest
import torch
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

from model.api import load_model
from model.checks import path_checks
from model.checks.result import Subject
from model.gpt import decode_step, decode_ways
from model.gpt.cache import KVCache
from model.gpt.decode_step import PLAIN, WAYS, step_of, weights_of
from model.gpt.linear import tune
from model.kernels import ready
from model.kernels.coded import digest
from model.loading import gguf_codes
from model.loading.checkpoint import build, load_gguf
from model.loading.gguf_codes import KINDS, codes_of
from model.loading.gguf_file import GgufFile, GgufTensor
from model.progress import silent
from model.quantization.speed import RUNNERS
from model.records import Tokens
from model.tracing.trace import run as run_model
from tests.parity.families import build_hf
from tests.parity.weights.gguf_files import write_gguf
from tests.support.models.helpers import assert_close, random_ids
from tests.support.models.rounding import logits_within

WIDE = {"hidden_size": 64, "intermediate_size": 96, "head_dim": 16, "vocab_size": 96}
T = 12
ready.now()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_codes_are_the_dequantized_numbers_bit_for_bit(kind, tmp_path):
    block, size = GGML_QUANT_SIZES[kind]
    raw = np.random.default_rng(0).integers(0, 256, 6 * 2 * size, dtype=np.uint8)
    halves = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q4_K": [0, 2], "Q6_K": [208]}[kind.name]
    for at in halves:  # finite, of any sign and of many sizes
        raw.reshape(-1, size)[:, at + 1] &= 0b10111111
    (tmp_path / "w").write_bytes(raw.tobytes())
    file = GgufFile(tmp_path / "w", {}, {"w": GgufTensor((6, 2 * block), kind, 0, len(raw))})
    found = gguf_codes._read(file, "w")
    wanted = gguf.quants.dequantize(raw.reshape(6, -1), kind)
    assert found.code.dtype == np.int8 and found.weight().shape == wanted.shape
    assert np.array_equal(found.weight(), wanted) and len(np.unique(wanted)) > 100


def test_other_types_and_vectors_have_none(tmp_path):
    (tmp_path / "w").write_bytes(bytes(4 * 64))
    for shape, kind in (((2, 32), GGMLQuantizationType.F32), ((64,), GGMLQuantizationType.F32)):
        file = GgufFile(tmp_path / "w", {}, {"w": GgufTensor(shape, kind, 0, 256)})
        assert gguf_codes._read(file, "w") is None


def loaded(path, codes=True):
    """A model as it is loaded, with its codes."""
    config, state, _ = load_gguf(path)
    model = build(config, state)
    model.join()
    tune(model)
    if codes:
        decode_step.take_codes(model, codes_of(path, model))
    return model


@pytest.fixture(params=["llama GQA", "llama MQA, biases, tied", "qwen3", "gpt_neox parallel"])
def path(request, tmp_path):
    sizes = WIDE if request.param != "gpt_neox parallel" else {key: WIDE[key] for key in WIDE if key != "head_dim"}
    hf = build_hf(request.param, shaken=True, **sizes)
    return write_gguf(tmp_path / "m.gguf", hf, GGMLQuantizationType.Q4_1)


def decoded(model, ids, how) -> torch.Tensor:
    """Logits of tokens one by one, in one way."""
    cache = KVCache.empty(model.config, len(ids), T)
    with torch.inference_mode():
        return torch.cat([decode_ways.taken(model, part, cache, how) for part in ids.split(1, 1)], 1)


@pytest.mark.parametrize("how", ["codes alone", "codes threads"])
@pytest.mark.parametrize("rows", [1, 5])
def test_steps_by_codes_are_one_forward(path, how, rows):
    model, ids = loaded(path), random_ids(rows, T) % 96
    numbers = step_of(model).coded()
    matrices = [numbers.head, *(layer.read for layer in numbers.layers), *(layer.write for layer in numbers.layers)]
    strips = [part for each in matrices for part in each if getattr(part, "dtype", None) == np.int8]
    assert len(strips) == 1 + 4 * len(model.blocks) and all(part.ndim == 3 for part in strips)
    with torch.inference_mode():
        full = model(ids)
    assert_close(decoded(model, ids, how), full, logits_within(model, ids))


def test_matrices_without_strips_are_read_as_they_are(tmp_path):
    """53 tokens make no strip: the head stays float32."""
    hf = build_hf("llama GQA", shaken=True, **{**WIDE, "vocab_size": 53})
    path = write_gguf(tmp_path / "m.gguf", hf, GGMLQuantizationType.Q8_0)
    model, ids = loaded(path), random_ids(1, T) % 53
    numbers = step_of(model).coded()
    assert numbers.head[5].dtype == np.float32 and numbers.layers[0].read[5].dtype == np.int8
    with torch.inference_mode():
        assert_close(decoded(model, ids, "codes threads"), model(ids), logits_within(model, ids))


def test_a_block_is_written_by_one_kind_of_product(path, monkeypatch):
    model, ids = loaded(path, codes=False), random_ids(1, T) % 96
    codes = codes_of(path, model)
    some = {name: each for name, each in codes.strips().items() if not name.endswith(".down")}
    decode_step.take_codes(model, type(codes)(codes.digest, lambda: some))
    layer = step_of(model).coded().layers[0]
    assert layer.read[5].dtype == np.int8 and layer.write[0].dtype == np.float32
    with torch.inference_mode():
        assert_close(decoded(model, ids, "codes threads"), model(ids), logits_within(model, ids))


CHANGES = {
    "in place": lambda weight: weight.detach().mul_(-1),
    "one number": lambda weight: weight.__setitem__((5, 40), 3),
    "a row of its data": lambda weight: weight.data.__setitem__(7, 0),
    "a column of its data": lambda weight: weight.data.__setitem__((slice(None), 9), 0),
    "two heads": lambda weight: weight.data.copy_(weight.data.roll(16, 0)),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("used", [True, False], ids=["used before", "not used before"])
def test_weights_that_were_changed_are_read_themselves(path, change, used):
    model, ids = loaded(path), random_ids(1, T) % 96
    before = decoded(model, ids, "codes alone") if used else None
    with torch.no_grad():
        CHANGES[change](model.blocks[1].attn.q.weight)
    with torch.inference_mode():
        model.trunk(ids[:, :1], cache=KVCache.empty(model.config, 1, T))  # a text begins
        after = decoded(model, ids, "codes alone")
        assert step_of(model).ways() == PLAIN
        assert_close(after, model(ids), logits_within(model, ids))
    assert before is None or not torch.allclose(before, after, atol=1e-3)


def test_a_copy_has_no_codes_and_neither_has_what_is_timed_as_float32(path):
    model = loaded(path)
    other = decode_step.without_codes(model)
    assert other is not model and step_of(other).ways() == PLAIN
    assert step_of(model).ways() == WAYS and other.blocks is model.blocks
    assert decode_step.without_codes(other) is other
    assert step_of(RUNNERS["float32"](model)).ways() == PLAIN


def test_the_checks_go_every_way(path):
    model, ids = loaded(path), random_ids(1, T) % 96
    run = run_model(model, Tokens(ids[0].numpy(), ("",) * T, (b"",) * T, np.arange(2 * T).reshape(T, 2)))
    found = path_checks.cached(Subject(None, run, run), silent)
    assert found.state == "agrees" and found.compared == len(WAYS) * T * 96


def test_they_belong_to_the_file_that_was_loaded(path, tmp_path, caplog):
    model = loaded(path)
    os.utime(path, (1, 1))
    assert step_of(model).ways() == PLAIN
    assert "The file has changed since it was loaded." in caplog.text
    assert codes_of(tmp_path / "none.gguf", model) is None
    (tmp_path / "other").write_bytes(b"no GGUF")
    assert codes_of(tmp_path / "other", model) is None


def test_they_are_the_weights_and_need_room(path, monkeypatch):
    model = loaded(path, codes=False)
    codes = codes_of(path, model)
    assert codes.digest == digest(weights_of(model))
    strips = codes.strips()
    assert len(strips) == 1 + 4 * len(model.blocks)
    asked = []
    monkeypatch.setattr(gguf_codes, "have_room", lambda size: asked.append(size))
    assert codes.strips() == {}
    assert asked == [sum(whole.nbytes + scale.nbytes for whole, scale in strips.values())]


def test_a_loaded_file_is_read_by_its_codes(path, tmp_path, monkeypatch):
    """As the app loads it, and as a trial names it."""
    monkeypatch.setattr("model.api.open_resolved", lambda resolved, progress: (build(*load_gguf(path)[:2]), None))
    lm = load_model(path)
    step = step_of(lm.model)
    assert step.ways() == WAYS and step.name(1).startswith("1 row(s) with codes: ")
    times, _ = decode_ways.trial(lm.model, 1)
    assert [*times] == [*step.ways()]
