"""BERT, RoBERTa and DistilBERT: two-way attention, post-norm, and a head that predicts a masked token.

The head is a dense layer with the activation, a norm, and the tied embedding with a bias. The layers that only predict
whether one sentence follows another, or summarize a text for classification, are not read. A checkpoint whose class has
no such head, such as BertModel, is read without one (heads.py).
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from model.gpt.config import ModelConfig
from model.loading.convert import Into, Layout, Names, make_config
from model.loading.families import neutral_keys
from model.loading.families.common import (
    ACTIVATIONS,
    Family,
    check_keys,
    choice,
    flag,
    integer,
    name_of,
    real,
    sizes,
    told,
)
from model.loading.families.others.heads import OTHER_HEADS, without_head

SIZES = {
    "vocab_size": "vocab_size",
    "hidden_size": "d_model",
    "intermediate_size": "d_mlp",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "max_position_embeddings": "n_ctx",
}
DISTIL_SIZES = {
    "vocab_size": "vocab_size",
    "dim": "d_model",
    "hidden_dim": "d_mlp",
    "n_layers": "n_layer",
    "n_heads": "n_head",
    "max_position_embeddings": "n_ctx",
}
KNOWN = {*SIZES, "hidden_act", "layer_norm_eps", "type_vocab_size"}
DISTIL_KNOWN = {*DISTIL_SIZES, "activation", "tie_word_embeddings"}
ENCODER = {
    "positions": "learned",
    "norm_placement": "post",
    "final_norm": False,
    "embed_norm": True,
    "two_way": True,
    "head_dense": True,
    "head_bias": True,
}
ACCEPTED = {
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "tie_word_embeddings": (True,),  # untied, a file has two biases of the head
}
OFFSET = 2  # rows of RoBERTa's position table before that of the first token


def bert_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a BERT config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    return _config(hf, 0, 2)


def roberta_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a RoBERTa config.json. Raises as `bert_config` does."""
    return _config(hf, OFFSET, 1)


def _config(hf: dict, offset: int, segments: int) -> ModelConfig:
    check_keys(hf, {*KNOWN, *neutral_keys.keys_of(neutral_keys.BERT)}, ACCEPTED)
    fields = sizes(hf, SIZES)
    return make_config(
        fields
        | ENCODER
        | {
            "n_ctx": fields["n_ctx"] - offset,
            "n_segment": integer(hf, "type_vocab_size", segments),
            "norm_eps": real(hf, "layer_norm_eps", 1e-12),
            "mlp": choice(hf, "hidden_act", ACTIVATIONS, "gelu"),
            "tie_embeddings": True,
        }
        | without_head(hf)
    )


def distilbert_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a DistilBERT config.json. Raises as `bert_config` does."""
    check_keys(hf, {*DISTIL_KNOWN, *neutral_keys.keys_of(neutral_keys.DISTILBERT)}, {})
    fields = sizes(hf, DISTIL_SIZES)
    rest = {"norm_eps": 1e-12, "mlp": choice(hf, "activation", ACTIVATIONS, "gelu")}
    tied = {"tie_embeddings": flag(hf, "tie_word_embeddings", True)}
    return make_config(fields | ENCODER | rest | tied | without_head(hf))


def bert_told(c: ModelConfig) -> dict:
    """Return BERT's config.json of a ModelConfig, the inverse of `bert_config`."""
    sizes = {theirs: getattr(c, ours) for theirs, ours in SIZES.items()}
    rest = {
        "type_vocab_size": c.n_segment or 0,
        "layer_norm_eps": c.norm_eps,
        "hidden_act": name_of(ACTIVATIONS, c.mlp),
    }
    return told(c) | sizes | rest


def roberta_told(c: ModelConfig) -> dict:
    """Return RoBERTa's config.json of a ModelConfig, the inverse of `roberta_config`."""
    return bert_told(c) | {"max_position_embeddings": c.n_ctx + OFFSET, "pad_token_id": OFFSET - 1}


def distilbert_told(c: ModelConfig) -> dict:
    """Return DistilBERT's config.json of a ModelConfig, the inverse of `distilbert_config`."""
    sizes = {theirs: getattr(c, ours) for theirs, ours in DISTIL_SIZES.items()}
    return told(c) | sizes | {"activation": name_of(ACTIVATIONS, c.mlp)}


