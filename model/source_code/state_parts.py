"""The lines that compute the parts of mixers without a softmax. See model.anatomy.mixers.rows for the parts."""

from collections.abc import Callable

from model.anatomy.mixers.kinds import state_mixer
from model.gpt.config import ModelConfig
from model.gpt.linear import Linear
from model.gpt.mixers import decay, delta, selective
from model.gpt.mixers.gated_delta import GatedDelta
from model.gpt.mixers.linear_attention import LinearAttention
from model.gpt.mixers.mamba import Convolution, Mamba
from model.gpt.mixers.mamba2 import GatedNorm, Mamba2
from model.gpt.mixers.short_conv import ShortConvolution
from model.source_code.excerpts import Span

STATE_PARTS = ("in_proj", "conv", "rates", "state", "state_gate", "out_proj")
# {mixer: {part: spans}}; the convolution and the projections end in lines that they share.
_SHARED = {
    "in_proj": [Span(Linear.forward)],
    "conv": [Span(Convolution.forward, ("=out", "return"))],
    "out_proj": [Span(Linear.forward)],
}
_LINES: dict[str, dict[str, list[Span]]] = {
    "mamba": {
        "in_proj": [Span(Mamba.inputs, ("in_proj",), (("in_proj", "conv_in"),))],
        "conv": [Span(Mamba.inputs, ("conv", "silu"), (("conv", "conv_in"),))],
        "rates": [Span(Mamba.select, (), (("=delta", "rates"),))],
        "state": [Span(Mamba.forward, ("=mixed",)), Span(selective.step)],
        "state_gate": [Span(Mamba.forward, ("=z",))],
        "out_proj": [Span(Mamba.forward, ("=out", "return"))],
    },
    "mamba2": {
        "in_proj": [Span(Mamba2.inputs, ("in_proj",), (("in_proj", "conv_in"),))],
        "conv": [Span(Mamba2.inputs, ("conv", "silu"), (("conv", "conv_in"),))],
        "rates": [Span(Mamba2.inputs, ("=delta", "=log_a"), (("=delta", "rates"), ("=log_a", "rates")))],
        "state": [Span(Mamba2.forward, ("=mixed",)), Span(decay.recurrent)],
        "state_gate": [Span(Mamba2.forward, ("=y", "=z")), Span(GatedNorm.forward)],
        "out_proj": [Span(Mamba2.forward, ("=out", "return"))],
    },
    "gated_delta": {
        "in_proj": [Span(GatedDelta.inputs, ("qkv",), (("qkv", "conv_in"),))],
        "conv": [Span(GatedDelta.inputs, ("conv", "=q", "=v"), (("conv", "conv_in"),)), Span(GatedDelta._directions)],
        "rates": [Span(GatedDelta.inputs, ("=log_a", "=beta"))],
        "state": [Span(GatedDelta.forward, ("=mixed",)), Span(delta.recurrent)],
        "state_gate": [Span(GatedDelta.forward, ("=z",))],
        "out_proj": [Span(GatedDelta.forward, ("=out", "return"))],
    },
    "short_conv": {
        "in_proj": [Span(ShortConvolution.inputs, ("in_proj", "=v"))],
        "conv": [Span(ShortConvolution.forward, ("conv",), (("conv", "open"),))],
        "state_gate": [Span(ShortConvolution.forward, ("=z",))],
        "out_proj": [Span(ShortConvolution.forward, ("=out", "return"))],
    },
    "linear": {"rates": [Span(LinearAttention.inputs, ("gate_log_decay",)), Span(decay.gate_log_decay)]},
    "retention": {"rates": [Span(decay.retention_log_decay)]},
    "delta": {"rates": [Span(LinearAttention.inputs, ("beta",))]},
}


def state_lines(part: str) -> Callable[[ModelConfig], list[Span]]:
    """Return the function that lists the spans of a part in the mixer of a model."""

    def spans(config: ModelConfig) -> list[Span]:
        mixer = state_mixer(config) or ""
        found = _LINES[mixer].get(part)
        if found is None:  # linear attention, retention and the delta rule
            rule = delta if mixer == "delta" else decay
            state = [Span(LinearAttention._mix, ("chunked",), (("chunked", "mixed"),)), Span(rule.recurrent)]
            found = {"state": state, "state_gate": [Span(LinearAttention.forward, ("=z",))]}[part]
        return found + _SHARED.get(part, [])

    return spans
