"""The KV cache: its size in bytes, and the time that it saves as measured on this machine."""

from dataclasses import dataclass
from typing import Annotated

from model.api import LanguageModel
from model.generation.cache_costs import (
    BUDGET,
    ITEM,
    LENGTHS,
    MeasuredCosts,
    TokenTimes,
    cache_bytes,
    kept_layers,
    lengths_of,
    measure,
    state_bytes,
    tensor_bytes,
)
from model.progress import Progress
from viz.charts.axes import BLUE, GRAY, ORANGE
from viz.numbers import NONE, factor, milliseconds, number, percent, size, whole
from viz.seam.programs.arguments import Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings
from viz.seam.view import Custom, Figure, Job, Measure, Payload, Seen, Table, View
from viz.views.sampling.kv_cache.figures import Growth, Timed, bytes_figure, times_figure
from viz.words import Words, joined
from viz.work.playground import Playground

BATCHES = (1, 8, 32)


def _batch_label(words: Words, option: str) -> str:
    return words["batch_one" if option == "1" else "batch_many"].format(n=option)


BATCH = Choice("batch", tuple(map(str, BATCHES)), label=_batch_label)


@dataclass(frozen=True)
class CacheSizes:
    """Bytes of the cache as computed by the formula, and of the tensors actually allocated for generation."""

    batch: int
    length: int  # number of tokens in the prompt
    nbytes: int  # bytes of the cache by the formula
    token: int  # bytes per additional token
    full: int  # bytes of a full context
    unshared: int  # bytes of a full context if every query head had its own keys and values
    shape: tuple[int, ...]  # shape of the allocated keys, [L, B, G, S, E]; () if they cannot be allocated
    real: int  # bytes of the allocated keys and values; 0 if they cannot be allocated


def measure_sizes(scene: Scene, settings: Settings) -> CacheSizes:
    """Compute 2 L B G S E x 4 bytes for this model, and measure the tensors allocated for generation."""
    config, batch, T = scene.model.config, int(settings.batch), len(scene.tokens)
    allocated = tensor_bytes(config, batch, T)
    shape, real = allocated if allocated else ((), 0)
    nbytes, token, full = (cache_bytes(config, batch, length) for length in (T, 1, config.n_ctx))
    unshared = cache_bytes(config, batch, config.n_ctx, config.n_head)
    return CacheSizes(batch, T, nbytes, token, full, unshared, shape, real)


def measure_times(scene: Scene, settings: Settings, progress: Progress) -> MeasuredCosts:
    """Measure the time per additional token with and without the cache, for the unedited model on the prompt."""
    return measure(scene.model.model, scene.tokens.ids.tolist(), scene.limit, progress)


# --- bytes ---


def formula(seen: Seen) -> Payload:
    """Build the product with a label for every factor, beside the shape and bytes of the allocated tensors."""
    words, config, sizes = seen.here, seen.facts.config, seen.result
    numbers = {
        "2": 2,
        "L": kept_layers(config),
        "B": sizes.batch,
        "G": config.n_kv_head,
        "S": sizes.length,
        "E": config.d_head,
        "bytes": ITEM,
    }
    factors = [
        {"letter": key if key.isupper() else "", "value": whole(n), "label": words[f"of_{key}"]}
        for key, n in numbers.items()
    ]
    return {
        "title": words["title"],
        "about": words["about"],
        "factors": factors,
        "result": words["bytes"].format(n=whole(sizes.nbytes)),
        "brief": "" if sizes.nbytes < 1000 else size(sizes.nbytes),
        "real": _real(words, sizes),
        "same": sizes.real == sizes.nbytes,
        "items": _items(seen),
    }


def _real(words: Words, sizes: CacheSizes) -> str:
    """Format the shape and bytes of the allocated tensors."""
    if not sizes.shape:
        return words["no_room"]
    return words["real"].format(shape=" × ".join(map(whole, sizes.shape)), n=whole(sizes.real))


