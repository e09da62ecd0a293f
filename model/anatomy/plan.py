"""Requirements of a model before loading: its memory for each way of loading it, whether it fits, and the expected
durations.

Bytes are exact where formulas permit (weights, contents of a trace). Durations are estimated from the numbers of
operations and bytes and from this machine's measured throughput; the measurement takes about a second.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

import pandas as pd
import psutil
import torch

from model.anatomy.anatomy import kinds_of_weights, n_params
from model.anatomy.flops import operations, prompt, total
from model.anatomy.footprint import weights_bytes
from model.errors import InputError
from model.free_memory import SPARE
from model.gpt.config import ModelConfig
from model.kernels import half_products
from model.kernels.half_products import chosen
from model.loading import gguf_models
from model.loading.checkpoint import read_config
from model.loading.gguf_file import files_of as gguf_files
from model.loading.halves import DTYPES
from model.loading.safetensors_files import open_folder
from model.loading.sources import Resolved
from model.loading.stored import SLICE
from model.tracing.head_metrics import HEAD_METRICS, RowStats, pool_size

_LOOK = 1 << 26  # bytes read from a file, and of 16-bit weights converted to float32, in the timing
_WORK = 1 << 30  # maximum multiply-adds of a measured product


@dataclass(frozen=True)
class Rates:
    """The throughput of this machine per second, for one model and prompt length."""

    multiplied: dict[str, float]  # {key of DTYPES: operations of products with weights}
    read: float  # bytes read from the model's files
    widened: float  # bytes of 16-bit weights converted to float32


@dataclass(frozen=True)
class Files:
    """Metadata of a model's files, obtained without reading the weights."""

    config: ModelConfig
    largest: Path
    nbytes: int  # bytes of all files
    kind: str  # "folder" or "gguf"
    dtypes: frozenset[torch.dtype] = frozenset()  # dtypes of the matrices in a folder


def files_of(resolved: Resolved) -> Files:
    """Read the config and the sizes of a model's files. Raises CheckpointError and UnsupportedModel as loading does."""
    if resolved.kind == "gguf":
        _, _, config = gguf_models.open_model(resolved.path)
        parts = {path: path.stat().st_size for path in gguf_files(resolved.path) if path.is_file()}
        return Files(config, max(parts, key=parts.__getitem__), sum(parts.values()), "gguf")
    _, config = read_config(resolved.path)
    folder = open_folder(resolved.path)
    paths = sorted({resolved.path / name for name in folder.files.values()})
    largest = max(paths, key=lambda path: path.stat().st_size)
    dtypes = frozenset(tensor.dtype for tensor in map(folder.mapped, folder.files) if tensor.ndim > 1)
    return Files(config, largest, sum(path.stat().st_size for path in paths), "folder", dtypes)


