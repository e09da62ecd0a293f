"""Tokens a second: this project beside transformers and, where llama-cpp-python is installed, llama.cpp.

    python benchmarks/generate.py [--shapes gpt2 smollm2-135m] [--batches 1 6] [--rounds 3] [--policy passive|spin]
                                  [--engines transformers ours ours-int8 llama-f32 llama-q8]

A prompt of 32 tokens and 128 new ones, greedy. Where there is a CUDA device, it is measured, too. Every engine lives in
a process of its own and they are called in turn, so that a slow minute hits all of them; a figure is the median of the
rounds. The waiting policy of OpenMP's threads is one for all engines of a run and decides more than any kernel, so it
stands with every figure. "limit" is what reading the float32 weights once a token would take at the measured bandwidth
of this machine's CPU. This project's figures are those of `model.generation.generate`: with probabilities, ranks,
entropy and eight alternatives of every token worked out on the way.
"""

import argparse
import os
import random
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.processes import ask, start

PROMPT, NEW = 32, 128
VOCABULARY = {"gpt2": 50257, "smollm2-135m": 49152}
LABELS = {
    "transformers": "transformers generate, float32",
    "ours": "this project, float32",
    "ours-int8": "this project, 8-bit weights",
    "llama-f32": "llama.cpp F32",
    "llama-q8": "llama.cpp Q8_0",
    "ours-cuda": "this project, float32 products on the GPU",
    "ours-cuda-bf16": "this project, bfloat16 products on the GPU",
    "transformers-cuda": "transformers on the GPU, float32",
}
# Read by every engine's threads before they start. ACTIVE would have an idle engine spin for minutes beside the others.
POLICIES = {"passive": {"OMP_WAIT_POLICY": "PASSIVE"}, "spin": {"GOMP_SPINCOUNT": "10000"}}


def prompt(shape: str) -> list[int]:
    """The same token ids for every engine; without torch, whose threads llama.cpp would have beside its own."""
    numbers = random.Random(0)
    return [numbers.randrange(100, VOCABULARY[shape] - 100) for _ in range(PROMPT)]


def ours(shape: str, *, eight: bool = False, device: str = "cpu", dtype: str = "float32"):
    """This project's generation; no token ends a text early."""
    from benchmarks.engines import _our_model
    from model.generation.generate import generate
    from model.generation.strategies import STRATEGIES, DecodingPlan
    from model.kernels import ready
    from model.quantization.int8 import quantized

    ready.now()  # what is compiled, so that all rounds take the same steps
    model = _our_model(shape, device, dtype)
    model = quantized(model) if eight else model

    def run(batch: int) -> list[int]:
        plan = DecodingPlan(max_new_tokens=NEW)
        ticks = generate(model, prompt(shape), [STRATEGIES["greedy"]] * batch, plan, VOCABULARY[shape])
        return [made.id for tick in ticks for made in tick.changes[0].made]

    return run


def theirs(shape: str, device: str = "cpu"):
    """transformers' generate with its defaults."""
    import torch

    from benchmarks.engines import _transformers_model

    model = _transformers_model(shape, "sdpa").to(device)

    def run(batch: int) -> list[int]:
        ids = torch.tensor([prompt(shape)] * batch, device=device)
        with torch.inference_mode():
            made = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=NEW,
                min_new_tokens=NEW,
                do_sample=False,
                pad_token_id=0,
                temperature=None,
                top_p=None,
                top_k=None,
            )
        return made[0, PROMPT:].tolist()

    return run


def llama(shape: str, kind: str):
    """llama.cpp with as many sequences in one batch; of a file written here from the same weights."""
    import llama_cpp
    import numpy as np

    if shape != "smollm2-135m":
        raise ValueError("there is no file of this shape for llama.cpp")
    path = converted(kind)
    llama_cpp.llama_backend_init()
    options = llama_cpp.llama_model_default_params()
    options.use_extra_bufts = kind == "f32"  # its repacked 8-bit products crashed on the machine that was measured
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), options)
    vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))

    def run(batch: int) -> list[int]:
        settings = llama_cpp.llama_context_default_params()
        settings.n_ctx, settings.n_seq_max = 512 * batch, batch
        settings.n_threads = settings.n_threads_batch = os.cpu_count()
        context = llama_cpp.llama_init_from_model(model, settings)
        tokens = llama_cpp.llama_batch_init(PROMPT * batch, 0, 1)

        def fill(rows: list[list[int]], start: int) -> None:
            tokens.n_tokens = 0
            for sequence, ids in enumerate(rows):
                for offset, token in enumerate(ids):
                    at = tokens.n_tokens
                    tokens.token[at], tokens.pos[at] = token, start + offset
                    tokens.n_seq_id[at], tokens.seq_id[at][0] = 1, sequence
                    tokens.logits[at] = offset == len(ids) - 1
                    tokens.n_tokens += 1

        def best() -> list[int]:
            if llama_cpp.llama_decode(context, tokens):
                raise RuntimeError("llama_decode failed")
            last = [at for at in range(tokens.n_tokens) if tokens.logits[at]]
            return [
                int(np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(context, at), (vocab,)).argmax())
                for at in last
            ]

        fill([prompt(shape)] * batch, 0)
        made = [best()]
        for step in range(NEW - 1):
            fill([[token] for token in made[-1]], PROMPT + step)
            made.append(best())
        llama_cpp.llama_batch_free(tokens)
        llama_cpp.llama_free(context)
        return [row[0] for row in made]

    return run


