"""Memory of a model, in bytes: weights, KV cache, activations, gradients and optimizer state.

Weights, cache, the tensors saved by autograd in a training step of this project's own forward pass, and AdamW's state
are computed exactly from the config. The working memory of a forward pass without gradients is an estimate and labeled
as such.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from model.anatomy.anatomy import Weight, kinds_of_weights
from model.errors import InputError
from model.generation.cache_costs import ITEM, cache_bytes, state_bytes, state_sizes
from model.gpt.config import ModelConfig
from model.gpt.experts import require_dense
from model.gpt.mixers.needs import need_attention
from model.gpt.norm import normed_qk
from model.public import one_of, public, whole

GROUP = 32  # group size of int4: numbers that share a scale
MODES = ("inference", "adamw", "mixed")
FIXED = ("weights", "gradients", "optimizer")  # independent of batch size and context length
MOST = 1 << 32  # upper limit of the search for a context length or batch size


@dataclass(frozen=True)
class StorageFormat:
    """A storage format of matrices. Norms and biases take `rest` bytes per number."""

    bits: int
    rest: int
    scale: int = 0  # bytes per scale
    group: int | None = None  # numbers of a row that share a scale; None: the complete row


# int8, one scale per row: Dettmers et al. 2022, section 2. int4, groups of 32 with a float16 scale, 18 bytes each:
# "Q4_0" of llama.cpp.
FORMATS: dict[str, StorageFormat] = {
    "float32": StorageFormat(32, 4),
    "bfloat16": StorageFormat(16, 2),
    "int8": StorageFormat(8, 4, scale=4),
    "int4": StorageFormat(4, 4, scale=2, group=GROUP),
}


@public(
    mode=one_of(MODES),
    form=one_of(FORMATS),
    batch=whole(1, 1 << 40),
    tokens=whole(1, 1 << 40),
    item=whole(1, 16),
)
@dataclass(frozen=True)
class Setting:
    """The workload: one of MODES, a batch of B texts of T tokens, weights in `form`, and other numbers of `item` bytes.

    Raises InputError for an unknown mode or format, or a size that is not a positive integer.
    """

    mode: str = "inference"
    form: str = "float32"
    batch: int = 1
    tokens: int = 1024
    item: int = ITEM  # bytes per number of the cache and activations
    explicit: bool = False  # whether attention matrices are computed and, in training, saved


def weight_bytes(weight: Weight, form: str = "float32") -> int:
    """Return the bytes of one tensor in the given format. In group formats, rows are padded to a multiple of the group
    size; norms and biases remain floats.
    """
    kind = FORMATS[form]
    if len(weight.shape) == 1 or weight.name.endswith(".bias"):
        return weight.size * kind.rest
    width = weight.shape[-1]
    rows = weight.size // width
    if not kind.scale:
        return weight.size * kind.bits // 8
    groups = 1 if kind.group is None else -(-width // kind.group)
    numbers = width if kind.group is None else groups * kind.group
    return rows * (numbers * kind.bits // 8 + groups * kind.scale)


def _summed(config: ModelConfig, of: Callable[[Weight], int]) -> int:
    """Sum a function of each weight over the model. Blocks with the same mixer are identical, so the cost does not grow
    with depth.
    """
    return sum(of(weight) * n for weight, n in kinds_of_weights(config))


@public(form=one_of(FORMATS))
def weights_bytes(config: ModelConfig, form: str = "float32") -> int:
    """Return the bytes of all weights, a tied unembedding counted once. In float32, they equal
    `LanguageModel.nbytes`.
    """
    return _summed(config, lambda weight: weight_bytes(weight, form))


def n_tensors(config: ModelConfig) -> int:
    """Count the parameter tensors of the model."""
    return _summed(config, lambda weight: 1)


def optimizer_bytes(config: ModelConfig) -> int:
    """Return the bytes of torch.optim.AdamW's state: two float32 per parameter, and a float32 step count per tensor.

    Loshchilov & Hutter 2019; the moments are those of Kingma & Ba 2015, algorithm 1.
    """
    return 2 * weights_bytes(config) + ITEM * n_tensors(config)


# --- activations saved in a training step -------------------------------------------------------------


def _norm_saved(config: ModelConfig, kind: str, rows: int, width: int) -> int:
    """Count the numbers that a norm saves besides its input: mean and 1/divisor for LayerNorm, 1/divisor and, for the
    gain's gradient, the normalized vector for RMSNorm.
    """
    return 2 * rows if kind == "layernorm" else rows + rows * width * config.norm_weight


def _attention_saved(config: ModelConfig, batch: int, T: int, explicit: bool, rotates: bool) -> tuple[int, int]:
    """Return (saved numbers, additional bytes) of one layer's attention, from q, k and v to the input of o."""
    c, rows = config, batch * T
    q, kv = rows * c.n_head * c.d_head, rows * c.n_kv_head * c.d_head
    saved = q + 2 * kv + q  # q, k and v as they enter the products, and the mixed values
    if c.qkv_limit is not None:
        saved += q + 2 * kv  # before the clamp
    if c.qk_norm:
        over = (rows * c.n_head, rows * c.n_kv_head, c.d_head, c.d_head)
        if c.qk_norm_over == "all":
            over = rows, rows, c.n_head * c.d_head, c.n_kv_head * c.d_head
        kind = normed_qk(c).norm
        saved += q + kv + sum(_norm_saved(c, kind, n, width) for n, width in zip(over[:2], over[2:], strict=True))
        if c.qk_norm_over == "each" and kind == "layernorm":
            saved += (q + kv) * c.norm_weight  # the normalized vectors, which the gains multiply
    if rotates and c.rope_pairs == "halves":
        saved += 4 * T * c.d_rotary  # cosines and sines, for queries and keys
    if explicit:
        return saved + batch * c.n_head * T * T, T * T if T > 1 else 0  # patterns, and the mask with one byte per entry
    # The kernel's output has the memory layout of its queries: after a norm or a rotation, the input of o is a copy.
    moved = rotates or (c.qk_norm and c.qk_norm_over == "head")
    return saved + (q if T > 1 and moved else 0) + batch * c.n_head * T, 0  # with the log-sum-exp of each row


