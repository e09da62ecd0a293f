"""The tuned lens: a small affine map per layer from its residual stream to the basis of the last one.

Belrose et al. 2023 (arXiv:2303.08112): lens_l(h) = logits(h + A_l h + b_l), with A_l and b_l fitted so that the KL
divergence from the model's own prediction is small. Here A_l = down_l up_l has low rank, which keeps the file small.
`python -m model.predictions.fit_lens` fits a lens; those of the bundled models are stored beside their weights.
"""

import functools
import json
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from model.errors import CheckpointError
from model.gpt.config import ModelConfig
from model.loading.sources import WEIGHTS
from model.public import public
from model.strict_json import parse

FILE = "tuned_lens.safetensors"
_NAMES = ("down", "up", "bias")


@dataclass(frozen=True, eq=False)
class TunedLens:
    """Affine translators for the residual streams that enter blocks 0 .. L - 1."""

    down: Tensor  # float32 [L, D, R]
    up: Tensor  # float32 [L, R, D]
    bias: Tensor  # float32 [L, D]
    about: dict  # settings of the fit, and the KL of the plain and the tuned lens on held-out text by layer, in nats

    def translate(self, layer: int, x: Tensor) -> Tensor:
        """Translate the stream entering block `layer` to the basis of the last stream, which is layer L. [..., D] ->
        [..., D]

        Raises IndexError for a layer beyond L.
        """
        if layer == len(self.bias):
            return x
        return x + x @ self.down[layer] @ self.up[layer] + self.bias[layer]


@public()
def load_lens(model_id: str, config: ModelConfig) -> TunedLens | None:
    """Read the bundled lens of a model, or return None if it has none. Raises CheckpointError if it does not fit the
    model.
    """
    if not model_id or Path(model_id).name != model_id:
        return None  # only built-in ids are folder names here
    path = WEIGHTS / model_id / FILE
    return read_lens(path, config) if path.is_file() else None


@functools.lru_cache(maxsize=4)
def read_lens(path: Path, config: ModelConfig) -> TunedLens:
    """Read a lens from a file. Raises CheckpointError if the file is broken or its shapes do not fit the config."""
    try:
        with safe_open(path, "pt") as file:
            down, up, bias = (file.get_tensor(name).float() for name in _NAMES)
            about = parse((file.metadata() or {}).get("about", "{}"))
        if not isinstance(about, dict):
            raise ValueError("about is not an object")
    except (SafetensorError, OSError, ValueError, OverflowError, RuntimeError) as error:
        hint = "Fit it again with python -m model.predictions.fit_lens."
        raise CheckpointError("The tuned lens cannot be read.", f"{path.name}: {error}", hint) from error
    L, D = config.n_layer, config.d_model
    R = down.shape[-1] if down.ndim else 0
    if (down.shape, up.shape, bias.shape) != ((L, D, R), (L, R, D), (L, D)):
        got = ", ".join(f"{name} {list(t.shape)}" for name, t in zip(_NAMES, (down, up, bias), strict=True))
        hint = "Fit it again with python -m model.predictions.fit_lens."
        raise CheckpointError("The tuned lens belongs to another model.", got, hint)
    return TunedLens(down, up, bias, about)


def save_lens(lens: TunedLens, path: Path) -> None:
    """Write a lens to a file, with its maps in float16."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = {"down": lens.down.half(), "up": lens.up.half(), "bias": lens.bias.float()}
    save_file({name: t.contiguous() for name, t in tensors.items()}, path, {"about": json.dumps(lens.about)})
