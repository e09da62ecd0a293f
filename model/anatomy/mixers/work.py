"""Operations of mixers: attention by its rules, and the mixers with a state, as the modules of model.gpt.mixers compute
them. Convolutions and recurrences token by token have no matrix products; the others process chunks of tokens by them.
"""

from model.anatomy.mixers.kinds import attention_layers, state_mixer
from model.anatomy.mixers.operation import Operation, PassSize, joined, linear, norm_flops, pointwise
from model.gpt.config import ModelConfig
from model.gpt.mixers.decay import CHUNK
from model.gpt.mixers.names import LINEAR
from model.gpt.norm import normed_qk, without_gain

CAP, SIGMOID, SILU, SOFTPLUS = 3, 4, 4, 3  # cap tanh(x / cap), 1 / (1 + e^-x), x times that, log(1 + e^x)


def mixer_operations(config: ModelConfig, reading: PassSize, *, shares: bool = False) -> list[Operation]:
    """Return the operations from the input of the mixers to their outputs, of layers of the same size; `shares`:
    whether they use the keys and values of earlier layers. Raises InputError for several kinds of mixers besides
    attention.
    """
    c, mixer, attention = config, state_mixer(config), len(attention_layers(config))
    others = c.n_layer if c.ssm_beside else c.n_layer - attention
    ops: list[Operation] = []
    if mixer is not None and mixer not in LINEAR:
        ops += _CHANNELS[mixer](c, reading.T, others)
    projected = attention + (others if mixer in LINEAR else 0)
    if projected:
        ops += _projections(c, reading.T, projected, shares)
    if mixer in LINEAR:
        ops += _linear_attention(c, reading.T, others, mixer)
    if attention:
        ops += _attention(c, reading, attention)
    if projected:
        ops.append(linear("o", projected, reading.T, (c.n_head * c.d_head, c.d_model), c.o_bias))
    if c.ssm_beside:
        ops.append(pointwise("beside", reading.T * c.d_model, c.n_layer))
    return ops


def _projections(c: ModelConfig, T: int, layers: int, shares: bool) -> list[Operation]:
    """Return the operations from the input of attention to queries, keys and values."""
    D, H, G, E = c.d_model, c.n_head, c.n_kv_head, c.d_head
    clamps = 2 * (c.qkv_limit is not None)
    widths = {"q": (H * E, c.q_bias), "k": (G * E, c.k_bias), "v": (G * E, c.v_bias)}
    if shares:
        widths, G = {"q": widths["q"]}, 0
    elif c.keys_as_values and c.mixers[0] == "softmax":
        del widths["v"]
    ops = [linear(key, layers, T, (D, width), bias + clamps) for key, (width, bias) in widths.items()]
    if c.v_norm and not shares:
        ops.append(pointwise("v_norm", T * G * norm_flops(without_gain(c), E, "rmsnorm"), layers))
    if c.qk_norm:
        own = normed_qk(c)
        together = norm_flops(own, H * E, own.norm) + (norm_flops(own, G * E, own.norm) if G else 0)
        each = (H + G) * norm_flops(own, E, own.norm)
        ops.append(pointwise("qk_norm", T * (together if c.qk_norm_over == "all" else each), layers))
    if turning := sum(c.rotates(layer) and c.channels(layer) is None for layer in range(c.n_layer)):
        ops.append(pointwise("rope", T * (H + G) * 3 * c.d_rotary, turning))
    return ops


def _attention(c: ModelConfig, reading: PassSize, layers: int) -> list[Operation]:
    """Return the operations from scores to the heads' outputs."""
    T, S, H, E = reading.T, reading.S, c.n_head, c.d_head
    products = 2 * H * E * T * S
    # division by sqrt(d_head), cap, and distance times slope; the query's multiplier
    each = 1 + CAP * (c.score_cap is not None) + 2 * (c.positions == "alibi")
    scores = H * T * S * each + T * H * E * (c.query_factor != 1)
    softmax = H * T * (5 * S + (2 if c.sinks else -2))  # maximum, difference, exp, sum, division; a sink is one more
    near, ops = c.mixers.count("sliding_window"), []
    for name, n in (("", layers - near), ("window_", near)):
        if n:
            useful = 2 * H * E * _pairs(c, reading, bool(name))
            ops.append(Operation(f"{name}scores", n, products, scores, useful))
            ops.append(pointwise(f"{name}softmax", softmax, n))
            ops.append(Operation(f"{name}mix", n, products, 0, useful))
    gate = [linear("gate_o", layers, T, (c.d_model, H * E), c.q_bias + SIGMOID + 1)] if c.output_gate else []
    return ops + gate


def _pairs(c: ModelConfig, reading: PassSize, near: bool) -> int:
    """Return the number of visible pairs."""
    if c.two_way:
        return reading.pairs_around(c.window) if near else reading.T * reading.S
    return reading.pairs_within(c.window) if near else reading.pairs


def _convolution(c: ModelConfig, rows: int, channels: int, bias: bool, more: int) -> int:
    return rows * channels * (2 * c.d_conv - 1 + bias + more)


def _mamba(c: ModelConfig, T: int, n: int) -> list[Operation]:
    D, width, N, R = c.d_model, c.d_inner, c.d_state, c.dt_rank
    rates = [linear("rates", n, T, (width, R + 2 * N)), linear("rates", n, T, (R, width), 1 + SOFTPLUS)]
    return [
        linear("in_proj", n, T, (D, 2 * width)),
        pointwise("conv", _convolution(c, T, width, True, SILU), n),
        joined(rates),
        # step times input; rate times step, exp, times the state, plus the input times B; times C, and their sum
        pointwise("state", T * (width + 5 * width * N + width * (2 * N - 1)), n),
        pointwise("state_gate", T * width * (2 + SILU + 1), n),
        linear("out_proj", n, T, (width, D)),
    ]


