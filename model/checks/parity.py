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
from model.gpt.config import ModelConfig
from model.loading.convert import Into
from model.loading.families import FAMILIES, gpt2, gpt_neox
from model.loading.families.common import LLAMA3_KEYS
from model.progress import Progress
from model.text.bpe_ranks import ALPHABET
from model.text.vocabulary import Vocabulary

MOST_BYTES = 2 << 30  # maximum bytes of weights; the second model shares most of them and copies the rest
MOST_TOKENS = 256  # maximum number of tokens, since the patterns of all heads and layers are in memory
RANDOM_TOKENS = 24

_BIASES = ("q_bias", "k_bias", "v_bias", "o_bias")


@dataclass(frozen=True, eq=False)
class Compared:
    """The findings of the comparisons: logits, attention patterns and hidden states for the prompt, and logits for
    random tokens.
    """

    logits: Finding
    patterns: Finding
    hidden: Finding
    random: Finding


# --- model family and config --------------------------------------------------------------------------


def family_of(config: ModelConfig) -> tuple[str, str]:
    """Return the `model_type` of the equivalent transformers model and "", or "" and the settings that no such model
    type supports.
    """
    c = config
    if c.mixer != "softmax":
        return "", f"mixer {c.mixer if isinstance(c.mixer, str) else ', '.join(c.mixer)}"
    if c.norm_placement == "post" or not c.final_norm:
        return "", f"norm_placement {c.norm_placement}, final_norm {c.final_norm}"
    if c.n_expert > 1:
        return "", f"n_expert {c.n_expert}"
    if c.positions in ("sinusoidal", "none") or c.embed_scale:
        return "", f"positions {c.positions}, embed_scale {c.embed_scale}"
    shared = c.n_kv_head != c.n_head or c.d_head * c.n_head != c.d_model
    biases = {name: getattr(c, name) for name in _BIASES}
    if c.norm == "layernorm":
        plain = c.norm_bias and not shared and not c.qk_norm and c.mlp != "swiglu" and c.mlp_bias
        if plain and c.positions == "learned" and all(biases.values()) and not c.parallel_residual:
            return "gpt2", ""
        if plain and c.positions == "rope" and len(set(biases.values())) == 1 and c.rope_scaling is None:
            return "gpt_neox", ""
    elif c.mlp == "swiglu" and c.positions == "rope" and c.rotary_fraction == 1 and not c.parallel_residual:
        if c.qk_norm and len(set(biases.values())) == 1 and not c.mlp_bias:
            return "qwen3", ""
        if not c.qk_norm and len(set(biases.values())) == 1:
            return "llama", ""
        if not c.qk_norm and not c.mlp_bias and tuple(biases.values()) == (True, True, True, False):
            return "qwen2", ""
    names = ("norm", "positions", "mlp", "qk_norm", "parallel_residual", "n_kv_head", *_BIASES, "mlp_bias", "norm_bias")
    return "", ", ".join(f"{name} {getattr(c, name)}" for name in names)


def hf_config(config: ModelConfig, kind: str) -> dict:
    """Return the keyword arguments of the transformers config for a model type, the inverse of `to_config`."""
    c, module = config, {"gpt2": gpt2, "gpt_neox": gpt_neox}.get(kind)
    common = {
        "vocab_size": c.vocab_size,
        "tie_word_embeddings": c.tie_embeddings,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }
    act = next(theirs for theirs, ours in module.ACTIVATIONS.items() if ours == c.mlp) if module else "silu"
    if kind == "gpt2":
        return common | {
            "n_positions": c.n_ctx,
            "n_embd": c.d_model,
            "n_layer": c.n_layer,
            "n_head": c.n_head,
            "n_inner": c.d_mlp,
            "activation_function": act,
            "layer_norm_epsilon": c.norm_eps,
        }
    rope = {"rope_type": "default", "rope_theta": c.rope_theta}
    if c.rope_scaling is not None:
        s = c.rope_scaling
        values = (s.factor, s.low_freq_factor, s.high_freq_factor, s.original_n_ctx)
        rope |= {"rope_type": "llama3", **dict(zip(LLAMA3_KEYS, values, strict=True))}
    sizes = common | {
        "hidden_size": c.d_model,
        "intermediate_size": c.d_mlp,
        "num_hidden_layers": c.n_layer,
        "hidden_act": act,
        "num_attention_heads": c.n_head,
        "max_position_embeddings": c.n_ctx,
        "rope_parameters": rope,
    }
    if kind == "gpt_neox":
        return sizes | {
            "layer_norm_eps": c.norm_eps,
            "use_parallel_residual": c.parallel_residual,
            "attention_bias": c.q_bias,
            "rope_parameters": rope | {"partial_rotary_factor": c.rotary_fraction},
        }
    sizes |= {"num_key_value_heads": c.n_kv_head, "head_dim": c.d_head, "rms_norm_eps": c.norm_eps}
    if kind == "llama":
        return sizes | {"attention_bias": c.q_bias, "mlp_bias": c.mlp_bias}
    return sizes | ({"attention_bias": c.q_bias} if kind == "qwen3" else {})


# --- weights ------------------------------------------------------------------------------------------


def _stacked(parts: list[Tensor], config: ModelConfig) -> Tensor:
    """Concatenate the weights of q, k and v as in GPT-2: [in, 3 out], or their biases: [3 out]."""
    return torch.cat(parts).t() if parts[0].ndim == 2 else torch.cat(parts)


def _by_head(parts: list[Tensor], config: ModelConfig) -> Tensor:
    """Combine q, k and v, interleaved by head as in GPT-NeoX. [H * 3 * E, ...]"""
    return torch.stack([part.unflatten(0, (config.n_head, -1)) for part in parts], 1).flatten(0, 2)


