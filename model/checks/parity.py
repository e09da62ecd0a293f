"""Comparison of the loaded model with the equivalent transformers model, built from its config and its weights in
memory.

Only the computation with the loaded weights is compared. The comparison cannot detect errors in reading the file: two
tensors that were swapped while reading are swapped in both models.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

from model.checks.result import Finding, Subject, Worst, counted, unable
from model.checks.roundoff import bounds
from model.errors import PlaygroundError
from model.gpt.config import ModelConfig, to_dict
from model.gpt.transformer import Transformer
from model.loading.convert import Into
from model.loading.families import FAMILIES
from model.progress import Progress
from model.text.bpe_ranks import ALPHABET
from model.text.vocabulary import Vocabulary

MOST_BYTES = 2 << 30  # maximum bytes of weights; the second model shares most of them and copies the rest
MOST_TOKENS = 256  # maximum number of tokens, since the patterns of all heads and layers are in memory
RANDOM_TOKENS = 24


@dataclass(frozen=True, eq=False)
class Compared:
    """The findings of the comparisons: logits, attention patterns and hidden states for the prompt, and logits for
    random tokens.
    """

    logits: Finding
    patterns: Finding
    hidden: Finding
    random: Finding


# --- model family, config and weights -------------------------------------------------------------------


def family_of(config: ModelConfig) -> tuple[str, str]:
    """Return the `model_type` of the equivalent transformers model and "", or "" and the settings that no such model
    type supports.

    A model type is equivalent if a config.json with its keys can express the config, so that reading it gives the same.
    """
    wanted, nearest = _used(config), None
    for kind, family in FAMILIES.items():
        if family.to_hf is None:
            continue
        try:
            found = _used(family.to_config(family.to_hf(config)))
        except PlaygroundError:  # it has no word for one of the values
            continue
        other = [name for name in wanted if wanted[name] != found.get(name)]
        if not other:
            return kind, ""
        nearest = other if nearest is None or len(other) < len(nearest) else nearest
    return "", ", ".join(f"{name} {wanted[name]}" for name in nearest or wanted)


def _used(config: ModelConfig) -> dict:
    """Return the fields of a config, except those that do not affect its forward pass."""
    c, values = config, to_dict(config)
    windows, rotates, experts = "sliding_window" in c.mixers, c.positions == "rope", c.n_expert > 1
    second = "mamba2" in c.mixers or c.ssm_beside
    used = {
        ("capacity_factor",): False,
        ("segment_end",): False,  # comes from the tokenizer, and only assigns tokens to segments
        ("d_state",): "mamba" in c.mixers or second,
        ("d_conv",): second or not {"mamba", "gated_delta", "short_conv"}.isdisjoint(c.mixers),
        ("expand", "dt_rank"): "mamba" in c.mixers,
        ("ssm_heads", "d_ssm_head", "ssm_groups", "ssm_norm"): second,
        ("n_delta_head", "n_delta_key", "d_delta_key", "d_delta_value"): "gated_delta" in c.mixers,
        ("short_conv_bias",): "short_conv" in c.mixers,
        ("ssm_bias", "ssm_conv_bias", "dt_min", "dt_max"): second,
        ("window",): windows,
        ("rope_theta", "rope_pairs", "unrotated", "rotary_fraction", "rope_scaling"): rotates,
        ("rope_theta_local",): rotates and windows,
        ("alibi_rounded",): c.positions == "alibi",
        ("norm_bias",): c.norm == "layernorm" and c.norm_weight,
        ("qk_norm_over", "qk_norm_kind"): c.qk_norm,
        ("experts_per_token", "d_expert", "dense", "divide_weights"): experts,
        ("router_bias", "expert_bias", "d_shared"): experts,
        ("router_jitter",): experts and c.router_scores == "sparsemixer",
        ("router_scores", "router_offset", "expert_multiplier", "expert_scales", "expert_norms", "divide_eps"): experts,
        ("shared_gate",): experts and c.d_shared is not None,
        ("d_mlp",): not all(c.has_experts(layer) for layer in range(c.n_layer)),
    }
    unused = {name for names, use in used.items() if not use for name in names}
    return {name: value for name, value in values.items() if name not in unused}


def hf_config(config: ModelConfig, kind: str) -> dict:
    """Return the keyword arguments of the transformers config for a model type, the inverse of `to_config`."""
    return FAMILIES[kind].to_hf(config)


# How names of a head begin, which have no prefix.
_HEADS = ("lm_head.", "embed_out.", "cls.", "vocab_", "head.dense.", "head.norm.", "decoder.weight", "decoder.bias")


def hf_state(state: Mapping[str, Tensor], config: ModelConfig, kind: str) -> dict[str, Tensor]:
    """Return the weights under transformers' names and in its layout; of two names for one weight, under the first.
    Weights that need no conversion share memory with the originals.
    """
    family, tensors, named = FAMILIES[kind], {}, set()
    layout = family.layout if family.to_hf is None else family.layout_for(family.to_hf(config))
    for theirs, rule in layout.names.items():
        ours = rule.names if isinstance(rule, Into) else (rule,)
        if rule is None:
            continue
        for layer in range(config.n_layer if "{i}" in theirs else 1):
            names = [name.replace("{i}", str(layer)) for name in ours]
            if named.intersection(names) or not _has(config, layer, theirs):
                continue
            if all(name in state for name in names) and not (config.tie_embeddings and names == ["unembed.weight"]):
                named.update(names)
                parts = [state[name].detach() for name in names]
                prefix = "" if theirs.startswith(_HEADS) else layout.prefix
                name = prefix + theirs.replace("{i}", str(layer))
                if "{e}" in name:  # of each head; experts are stacked in memory, under a name that comes first
                    tensors |= {name.replace("{e}", str(e)): row for e, row in enumerate(parts[0].split(config.d_head))}
                    continue
                tensors[name] = rule.back(parts, config).contiguous() if isinstance(rule, Into) else parts[0]
    return tensors


# --- comparison ---------------------------------------------------------------------------------------


@torch.inference_mode()
def compare(subject: Subject, progress: Progress) -> Compared | Finding:
    """Compare logits, patterns and hidden states of the unedited run with those of the equivalent transformers model.

    Returns a Finding with the reason if no comparison is possible. Uses the first MOST_TOKENS tokens of the prompt, if
    later tokens do not affect their results.
    """
    plain, config = subject.unedited, subject.unedited.config
    if config.headless:
        return unable("no_head")
    kind, other = family_of(config)
    if not kind:
        return unable("no_counterpart", other)
    if config.alibi_rounded:
        return unable("alibi_twice")
    size = sum(parameter.nbytes for parameter in plain.model.parameters())
    if size > MOST_BYTES:
        return unable("too_large", f"{size / 2**30:.1f} GiB")
    try:
        built = _built(plain.model, kind)
    except ImportError:
        return unable("no_transformers")
    progress(1, 3, "Comparing with transformers")
    ids = subject.ids if config.two_way else subject.ids[:, :MOST_TOKENS]
    theirs = built(ids, output_attentions=True, output_hidden_states=True, **_inputs(plain.model, ids))
    progress(2, 3, "Comparing with transformers")
    logits, patterns, hidden = (Worst(unit, "moved") for unit in ("logit", "weight", "stream"))
    T, last, bound = ids.shape[1], len(plain.model.blocks), subject.plain().bound
    attentive = [layer for layer in range(last) if config.is_attention(layer)]
    for layer in range(last):
        hidden.rows(
            plain.residuals[layer][:T],
            theirs.hidden_states[layer][0],
            layer=layer,
            allowed=bound("resid_pre", layer)[:T],
        )
    # The last of transformers' hidden states is the one after the final norm.
    normed = plain.model.normed(plain.residuals[-1][None, :T])[0]
    ends = plain.model.final_norm is None  # at the last block
    allowed = bounds(plain.model, ids, None, ["resid_post"])["resid_post", last - 1][0] if ends else bound("final_out")
    hidden.rows(normed, theirs.hidden_states[-1][0], layer=last, allowed=allowed[:T])

    def look(site: str, layer: int, tensor: Tensor) -> Tensor:
        if site == "pattern":
            wanted = theirs.attentions[attentive.index(layer)][0]  # of the layers that have attention
            patterns.rows(tensor[0], wanted, None, layer, allowed=bound(site, layer)[:, :T])
        return tensor

    plain.model.trunk(ids, tap=look)
    logits.rows(torch.from_numpy(plain.logits)[:T], theirs.logits[0], allowed=bound("logits")[:T])
    generator = torch.Generator().manual_seed(subject.seed)
    random_ids = torch.randint(0, config.vocab_size, (2, min(RANDOM_TOKENS, config.n_ctx)), generator=generator)
    random, allowed = Worst("logit", "moved"), bounds(plain.model, random_ids)["logits", last].flatten()
    on_random = built(random_ids, **_inputs(plain.model, random_ids)).logits
    random.rows(plain.model(random_ids).flatten(0, 1), on_random.flatten(0, 1), allowed=allowed)
    unplaced = replace(random.finding(), position=None)  # random tokens have no position in the prompt
    return Compared(logits.finding(), patterns.finding(), hidden.finding(), unplaced)


def _inputs(model: Transformer, ids: Tensor) -> dict:
    """Return the arguments of the transformers model beside the ids: the segments of an encoder's tokens."""
    if not model.config.two_way:
        return {"use_cache": False}
    return {} if model.segment_embed is None else {"token_type_ids": model.segments(ids)}


