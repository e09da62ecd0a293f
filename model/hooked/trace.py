"""The trace of a hooked model: one run, whose attention weights, hidden states and logits are kept."""

import time

import numpy as np
import torch

from model.hooked.model import Hooked
from model.progress import Progress, silent
from model.records import RunKey, Tokens
from model.tracing.head_reducer import HeadReducer
from model.tracing.kept import Kept
from model.tracing.trace import RUNNING, Trace, check_length


def run(model: Hooked, tokens: Tokens, *, model_id: str = "", progress: Progress = silent) -> Trace:
    """Run the tokens once, and keep what the model gives: [L, H, T, T] attention, [L + 1, T, D] states, [T, V] logits.

    Raises InputError if the prompt is empty or exceeds the context length.
    """
    config = model.config
    check_length(len(tokens), config.n_ctx)
    started = time.perf_counter()
    progress(0, config.n_layer, RUNNING)
    ids = torch.from_numpy(np.ascontiguousarray(tokens.ids, dtype=np.int64))
    attention, states, logits = model.forward(ids)
    reducer = HeadReducer(ids, config.n_layer, config.n_head)
    for layer in range(config.n_layer):
        progress(layer, config.n_layer, RUNNING)
        reducer.see(layer, attention[layer][None])
    key = RunKey(model_id, tuple(tokens.ids.tolist()))
    trace = Trace(model, key, tokens, states, reducer, Kept(attention, logits.numpy()))
    trace.seconds = time.perf_counter() - started
    return trace
