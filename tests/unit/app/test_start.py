"""What a start imports until its page is served, in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

CODE = """
import builtins, gc, json, os, sys, time, urllib.request
import app

say = builtins.print

def served(*what, **how):
    say(*what, **how)
    if what and str(what[0]).startswith("Attention playground:"):
        urllib.request.urlopen(what[0].split()[-1]).read()
        modules = sorted(sys.modules)
        say(json.dumps({"modules": modules, "collects": gc.isenabled()}), flush=True)
        os._exit(0)

builtins.print = served
app.main(["--offline"])
"""
LATER = {  # not needed by a first view
    "scipy",
    "sklearn",
    "transformers",
    "transformer_lens",
    "accelerate",
    "peft",
    "ray",
    "matplotlib",
    "torch._dynamo",
    "torch._inductor",
    "sympy",
    "plotly.express",
    "viz.cluster.cluster",
}


def test_what_the_first_view_does_not_need_is_not_imported_until_the_page_is_served():
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", CODE], cwd=root, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert LATER & set(found["modules"]) == set()
    assert {"gradio", "torch", "viz.page.build"} <= set(found["modules"])
    # Torch is whole: without what it imports for exporting no random number can be drawn.
    assert {"torch.export", "torch._meta_registrations", "torch._prims.rng_prims"} <= set(found["modules"])
    assert found["collects"]
