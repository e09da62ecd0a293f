"""Torch is imported in two parts, and is whole after the second; a model is loaded and runs on the first alone."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

from viz.server import serve

CODE = """
import json, sys
from viz.server.framework import late

late.load_torch(), late.load_torch()
import torch
assert not set(late.PUT_OFF) & set(sys.modules), "nothing that is empty is left"
assert not hasattr(torch, "_meta_registrations") and not hasattr(torch, "export")

from model.anatomy.flops import Reading, counted
from model.api import load_model
from model.gpt.mixers.names import MIXERS
from model.loading.convert import skeleton
from tests.support.models.helpers import VARIANTS, tiny_config

def shapes(changes):
    return {name: list(tensor.shape) for name, tensor in skeleton(tiny_config(changes)).state_dict().items()}

def all_shapes():
    wired = {name: shapes(changes) for name, changes in VARIANTS.items()}
    return wired | {name: shapes(VARIANTS["llama"] | {"mixer": name, "window": 4}) for name in MIXERS}

def logits():
    lm = load_model("tinygpt", offline=True)
    with torch.inference_mode():
        return lm.model(torch.arange(9)[None])

norm = lambda: torch.nn.functional.layer_norm(torch.empty(2, 3, device="meta"), (3,)).shape
try:
    norm()
except NotImplementedError:
    pass  # such an operation is not there yet, and says so
else:
    raise AssertionError("what is put off is there")
before = all_shapes(), logits()
assert counted(tiny_config(), Reading(5, 5)), "what needs more imports it"
late.rest()
after = all_shapes(), logits()
assert before[0] == after[0] and torch.equal(before[1], after[1])
assert norm() == (2, 3) and callable(torch.export.export) and torch._meta_registrations
print(json.dumps([len(before[0]), list(MIXERS)]))
"""


def test_a_model_runs_before_torch_is_whole_and_torch_is_whole_in_the_end():
    root = Path(__file__).parents[4]
    done = subprocess.run([sys.executable, "-c", CODE], cwd=root, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    tried, mixers = json.loads(done.stdout)
    assert tried > len(mixers) > 5


def test_a_first_visit_comes_before_the_rest(monkeypatch):
    done = []
    monkeypatch.setattr(serve, "time", SimpleNamespace(sleep=done.append))
    monkeypatch.setattr(serve.late, "rest", lambda: done.append("rest"))
    serve.warm(SimpleNamespace(options=SimpleNamespace(lessons=None)))
    assert done == [serve.FIRST_VISIT, "rest"]
