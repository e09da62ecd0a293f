"""Weights that stay in their files: every family computes what it computes with all of them in memory."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from model.api import load_model
from model.checks.registry import run_checks
from model.checks.result import subject_of
from model.checks.roundoff import bounds
from model.gpt.cache import KVCache
from model.gpt.linear import tune
from model.loading import stored
from model.loading.checkpoint import build, load_folder, save_folder
from model.loading.devices import streamed
from model.loading.halves import halved, unit
from model.loading.sources import WEIGHTS
from model.loading.stored import STORED, StoredLinear, leave_stored, stored_bytes, stored_dtype
from model.tracing.trace import run
from tests.support.models.checked import OURS, not_agreed
from tests.support.models.family_configs import CONFIGS
from tests.support.models.helpers import VARIANTS, assert_close, random_ids, tiny_model, tokens_of
from tests.support.models.rounding import logits_within


def left(folder):
    return leave_stored(build(*load_folder(folder, stored=True)))


def whole(folder):
    return build(*load_folder(folder))


@pytest.fixture(params=CONFIGS)
def checkpoint(request, tmp_path):
    """A folder as transformers writes it, shaken, with numbers of 16 bits."""
    import transformers

    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(**CONFIGS[request.param] | {"eos_token_id": 0, "bos_token_id": 0})
    model = transformers.AutoModelForCausalLM.from_config(config).bfloat16()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(tmp_path)
    return tmp_path


def ids_of(model, n: int = 9) -> torch.Tensor:
    return torch.randint(0, model.config.vocab_size, (2, n), generator=torch.Generator().manual_seed(1))


def test_every_family_computes_the_same(checkpoint, monkeypatch):
    ours, theirs = left(checkpoint), whole(checkpoint)
    monkeypatch.setattr(stored, "SLICE", 100)  # products in many slices
    ids = ids_of(theirs)
    with torch.no_grad():
        assert_close(ours(ids), theirs(ids), logits_within(theirs, ids))


def test_every_weight_is_the_number_of_the_file(checkpoint):
    ours, theirs = left(checkpoint), whole(checkpoint)
    expected = dict(theirs.named_parameters())
    for path, module in ours.named_modules():
        if isinstance(module, STORED):
            assert module.weight.dtype == torch.float32
            kept = theirs.get_submodule(path).weight
            assert torch.equal(module.weight, kept), path
            assert module._parameters["weight"].dtype == torch.bfloat16
    for name, parameter in ours.named_parameters():
        assert parameter.shape == expected[name].shape and not parameter.requires_grad
        assert torch.equal(parameter.float(), expected[name]), name
    assert stored_dtype(ours) == "bfloat16"


def test_no_weight_is_copied_out_of_the_file(checkpoint):
    """All that stays is what the file has; in memory are norms and biases."""
    ours = left(checkpoint)
    in_file = load_file(checkpoint / "model.safetensors")
    matrices = sum(tensor.nbytes for tensor in in_file.values() if tensor.ndim == 2)
    assert stored_bytes(ours) == matrices
    copied = {path for path, module in ours.named_modules() if isinstance(module, STORED) and not in_the_file(module)}
    kind = json.loads((checkpoint / "config.json").read_text())["model_type"]
    fused = {"q", "k", "v"} if kind == "gpt_neox" else set()  # sorted by head: copies
    if ours.config.n_expert > 1:  # stacked: copies
        fused = {"gate", "up", "down"}
        assert all(".experts." in path for path in copied)
    assert {path.rsplit(".", 1)[-1] for path in copied} == fused


def in_the_file(module) -> bool:
    """Whether the weight's first number lies where the system has mapped a file of weights."""
    address = module._parameters["weight"].data_ptr()
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, end = (int(each, 16) for each in line.split()[0].split("-"))
        if start <= address < end:
            return line.endswith(".safetensors")
    raise AssertionError("the weight is nowhere")


@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen3"])
def test_a_cache_and_a_trace_go_on_from_it(name, tmp_path):
    save_folder(tmp_path, tiny_model(VARIANTS[name]), torch.float16)
    ours, theirs = left(tmp_path), whole(tmp_path)
    assert stored_dtype(ours) == "float16"
    ids = random_ids(1, 9)
    within = logits_within(theirs, ids)
    cache = KVCache.empty(ours.config, 1, 9)
    with torch.inference_mode():
        cached = torch.cat([ours(token, cache=cache) for token in ids.split(1, 1)], 1)
    assert_close(cached, theirs(ids).detach(), within)
    traced, known = (run(model, tokens_of(ids[0])) for model in (ours, theirs))
    assert_close(traced.logits_at(-1), known.logits_at(-1), within[0, -1] if within.ndim > 1 else within)
    for layer in range(ours.config.n_layer):
        assert traced.pattern(layer, 0).sum(1) == pytest.approx(1, abs=1e-6)
        assert traced.pattern(layer, 0) == pytest.approx(known.pattern(layer, 0), abs=1e-5)


