"""Models of transformers in memory: our numbers are theirs, and their weights are not copied."""

import pytest
import torch

from model.generation.strategies import STRATEGIES
from model.in_memory import language_model
from model.loading import devices
from model.loading.checkpoint import build, load_folder
from model.loading.from_memory import shared
from tests.parity.common import D, H, L, compare, hf_greedy, ids, save
from tests.parity.families import CASES, build_hf
from tests.support.models import hooked

transformers = pytest.importorskip("transformers")


# Parts that lie in another order in transformers: q, k and v by head or by block; nanochat's q and k by half of a head.
COPIED = {name: {"q", "k", "v"} for name in ("gpt_neox", "bloom", "codegen", "falcon", "gpt_bigcode")}
COPIED["nanochat"] = {"q", "k"}
# Families that store gains less 1, with the parts that lie in another order there.
_GATED = tuple(f"attn.{part}" for part in ("q.weight", "q.bias", "gate.weight", "gate.bias"))  # of the output gate
LESS_ONE = dict.fromkeys(("gemma", "gemma2", "gemma3", "vaultgemma", "nemotron"), ()) | {
    "qwen3_next": (*_GATED, "attn.qkv.weight", "attn.beta.weight", "attn.forget.weight"),
    "qwen3_5": _GATED,
    "qwen3_5_moe": _GATED,
}
# Parts of single cases whose rows are stacked, or multiplied with a projection.
JOINED = {
    "stablelm parallel, biases, tied, q/k norms": {"q_norm", "k_norm"},
    "opt narrow, norms after": {"embed", "unembed"},
}
VIEWS = {name: {"q", "k", "v"} for name in ("falcon", "gpt_bigcode")}  # one KV head: all queries, then k and v


def copied(ours, theirs) -> dict[str, int]:
    """The bytes of our parameters that lie outside theirs, by name."""
    known = {each.untyped_storage().data_ptr() for each in (*theirs.parameters(), *theirs.buffers())}
    return {
        name: each.nbytes for name, each in ours.named_parameters() if each.untyped_storage().data_ptr() not in known
    }


@pytest.mark.parametrize("case", CASES)
def test_logits_and_patterns_without_a_copy(case, tmp_path):
    hf = build_hf(case, shaken=True)
    ours, dtype = shared(hf)
    assert dtype == "float32"
    compare(ours, hf, ids())
    saved = build(*load_folder(save(hf, tmp_path)))
    for (name, here), (_, there) in zip(ours.named_parameters(), saved.named_parameters(), strict=True):
        assert torch.equal(here, there), name
    apart = copied(ours, hf)
    family = case.split()[0].rstrip(",")
    if family in LESS_ONE:
        norms = {name for name, _ in ours.named_parameters() if "norm" in name or "after" in name}
        assert {name for name in apart if not name.endswith(LESS_ONE[family])} == {
            name for name in norms if not name.endswith((".bias", "out_norm.weight"))
        }
    else:
        parts = {(name if "blocks." not in name else name.split(".", 3)[3]).split(".")[0] for name in apart}
        assert parts == COPIED.get(family, set()) - VIEWS.get(case, set()) | JOINED.get(case, set())
        assert sum(apart.values()) < sum(each.nbytes for each in hf.parameters()) / 2


def test_the_same_addresses_where_nothing_is_transposed():
    hf = build_hf("llama GQA", shaken=True)
    ours, _ = shared(hf)
    state = hf.state_dict()
    assert ours.embed.weight.data_ptr() == state["model.embed_tokens.weight"].data_ptr()
    assert ours.blocks[1].attn.q.weight.data_ptr() == state["model.layers.1.self_attn.q_proj.weight"].data_ptr()
    assert ours.unembed.weight.data_ptr() == state["lm_head.weight"].data_ptr()
    gpt2 = build_hf("gpt2", shaken=True)
    view = shared(gpt2)[0].blocks[2].mlp.up.weight
    own = gpt2.transformer.h[2].mlp.c_fc.weight
    assert view.data_ptr() == own.data_ptr() and view.shape == own.T.shape


@torch.inference_mode()
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("case", ["gpt2", "llama GQA", "qwen3", "gpt_neox parallel", "gemma", "phi3"])
def test_16_bit_weights_keep_their_type(case, dtype, tmp_path):
    exact = build_hf(case, shaken=False)
    kind = getattr(torch, dtype)
    hf = build_hf(case, shaken=False).to(kind)
    exact.load_state_dict({name: each.double() for name, each in hf.state_dict().items()})
    exact = exact.double()
    ours, said = shared(hf)
    assert said == dtype
    matrices = {name for name, each in ours.named_parameters() if each.ndim > 1}
    assert case.startswith("gpt_neox") or not matrices & copied(ours, hf).keys()
    stored, _ = devices.streamed(build(*load_folder(save(hf, tmp_path), stored=True)), "cpu", kind)
    tokens = ids()
    assert torch.equal(ours(tokens), stored(tokens))
    wanted = exact(tokens).logits
    error, theirs = (ours(tokens) - wanted).abs(), (hf(tokens).logits - wanted).abs()
    assert error.max() <= 1.5 * theirs.max() and error.mean() <= 1.2 * theirs.mean()


def test_a_language_model_of_ours_writes_as_transformers_does():
    config = transformers.GPT2Config(vocab_size=hooked.V, n_positions=64, n_embd=D, n_layer=L, n_head=H)
    torch.manual_seed(0)
    hf = transformers.GPT2LMHeadModel(config).eval()
    lm = language_model(hf, hooked.tokenizer())
    assert lm.gives == {"weights", "layers", "lens", "next", "token"} and (lm.dtype, lm.device) == ("float32", "cpu")
    tokens = lm.encode("The cat sat on the mat")
    written = [
        change.made[0].id
        for tick in lm.generate("The cat sat on the mat", STRATEGIES["greedy"], 12)
        for change in tick.changes
        if change and change.made
    ]
    expected = hf_greedy(hf, torch.from_numpy(tokens.ids)[None], 12)[0, len(tokens) :].tolist()
    assert written == expected[: len(written)] and written


@pytest.mark.parametrize("changes", [{"activation_function": "silu"}, {"scale_attn_by_inverse_layer_idx": True}])
def test_a_family_of_ours_with_a_choice_that_we_do_not_know_is_run_by_its_own_code(changes):
    config = transformers.GPT2Config(vocab_size=hooked.V, n_positions=64, n_embd=D, n_layer=L, n_head=H, **changes)
    hf = transformers.GPT2LMHeadModel(config).eval()
    lm = language_model(hf, hooked.tokenizer())
    assert lm.gives == {"lens", "next", "token"}
    run = lm.trace("The cat sat")
    with torch.inference_mode():
        wanted = hf(torch.from_numpy(run.tokens.ids)[None]).logits[0].numpy()
    assert run.logits == pytest.approx(wanted, abs=1e-5)