# Numbers that an MLP saves, in multiples of rows x width: inputs or outputs of its functions, and the input of down.
_MLP_SAVED = {"relu": 1, "gelu": 2, "gelu_tanh": 2, "relu2": 2, "silu": 2, "swiglu": 4, "geglu": 4, "geglu_tanh": 4}
_MLP_SAVED |= {"swiglu_clamped": 7}


def kept_bytes(config: ModelConfig, batch: int, T: int, explicit: bool = False, item: int = ITEM) -> int:
    """Return the bytes that autograd saves between the forward and backward pass of a training step, without
    parameters.

    In float32 (`item` 4), they equal what `torch.autograd.graph.saved_tensors_hooks` sees of this project's forward
    pass with cross-entropy; for smaller items, the same count of numbers is used. Explicit attention saves the B H T T
    patterns, whereas the fused kernel recomputes them in the backward pass (Dao et al. 2022). Korthikanti et al. 2022,
    section 4.1, count in the same way. Raises InputError for a model with mixers other than full attention, with rules
    for its scores, or with experts, whose saved bytes depend on routing.
    """
    _need_counted(config)
    c, rows = config, batch * T
    D, turning = rows * c.d_model, sum(c.rotates(layer) for layer in range(c.n_layer))
    norm = _norm_saved(c, c.norm, rows, c.d_model)
    # Inputs and outputs of the norms that sublayers read through; inputs of those after sublayers.
    norms, stream = 2, 4 * D
    if c.parallel_residual:
        norms, stream = (1, 2 * D) if c.shared_norm else (2, 3 * D)
    elif c.norm_placement == "sandwich":
        norms, stream = 4, 6 * D
    numbers = c.n_layer * (stream + norms * norm + rows * c.d_mlp * _MLP_SAVED[c.mlp])
    mask = 0
    for rotates, layers in ((True, turning), (False, c.n_layer - turning)):
        each, mask = _attention_saved(c, batch, T, explicit, rotates)
        numbers += layers * each
    if turning and c.rope_pairs == "adjacent":
        numbers += T * c.d_rotary  # cosines and sines, once
    if c.embed_norm:
        numbers += D + norm
    numbers += D  # input of the final norm or unembedding; for post-norm, input of the first block
    if c.final_norm:
        numbers += norm + D
    capped = rows * c.vocab_size * (c.logit_cap is not None)
    loss = rows * c.vocab_size + 1  # log-probabilities, and the number of targets
    return item * (numbers + capped + loss) + c.n_layer * mask + 16 * rows  # ids and targets: 8 bytes each


