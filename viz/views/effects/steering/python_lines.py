"""The Python lines that compute the vectors of each source, the vectors' names, and their files."""

import base64

import numpy as np

from model.errors import InputError
from model.gpt.config import ModelConfig
from model.gpt.placed_vectors import vector_text
from model.steering.files import VectorFile, gguf_bytes, npz_bytes
from viz.seam.settings import Settings
from viz.views.effects.steering.measure import Steering, placed
from viz.views.effects.steering.sources import file_of, pairs_of
from viz.words import Words

MOST_SENT = 1_000_000  # bytes of a file that the page gets; larger ones are saved in Python
_VECTORS = "from model.steering.vectors import"


def source_lines(settings: Settings, config: ModelConfig, found: Steering | None) -> tuple[list[str], list[str]]:
    """Write the lines that compute `vectors` [L, D], and their imports."""
    site, L = placed(settings).site, config.n_layer
    numpy = "import numpy as np"
    if settings.source == "pairs":
        given = f"{pairs_of(settings.pairs)!r}, site={site!r}, read={settings.read!r}"
        return [f"vectors = pair_vectors(lm, {given})"], [f"{_VECTORS} pair_vectors"]
    if settings.source == "runs":
        each = f"run_difference(run, other, layer, site={site!r}) for layer in range({L})"
        lines = [f"other = lm.trace({settings.other!r})", f"vectors = np.stack([{each}])"]
        return lines, [numpy, f"{_VECTORS} run_difference"]
    if settings.source == "file":
        each = f"file.vectors.get(layer, np.zeros({config.d_model})) for layer in range({L})"
        lines = ['file = load_vectors("the path of the file")', f"vectors = np.stack([{each}]).astype(np.float32)"]
        return lines, [numpy, "from model.steering.files import load_vectors"]
    if settings.source == "numbers":
        text = "" if found is None else vector_text(found.vectors[0])
        line = f"vectors = np.tile(typed_vector({text!r}, {config.d_model}), ({L}, 1))"
        return [line], [numpy, f"{_VECTORS} typed_vector"]
    if settings.source == "token":
        name = "token_vector"
        one = f"token_vector(lm, {None if found is None else found.token}, {settings.table!r})"
    else:
        name, one = "neuron_vector", f"neuron_vector(lm, {settings.neuron_layer}, {settings.neuron})"
    tiled = f"np.tile({one}, ({L}, 1))"
    if not settings.share:
        return [f"vectors = {tiled}"], [numpy, f"{_VECTORS} {name}"]
    line = f"vectors = scaled_vectors(run, {tiled}, {settings.share}, {site!r})"
    return [line], [numpy, f"{_VECTORS} {', '.join(sorted((name, 'scaled_vectors')))}"]


def name_of(settings: Settings) -> str:
    """Name a vector by its source: the first pair, the token, the neuron, the other prompt, or the file's name."""

    def cut(text: str) -> str:
        text = " ".join(text.split())
        return text if len(text) <= 24 else f"{text[:23]}…"

    if settings.source == "pairs":
        first, second = map(cut, pairs_of(settings.pairs)[0])
        return f"{first} − {second}"
    if settings.source == "runs":
        return f"− {cut(settings.other)}"
    if settings.source == "token":
        return cut(settings.token)
    if settings.source == "neuron":
        return f"{settings.neuron_layer}.{settings.neuron}"
    return (file_of(settings.file).name if settings.source == "file" else "")[:60] or settings.source


def files_of(vectors: np.ndarray, site: str, name: str, model: str, words: Words) -> list[dict[str, str]]:
    """Build the files of the vectors for the page, in base64: NPZ and, where it can hold them, GGUF.

    Layers whose vector is zero are left out; so is layer 0 (or, before the block, 0 and 1) of GGUF.
    """
    kept = {layer: vector for layer, vector in enumerate(vectors) if vector.any()}
    first = 2 if site == "resid_pre" else 1
    after = {layer: vector for layer, vector in kept.items() if layer >= first}
    made = []
    for kind, write, chosen in (("npz", npz_bytes, kept), ("gguf", gguf_bytes, after)):
        if not chosen or 4 * vectors.size > MOST_SENT or (kind == "gguf" and site == "resid_mid"):
            continue
        try:
            data = write(VectorFile(chosen, site, name, model))
        except InputError:
            continue
        made.append({"text": words[kind], "file": f"steering-{name}.{kind}", "data": base64.b64encode(data).decode()})
    return made