def _mamba2(c: ModelConfig, T: int, n: int) -> list[Operation]:
    D, width, J, N, P = c.d_model, c.d_ssm, c.ssm_heads, c.d_state, c.d_ssm_head
    mixed = width + 2 * c.ssm_groups * N
    limits = 2 * (c.dt_min > 0 or c.dt_max is not None)
    norm = 0 if c.ssm_norm == "none" else T * (4 * width + 2 * c.ssm_groups)
    return [
        linear("in_proj", n, T, (D, width + mixed + J), c.ssm_bias),
        pointwise("conv", _convolution(c, T, mixed, c.ssm_conv_bias, SILU), n),
        pointwise("rates", T * J * (1 + SOFTPLUS + limits + 1), n),
        _chunked(n, T, (J, N, P), T * width),
        pointwise("state_gate", T * width * (2 + SILU + 1) + norm, n),
        linear("out_proj", n, T, (width, D), c.ssm_bias),
    ]


def _gated_delta(c: ModelConfig, T: int, n: int) -> list[Operation]:
    D, J, E, P = c.d_model, c.n_delta_head, c.d_delta_key, c.d_delta_value
    lengths = 2 * T * c.n_delta_key * (3 * E + 2) + T * J * E  # of queries and keys; queries divided by sqrt(E)
    rates = [linear("rates", n, T, (D, J), SIGMOID), linear("rates", n, T, (D, J), 2 + SOFTPLUS)]
    gate = linear("state_gate", n, T, (D, J * P), SILU + 1)
    return [
        linear("in_proj", n, T, (D, c.delta_inputs)),
        pointwise("conv", _convolution(c, T, c.delta_inputs, False, SILU) + lengths, n),
        joined(rates),
        _chunked_delta(n, T, (J, E, P), True),
        joined([gate], T * J * norm_flops(c, P, "rmsnorm")),
        linear("out_proj", n, T, (J * P, D)),
    ]


def _short_conv(c: ModelConfig, T: int, n: int) -> list[Operation]:
    D, bias = c.d_model, c.short_conv_bias
    return [
        joined([linear("in_proj", n, T, (D, 3 * D), bias)], T * D),
        pointwise("conv", _convolution(c, T, D, bias, 0), n),
        pointwise("state_gate", T * D, n),
        linear("out_proj", n, T, (D, D), bias),
    ]


_CHANNELS = {"mamba": _mamba, "mamba2": _mamba2, "gated_delta": _gated_delta, "short_conv": _short_conv}


def _linear_attention(c: ModelConfig, T: int, n: int, mixer: str) -> list[Operation]:
    D, H, E = c.d_model, c.n_head, c.d_head
    norm = T * H * norm_flops(c, E, "rmsnorm")
    if mixer == "delta":
        lengths = 2 * T * H * E * (SILU + 3)
        state = _chunked_delta(n, T, (H, E, E), False)
        return [
            linear("rates", n, T, (D, H), SIGMOID),
            joined([state], lengths),
            pointwise("state_gate", norm, n),
        ]
    rates = [linear("rates", n, T, (D, H), 1 + SIGMOID + 1)] if mixer == "linear" else []
    gate = linear("state_gate", n, T, (D, H * E), SILU + 1)
    return [*rates, _chunked(n, T, (H, E, E), T * H * E), joined([gate], norm)]


def _chunks(T: int) -> list[tuple[int, int]]:
    """Return the lengths of the chunks of T tokens, each with their number."""
    return [(size, count) for size, count in ((CHUNK, T // CHUNK), (T % CHUNK, 1)) if size and count]


def _chunked(n: int, T: int, sizes: tuple[int, int, int], elementwise: int) -> Operation:
    """Return the operations of model.gpt.mixers.decay.chunked for J heads with a state [N, P]."""
    J, N, P = sizes
    products = useful = 0
    for t, count in _chunks(T):
        across = 4 * J * t * N * P  # read from the state before the chunk, and added to it
        products += count * (2 * J * t * t * (N + P) + across)
        useful += count * (J * t * (t + 1) * (N + P) + across)
        # decays between the tokens, and those since the start of the chunk
        elementwise += count * J * (3 * t * t + 2 * t + 2 * t * N + t * P + 2 * N * P)
    return Operation("state", n, products, elementwise, useful)


def _chunked_delta(n: int, T: int, sizes: tuple[int, int, int], decays: bool) -> Operation:
    """Return the operations of model.gpt.mixers.delta.chunked for J heads with a state [E, P]. The triangular system is
    not a matrix product: its operations are elementwise here, as PyTorch's counter does not count them.
    """
    J, E, P = sizes
    products = useful = elementwise = 0
    for t, count in _chunks(T):
        across = 6 * J * t * E * P
        products += count * (J * t * t * (4 * E + 2 * P) + across)
        useful += count * (J * t * ((t - 1) * E + (t + 1) * (E + P)) + across)
        each = t * t + 3 * t * P + t * (t - 1) * P + E * P
        each += (4 * t * t + 2 * t + 2 * t * P + t * E + E * P) if decays else 0
        elementwise += count * J * each
    return Operation("state", n, products, elementwise, useful)