def published_kept(config: ModelConfig, batch: int, T: int, explicit: bool = True) -> int:
    """Compute Korthikanti et al. 2022, eq. 1, in bytes: L s b h (34 + 5 a s / h), or 34 L s b h (eq. 6) if attention is
    recomputed.

    It assumes 16-bit numbers, dropout masks of one byte, and GPT blocks with an MLP four times as wide, without
    embedding and unembedding.
    """
    rows = batch * T
    one = 34 * rows * config.d_model + (5 * config.n_head * T * rows if explicit else 0)
    return config.n_layer * one


# --- total -------------------------------------------------------------------------------------------


def _apart(config: ModelConfig) -> bool:
    """Return whether q, k and v are separate products, and not parts of a joint one."""
    c = config
    return c.qk_norm or c.qkv_limit is not None or c.query_factor != 1 or c.rope_pairs == "adjacent"


def _turning(config: ModelConfig, rows: int, T: int) -> int:
    """Count the temporary numbers in memory during the rotation of queries and keys, which are rotated together unless
    they are separate.
    """
    c = config

    def one(heads: int) -> int:
        n = rows * heads * c.d_head
        part = n * c.d_rotary // c.d_head
        tables = 0 if c.rope_pairs == "adjacent" else 3 * T * c.d_rotary // 2
        return max(2 * part + tables, part + n if part < n else 0)

    if not _apart(c):
        return one(c.n_head + c.n_kv_head)
    return max(one(c.n_head), rows * c.n_head * c.d_head + one(c.n_kv_head))


def _need_counted(config: ModelConfig) -> None:
    """Raise InputError for a model whose activations are not counted."""
    require_dense(config)
    need_attention(config)
    if config.mlp == "xielu":
        what = "The memory of this activation function is not counted."
        raise InputError(what, "xIELU", "Choose a model with another activation function.")


def working_bytes(config: ModelConfig, setting: Setting) -> int:
    """Return the peak bytes of tensors in a forward pass without gradients, besides weights and KV cache.

    They consist of the stream and the current sublayer's input, intermediate tensors and output, which are freed
    afterwards. All B T tokens run at once, the unembedding for the last one of each text. Counted for this project's
    forward pass, as measured by `model.anatomy.measured_memory.peak_bytes`. Kernels use additional memory internally,
    and other implementations have other peaks, for which this is an estimate. For models with full attention, without
    rules for its scores, and without experts.
    """
    _need_counted(config)
    c, B, T = config, setting.batch, setting.tokens
    rows, direct = B * T, c.norm_placement in ("post", "output")  # where sublayers read the stream itself
    D, M = rows * c.d_model, rows * c.d_mlp
    written = D * (2 if c.residual_multiplier != 1 else 1)
    turning = {c.rotates(layer) for layer in range(c.n_layer)}
    attention = (D if direct else 2 * D) + max(_attention_held(c, setting, rotates, written) for rotates in turning)
    inside = max(_held(c) * M, written + (3 if c.gated else 1) * M)
    tables = T * c.d_rotary if True in turning else 0
    head = B * (c.d_model * c.final_norm + c.vocab_size * _HEADS[c.logit_multiplier != 1, c.logit_cap is not None])
    return setting.item * max(attention + tables, (2 if direct else 3) * D + inside + tables, D + head)


def _attention_held(config: ModelConfig, setting: Setting, rotates: bool, written: int) -> int:
    """Count the numbers in memory in one layer's attention, besides the stream and its input; `written` are those of
    its output.
    """
    c, T = config, setting.tokens
    rows = setting.batch * T
    q, kv = rows * c.n_head * c.d_head, rows * c.n_kv_head * c.d_head
    live = q if _apart(c) else q + kv if rotates else q + 2 * kv  # once keys and values are in the cache
    between = 2 * setting.batch * c.n_head * T * T if setting.explicit else 0  # scores and patterns
    # The heads' outputs are concatenated by a copy if they are not contiguous, and o maps them to one vector.
    moved = setting.explicit or rotates or (c.qk_norm and c.qk_norm_over == "head")
    merged = q + q * (T > 1 and c.n_head > 1 and moved) + written
    projected = q + 2 * kv + (_turning(c, rows, T) if rotates else 0)
    if c.qkv_limit is not None:
        projected = max(projected, 2 * q, q + 3 * kv)
    if c.qk_norm and c.qk_norm_over == "each":  # before the gains, and after them
        projected = max(projected, 3 * q + 2 * kv, 2 * q + 4 * kv)
    return max(projected, live + between + q, live + merged)


