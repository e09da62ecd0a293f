"""Names of a model's norms, shared by the `one_norm` and `norm_swap` views."""

from collections.abc import Mapping
from typing import Annotated

from model.activations.norm_walk import SITES, Place, norm_of, norms_of
from model.api import LanguageModel
from model.gpt.config import ModelConfig
from viz.seam.programs.arguments import OneOf

Site = Annotated[str, OneOf(SITES)]  # an endpoint parameter


_AFTER = {"after1": "at_norm1_post", "after2": "at_norm2_post"}


def kind_name(config: ModelConfig) -> str:
    """Return the norm's name for display: LayerNorm or RMSNorm."""
    return {"layernorm": "LayerNorm", "rmsnorm": "RMSNorm"}[config.norm]


def place_key(config: ModelConfig, site: str) -> str:
    """Return the words key for the site of a norm, by what it stands before or after."""
    if site in _AFTER:
        return _AFTER[site]
    if site == "norm1" and config.shared_norm:
        return "at_norm1_shared"
    return (
        f"at_{site}"
        if site in ("final", "embed_norm")
        else f"at_{site}_{'post' if config.norm_placement == 'post' else 'pre'}"
    )


def place_name(catalogue: Mapping[str, str], config: ModelConfig, place: Place) -> str:
    """Format the name of a norm with its layer, for titles and lists."""
    layer, site = place
    return catalogue[f"activations.{place_key(config, site)}"].format(layer=layer)


def index_of(model: LanguageModel, layer: int, site: str) -> int:
    """Return the index of a norm in the order of the computation. Raises InputError if the model has no such norm."""
    place = ({"final": model.config.n_layer, "embed_norm": -1}.get(site, layer), site)
    norm_of(model.model, *place)
    return norms_of(model.config).index(place)
