"""Granite 4.0: Granite with Mamba 2 in most layers, mostly without positions, and with experts or a single MLP."""

from model.errors import CheckpointError
from model.gpt.config import ModelConfig
from model.loading.convert import Into, Layout, Names, make_config
from model.loading.families import llama, neutral_keys
from model.loading.families.common import Family, check_keys, choice, depth, integer
from model.loading.families.experts import expert_fields, split_gate
from model.loading.families.others.ssm import SSM_KEYS, mixer_names, ssm_fields
from model.loading.families.rmsnorm import granite

KNOWN = {
    *granite.MOE_KNOWN,
    *("shared_intermediate_size", "position_embedding_type", "layer_types", "layers_block_type"),
    *SSM_KEYS,
    *neutral_keys.keys_of(neutral_keys.GRANITE_HYBRID),
}
KINDS = {"mamba": "mamba2", "linear_attention": "mamba2", "attention": "softmax", "full_attention": "softmax"}
POSITIONS = {"rope": "rope", "nope": "none"}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a GraniteMoeHybrid config.json. Raises CheckpointError or UnsupportedModel with the
    name of the key.
    """
    check_keys(hf, KNOWN, granite.ACCEPTED)
    fields = granite.shared_fields(hf)
    width, shared = fields["d_mlp"], integer(hf, "shared_intermediate_size", 1024)
    positions = (
        "none" if hf.get("position_embedding_type") is None else choice(hf, "position_embedding_type", POSITIONS, "")
    )
    more = {"d_mlp": shared}
    if _experts(hf):
        more = expert_fields(hf, "num_local_experts", 8, 2, None, width) | {"d_shared": shared}
    return make_config(
        fields
        | ssm_fields(hf, integer(hf, "mamba_expand", 2) * fields["d_model"])
        | more
        | {"mlp_bias": False, "mixer": _mixers(hf), "positions": positions}
    )


def _experts(hf: dict) -> bool:
    """Return whether the layers have experts beside the MLP that all tokens pass."""
    return hf.get("num_local_experts", 8) != 0


def _mixers(hf: dict) -> tuple[str, ...]:
    given = hf.get("layer_types") or hf.get("layers_block_type") or ["mamba"] * depth(hf)
    fits = isinstance(given, list) and all(isinstance(kind, str) and kind in KINDS for kind in given)
    if not fits or len(given) != depth(hf):
        what = "layer_types must be a list with one entry for each layer."
        raise CheckpointError(what, f"layer_types = {given!r}"[:80], "Correct the config.")
    return tuple(KINDS[kind] for kind in given)


def layout_of(hf: dict) -> Layout:
    """Return the names of the weights: the shared MLP is the only one in models without experts."""
    ours = "blocks.{i}.mlp.shared" if _experts(hf) else "blocks.{i}.mlp"
    shared: Names = {
        "layers.{i}.shared_mlp.input_linear.weight": Into((f"{ours}.gate.weight", f"{ours}.up.weight"), split_gate),
        "layers.{i}.shared_mlp.output_linear.weight": f"{ours}.down.weight",
    }
    experts = (
        granite.MOE_NAMES if _experts(hf) else {name: to for name, to in llama.NAMES.items() if ".mlp." not in name}
    )
    return Layout(experts | shared | mixer_names("layers.{i}.mamba"), prefix="model.")


GRANITE_HYBRID = Family("Granite 4.0", to_config, layout_of({}), layout_of=layout_of)