def _held(config: ModelConfig) -> int:
    """Return the numbers in memory during the activation, in multiples of rows x width."""
    return {"swiglu_clamped": 5, "relu2": 3}.get(config.mlp, 3 if config.gated else 2)


_HEADS = {(False, False): 1, (True, False): 2, (False, True): 3, (True, True): 3}  # copies of the logits at once


def counts_activations(config: ModelConfig) -> bool:
    """Return whether activations are counted: for full attention whose weights are a softmax of q.k alone, and one MLP
    per layer. The memory of other rules depends on how they are computed, and that of experts on routing. That of
    xIELU, which computes both of its branches, is not counted.
    """
    single = config.n_expert == 1 and config.mlp not in ("none", "xielu") and not config.without_mlp
    return config.plain_attention and single


def held_bytes(config: ModelConfig, batch: int, length: int) -> tuple[int, int]:
    """Return the bytes of a cache after `length` tokens: of keys and values of all of them, or in layers with a sliding
    window of the last W - 1; and of states, which do not grow. A model that reads in both directions has no cache.
    float32
    """
    if config.two_way:
        return 0, 0
    c = config if config.window is None else dataclasses.replace(config, window=min(config.window, length + 1))
    near = sum(c.mixer_of(layer) == "sliding_window" for layer in c.stateful)
    windows = batch * ITEM * near * state_sizes(c)["sliding_window"]
    return cache_bytes(c, batch, length) + windows, state_bytes(c, batch) - windows


@public()
def parts(config: ModelConfig, setting: Setting) -> dict[str, int]:
    """Return the bytes of weights, gradients, optimizer, cache, state and activations for a setting; 0 if unused.

    Activations are 0 for a model for which they are not counted (`counts_activations`).

    `adamw`: everything in float32. `mixed`: 16 bytes per parameter (2 for the weight, 2 for its gradient, 12 for the
    optimizer with its float32 copy of the weight; Rajbhandari et al. 2020, section 3.1), and 2 bytes per activation.
    """
    full = weights_bytes(config)  # 4 N bytes
    state = {
        "inference": (weights_bytes(config, setting.form), 0, 0),
        "adamw": (full, full, optimizer_bytes(config)),
        "mixed": (full // 2, full // 2, 3 * full),
    }[setting.mode]
    return dict(zip((*FIXED, "cache", "state", "activations"), (*state, *_moving(config, setting)), strict=True))


def _moving(config: ModelConfig, setting: Setting) -> tuple[int, int, int]:
    """Return the bytes of cache, state and activations, which grow with batch size, and but for the state with context
    length.
    """
    c, B, T = config, setting.batch, setting.tokens
    if setting.mode == "inference":
        activations = working_bytes(c, setting) if counts_activations(c) else 0
        cache, state = held_bytes(c, B, T)
        return cache * setting.item // ITEM, state * setting.item // ITEM, activations
    if not counts_activations(c):
        return 0, 0, 0
    return 0, 0, kept_bytes(c, B, T, setting.explicit, item=2 if setting.mode == "mixed" else ITEM)


def total_bytes(config: ModelConfig, setting: Setting) -> int:
    """Sum the bytes of all `parts`."""
    return sum(parts(config, setting).values())


def most(fits: Callable[[int], bool], highest: int = MOST) -> int:
    """Find the largest n from 0 to `highest` that fits, by bisection. If n fits, every smaller number must fit, too."""
    low, high = 0, 1
    while high <= highest and fits(high):
        low, high = high, 2 * high
    high = min(high, highest + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def largest(config: ModelConfig, setting: Setting, budget: int) -> tuple[int, int]:
    """Return the longest context at this batch size, and the largest batch at this context length, within `budget`
    bytes; 0 if nothing fits, and MOST if what is counted does not grow with it.
    """
    fixed = sum(n for name, n in parts(config, setting).items() if name in FIXED)

    def fits(one: Setting) -> bool:
        return fixed + sum(_moving(config, one)) <= budget

    tokens = most(lambda n: fits(dataclasses.replace(setting, tokens=n)))
    return tokens, most(lambda n: fits(dataclasses.replace(setting, batch=n)))
