"""Text for evaluating a quantized model, and the tensor types of the model's own file."""

from collections import Counter

from model.api import LanguageModel
from model.errors import PlaygroundError
from model.loading.gguf_file import read_gguf
from model.loading.sources import resolve
from model.public import public, whole
from model.text.held_out import TEXT

TEXT_TOKENS = 256
_CHARACTERS = 6000  # length of the text; enough for TEXT_TOKENS with any vocabulary


@public(most=whole(1))
def held_out_ids(lm: LanguageModel, most: int = TEXT_TOKENS) -> list[int]:
    """Return the first tokens of the held-out text, at most as many as the model's context."""
    ids = lm.encode(TEXT.read_text(encoding="utf-8")[:_CHARACTERS]).ids.tolist()
    return ids[: min(most, lm.config.n_ctx)]


def file_types(model_id: str) -> dict[str, int]:
    """Count the tensors of each type in a model's GGUF file, most frequent first; {} for other files."""
    try:
        resolved = resolve(model_id, None, offline=True, allow_paths=True)
        if resolved.kind != "gguf":
            return {}
        tensors = read_gguf(resolved.path).tensors.values()
    except (PlaygroundError, OSError):
        return {}
    return dict(Counter(each.type.name for each in tensors).most_common())
