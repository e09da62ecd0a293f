"""The single interface to read and edit a forward pass: `tap(site, layer, tensor) -> tensor`.

A tap is called at every site below, in the order of the computation, and its result replaces the tensor. A tap that
returns the tensor unchanged only reads it. For sites of the whole model, the layer is -1 (before the blocks) or n_layer
(after them).
"""

from collections.abc import Callable, Collection

from torch import Tensor

from model.gpt.config import ModelConfig

Tap = Callable[[str, int, Tensor], Tensor]

# site: (axes, meaning). B batch, T query tokens, S key tokens, H heads, G KV heads, D d_model, E d_head, M d_mlp,
# N experts, V vocabulary.
SITES: dict[str, tuple[str, str]] = {
    "embed": ("B T D", "token embedding (scaled where the config says so), layer -1"),
    "pos_embed": ("T D", "learned or sinusoidal position embedding, layer -1; absent for RoPE and none"),
    "segment_embed": ("B T D", "vector of the token's segment, layer -1"),
    "embed_norm_in": ("B T D", "input of the norm of the embeddings, layer -1"),
    "embed_norm_scale": ("B T 1", "divisor of the norm of the embeddings, layer -1"),
    "embed_norm_out": ("B T D", "output of the norm of the embeddings, layer -1"),
    "resid_pre": ("B T D", "residual stream entering the block"),
    "norm1_in": ("B T D", "input of the first norm: resid_pre, or for post-norm resid_pre + attn_out"),
    "norm1_scale": ("B T 1", "divisor of the first norm: sqrt(variance + eps), or sqrt(mean square + eps)"),
    "norm1_out": ("B T D", "output of the first norm, after gain and bias"),
    "q": ("B H T E", "queries after bias, q-norm and the score multiplier, before rotation"),
    "k": ("B G T E", "keys after bias and k-norm, before rotation; absent in layers that use those of an earlier one"),
    "v": ("B G T E", "values after bias and norm; absent as k is"),
    "q_rot": ("B H T E", "queries after rotation; RoPE only"),
    "k_rot": ("B G T E", "keys after rotation; RoPE only"),
    "scores": ("B H T S", "q.k / sqrt(d_head), with cap and ALiBi, before the softmax; -inf for hidden keys"),
    "pattern": ("B H T S", "attention weights; each row sums to 1, or to less with a sink"),
    "mixed": ("B H T E", "without attention, or with an output gate: matrix times values, before the norm and gate"),
    "z": ("B H T E", "pattern times values, a head each (or `mixed` after norm and gate): input of the projection o"),
    "ssm_out": ("B T D", "output of a Mamba 2 beside the attention, a part of attn_out; Falcon-H1 only"),
    "attn_out": ("B T D", "output of the attention sublayer after o, its bias and the residual multiplier"),
    "after1_in": ("B T D", "input of the norm after the attention: attn_out; output-norm and sandwich only"),
    "after1_scale": ("B T 1", "divisor of the norm after the attention"),
    "after1_out": ("B T D", "output of the norm after the attention, which is added to the stream"),
    "resid_mid": ("B T D", "residual stream between attention and MLP (post-norm: after the first norm)"),
    "norm2_in": (
        "B T D",
        "input of the second norm: resid_mid; resid_pre where parallel; post-norm resid_mid + mlp_out",
    ),
    "norm2_scale": ("B T 1", "divisor of the second norm"),
    "norm2_out": ("B T D", "output of the second norm, after gain and bias"),
    "router": ("B T N", "the router's logits over the experts; only with experts, which have none of the next three"),
    "mlp_pre": ("B T M", "pre-activation; of the gate where the MLP has one"),
    "mlp_up": ("B T M", "the linear branch of a gated MLP; gated only"),
    "mlp_post": ("B T M", "input of the down projection: f(pre), or f(gate) * up"),
    "mlp_out": ("B T D", "output of the MLP sublayer after its bias and the residual multiplier"),
    "after2_in": ("B T D", "input of the norm after the MLP: mlp_out; output-norm and sandwich only"),
    "after2_scale": ("B T 1", "divisor of the norm after the MLP"),
    "after2_out": ("B T D", "output of the norm after the MLP, which is added to the stream"),
    "entry_out": ("B T D", "what the token's own vector for the layer adds to the stream; Gemma 4 E2B and E4B only"),
    "resid_post": ("B T D", "residual stream leaving the block, after its scale if it has one"),
    "final_in": ("B T D", "input of the final norm, layer n_layer"),
    "final_scale": ("B T 1", "divisor of the final norm, layer n_layer"),
    "final_out": ("B T D", "output of the final norm, layer n_layer"),
    "logits": ("B T V", "logits, layer n_layer"),
}


def block_sites(config: ModelConfig, layer: int) -> tuple[str, ...]:
    """Return the sites of SITES in block `layer` of a model, in the order of the computation."""
    absent = {site for site, (_, meaning) in SITES.items() if meaning.endswith(("layer -1", "layer n_layer"))}
    absent |= {"pos_embed"}
    absent |= set() if config.rotates(layer) else {"q_rot", "k_rot"}
    absent |= set() if config.gated else {"mlp_up"}
    single = config.has_mlp(layer) and not config.has_experts(layer)
    absent |= set() if config.has_experts(layer) else {"router"}
    absent |= set() if single else {"mlp_pre", "mlp_up", "mlp_post"}
    reads, after = config.norm_placement != "output", config.norm_placement in ("output", "sandwich")
    for name, present in (
        ("norm1", reads and layer not in config.unnormed),
        ("norm2", reads and not config.shared_norm and config.has_mlp(layer)),
        ("after1", after),
        ("after2", after),
    ):
        absent |= set() if present else {f"{name}_in", f"{name}_scale", f"{name}_out"}
    absent |= set() if config.ssm_beside else {"ssm_out"}
    absent |= set() if config.d_layer_input else {"entry_out"}
    absent |= set() if config.kv_source(layer) == layer else {"k", "k_rot", "v"}
    absent |= {"scores", "pattern"} if not config.is_attention(layer) else set() if config.output_gate else {"mixed"}
    absent |= set() if config.channels(layer) is None else {"q", "k", "q_rot", "k_rot"}
    return tuple(site for site in SITES if site not in absent)


def record(sites: Collection[str], store: dict[tuple[str, int], Tensor]) -> Tap:
    """Return a tap that stores the named sites in `store[site, layer]`. Raises ValueError for an unknown site."""
    if unknown := sorted(set(sites) - set(SITES)):
        raise ValueError(f"unknown sites {unknown}; known: {', '.join(SITES)}")

    def tap(site: str, layer: int, tensor: Tensor) -> Tensor:
        if site in sites:
            store[site, layer] = tensor
        return tensor

    return tap


def compose(*taps: Tap) -> Tap:
    """Return one tap that applies the given taps in order, each to the result of the previous one."""

    def tap(site: str, layer: int, tensor: Tensor) -> Tensor:
        for each in taps:
            tensor = each(site, layer, tensor)
        return tensor

    return tap


def identity(site: str, layer: int, tensor: Tensor) -> Tensor:
    """Return the tensor unchanged. With this tap, the unfused path computes the results of a pass without a tap."""
    return tensor
