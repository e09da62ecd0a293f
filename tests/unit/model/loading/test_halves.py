"""Products of 16-bit numbers: what they round and what they do not, in every wiring, and the bounds for it."""

import pytest
import torch
import torch.nn.functional as F

from model.api import load_model
from model.checks.path_checks import doubled
from model.checks.registry import run_checks
from model.checks.result import subject_of
from model.checks.roundoff import RESULTS, bounds, row_sizes
from model.errors import CheckpointError, InputError
from model.gpt.cache import KVCache
from model.gpt.linear import linears, tune
from model.gpt.tap import SITES, record
from model.loading.checkpoint import build, load_folder, save_folder
from model.loading.halves import DTYPES, UNIT, HalfLinear, halved, in_float32, unit
from model.loading.stored import StoredEmbedding
from tests.support.files.valid_files import write_gguf
from tests.support.models.checked import OURS, not_agreed
from tests.support.models.helpers import VARIANTS, L, random_ids, tiny_model, tokens_of

TYPES = ("bfloat16", "float16")
UNITS = {"bfloat16": 2.0**-8, "float16": 2.0**-11}
IDS = random_ids(2, 13)


def half(variant: str, dtype: str):
    return halved(tiny_model(VARIANTS[variant]), DTYPES[dtype])


@pytest.mark.parametrize("dtype", TYPES)
def test_a_product_rounds_its_input_and_its_result_and_nothing_else(dtype):
    torch.manual_seed(0)
    weight, bias, x = torch.randn(48, 64).to(DTYPES[dtype]), torch.randn(48), torch.randn(3, 5, 64)
    layer = HalfLinear(torch.nn.Parameter(weight, requires_grad=False), bias)
    exact = x.to(DTYPES[dtype]).double() @ weight.double().mT
    rounded = exact.to(DTYPES[dtype]).double() + bias.double()
    off = (layer(x).double() - rounded).abs()
    assert layer(x).dtype == torch.float32
    # The sum in float32 may end on the other side of the middle between two numbers of the type: rarely.
    assert ((off <= 1e-6 * (1 + rounded.abs())).double().mean() > 0.97) and (
        off <= 4 * UNITS[dtype] * exact.abs()
    ).all()
    assert (layer(x) - F.linear(x, weight.float(), bias)).abs().max() > 0.1 * UNITS[dtype]
    assert torch.equal(layer.part(x, slice(8, 16)), layer(x)[..., 8:16])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_matrix_is_of_the_type_and_all_else_float32(variant, dtype):
    model, plain = half(variant, dtype), tiny_model(VARIANTS[variant])
    tables = [module for module in model.modules() if isinstance(module, StoredEmbedding)]
    layers = linears(model)
    assert len(layers) > 4 * L and all(type(layer) is HalfLinear for layer in layers)
    for module in (*layers, *tables):
        assert module._parameters["weight"].dtype == DTYPES[dtype] and module.weight.dtype == torch.float32
    matrices = {id(module._parameters["weight"]) for module in (*layers, *tables)}
    rest = [parameter for parameter in model.parameters() if id(parameter) not in matrices]
    assert rest and all(parameter.dtype == torch.float32 for parameter in rest)
    assert unit(model) == UNITS[dtype] and unit(plain) == UNIT
    for (name, parameter), (_, known) in zip(model.named_parameters(), plain.named_parameters(), strict=True):
        assert (parameter.float() - known).abs().max() <= UNITS[dtype] * known.abs().max(), name
    if model.config.tie_embeddings:
        assert model.embed._parameters["weight"] is model.unembed._parameters["weight"]
    assert tune(model) == {}


