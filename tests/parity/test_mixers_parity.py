"""Other mixers than full attention against transformers, and where it has none against a few lines a token."""

import numpy as np
import pytest
import torch

from model.gpt.cache import KVCache
from model.gpt.config import ModelConfig
from model.gpt.transformer import Transformer
from model.loading.checkpoint import build
from model.loading.convert import Layout, convert
from model.loading.families import FAMILIES
from tests.parity.common import N_CTX, D, G, H, L, M, V, compare, greedy, hf_greedy, ids, shake
from tests.parity.families import COMMON, GQA
from tests.support.models.helpers import assert_close, tiny_model
from tests.support.models.rounding import logits_within

STATE, WIDTH, RANK, WINDOW = 5, 4, 7, 6
BARE = {"norm": "rmsnorm", "norm_bias": False, "mlp_bias": False} | {f"{part}_bias": False for part in "qkvo"}

MIXER = "layers.{i}.mixer."
MAMBA = Layout(
    {
        "embeddings.weight": "embed.weight",
        "layers.{i}.norm.weight": "blocks.{i}.norm1.weight",
        **{f"{MIXER}{name}": f"blocks.{{i}}.attn.{name}" for name in ("A_log", "D", "in_proj.weight", "x_proj.weight")},
        **{f"{MIXER}dt_proj.{kind}": f"blocks.{{i}}.attn.dt_proj.{kind}" for kind in ("weight", "bias")},
        f"{MIXER}conv1d.weight": "blocks.{i}.attn.conv.weight",
        f"{MIXER}conv1d.bias": "blocks.{i}.attn.conv.bias",
        f"{MIXER}out_proj.weight": "blocks.{i}.attn.o.weight",
        "norm_f.weight": "final_norm.weight",
        "blocks.{i}.norm2.weight": "blocks.{i}.norm2.weight",
        "blocks.{i}.mlp.up.weight": "blocks.{i}.mlp.up.weight",
        "blocks.{i}.mlp.down.weight": "blocks.{i}.mlp.down.weight",
    },
    prefix="backbone.",
)


def mamba() -> tuple[Transformer, torch.nn.Module]:
    """Their Mamba, shaken, and ours of the same weights; its blocks have no MLP, so that ours write nothing."""
    import transformers as hf

    sizes = {
        "hidden_size": D,
        "state_size": STATE,
        "conv_kernel": WIDTH,
        "time_step_rank": RANK,
        "num_hidden_layers": L,
    }
    torch.manual_seed(0)
    theirs = hf.MambaForCausalLM(hf.MambaConfig(**COMMON | sizes)).eval()
    shake(theirs)
    for layer in theirs.backbone.layers:  # rates that leave something of a token
        layer.mixer.A_log.data = torch.randn(layer.mixer.A_log.shape, generator=torch.Generator().manual_seed(1))
    config = ModelConfig(
        vocab_size=V,
        n_ctx=N_CTX,
        n_layer=L,
        d_model=D,
        n_head=H,
        positions="none",
        mixer="mamba",
        d_state=STATE,
        d_conv=WIDTH,
        dt_rank=RANK,
        mlp="relu",
        norm_eps=theirs.config.layer_norm_epsilon,
        **BARE,
    )
    state = {name: weight.detach() for name, weight in theirs.state_dict().items() if name != "lm_head.weight"}
    state = {name: weight[:, 0] if name.endswith("conv1d.weight") else weight for name, weight in state.items()}
    for layer in range(L):
        state[f"blocks.{layer}.norm2.weight"] = torch.ones(D)
        state[f"blocks.{layer}.mlp.up.weight"] = torch.ones(4 * D, D)
        state[f"blocks.{layer}.mlp.down.weight"] = torch.zeros(D, 4 * D)
    return build(config, convert(state, state.__getitem__, MAMBA, config)), theirs


@torch.inference_mode()
def test_mamba_is_that_of_transformers():
    ours, theirs = mamba()
    tokens = ids(length=40)
    assert_close(ours(tokens), theirs(tokens).logits, logits_within(ours, tokens))