def after_offset(table: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Drop the first rows of RoBERTa's position table, which no token uses. [n_ctx + 2, D] -> [n_ctx, D]"""
    return (table[OFFSET:],)


def with_offset(parts: Sequence[Tensor], config: ModelConfig) -> Tensor:
    """Put the rows that no token uses before a position table, as zeros; the inverse of `after_offset`."""
    return torch.cat((torch.zeros_like(parts[0][:1]).expand(OFFSET, -1), parts[0]))


def _both(theirs: str, ours: str, old: bool = False) -> Names:
    kinds = {"weight": "weight", "bias": "bias"} | ({"gamma": "weight", "beta": "bias"} if old else {})
    return {f"{theirs}.{kind}": f"{ours}.{name}" for kind, name in kinds.items()}


def _bert_names() -> Names:
    layer = "encoder.layer.{i}."
    names: Names = {
        "embeddings.word_embeddings.weight": "embed.weight",
        "embeddings.position_embeddings.weight": "pos_embed.weight",
        "embeddings.token_type_embeddings.weight": "segment_embed.weight",
        **_both("embeddings.LayerNorm", "embed_norm", old=True),
        **_both(f"{layer}attention.output.dense", "blocks.{i}.attn.o"),
        **_both(f"{layer}attention.output.LayerNorm", "blocks.{i}.norm1", old=True),
        **_both(f"{layer}intermediate.dense", "blocks.{i}.mlp.up"),
        **_both(f"{layer}output.dense", "blocks.{i}.mlp.down"),
        **_both(f"{layer}output.LayerNorm", "blocks.{i}.norm2", old=True),
        "embeddings.position_ids": None,
        "pooler.dense.weight": None,
        "pooler.dense.bias": None,
    }
    for theirs, ours in {"query": "q", "key": "k", "value": "v"}.items():
        names |= _both(f"{layer}attention.self.{theirs}", f"blocks.{{i}}.attn.{ours}")
    return names


BERT_NAMES: Names = _bert_names() | {
    **_both("cls.predictions.transform.dense", "head_dense"),
    **_both("cls.predictions.transform.LayerNorm", "head_norm", old=True),
    "cls.predictions.bias": "unembed.bias",
    "cls.predictions.decoder.weight": "unembed.weight",
    "cls.predictions.decoder.bias": None,  # a second name of cls.predictions.bias
    "cls.seq_relationship.weight": None,
    "cls.seq_relationship.bias": None,
    **OTHER_HEADS,
}
ROBERTA_NAMES: Names = _bert_names() | {
    "embeddings.position_embeddings.weight": Into(("pos_embed.weight",), after_offset, with_offset),
    **_both("lm_head.dense", "head_dense"),
    **_both("lm_head.layer_norm", "head_norm"),
    "lm_head.bias": "unembed.bias",
    "lm_head.decoder.weight": "unembed.weight",
    "lm_head.decoder.bias": None,  # a second name of lm_head.bias
    **OTHER_HEADS,
}
DISTIL_NAMES: Names = {
    "embeddings.word_embeddings.weight": "embed.weight",
    "embeddings.position_embeddings.weight": "pos_embed.weight",
    **_both("embeddings.LayerNorm", "embed_norm"),
    **_both("transformer.layer.{i}.attention.q_lin", "blocks.{i}.attn.q"),
    **_both("transformer.layer.{i}.attention.k_lin", "blocks.{i}.attn.k"),
    **_both("transformer.layer.{i}.attention.v_lin", "blocks.{i}.attn.v"),
    **_both("transformer.layer.{i}.attention.out_lin", "blocks.{i}.attn.o"),
    **_both("transformer.layer.{i}.sa_layer_norm", "blocks.{i}.norm1"),
    **_both("transformer.layer.{i}.ffn.lin1", "blocks.{i}.mlp.up"),
    **_both("transformer.layer.{i}.ffn.lin2", "blocks.{i}.mlp.down"),
    **_both("transformer.layer.{i}.output_layer_norm", "blocks.{i}.norm2"),
    **_both("vocab_transform", "head_dense"),
    **_both("vocab_layer_norm", "head_norm"),
    **_both("vocab_projector", "unembed"),
    **OTHER_HEADS,
}

BERT = Family("BERT", bert_config, Layout(BERT_NAMES, prefix="bert."), bert_told)
ROBERTA = Family("RoBERTa", roberta_config, Layout(ROBERTA_NAMES, prefix="roberta."), roberta_told)
DISTILBERT = Family("DistilBERT", distilbert_config, Layout(DISTIL_NAMES, prefix="distilbert."), distilbert_told)
