"""Torch without what its own import brings along for exporting and compiling, until a while after the page is served.

A quarter of torch's import is its exporter and those kernels for tensors without values ("meta") that are written in
Python: for exporting, compiling and some operations on such tensors. `load_torch` is called before anything imports
torch; `rest` imports what was put off, and from then on torch is whole. Without them the app only starts later.
"""

import sys
from types import ModuleType

PUT_OFF = ("torch.export", "torch._meta_registrations")  # imported at the end of torch/__init__.py for their effects


def load_torch() -> None:
    """Import torch, with nothing in the places of what is put off."""
    if "torch" in sys.modules:
        return
    sys.modules.update({name: ModuleType(name) for name in PUT_OFF})
    try:
        import torch
    finally:
        for name in PUT_OFF:
            del sys.modules[name]
    for name in PUT_OFF:
        vars(torch).pop(name.rpartition(".")[2], None)


def rest() -> None:
    """Import what was put off."""
    from torch import _meta_registrations, export  # noqa: F401