def _built(model: torch.nn.Module, kind: str) -> torch.nn.Module:
    """Build the equivalent transformers model from these weights, with eager attention. Raises ImportError if
    transformers is not installed.
    """
    import transformers

    config = transformers.AutoConfig.for_model(kind, **hf_config(model.config, kind))
    encoder, decoder = transformers.MODEL_FOR_MASKED_LM_MAPPING, transformers.MODEL_FOR_CAUSAL_LM_MAPPING
    model_class = (encoder if model.config.two_way else decoder)[type(config)]
    state = hf_state(model.state_dict(), model.config, kind)
    with _quiet():
        built, loading = model_class.from_pretrained(
            None,
            config=config,
            state_dict=state,
            dtype=torch.float32,
            attn_implementation="eager",
            output_loading_info=True,
        )
    wrong = [name for names in loading.values() for name in names]
    if wrong:  # a missing weight would appear as a difference
        raise ValueError(f"transformers did not take all weights: {', '.join(map(str, wrong[:5]))}")
    return built.eval()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the progress bars of transformers on the server's console."""
    from transformers.utils import logging

    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()


def part(name: str) -> Callable[[Subject, Progress], Finding]:
    """Return a check that reports one of the comparisons; the first use computes all of them."""

    def look(subject: Subject, progress: Progress) -> Finding:
        result = subject.once("parity", lambda: compare(subject, progress))
        return result if isinstance(result, Finding) else getattr(result, name)

    return look