def _items(seen: Seen) -> list[list[str]]:
    """Describe the bytes of one additional token, of a full context, without shared key/value heads, and of the layers
    that carry a state.
    """
    words, facts, sizes = seen.here, seen.facts, seen.result
    full, weights, H, G = sizes.full, facts.nbytes, facts.config.n_head, facts.config.n_kv_head
    share = percent(full / weights) if full < weights else words["times"].format(n=number(full / weights))
    values = {"n": whole(facts.config.n_ctx), "size": size(full), "share": share, "weights": size(weights)}
    shared = words["not_shared"].format(H=H)
    if G < H:
        shared = words["shared_text"].format(H=H, G=G, size=size(sizes.unshared), times=number(H / G))
    items = [
        [words["token"], words["token_text"].format(size=size(sizes.token), batch=sizes.batch)],
        [words["full"], words["full_text" if full < weights else "full_more"].format(**values)],
        [words["shared"], shared],
    ]
    if layers := len(facts.config.stateful):
        states = size(state_bytes(facts.config, sizes.batch))
        items.append([words["states"], words["states_text"].format(n=layers, size=states, batch=sizes.batch)])
    return items


def by_context(seen: Seen) -> Payload:
    """Draw the cache size against the context length, beside the size without shared key/value heads and that of the
    weights.
    """
    words, config, sizes = seen.here, seen.facts.config, seen.result
    n, H, G = config.n_ctx, config.n_head, config.n_kv_head
    curves = [Growth(words["cache" if G == H else "cache_shared"].format(G=G, H=H), sizes.full)]
    if G < H:
        curves.append(Growth(words["whole"].format(H=H), sizes.unshared, "dash"))
    curves.append(Growth(words["weights"], seen.facts.nbytes, "dot", GRAY, fixed=True))
    lines = [
        f"[cache_bytes(lm.config, {sizes.batch}, length) for length in range(lm.config.n_ctx + 1)]",
        f"cache_bytes(lm.config, {sizes.batch}, lm.config.n_ctx, lm.config.n_head)",
        "lm.nbytes",
    ]
    return {
        "figure": bytes_figure(curves, n, sizes.length, words.plain()),
        "title": words["title"].format(batch=sizes.batch),
        "note": words["note"],
        "file": f"kv-cache-bytes-batch-{sizes.batch}",
        "columns": [words["series"], words["size"], words["context"], words["size"]],
        "python": script(seen.facts, lines, ["from model.generation.cache_costs import cache_bytes"]),
    }


# --- time ---


def job(seen: Seen) -> Payload:
    """Describe the duration of the measurement, and note that edits are ignored."""
    text = seen.here["takes"].format(seconds=round(BUDGET))
    return {"text": f"{text} {seen.here['no_edits']}" if seen.facts.edits else text}


def times(seen: Seen) -> Payload:
    """Draw the milliseconds per token against the context length."""
    words, rows = seen.here, seen.result.rows
    both = [row for row in rows if row.whole]
    timed = [
        Timed(words["without"], ORANGE, [row.length for row in both], [_times(row, cached=False) for row in both]),
        Timed(words["with"], BLUE, [row.length for row in rows], [_times(row, cached=True) for row in rows]),
    ]
    note = words["note"].format(n=min(len(row.cached.seconds) for row in rows))
    lines = [f"measure(lm.model, run.tokens.ids.tolist(), {seen.facts.limit})"]
    return {
        "figure": times_figure(timed, words.plain()),
        "title": words["title"],
        "note": joined([note, *_left_out(seen)]),
        "source": _source(seen),
        "columns": [words["series"], words["spread"], words["context"], words["time"]],
        "python": script(seen.facts, lines, ["from model.generation.cache_costs import measure"]),
    }


def _times(row: TokenTimes, cached: bool) -> tuple[float, float, float]:
    """Return the median and both quartiles of a row in seconds."""
    timing = row.cached if cached else row.whole
    return timing.median, *timing.spread


def _source(seen: Seen) -> str:
    """Format the source line: the model, its dtype, the number of threads and their wait policy."""
    words, result, facts = seen.here, seen.result, seen.facts
    values = {"model": facts.label, "dtype": facts.dtype, "threads": result.threads}
    text = words["measured_on"].format(**values, policy=result.waiting or words["policy_none"])
    return f"{text} · {words['plain']}" if facts.edits else text


def _left_out(seen: Seen) -> list[str]:
    """Explain why measurements were skipped."""
    words, texts, limit = seen.here, [], seen.facts.limit
    slow = [whole(row.length) for row in seen.result.rows if not row.whole]
    if slow:
        texts.append(words["too_slow"].format(lengths=", ".join(slow), seconds=round(BUDGET)))
    if len(lengths_of(limit)) < len(LENGTHS):
        texts.append(words["limited"].format(n=whole(limit)))
    return texts


