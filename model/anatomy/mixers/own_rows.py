"""Parts of layers that differ in size, share keys and values, or read a vector of their own token, as in Gemma 4."""

from collections.abc import Sequence

from model.anatomy.mixers.rows import Axes, Row
from model.gpt.config import ModelConfig

ACT = {"geglu": "GELU", "geglu_tanh": "GELU", "gelu": "GELU", "gelu_tanh": "GELU", "swiglu": "silu", "relu": "ReLU"}


def input_rows(config: ModelConfig) -> list[Row]:
    """Return the parts that compute the vectors of each token for the layers (`Transformer.layer_input`)."""
    P, D = config.d_layer_input, config.d_model
    if not P:
        return []
    summed = f"e_ℓ = (e_ℓ + norm(W_ℓ x / √{D})) / √2"
    return [
        ("entry_embed", f"[e₀; …; e_{config.n_layer - 1}] = √{P} · W_e[id]", ("ids",), ("layer_rows",), False),
        ("entry_proj", summed, ("embed", "layer_rows"), ("layer_inputs",), False),
    ]


def value_rows(config: ModelConfig) -> list[Row]:
    """Return the norm of values, and the keys and values of an earlier layer."""
    c, rows = config, []
    if c.v_norm:
        rows.append(("v_norm", "v ← v / √(mean(v²) + ε)", ("v",), ("v",), True))
    if c.n_shared_kv:
        sources: dict[int, list[int]] = {}
        for layer in range(c.n_layer):
            if c.kv_source(layer) != layer:
                sources.setdefault(c.kv_source(layer), []).append(layer)
        k = "k′" if c.positions == "rope" else "k"
        formula = ";  ".join(f"ℓ ∈ {{{_some(layers)}}}: {k}, v of layer {one}" for one, layers in sources.items())
        rows.append(("borrowed", formula, (), ("k_rot" if c.positions == "rope" else "k", "v"), True))
    return rows


def _some(layers: Sequence[int]) -> str:
    """Return layer numbers, the first and the last of many."""
    return ", ".join(map(str, layers)) if len(layers) <= 3 else f"{layers[0]}, {layers[1]}, …, {layers[-1]}"


def end_rows(config: ModelConfig) -> list[Row]:
    """Return the parts after the MLP: a token's own vector for the layer, and the scale of the stream."""
    c, rows = config, []
    before, after = stream_sites(c)
    if c.d_layer_input:
        formula = f"u = norm(W_up ({ACT.get(c.mlp, 'f')}(W_gate x) ⊙ e_ℓ))"
        rows.append(("entry", formula, (before, "layer_input"), ("entry_out",), True))
        rows.append(("add3", "x ← x + u", (before, "entry_out"), (after,), True))
    if c.layer_scale:
        rows.append(("scale", "x ← λ_ℓ x", (after,), ("resid_post",), True))
    return rows


def stream_sites(config: ModelConfig) -> tuple[str, str]:
    """Return the names of the stream after the MLP, and after the token's own vector: resid_post is the stream that
    leaves the layer.
    """
    after = "resid_unscaled" if config.layer_scale else "resid_post"
    return ("resid_entered" if config.d_layer_input else after), after


def own_axes(config: ModelConfig, T: int) -> dict[str, Axes]:
    """Return the axes of what these parts read and output."""
    c, t = config, ("T", T)
    vector = ("P", c.d_layer_input or 0)
    streams = dict.fromkeys(("resid_entered", "resid_unscaled", "entry_out"), (t, ("D", c.d_model)))
    both = dict.fromkeys(("layer_rows", "layer_inputs"), (t, ("L", c.n_layer), vector))
    return {**streams, **both, "layer_input": (t, vector)}
