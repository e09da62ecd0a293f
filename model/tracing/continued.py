"""A run that reuses another run with a common prefix: only the positions after the prefix are computed.

A token does not depend on later ones. So the residual stream, the row statistics and the thumbnails of the prefix
remain valid, and its keys and values follow from the stream by their projections alone. The numbers equal those of a
fresh run, up to the rounding error of float32.
"""

import time
from collections.abc import Iterable

import numpy as np
import torch

from model.gpt.rope_scaling import RopeScaling
from model.gpt.transformer import Transformer
from model.progress import Passed, Progress, silent, unseen
from model.records import RunKey, Tokens
from model.tracing.head_metrics import pool_size
from model.tracing.head_reducer import HeadReducer
from model.tracing.one_token import after
from model.tracing.trace import RUNNING, Trace, check_length, run, show

# minimum fraction of a text that is shared for reuse to pay off, because copying keys and values takes time as well
LEAST = 0.25


def kept(before: Trace, model: Transformer, ids: np.ndarray) -> int:
    """Return how many tokens of `before` a run of `ids` without edits can reuse; 0 if it must start from scratch.

    No token can be reused from an edited run, from another model, or if attention is not plain in every layer. The
    size of a thumbnail's cells depends on the length of the text, so it must be the same for both, and only whole
    cells are reused.
    """
    config, cell = model.config, pool_size(len(ids))
    if before.model is not model or before.tap is not None or pool_size(len(before.tokens)) != cell:
        return 0
    if not config.plain_attention or not _as_rotated(config.rope_scaling, len(before.tokens), len(ids)):
        return 0
    most = min(len(before.tokens), len(ids) - 1)  # at least the last token is computed
    other = np.flatnonzero(before.tokens.ids[:most] != ids[:most])
    common = int(other[0]) if len(other) else most
    common -= common % cell
    return common if common >= LEAST * len(ids) else 0


def _as_rotated(scaling: RopeScaling | None, *lengths: int) -> bool:
    """Return whether RoPE rotates the positions of texts of these lengths by the same angles."""
    if scaling is None or scaling.kind not in ("dynamic", "longrope"):
        return True
    return len({max(length, scaling.original_n_ctx) for length in lengths}) == 1


def run_after(
    model: Transformer,
    tokens: Tokens,
    others: Iterable[Trace],
    *,
    model_id: str = "",
    progress: Progress = silent,
    passed: Passed = unseen,
) -> Trace:
    """Run the tokens as `model.tracing.trace.run` does without edits, continuing the run in `others` with the longest
    common prefix.

    Raises the same errors. `seconds` of the result covers only what was computed.
    """
    shared, before = max(
        ((kept(each, model, tokens.ids), each) for each in others), key=lambda one: one[0], default=(0, None)
    )
    if not shared:
        return run(model, tokens, model_id=model_id, progress=progress, passed=passed)
    return _run_on(model, tokens, model_id, before, shared, progress, passed)


@torch.inference_mode()
def _run_on(
    model: Transformer,
    tokens: Tokens,
    model_id: str,
    before: Trace,
    start: int,
    progress: Progress,
    passed: Passed,
) -> Trace:
    """Run the tokens from position `start` on, reusing the earlier ones from `before`."""
    check_length(len(tokens), model.config.n_ctx)
    started = time.perf_counter()
    ids, config = torch.from_numpy(np.ascontiguousarray(tokens.ids, dtype=np.int64)), model.config
    T, cells = len(ids), start // pool_size(len(ids))
    known = before.rows[..., :start], torch.from_numpy(before.thumbnails)[:, :, :cells, :cells]
    reducer = HeadReducer(ids, config.n_layer, config.n_head, known=known)
    residuals = torch.empty(config.n_layer + 1, T, config.d_model)
    residuals[:, :start] = before.residuals[:, :start]
    model.check(ids[None])
    trace = Trace(model, RunKey(model_id, tuple(tokens.ids.tolist())), tokens, residuals, reducer)
    x = model.embed_tokens(ids[None, start:], start, model.prepare(start, T - start))
    for layer, block in enumerate(model.blocks):
        progress(layer, config.n_layer, RUNNING)
        show(trace, layer, started, passed)
        residuals[layer, start:] = x[0]
        x = block(x, layer, after(model, residuals[layer], layer, start, T - start, attend=reducer))
    residuals[-1, start:] = x[0]
    reducer.finish()
    trace.seconds = time.perf_counter() - started
    return trace