def table(seen: Seen) -> Payload:
    """Build the table of all measurements, and check that the top token is the same with and without the cache."""
    words, rows = seen.here, []
    for row in seen.result.rows:
        without = milliseconds(row.whole.median) if row.whole else NONE
        agree = words["yes" if row.agree else "no"] if row.whole else NONE
        gap = number(row.gap, 2)
        rows.append([whole(row.length), milliseconds(row.cached.median), without, factor(row.ratio), gap, agree])
    compared = [row for row in seen.result.rows if row.whole]
    agreed = all(row.agree for row in compared)
    check = words["same" if agreed else "differ"].format(gap=number(max(row.gap for row in compared), 2))
    return {
        "title": words["title"],
        "columns": [words[key] for key in ("context", "with", "without", "ratio", "gap", "agree")],
        "rows": rows,
        "check": check,
        "note": check,
        "same": agreed,
    }


def prefill(seen: Seen) -> Payload:
    """Compare the time to process the whole prompt in one forward pass with the time for one token at a time."""
    words, T = seen.here, seen.result.prompt
    at_once, step = seen.result.prefill.median, seen.result.step.median
    values = {"n": whole(T), "ms": milliseconds(at_once), "each": milliseconds(at_once / T)}
    items = [
        [words["prefill"], words["prefill_text" if T > 1 else "prefill_one"].format(**values)],
        [words["step"], words["step_text"].format(step=milliseconds(step), rate=number(1 / step))],
    ]
    if T > 1:
        items.append([words["why"], words["why_text"].format(ratio=number(step / (at_once / T), 2))])
    return {"title": words["title"], "items": items}


# --- for programs ---


def cache_size(
    playground: Playground,
    model: LanguageModel,
    length: Annotated[int, Within(1, 1 << 20)] = 1024,
    batch: Annotated[int, Within(1, 1024)] = 1,
) -> dict:
    """Compute the bytes of the KV cache by its formula, 2 L B G S E x 4, beside the bytes of the weights.

    Args:
        length: Number of tokens in the cache per sequence.
        batch: Batch size.

    Returns:
        bytes: size of the cache; a_token: bytes per additional token; unshared: bytes if every query head had its own
        keys and values; states: bytes of the layers that carry a state of constant size instead; weights: bytes of the
        model; factors: the factors of the formula.
    """
    config = model.config
    factors = {
        "tensors": 2,
        "layers": kept_layers(config),
        "batch": batch,
        "kv_heads": config.n_kv_head,
        "length": length,
        "d_head": config.d_head,
        "bytes": ITEM,
    }
    return {
        "bytes": cache_bytes(config, batch, length),
        "a_token": cache_bytes(config, batch, 1),
        "unshared": cache_bytes(config, batch, length, config.n_head),
        "states": state_bytes(config, batch),
        "weights": model.nbytes,
        "factors": factors,
    }


def cache_times(scene: Scene) -> dict:
    """Measure the time per additional token with and without the KV cache, on the server at the time of the request.

    Returns:
        rows: for each context length (length), the seconds with the cache (cached) and without it (whole), their ratio,
        the largest absolute difference of the logits (gap) and whether the top token is the same (agree); null if the
        measurement would have taken too long. prefill: seconds for the whole prompt in one forward pass; step: seconds
        for one additional token after it; threads: number of threads.
    """
    result: MeasuredCosts = measured(VIEW, "times", scene)
    rows = [
        {
            "length": row.length,
            "cached": row.cached.median,
            "whole": row.whole.median if row.whole else None,
            "ratio": row.ratio,
            "gap": row.gap,
            "agree": row.agree,
        }
        for row in result.rows
    ]
    return {
        "rows": rows,
        "prompt": result.prompt,
        "prefill": result.prefill.median,
        "step": result.step.median,
        "threads": result.threads,
    }


VIEW = View(
    "kv_cache",
    needs=("layers", "next"),
    settings=(BATCH,),
    measures=(
        Measure("main", measure_sizes, depends=("plain",), settings=("batch",), locks=False),
        Measure("times", measure_times, depends=("plain", "limit"), slow=True),
    ),
    layout=("form", ("formula", "bytes"), "job", ("times", ("table", "prefill"))),
    parts={
        "formula": Custom("cacheformula", formula),
        "bytes": Figure(by_context),
        "job": Job("times", job, settings=(), again=True),
        "times": Figure(times, of="times", settings=()),
        "table": Table(table, of="times", settings=()),
        "prefill": Custom("normfacts", prefill, of="times", settings=()),
    },
    api=(
        Endpoint(cache_size, reads="model", kind="computed"),
        Endpoint(cache_times, reads="plain run", long=True),
    ),
)