def converted(kind: str) -> Path:
    """SmolLM2's file with all matrices as F32 or Q8_0, written once into the temporary folder."""
    import tempfile

    import gguf

    wanted = gguf.GGMLQuantizationType.F32 if kind == "f32" else gguf.GGMLQuantizationType.Q8_0
    path = Path(tempfile.gettempdir()) / f"smollm2-135m-{kind}.gguf"
    if path.exists():
        return path
    from model.loading.sources import smollm2_path

    reader = gguf.GGUFReader(smollm2_path())
    writer = gguf.GGUFWriter(path.with_suffix(".part"), "llama")
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        element = field.types[1] if len(field.types) > 1 else None
        writer.add_key_value(field.name, field.contents(), field.types[0], element)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype("float32")
        if values.ndim == 1 or kind == "f32":
            writer.add_tensor(tensor.name, values)
        else:
            writer.add_tensor(tensor.name, gguf.quants.quantize(values, wanted), raw_dtype=wanted)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    path.with_suffix(".part").rename(path)
    return path


ENGINES = {
    "transformers": theirs,
    "ours": ours,
    "ours-int8": lambda shape: ours(shape, eight=True),
    "llama-f32": lambda shape: llama(shape, "f32"),
    "llama-q8": lambda shape: llama(shape, "q8"),
    "ours-cuda": lambda shape: ours(shape, device="cuda"),
    "ours-cuda-bf16": lambda shape: ours(shape, device="cuda", dtype="bfloat16"),
    "transformers-cuda": lambda shape: theirs(shape, "cuda"),
}


def worker(engine: str, shape: str, pipe) -> None:
    """Answer a batch size with (seconds, the first row's ids) until told to stop."""
    try:
        run = ENGINES[engine](shape)
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}")
        return
    pipe.send("ready")
    while (batch := pipe.recv()) is not None:
        started = time.perf_counter()
        ids = run(batch)
        pipe.send((time.perf_counter() - started, ids))


def bandwidth() -> float:
    """Bytes a second at which this machine reads memory: the best of several sums over 1 GB."""
    import torch

    values = torch.ones(1 << 28)
    best = float("inf")
    for _ in range(6):
        started = time.perf_counter()
        values.sum()
        best = min(best, time.perf_counter() - started)
    return values.nbytes / best


def shared(a: list[int], b: list[int]) -> int:
    """How many tokens two texts have in common at their beginning."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y), len(a))


def measure(shape: str, batches: list[int], rounds: int, policy: str, engines: list[str]) -> list[str]:
    """The rows of one shape; shares and common tokens are those beside the first engine."""
    from benchmarks.engines import SHAPES

    s = SHAPES[shape]
    heads = s["width"] // s["heads"] * s["kv"] * 2 + 2 * s["width"]
    mlp = 2 * s["width"] * s["mlp"] if shape == "gpt2" else 3 * s["width"] * s["mlp"]
    weights = 4 * (s["layers"] * (s["width"] * heads + mlp) + s["vocab"] * s["width"])  # bytes read for a token
    pipes = {engine: pipe for engine in engines if (pipe := start(worker, engine, shape, LABELS[engine]))}
    first = next(iter(pipes))
    lines, limit = [], bandwidth() / weights
    for batch in batches:
        found = {engine: [ask(pipe, batch)] for engine, pipe in pipes.items()}  # the first one warms up
        texts = {engine: answers[0][1] for engine, answers in found.items()}
        found = {engine: [] for engine in pipes}
        for _ in range(rounds):
            for engine, pipe in pipes.items():
                found[engine].append(ask(pipe, batch)[0])
        base = statistics.median(found[first])
        for engine, seconds in found.items():
            middle = statistics.median(seconds)
            same = shared(texts[engine], texts[first])
            lines.append(
                f"| {policy} | {shape} | {batch} | {LABELS[engine]} | {batch * NEW / middle:.1f} "
                f"| {base / middle:.2f} | {middle / NEW * 1e3:.1f} | {NEW / middle / limit:.0%} | {same} |"
            )
            print(lines[-1], flush=True)
    for pipe in pipes.values():
        pipe.send(None)
    print(f"{shape}: bandwidth limit {limit:.1f} steps a second", flush=True)
    return lines


def main() -> None:
    """Print the table of one policy, or run once for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", default=["gpt2", "smollm2-135m"])
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 6])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--policy", choices=POLICIES, default="passive")
    parser.add_argument("--engines", nargs="+", choices=list(LABELS), default=list(LABELS))
    options = parser.parse_args()
    os.environ.update(POLICIES[options.policy])
    print("| threads | shape | batch | engine | tokens/s | x the first | ms a step | of the limit | same tokens |")
    print("|---|---|---|---|---|---|---|---|---|")
    for shape in options.shapes:
        measure(shape, options.batches, options.rounds, options.policy, options.engines)


if __name__ == "__main__":
    main()