@torch.no_grad()
def sites_of(model) -> dict:
    store: dict = {}
    model(IDS, tap=record(SITES, store))
    return store


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_float64_lies_within_the_bound_of_every_site_which_is_not_slack(variant, dtype):
    model = half(variant, dtype)
    rough, exact = sites_of(model), sites_of(doubled(model))
    found = bounds(model, IDS, sites=SITES, draws=2)
    for (site, layer), bound in found.items():
        x = rough[site, layer]
        assert x.dtype == torch.float32
        apart = (x - exact[site, layer]).masked_fill(x.isneginf(), 0).abs().amax(-1)
        assert (apart <= bound).all(), (site, layer)
    apart = (rough["logits", L] - exact["logits", L]).abs().amax(-1)
    assert (apart / found["logits", L]).max() > 0.05
    share = found["logits", L] / row_sizes("logits", rough["logits", L]).double() / UNITS[dtype]
    assert share.min() > RESULTS and share.max() < 60


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_cache_and_one_head_alone_give_what_the_run_gave(variant):
    from model.tracing.trace import run

    model = half(variant, "bfloat16")
    limit = bounds(model, IDS[:1], draws=2)["logits", L][0]
    cache = KVCache.empty(model.config, 1, IDS.shape[1])
    with torch.inference_mode():
        cached = torch.cat([model(token, cache=cache) for token in IDS[:1].split(1, 1)], 1)[0]
        whole = model(IDS[:1])[0]
    assert ((cached - whole).abs().amax(-1) <= limit).all()
    traced = run(model, tokens_of(IDS[0]))
    assert (torch.from_numpy(traced.logits) - whole).abs().amax(-1).le(limit).all()
    for layer in range(L):
        assert traced.pattern(layer, 1).sum(1) == pytest.approx(1, abs=1e-6)


def test_in_float32_shares_the_weights():
    model = half("llama", "bfloat16")
    exact = in_float32(model)
    assert exact.embed._parameters["weight"].data_ptr() == model.embed._parameters["weight"].data_ptr()
    plain = tiny_model(VARIANTS["llama"])
    assert in_float32(plain) is plain
    with torch.no_grad():
        for parameter in plain.parameters():
            if parameter.ndim == 2:
                parameter.copy_(parameter.bfloat16())
        assert torch.allclose(exact(IDS), plain(IDS), atol=1e-5) and not torch.allclose(
            model(IDS), plain(IDS), atol=1e-5
        )


@pytest.mark.long
@pytest.mark.parametrize("dtype", TYPES)
def test_the_bundled_model(dtype):
    ours, theirs = load_model("tinygpt", dtype=dtype), load_model("tinygpt")
    assert (ours.dtype, ours.n_params) == (dtype, theirs.n_params)
    assert 0.5 < ours.nbytes / theirs.nbytes < 0.51 and ours.dtype in repr(ours)
    prompt = "One day, Tom and Lily went to the park. Tom gave the ball to"
    a, b = ours.trace(prompt), theirs.trace(prompt)
    assert a.logits_at(-1).argmax() == b.logits_at(-1).argmax()
    assert 0 < abs(a.logits_at(-1) - b.logits_at(-1)).max() < 60 * UNITS[dtype] * abs(b.logits_at(-1)).max()
    assert not not_agreed(run_checks(subject_of(ours, a, prompt), OURS))


def test_a_gguf_file_too(tmp_path):
    write_gguf(tmp_path)
    known = load_model(tmp_path / "m.gguf")
    lm = load_model(tmp_path / "m.gguf", dtype="bfloat16")
    assert lm.nbytes < 0.6 * known.nbytes and unit(lm.model) == UNITS["bfloat16"]
    assert 0 < abs(lm.trace([1, 2, 3]).logits_at(-1) - known.trace([1, 2, 3]).logits_at(-1)).max() < 0.1


def test_what_cannot_be(tmp_path):
    with pytest.raises(InputError, match="dtype"):
        load_model("tinygpt", dtype="float8")
    model = tiny_model()
    with torch.no_grad():
        model.blocks[1].mlp.down.weight[0, 0] = 1e5
    save_folder(tmp_path, model)
    with pytest.raises(CheckpointError, match="too large for float16") as caught:
        halved(build(*load_folder(tmp_path)), torch.float16)
    assert "blocks.1.mlp.down: 100000 > 65504" in str(caught.value) and "bfloat16" in str(caught.value)
    assert unit(halved(build(*load_folder(tmp_path)), torch.bfloat16)) == 2.0**-8