# --- tokenizer ----------------------------------------------------------------------------------------


def tokenizer(subject: Subject, progress: Progress) -> Finding:
    """Compare the prompt's ids with those of a transformers tokenizer with the same vocabulary, pattern and merges."""
    if subject.prompt is None:
        return unable("no_prompt")
    vocabulary = subject.lm.tokenizer.vocabulary
    try:
        theirs = _encoder(vocabulary, subject.run.config.two_way)
    except ImportError:
        return unable("no_transformers")
    ours = subject.unedited.tokens.ids.tolist()[len(subject.lm.tokenizer.begin_ids) :]
    ours = ours[: len(ours) - len(vocabulary.finish)]
    expected = theirs.encode(subject.prompt, add_special_tokens=False)
    wrong = [at for at, (a, b) in enumerate(zip(ours, expected, strict=False)) if a != b]
    count = len(wrong) + abs(len(ours) - len(expected))
    return counted(count, max(len(ours), len(expected)), "tokens", wrong[0] if wrong else None)


def _encoder(vocabulary: Vocabulary, special: bool):
    """Build the equivalent transformers tokenizer, which recognizes special tokens in a text if `special`. Raises
    ImportError if transformers is not installed.
    """
    import transformers
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    if vocabulary.library:  # the tokenizer that transformers itself reads
        reference = Tokenizer.from_str(vocabulary.library)
        reference.encode_special_tokens = not special
        return transformers.PreTrainedTokenizerFast(tokenizer_object=reference)
    signs = {byte: sign for sign, byte in ALPHABET.items()}
    names = {rank: "".join(signs[byte] for byte in raw) for raw, rank in vocabulary.ranks.items()}
    ids = {names[rank]: number for rank, number in enumerate(vocabulary.rank_ids) if number >= 0}
    merges = [pair for rank in sorted(names) if (pair := _halves(names[rank], rank, names, vocabulary))]
    merges = [pair for pair in merges if pair[0] in ids and pair[1] in ids and "".join(pair) in ids]
    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=merges, ignore_merges=True))
    split = pre_tokenizers.Split(Regex(vocabulary.pattern), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    if vocabulary.nfc:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_tokens(
        [
            AddedToken(token.text, normalized=token.after_nfc, special=False)
            for token in vocabulary.added
            if not token.special
        ]
    )
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def _halves(token: str, rank: int, names: Mapping[int, str], vocabulary: Vocabulary) -> tuple[str, str] | None:
    """Return the pair of tokens joined by the merge of this rank, or None if no merge produces the token.

    The pair is what remains of the token's bytes after all merges of lower rank.
    """
    if len(token) < 2:
        return None
    ranks = vocabulary.ranks
    parts = [bytes([ALPHABET[sign]]) for sign in token]
    while len(parts) > 2:
        joined = [ranks.get(left + right, rank) for left, right in pairwise(parts)]
        least = min(joined)
        if least >= rank:
            return None  # already complete: no merge of this rank produces it
        at = joined.index(least)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    signs = {byte: sign for sign, byte in ALPHABET.items()}
    return tuple("".join(signs[byte] for byte in part) for part in parts)


def _has(config: ModelConfig, layer: int, theirs: str) -> bool:
    """Return whether the layer has the published weight; where layers differ, its name says which mixer it is of."""
    if config.channels(layer) is None:
        return ".linear_attn." not in theirs and ".conv." not in theirs
    return ".self_attn." not in theirs
