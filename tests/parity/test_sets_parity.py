"""Effects over a set equal those of forward hooks in transformers: heads of their own keys, and grouped heads."""

import numpy as np
import pytest
import torch

from model.api import LanguageModel
from model.loading.checkpoint import build, load_folder
from model.sets.aligned import AlignedPair
from model.sets.effects import set_effects
from model.sets.templates import Pair
from tests.parity.common import E, H, L, ids, save
from tests.parity.families import build_hf
from tests.support.models.helpers import byte_tokenizer

T = 9
# Where each site stands in the two families of transformers: (GPT-2, Llama).
MODULES = {
    "z": ("transformer.h.{}.attn.c_proj", "model.layers.{}.self_attn.o_proj"),
    "k": ("transformer.h.{}.attn.c_attn", "model.layers.{}.self_attn.k_proj"),
    "v": ("transformer.h.{}.attn.c_attn", "model.layers.{}.self_attn.v_proj"),
    "resid_pre": ("transformer.h.{}", "model.layers.{}"),
    "attn_out": ("transformer.h.{}.attn.c_proj", "model.layers.{}.self_attn.o_proj"),
    "mlp_out": ("transformer.h.{}.mlp", "model.layers.{}.mlp"),
}
READ_BEFORE = ("z", "resid_pre")  # sites that are the input of their module


@pytest.fixture(scope="module", params=["gpt2", "llama GQA"])
def case(request, tmp_path_factory):
    """The same shaken model twice, and two pairs."""
    hf = build_hf(request.param, shaken=True)
    ours = build(*load_folder(save(hf, tmp_path_factory.mktemp("hf"))))
    lm = LanguageModel("tiny", "Tiny", ours, byte_tokenizer(tmp_path_factory.mktemp("bytes")))
    pairs = []
    for seed in (1, 2):
        clean, corrupt = ids(seed, T)
        corrupt[:3] = clean[:3]
        pairs.append(AlignedPair(Pair("", "", "", ""), tuple(clean.tolist()), tuple(corrupt.tolist()), 5, 7))
    return request.param, hf, lm, pairs


def module_of(case: str, hf, site: str, layer: int):
    return hf.get_submodule(MODULES[site][case != "gpt2"].format(layer))


def part_of(case: str, site: str, index: int) -> tuple:
    """Return the index of one head or position in the tensor of a module."""
    if site in ("resid_pre", "attn_out", "mlp_out"):
        return 0, index
    start = index * E
    if case == "gpt2" and site in "kv":  # the columns of queries, keys and values side by side
        start += H * E * (1 + (site == "v"))
    return 0, slice(None), slice(start, start + E)


@torch.inference_mode()
def hooked(case: str, hf, prompt: tuple[int, ...], site: str, layer: int, change=None) -> tuple[torch.Tensor, float]:
    """Run transformers with a hook; return the site's tensor and the logit difference."""
    seen = []

    def at(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.clone())
        return change(x.clone()) if change else x

    def before(module, given):
        return (at(given[0]), *given[1:])

    def after(module, given, out):
        return (at(out[0]), *out[1:]) if isinstance(out, tuple) else at(out)

    module = module_of(case, hf, site, layer)
    handle = module.register_forward_pre_hook(before) if site in READ_BEFORE else module.register_forward_hook(after)
    logits = hf(torch.tensor([prompt])).logits[0, -1]
    handle.remove()
    return seen[0], float(logits[5] - logits[7])


@pytest.mark.parametrize("effect", ["zero", *MODULES])
def test_effects_are_those_of_hooks(case, effect: str):
    name, hf, lm, pairs = case
    site = "z" if effect == "zero" else effect
    found = set_effects(lm, pairs, effect)
    columns = {"zero": H, "z": H, "k": lm.config.n_kv_head, "v": lm.config.n_kv_head}.get(effect, T)
    assert found.values.shape == (2, L, columns) and np.abs(found.values).max() > 0.05
    for row, pair in zip(found.values, pairs, strict=True):
        ran = pair.clean if effect == "zero" else pair.corrupt
        for layer, index in np.ndindex(row.shape):
            part = part_of(name, site, index)
            clean, _ = hooked(name, hf, pair.clean, site, layer)

            def change(x, part=part, clean=clean):
                x[part] = 0 if effect == "zero" else clean[part]
                return x

            _, start = hooked(name, hf, ran, site, layer)
            _, end = hooked(name, hf, ran, site, layer, change)
            assert row[layer, index] == pytest.approx(end - start, abs=5e-4, rel=1e-4), (layer, index)
