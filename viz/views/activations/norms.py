"""The norms of a model as the views of one norm and of changed norms name them."""

from collections.abc import Mapping
from typing import Annotated

from model.activations.norm_walk import Place, norm_of, norms_of
from model.api import LanguageModel
from model.gpt.config import ModelConfig
from viz.seam.programs.arguments import OneOf

Site = Annotated[str, OneOf(("norm1", "norm2", "final"))]  # of an endpoint


def kind_name(config: ModelConfig) -> str:
    """LayerNorm or RMSNorm."""
    return {"layernorm": "LayerNorm", "rmsnorm": "RMSNorm"}[config.norm]


def place_key(config: ModelConfig, site: str) -> str:
    """Return the word for the place of a norm: before its sublayer, or after it where the model is post-norm."""
    return "at_final" if site == "final" else f"at_{site}_{config.norm_placement}"


def place_name(catalogue: Mapping[str, str], config: ModelConfig, place: Place) -> str:
    """Return a norm with its layer, as titles and lists name it."""
    layer, site = place
    return catalogue[f"activations.{place_key(config, site)}"].format(layer=layer)


def index_of(model: LanguageModel, layer: int, site: str) -> int:
    """Where a norm stands in the order of the computation; raises InputError for one that is not there."""
    place = (model.config.n_layer, "final") if site == "final" else (layer, site)
    norm_of(model.model, *place)
    return norms_of(model.config).index(place)