def trace_bytes(config: ModelConfig, T: int) -> int:
    """Return the bytes of a trace of T tokens without its logits, as `Trace.nbytes`."""
    t = -(-T // pool_size(T))
    heads = config.n_layer * config.n_head
    streams = 4 * (config.n_layer + 1) * T * config.d_model
    return streams + heads * (t * t + 4 * len(HEAD_METRICS) + 4 * len(fields(RowStats)) * T)


def halved_bytes(config: ModelConfig) -> int:
    """Return the bytes of the weights with 16-bit matrices; norms and biases remain float32."""
    return sum(
        (2 if len(weight.shape) > 1 and not weight.name.endswith(".bias") else 4) * weight.size * n
        for weight, n in kinds_of_weights(config)
    )


def run_operations(config: ModelConfig, T: int) -> int:
    """Estimate the operations of a forward pass on T tokens with logits for the last one; without an exact count, as 2
    per weight and token.
    """
    try:
        return total(operations(config, prompt(T, 1)))
    except InputError:  # other mixers than full attention
        return 2 * n_params(config) * T


def plan(files: Files, T: int, rates: Rates, free: int) -> pd.DataFrame:
    """Return a table with a row for each way of loading a model, labeled by its command-line options.

    Columns: `weights` and `prompt`, bytes of the weights and of a trace of T tokens in memory; `fits`, whether both,
    plus SPARE percent, are within `free` bytes; `loading` and `run`, seconds, NaN if unknown.
    """
    config, operations_of_run = files.config, run_operations(files.config, T)
    full, half = weights_bytes(config), halved_bytes(config)
    reading = files.nbytes / rates.read if files.kind == "folder" else math.nan
    widening = 2 * n_params(config) / rates.widened
    run = {dtype: operations_of_run / rate for dtype, rate in rates.multiplied.items()}
    rows = {f"--dtype {name}": (full if name == "float32" else half, reading + widening, run[name]) for name in DTYPES}
    if files.kind == "folder":
        reread = 0 if files.nbytes < free else reading  # weights that do not fit into memory are read again in each run
        rows["--weights stored"] = (4 * SLICE, 0.0, run["float32"] + widening + reread)
        for name in (name for name, dtype in DTYPES.items() if name != "float32" and files.dtypes == {dtype}):
            rows[f"--weights stored --dtype {name}"] = (4 * half_products.SLICE, 0.0, run[name] + reread)
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["weights", "loading", "run"])
    table.insert(1, "prompt", trace_bytes(config, T))
    table.insert(2, "fits", (table["weights"] + table["prompt"]) * (100 + SPARE) <= 100 * free)
    return table


# --- measured --------------------------------------------------------------------------------------


def measured(files: Files, T: int) -> Rates:
    """Measure this machine's throughput for the operations of a model, in about a second."""
    config = files.config
    width = max(16, min(config.d_mlp, _WORK // (config.d_model * T)))
    return Rates(
        {name: _multiplied(config.d_model, width, T, dtype) for name, dtype in DTYPES.items()},
        _rate(lambda: _read(files.largest), min(_LOOK, files.largest.stat().st_size)),
        _rate(torch.zeros(_LOOK // 2, dtype=torch.bfloat16).float, _LOOK),
    )


def _multiplied(d_in: int, d_out: int, rows: int, dtype: torch.dtype) -> float:
    """Measure the operations per second of a product with weights; input and output are float32."""
    weight, x = torch.full((d_out, d_in), 0.01).to(dtype), torch.full((rows, d_in), 0.1)
    with torch.inference_mode():
        product = chosen(weight, rows)
        return _rate(lambda: product(x, weight, None), 2 * d_in * d_out * rows)


def _read(path: Path) -> bytes:
    """Read _LOOK bytes from the middle of a file."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _LOOK) // 2)
        return file.read(_LOOK)


def _rate(work: Callable[[], object], amount: float) -> float:
    """Run the function twice and return the units per second of the second run."""
    for _ in range(2):
        began = time.perf_counter()
        work()
        seconds = time.perf_counter() - began
    return amount / max(seconds, 1e-9)


# --- report ---------------------------------------------------------------------------------------


def report(resolved: Resolved, tokens: int) -> str:
    """Format the plan for a model as lines for a terminal, measured now, for a prompt of `tokens` tokens, at most the
    context length.
    """
    files = files_of(resolved)
    T, free = min(tokens, files.config.n_ctx), psutil.virtual_memory().available
    table = plan(files, T, measured(files, T), free)
    shown = pd.DataFrame(
        {
            "weights": table["weights"].map(_bytes),
            f"{T:,} tokens": table["prompt"].map(_bytes),
            "fits": table["fits"].map({True: "yes", False: "no"}),
            "loading": table["loading"].map(_seconds),
            "a run": table["run"].map(_seconds),
        }
    )
    head = f"{resolved.label}: {n_params(files.config):,} parameters, {_bytes(files.nbytes)} on disk; "
    return f"{head}{_bytes(free)} of memory are free.\n\n{shown.to_string()}"


def _bytes(number: float) -> str:
    return f"{number / 1e9:.2f} GB" if number >= 1e9 else f"{number / 1e6:.0f} MB"


def _seconds(number: float) -> str:
    return "?" if math.isnan(number) else f"about {number:.0f} s" if number >= 1 else "below 1 s"
