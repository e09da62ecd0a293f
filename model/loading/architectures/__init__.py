"""The supported GGUF architectures, by general.architecture.

Each entry says what convert_hf_to_gguf.py of llama.cpp changes in the weights, beyond the names. GGUF does not store
the activation, nor most rules of a family, so the entry implies those of the published models.
"""

from model.loading.architectures.common import Architecture
from model.loading.architectures.convolutions import CONVOLUTIONS
from model.loading.architectures.encoders import ENCODERS
from model.loading.architectures.experts import EXPERTS_MODELS
from model.loading.architectures.gated import GATED
from model.loading.architectures.gemma4 import GEMMA4
from model.loading.architectures.hybrids import HYBRIDS
from model.loading.architectures.llama_like import LLAMA_LIKE
from model.loading.architectures.older import OLDER
from model.loading.architectures.sandwich import SANDWICH

ARCHITECTURES: dict[str, Architecture] = (
    LLAMA_LIKE | EXPERTS_MODELS | SANDWICH | GEMMA4 | OLDER | HYBRIDS | CONVOLUTIONS | GATED | ENCODERS
)