@torch.inference_mode()
def test_mamba_step_by_step_is_that_of_transformers():
    ours, theirs = mamba()
    tokens, cache, held, parts = ids(), KVCache.empty(ours.config, 2, 19), None, ([], [])
    for chunk in tokens.split([11, *[1] * 8], 1):
        found = theirs(chunk, cache_params=held, use_cache=True)
        held = found.cache_params
        parts[0].append(ours(chunk, cache=cache))
        parts[1].append(found.logits)
    assert_close(torch.cat(parts[0], 1), torch.cat(parts[1], 1), logits_within(ours, tokens))
    prompt = ids(seed=2, length=7)
    assert torch.equal(greedy(ours, prompt, 20), hf_greedy(theirs, prompt, 20))


def mistral() -> tuple[Transformer, torch.nn.Module]:
    """Their Mistral, shaken, with a window shorter than the prompt; and ours of the same weights."""
    import transformers as hf

    torch.manual_seed(0)
    settings = hf.MistralConfig(**GQA, sliding_window=WINDOW, tie_word_embeddings=False)
    settings._attn_implementation = "eager"
    theirs = hf.MistralForCausalLM(settings).eval()
    shake(theirs)
    config = ModelConfig(
        vocab_size=V,
        n_ctx=N_CTX,
        n_layer=L,
        d_model=D,
        n_head=H,
        n_kv_head=G,
        d_mlp=M,
        positions="rope",
        mixer="sliding_window",
        window=WINDOW,
        mlp="swiglu",
        norm_eps=settings.rms_norm_eps,
        tie_embeddings=False,
        **BARE,
    )
    state = theirs.state_dict()
    return build(config, convert(state, state.__getitem__, FAMILIES["llama"].layout, config)), theirs


def test_a_sliding_window_is_mistrals():
    ours, theirs = mistral()
    compare(ours, theirs, ids())
    prompt = ids(seed=2, length=7)
    assert torch.equal(greedy(ours, prompt, 20), hf_greedy(theirs, prompt, 20))


# --- retention, linear attention and the delta rule, a token and a head at a time ---------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def by_hand(mixer, kind: str, x: np.ndarray) -> np.ndarray:
    """What the mixer writes for the stream x [T, D], from its weights, with a state [E, E] a head."""
    w = {name: weight.detach().double().numpy() for name, weight in mixer.named_parameters()}
    E, out = mixer.d_head, np.zeros_like(x)
    for head in range(mixer.n_head):
        rows, shared = slice(head * E, head * E + E), slice(head // (H // G) * E, head // (H // G) * E + E)
        S = np.zeros((E, E))  # from a key to a value
        for t, token in enumerate(x):
            q = w["q.weight"][rows] @ token + w["q.bias"][rows]
            k = w["k.weight"][shared] @ token + w["k.bias"][shared]
            v = w["v.weight"][shared] @ token + w["v.bias"][shared]
            if kind == "delta":
                q, k = q * sigmoid(q), k * sigmoid(k)
                q, k = q / np.linalg.norm(q), k / np.linalg.norm(k)
                S = S + sigmoid(w["beta.weight"][head] @ token) * np.outer(k, v - k @ S)
            else:
                kept = 1 - 2.0 ** (-5 - head)
                if kind == "linear":
                    kept = sigmoid(w["forget.weight"][head] @ token + w["forget.bias"][head]) ** (1 / 16)
                S = kept * S + np.outer(k, v)
                q = q / np.sqrt(E)
            y = q @ S
            y = y / np.sqrt((y * y).mean() + 1e-5) * w["out_norm.weight"]
            if kind != "delta":
                gate = w["gate.weight"][rows] @ token
                y = y * gate * sigmoid(gate)
            out[t] += w["o.weight"][:, rows] @ y
    return out + w["o.bias"]


@pytest.mark.parametrize("kind", ["retention", "linear", "delta"])
def test_a_token_at_a_time_by_hand(kind: str):
    torch.set_default_dtype(torch.float64)
    try:
        model = tiny_model({"mixer": kind})
        x = torch.randn(1, 80, D, generator=torch.Generator().manual_seed(3))
        with torch.no_grad():
            found = model.blocks[1].attn(x, 1, model.prepare(0, 80))
    finally:
        torch.set_default_dtype(torch.float32)
    assert_close(found[0], by_hand(model.blocks[1].attn, kind, x[0].numpy()), 1e-9)