# Conversion when reading -> its inverse.
BACK: dict[Callable, Callable[[list[Tensor], ModelConfig], Tensor]] = {
    gpt2.transpose: lambda parts, config: parts[0].t(),
    gpt2.split_qkv: _stacked,
    gpt_neox.split_qkv: _by_head,
}


def hf_state(state: Mapping[str, Tensor], config: ModelConfig, kind: str) -> dict[str, Tensor]:
    """Return the weights under transformers' names and in its layout; of two names for one weight, under the first.
    Weights that need no conversion share memory with the originals.
    """
    layout, tensors, named = FAMILIES[kind].layout, {}, set()
    for theirs, rule in layout.names.items():
        if rule is None or rule in named:
            continue
        named.add(rule)
        ours = rule.names if isinstance(rule, Into) else (rule,)
        for layer in range(config.n_layer if "{i}" in theirs else 1):
            names = [name.replace("{i}", str(layer)) for name in ours]
            if all(name in state for name in names) and not (config.tie_embeddings and names == ["unembed.weight"]):
                parts = [state[name].detach() for name in names]
                prefix = "" if theirs in ("lm_head.weight", "embed_out.weight") else layout.prefix
                name = prefix + theirs.replace("{i}", str(layer))
                tensors[name] = BACK[rule.change](parts, config).contiguous() if isinstance(rule, Into) else parts[0]
    return tensors


# --- comparison ---------------------------------------------------------------------------------------


@torch.inference_mode()
def compare(subject: Subject, progress: Progress) -> Compared | Finding:
    """Compare logits, patterns and hidden states of the unedited run with those of the equivalent transformers model.

    Returns a Finding with the reason if no comparison is possible. Uses the first MOST_TOKENS tokens of the prompt;
    later tokens do not affect their results.
    """
    plain, config = subject.unedited, subject.unedited.config
    kind, other = family_of(config)
    if not kind:
        return unable("no_counterpart", other)
    size = sum(parameter.nbytes for parameter in plain.model.parameters())
    if size > MOST_BYTES:
        return unable("too_large", f"{size / 2**30:.1f} GiB")
    try:
        built = _built(plain.model, kind)
    except ImportError:
        return unable("no_transformers")
    progress(1, 3, "Comparing with transformers")
    ids = subject.ids[:, :MOST_TOKENS]
    theirs = built(ids, output_attentions=True, output_hidden_states=True, use_cache=False)
    progress(2, 3, "Comparing with transformers")
    logits, patterns, hidden = (Worst(unit, "moved") for unit in ("logit", "weight", "stream"))
    T, last, bound = ids.shape[1], len(plain.model.blocks), subject.plain().bound
    for layer in range(last):
        hidden.rows(
            plain.residuals[layer][:T],
            theirs.hidden_states[layer][0],
            layer=layer,
            allowed=bound("resid_pre", layer)[:T],
        )
    # The last of transformers' hidden states is the one after the final norm.
    normed = plain.model.normed(plain.residuals[-1][None, :T])[0]
    hidden.rows(normed, theirs.hidden_states[-1][0], layer=last, allowed=bound("final_out")[:T])

    def look(site: str, layer: int, tensor: Tensor) -> Tensor:
        if site == "pattern":
            patterns.rows(tensor[0], theirs.attentions[layer][0], None, layer, allowed=bound(site, layer)[:, :T])
        return tensor

    plain.model.trunk(ids, tap=look)
    logits.rows(torch.from_numpy(plain.logits)[:T], theirs.logits[0], allowed=bound("logits")[:T])
    generator = torch.Generator().manual_seed(subject.seed)
    random_ids = torch.randint(0, config.vocab_size, (2, min(RANDOM_TOKENS, config.n_ctx)), generator=generator)
    random, allowed = Worst("logit", "moved"), bounds(plain.model, random_ids)["logits", last].flatten()
    random.rows(
        plain.model(random_ids).flatten(0, 1), built(random_ids, use_cache=False).logits.flatten(0, 1), allowed=allowed
    )
    on_random = replace(random.finding(), position=None)  # random tokens have no position in the prompt
    return Compared(logits.finding(), patterns.finding(), hidden.finding(), on_random)


def _built(model: torch.nn.Module, kind: str) -> torch.nn.Module:
    """Build the equivalent transformers model from these weights, with eager attention. Raises ImportError if
    transformers is not installed.
    """
    import transformers

    classes = {
        "gpt2": (transformers.GPT2Config, transformers.GPT2LMHeadModel),
        "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
        "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
        "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
        "gpt_neox": (transformers.GPTNeoXConfig, transformers.GPTNeoXForCausalLM),
    }
    config_class, model_class = classes[kind]
    config, state = config_class(**hf_config(model.config, kind)), hf_state(model.state_dict(), model.config, kind)
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
        theirs = _encoder(vocabulary)
    except ImportError:
        return unable("no_transformers")
    ours = subject.unedited.tokens.ids.tolist()[1 if subject.lm.tokenizer.add_bos else 0 :]
    expected = theirs.encode(subject.prompt, add_special_tokens=False)
    wrong = [at for at, (a, b) in enumerate(zip(ours, expected, strict=False)) if a != b]
    count = len(wrong) + abs(len(ours) - len(expected))
    return counted(count, max(len(ours), len(expected)), "tokens", wrong[0] if wrong else None)


def _encoder(vocabulary: Vocabulary):
    """Build the equivalent transformers tokenizer. Raises ImportError if transformers is not installed."""
    import transformers
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

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
