"""A model larger than its memory: made-up bfloat16 checkpoints of known shapes, traced with their weights in the files.

    python benchmarks/larger.py [--shapes 1b 7b] [--dtypes float32 bfloat16] [--tokens 16] [--limit 2500]
                                [--device cuda [--room 0]]

The files are written first (2.5 and 13.5 GB) and put out of the system's cache, and so before each trace, which is of
products in float32 or in the type of the files. The trace runs in a process of its own;
"anonymous" is the largest memory that it had to itself, "mapped" the most of the files that was in memory beside it,
which the system takes back when it needs it. With --limit and the right to make a control group the process gets no
more MB than that, files included. With --device the products are computed there, and with --room so many MB of it are
said to be free: the matrices of all other layers go there at each product. "again" is a second trace.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.capture import resident

SHAPES = {
    "1b": {
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "tie_word_embeddings": True,
    },
    "7b": {
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "vocab_size": 32000,
        "tie_word_embeddings": False,
    },
}


def write(folder: Path, shape: str) -> int:
    """A checkpoint in Llama's format, a file a layer; returns its bytes. Its numbers repeat: they are drawn soon."""
    import torch
    from safetensors.torch import save_file

    c = SHAPES[shape]
    D, M, V = c["hidden_size"], c["intermediate_size"], c["vocab_size"]
    kv = D // c["num_attention_heads"] * c["num_key_value_heads"]
    folder.mkdir(parents=True, exist_ok=True)
    drawn = (0.02 * torch.randn((1 << 20) + 7, generator=torch.Generator().manual_seed(0))).bfloat16()

    def matrix(*size: int) -> torch.Tensor:
        n = size[0] * size[1]
        return drawn.repeat(-(-n // len(drawn)))[:n].view(size)

    weight_map, total = {}, 0
    for number in range(c["num_hidden_layers"] + 1):
        if number:
            at = f"model.layers.{number - 1}."
            tensors = {
                f"{at}self_attn.q_proj.weight": matrix(D, D),
                f"{at}self_attn.k_proj.weight": matrix(kv, D),
                f"{at}self_attn.v_proj.weight": matrix(kv, D),
                f"{at}self_attn.o_proj.weight": matrix(D, D),
                f"{at}mlp.gate_proj.weight": matrix(M, D),
                f"{at}mlp.up_proj.weight": matrix(M, D),
                f"{at}mlp.down_proj.weight": matrix(D, M),
                f"{at}input_layernorm.weight": torch.ones(D).bfloat16(),
                f"{at}post_attention_layernorm.weight": torch.ones(D).bfloat16(),
            }
        else:
            tensors = {"model.embed_tokens.weight": matrix(V, D), "model.norm.weight": torch.ones(D).bfloat16()}
            if not c["tie_word_embeddings"]:
                tensors["lm_head.weight"] = matrix(V, D)
        file = folder / f"part-{number}.safetensors"
        save_file(tensors, file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(tensors, file.name)
        total += file.stat().st_size
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    config = c | {"model_type": "llama", "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "hidden_act": "silu"}
    (folder / "config.json").write_text(json.dumps(config | {"rope_theta": 10000.0}))
    return total


def forget(folder: Path) -> None:
    """Put the files out of the system's cache: the process that reads them pays for it."""
    for file in folder.glob("*.safetensors"):
        handle = os.open(file, os.O_RDONLY)
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def trace(folder: Path, n: int, dtype: str, device: str, room: int | None) -> None:
    """Trace n tokens with the weights in their files; print what it took. `room`: MB of the device."""
    import torch

    from model.loading import devices
    from model.loading.checkpoint import build, load_folder
    from model.loading.halves import DTYPES
    from model.records import Tokens
    from model.tracing.trace import run

    most, over = [0, 0], threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            most[:] = map(max, most, map(resident, ("RssAnon", "RssFile")))

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.perf_counter()
    if room is not None:
        devices.free = lambda kind: {kind: room << 20}
    model, _ = devices.streamed(build(*load_folder(folder, stored=True)), device, DTYPES[dtype])
    loaded = time.perf_counter()
    ids = torch.randint(0, model.config.vocab_size, (n,), generator=torch.Generator().manual_seed(0))
    tokens = Tokens(ids.numpy(), ("",) * n, (b"",) * n, torch.arange(2 * n).view(n, 2).numpy())
    traced = run(model, tokens)
    rows = traced.pattern(model.config.n_layer - 1, 0).sum(1)
    ended = time.perf_counter()
    run(model, tokens)
    again = time.perf_counter() - ended
    over.set()
    watcher.join()
    print(json.dumps([loaded - began, ended - loaded, again, *most, float(abs(rows - 1).max())]))


def limited(name: str, megabytes: int) -> Path | None:
    """A control group with so much memory; None where none can be made."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    own = next((line.split(":", 2)[2] for line in lines if line.split(":")[1] == "memory"), None)
    if own is None:
        return None
    group = Path("/sys/fs/cgroup/memory") / own.lstrip("/") / name
    try:
        group.mkdir(exist_ok=True)
        (group / "memory.limit_in_bytes").write_text(str(megabytes << 20))
    except OSError:
        return None
    return group


def main() -> None:
    """Write, trace and print a row for each shape."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--room", type=int, help="MB that the device is said to have free")
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--limit", type=int, default=0, help="MB of the process that traces; 0 for no limit")
    parser.add_argument("--folder", type=Path, default=Path("/tmp"))
    parser.add_argument("--trace", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.trace:
        trace(options.trace, options.tokens, *options.dtypes, options.device, options.room)
        return
    print(
        "| shape | products | files, GB | limit, MB | load, s | trace, s | again, s | anonymous, MB | mapped, MB "
        "| rows off 1 by |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    folders = {shape: options.folder / f"made-up-{shape}" for shape in options.shapes}
    sizes = {shape: write(folder, shape) for shape, folder in folders.items()}
    for shape, dtype in itertools.product(options.shapes, options.dtypes):
        forget(folders[shape])
        group = limited(f"larger-{os.getpid()}", options.limit) if options.limit else None
        command = [sys.executable, __file__, "--trace", str(folders[shape]), "--tokens", str(options.tokens)]
        command += ["--dtypes", dtype, "--device", options.device]
        command += [] if options.room is None else ["--room", str(options.room)]
        if group is not None:
            command = ["sh", "-c", f'echo $$ > "{group}/cgroup.procs"; exec "$@"', "sh", *command]
        told = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
        load, seconds, again, anonymous, mapped, off = json.loads(told.splitlines()[-1])
        held = options.limit if group is not None else "none"
        print(
            f"| {shape} | {dtype} | {sizes[shape] / 1e9:.1f} | {held} | {load:.2f} | {seconds:.1f} "
            f"| {again:.1f} | {anonymous / 1e6:.0f} | {mapped / 1e6:.0f} | {off:.0e} |",
            flush=True,
        )
        if group is not None:
            group.rmdir()


if __name__ == "__main__":
    main()