def test_float32_files_and_shards_are_mapped_as_they_are(tmp_path):
    import json

    save_folder(tmp_path, tiny_model())
    expected = whole(tmp_path)
    state = load_file(tmp_path / "model.safetensors")
    names = sorted(state)
    parts = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, some in parts.items():
        save_file({name: state[name] for name in some}, tmp_path / file)
    (tmp_path / "model.safetensors").unlink()
    index = {"weight_map": {name: file for file, some in parts.items() for name in some}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    ours, ids = left(tmp_path), random_ids(1, 7)
    assert stored_dtype(ours) == "float32"
    with torch.no_grad():
        assert_close(ours(ids), expected(ids), logits_within(expected, ids))


def test_nothing_of_it_is_tuned():
    """A trial of its products would make every matrix float32."""
    model = leave_stored(tiny_model().bfloat16())
    assert tune(model) == {}


def test_products_in_the_files_own_type_are_those_of_a_copy_in_memory(checkpoint, monkeypatch):
    ours, where = streamed(build(*load_folder(checkpoint, stored=True)), "cpu", torch.bfloat16)
    assert where == "cpu" and unit(ours) == 2.0**-8 and stored_bytes(ours) == stored_bytes(left(checkpoint))
    theirs = halved(build(*load_folder(checkpoint)), torch.bfloat16)
    ids = ids_of(theirs)
    limit = bounds(theirs, ids, draws=2)["logits", theirs.config.n_layer]
    monkeypatch.setattr(stored, "SLICE", 100)  # products in many slices
    with torch.no_grad():
        given, known, wide = ours(ids), theirs(ids), whole(checkpoint)(ids)
    assert ((given - known).abs().amax(-1) <= limit).all()
    assert not torch.allclose(given, wide, atol=1e-5)  # and not those in float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_part_of_a_layer_is_computed_in_the_layer_s_type(checkpoint, dtype):
    ours, _ = streamed(build(*load_folder(checkpoint, stored=True)), "cpu", dtype)
    layer = next(each for each in ours.modules() if isinstance(each, StoredLinear))
    x = torch.randn(3, layer.weight.shape[1], generator=torch.Generator().manual_seed(0))
    layer.bias = None  # which is added in float32
    whole, some = layer(x), layer.part(x, slice(1, 5))
    assert torch.equal(whole.to(dtype).float(), whole) and torch.equal(some.to(dtype).float(), some)
    # The order of a sum depends on how many outputs there are.
    assert_close(some, whole[:, 1:5], 2 * torch.finfo(dtype).eps * (x.abs() @ layer.weight[1:5].abs().mT))


def test_the_bundled_model_from_its_file():
    ours, theirs = load_model(WEIGHTS / "tinygpt", stored=True), load_model("tinygpt")
    assert ours.dtype == "float16 weights"
    assert ours.nbytes < theirs.nbytes / 100  # norms and biases
    assert ours.n_params == theirs.n_params
    prompt = "Once upon a time there was a little girl named Lily."
    a, b = ours.trace(prompt), theirs.trace(prompt)
    ids = torch.from_numpy(a.tokens.ids)[None]
    assert_close(a.logits_at(-1), b.logits_at(-1), logits_within(theirs.model, ids)[0, -1])
    texts = [
        [change.made for tick in lm.generate(prompt) for change in tick.changes if change] for lm in (ours, theirs)
    ]
    assert [made[0].id for made in texts[0]] == [made[0].id for made in texts[1]]


@pytest.mark.long
def test_the_bundled_model_from_its_file_in_its_type():
    ours, theirs = (load_model(WEIGHTS / "tinygpt", stored=stored, dtype="float16") for stored in (True, False))
    assert (ours.dtype, ours.device) == ("float16", "cpu") and ours.nbytes < theirs.nbytes / 50
    prompt = "Once upon a time there was a little girl named Lily."
    a, b = ours.trace(prompt), theirs.trace(prompt)
    limit = bounds(theirs.model, torch.from_numpy(a.tokens.ids)[None], draws=2)["logits", 8][0, -1]
    assert abs(a.logits_at(-1) - b.logits_at(-1)).max() <= limit
    assert not not_agreed(run_checks(subject_of(ours, a, prompt), OURS))


def test_weights_of_another_type_are_copied_and_rounded():
    """They would have to be rounded at each product, and may be too large for the type."""
    ours, theirs = (load_model(WEIGHTS / "tinygpt", stored=stored, dtype="bfloat16") for stored in (True, False))
    assert (ours.dtype, ours.nbytes, stored_bytes(ours.model)) == ("bfloat16", theirs.nbytes, 0)
    prompt = "Once upon a time"
    assert (ours.trace(prompt).logits_at(-1) == theirs.trace(prompt).logits_at(-1)).all()
