"""What a quantized model is measured with: a text that comes with the program, and what the model's own file held."""

from collections import Counter

from model.api import LanguageModel
from model.design.past_length import TEXT
from model.errors import PlaygroundError
from model.loading.gguf_file import read_gguf
from model.loading.sources import resolve

TEXT_TOKENS = 256
_CHARACTERS = 6000  # of the text; enough for as many tokens of any vocabulary


def held_out_ids(lm: LanguageModel, most: int = TEXT_TOKENS) -> list[int]:
    """The first tokens of the held-out text, at most as many as the model has positions."""
    ids = lm.encode(TEXT.read_text(encoding="utf-8")[:_CHARACTERS]).ids.tolist()
    return ids[: min(most, lm.config.n_ctx)]


def file_types(model_id: str) -> dict[str, int]:
    """How many tensors of each type the GGUF file of a model holds, the most frequent first; {} where it is no GGUF."""
    try:
        found = resolve(model_id, None, offline=True, allow_paths=True)
        if found.kind != "gguf":
            return {}
        tensors = read_gguf(found.path).tensors.values()
    except (PlaygroundError, OSError):
        return {}
    return dict(Counter(each.type.name for each in tensors).most_common())
