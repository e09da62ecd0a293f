"""Names of a model's norms, shared by the `one_norm` and `norm_swap` views."""

from collections.abc import Mapping
from typing import Annotated

from model.activations.norm_walk import Place, norm_of, norms_of
from model.api import LanguageModel
from model.gpt.config import ModelConfig
from viz.seam.programs.arguments import OneOf

Site = Annotated[str, OneOf(("norm1", "norm2", "final"))]  # an endpoint parameter


def kind_name(config: ModelConfig) -> str:
    """Return the norm's name for display: LayerNorm or RMSNorm."""
    return {"layernorm": "LayerNorm", "rmsnorm": "RMSNorm"}[config.norm]


def place_key(config: ModelConfig, site: str) -> str:
    """Return the words key for the site of a norm. Sites have separate keys for pre-norm and for post-norm models."""
    return "at_final" if site == "final" else f"at_{site}_{config.norm_placement}"


def place_name(catalogue: Mapping[str, str], config: ModelConfig, place: Place) -> str:
    """Format the name of a norm with its layer, for titles and lists."""
    layer, site = place
    return catalogue[f"activations.{place_key(config, site)}"].format(layer=layer)


def index_of(model: LanguageModel, layer: int, site: str) -> int:
    """Return the index of a norm in the order of the computation. Raises InputError if the model has no such norm."""
    place = (model.config.n_layer, "final") if site == "final" else (layer, site)
    norm_of(model.model, *place)
    return norms_of(model.config).index(place)
