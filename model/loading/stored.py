"""Linear layers and embeddings whose weights stay in their files, for models larger than memory.

Each matrix is mapped from its safetensors file in its stored type. A float32 product converts a slice of rows,
multiplies, and discards it. 16-bit numbers are exact in float32, so the results equal those of a float32 model in
memory, up to the rounding of sums. A product in the matrix's own type needs no copy; see model.loading.halves for its
rounding. If another device computes the product, the rows are first copied there. The files must not be written to
while the model is in use. GPT-NeoX's fused queries, keys and values are interleaved by head, so they are reordered in
memory, in the file's type, and so are experts, to be stacked.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.gpt.experts import Stack
from model.gpt.linear import Linear, held_by
from model.gpt.transformer import Transformer
from model.kernels.half_products import chosen

SLICE = 1 << 24  # number of weights converted to float32 at a time, 64 MB


class StoredLinear(Linear):
    """A linear layer y = x W^T + b with its matrix in a file. x [..., in] -> [..., out], both float32 on the CPU.

    `dtype` is the type of the product, float32 or the matrix's own; `device` is where it is computed. The bias is added
    in float32.
    """

    stored = True
    dtype = torch.float32
    device = "cpu"

    def __init__(self, weight: nn.Parameter, bias: Tensor | None) -> None:
        nn.Module.__init__(self)
        self._parameters["weight"] = weight
        self.bias = None if bias is None else nn.Parameter(bias.float(), requires_grad=False)
        self.products, self.packed, self.held = (), False, ()

    @property
    def weight(self) -> Tensor:
        """The matrix in float32, converted on each access. [out, in]"""
        return self._parameters["weight"].float()

    def tensors(self) -> tuple[Tensor | None, ...]:
        """Return the matrix in its file and the bias."""
        return self._parameters["weight"], self.bias

    def forward(self, x: Tensor) -> Tensor:
        stored = self._parameters["weight"]
        parts = stored.split(max(1, SLICE // stored.shape[1]))
        y = torch.cat([self._product(x, part.to(self.device).to(self.dtype)) for part in parts], -1)
        return y if self.bias is None else y + self.bias

    @staticmethod
    def _product(x: Tensor, weight: Tensor) -> Tensor:
        return chosen(weight, x.numel() // x.shape[-1])(x, weight, None)

    def part(self, x: Tensor, rows: slice) -> Tensor:
        """Compute the outputs for a slice of the rows of the weight. x [..., in] -> [..., rows]"""
        some = type(self)(self._parameters["weight"][rows], None if self.bias is None else self.bias[rows])
        some.dtype, some.device = self.dtype, self.device
        return some(x)


class StoredEmbedding(nn.Embedding):
    """An embedding table whose weights stay in their file; requested rows are converted to float32."""

    def __init__(self, weight: nn.Parameter) -> None:
        nn.Module.__init__(self)
        self.num_embeddings, self.embedding_dim = weight.shape
        self.padding_idx = self.max_norm = None
        self.norm_type, self.scale_grad_by_freq, self.sparse = 2.0, False, False
        self._parameters["weight"] = weight

    @property
    def weight(self) -> Tensor:
        """The table in float32, converted on each access. [rows, width]"""
        return self._parameters["weight"].float()

    def forward(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self._parameters["weight"]).float()


class StoredStack(Stack):
    """A linear layer of all experts whose matrices keep the type of their file; those of an expert that is used are
    converted to float32.

    Files have a tensor for every expert, so the stacked one is a copy of them.
    """

    def __init__(self, weight: nn.Parameter, bias: Tensor | None) -> None:
        nn.Module.__init__(self)
        self._parameters["weight"] = weight
        self.bias = None if bias is None else nn.Parameter(bias.float(), requires_grad=False)

    @property
    def weight(self) -> Tensor:
        """The matrices in float32, converted on each access. [N, out, in]"""
        return self._parameters["weight"].float()

    def one(self, expert: int, x: Tensor) -> Tensor:
        """Apply one expert's linear layer. [n, in] -> [n, out]"""
        return F.linear(x, self._parameters["weight"][expert].float(), None if self.bias is None else self.bias[expert])


STORED = (StoredLinear, StoredEmbedding, StoredStack)


@torch.no_grad()
def leave_stored(
    model: Transformer,
    linear: type[StoredLinear] = StoredLinear,
    table: type[StoredEmbedding] = StoredEmbedding,
    stack: type[StoredStack] = StoredStack,
) -> Transformer:
    """Replace the linear layers and embeddings of a model by modules of the given classes that leave the weights in
    their files.

    All other parameters become float32.
    """
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is Linear:
                setattr(module, name, linear(child.weight, child.bias))
            elif type(child) is nn.Embedding:
                setattr(module, name, table(child.weight))
            elif type(child) is Stack:
                setattr(module, name, stack(child.weight, child.bias))
        if getattr(module, "joint", ()):
            module.joint = tuple(linear(joint.weight, joint.bias) for joint in module.joint)
            module.joint[0].held = held_by((*module.joint, *module.parts()))
    for module in model.modules():
        for parameter in () if isinstance(module, STORED) else module.parameters(recurse=False):
            parameter.data = parameter.data.float()
    return model.requires_grad_(False)


def stored_bytes(model: nn.Module) -> int:
    """Return the bytes of the weights in files, counting shared ones once."""
    weights = [module._parameters["weight"] for module in model.modules() if type(module) in STORED]
    return sum({weight.data_ptr(): weight.nbytes for weight in weights}.values())


def are_of(model: Transformer, dtype: torch.dtype) -> bool:
    """Return True if all linear layers and embedding tables of the model have this type."""
    kept = [module.weight.dtype for module in model.modules() if isinstance(module, Linear | nn.Embedding)]
    return set(kept) == {dtype}


def stored_dtype(model: nn.Module) -> str:
    """Return the type of the weights in files, such as "bfloat16", or several comma-separated types if they differ."""
    dtypes = {module._parameters["weight"].dtype for module in model.modules() if type(module) in STORED}
    return ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in dtypes))
