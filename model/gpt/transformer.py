"""The GPT: one configurable forward pass for tracing, generation, training and interventions."""

import math

import torch
from torch import Tensor, nn

from model.gpt.cache import KVCache
from model.gpt.config import ModelConfig
from model.gpt.decode_step import look_again
from model.gpt.decode_ways import way
from model.gpt.experts import Experts
from model.gpt.layers import MLPS, rope_table, sinusoidal_positions
from model.gpt.linear import Linear, join, joined
from model.gpt.mixers.modules import build_mixer
from model.gpt.norm import Norm
from model.gpt.passes import Attend, Pass, See, attend_explicit, attend_fused
from model.gpt.tap import Tap


class MLP(nn.Module):
    """The MLP down(f(up(x))), or SwiGLU: down(silu(gate(x)) * up(x))."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        D, M, bias = config.d_model, config.d_mlp, config.mlp_bias
        self.act = MLPS[config.mlp]
        self.gate = Linear(D, M, bias) if config.mlp == "swiglu" else None
        self.up = Linear(D, M, bias)
        self.down = Linear(M, D, bias)
        self.joint: tuple[Linear, ...] = ()  # gate and up as one; a tuple, so that no parameter is registered twice

    def parts(self) -> tuple[Linear, ...]:
        """Return the parts of `joint`, in the same order."""
        return (self.up,) if self.gate is None else (self.gate, self.up)

    def forward(self, x: Tensor, layer: int, run: Pass) -> Tensor:
        if run.tap is None and not torch.is_grad_enabled() and (joint := joined(self)):
            gate, up = joint(x).chunk(2, -1)
            return self.down(self.act(gate).mul_(up))
        if self.gate is None:
            post = self.act(run.at("mlp_pre", layer, self.up(x)))  # [B, T, M]
        else:
            post = self.act(run.at("mlp_pre", layer, self.gate(x))) * run.at("mlp_up", layer, self.up(x))
        return run.at("mlp_out", layer, self.down(run.at("mlp_post", layer, post)))


class Block(nn.Module):
    """One layer, wired by the config.

    pre-norm              parallel                      post-norm
    x --+                 x --+--------+                x --+
    |  norm1              |  norm1   norm2              |  attn
    |  attn               |  attn    mlp                +---+ add, norm1
    +---+ add             +---+--------+ add            |  mlp
    |  norm2                                            +---+ add, norm2
    |  mlp
    +---+ add
    """

    def __init__(self, config: ModelConfig, layer: int = 0) -> None:
        super().__init__()
        self.post_norm, self.parallel = config.norm_placement == "post", config.parallel_residual
        self.norm1 = Norm(config, config.d_model)
        self.attn = build_mixer(config, layer)
        self.norm2 = Norm(config, config.d_model)
        self.mlp = MLP(config) if config.n_expert == 1 else Experts(config)

    def forward(self, x: Tensor, layer: int, run: Pass) -> Tensor:
        """Compute one layer. x [B, T, D] -> [B, T, D]"""
        x = run.at("resid_pre", layer, x)
        mid = self.middle(x, layer, run)
        if self.post_norm:
            out = self.norm2.tapped(mid + self.mlp(mid, layer, run), "norm2", layer, run)
        else:
            read = x if self.parallel else mid
            out = mid + self.mlp(self.norm2.tapped(read, "norm2", layer, run), layer, run)
        return run.at("resid_post", layer, out)

    def middle(self, x: Tensor, layer: int, run: Pass) -> Tensor:
        """Compute the attention sublayer: resid_pre, after the tap, -> resid_mid. [B, T, D] -> [B, T, D]"""
        if self.post_norm:
            mid = self.norm1.tapped(x + self.attn(x, layer, run), "norm1", layer, run)
        else:
            mid = x + self.attn(self.norm1.tapped(x, "norm1", layer, run), layer, run)
        return run.at("resid_mid", layer, mid)


def _embedding(rows: int, width: int) -> nn.Embedding:
    """Return an uninitialized table.

    By default, nn.Embedding draws initial values, which on the meta device takes a second for imports.
    """
    return nn.Embedding(rows, width, _weight=torch.empty(rows, width))


class Transformer(nn.Module):
    """A decoder-only Transformer. A new instance has random weights (GPT-2's initialization)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embed = _embedding(config.vocab_size, config.d_model)
        self.pos_embed = _embedding(config.n_ctx, config.d_model) if config.positions == "learned" else None
        self.blocks = nn.ModuleList(Block(config, layer) for layer in range(config.n_layer))
        self.final_norm = Norm(config, config.d_model) if config.final_norm else None
        self.unembed = Linear(config.d_model, config.vocab_size, bias=False)
        self.tie()
        if self.embed.weight.device.type != "meta":
            _initialize(self)

    def tie(self) -> None:
        """Make a tied output head share the embedding's weights. Must be repeated after parameters have been
        replaced.
        """
        if self.config.tie_embeddings:
            self.unembed.weight = self.embed.weight

    def join(self) -> None:
        """Compute layers with the same input by one product, since fewer, larger products are faster.

        Call it after the weights have been loaded. Forward passes with a tap or gradients use the separate products.
        After a parameter has been replaced, all passes do so until this is called again.
        """
        for block in self.blocks:
            gated = isinstance(block.mlp, MLP) and block.mlp.gate is not None
            for module in (block.attn, block.mlp) if gated else (block.attn,):
                if module.parts():
                    joint = join(*module.parts())
                    joint.products = module.joint[0].products if module.joint else ()  # valid for the same shape
                    module.joint = (joint,)

    def forward(self, ids: Tensor, *, cache: KVCache | None = None, tap: Tap | None = None) -> Tensor:
        """Return the logits at every position. ids [B, T] -> [B, T, V]; with a cache the ids continue the cached ones.

        Raises ValueError for ids that are not [B, T], ids outside the vocabulary, or more positions than were learned.
        """
        return self.logits(self.trunk(ids, cache=cache, tap=tap), tap=tap, cached=cache is not None)

    def trunk(
        self,
        ids: Tensor,
        *,
        cache: KVCache | None = None,
        tap: Tap | None = None,
        attend: Attend | None = None,
        see: See | None = None,
    ) -> Tensor:
        """Return the residual stream after the last layer, before the final norm. ids [B, T] -> [B, T, D]

        `attend` replaces the attention function, which by default is fused, and unfused with a tap. It does not affect
        layers whose mixer is not full softmax attention; `see` receives their maps. With a cache and without `tap`,
        `attend` and `see`, a few tokens are computed by the fastest implementation for them (model.gpt.decode_ways).
        """
        start = 0 if cache is None else cache.length
        self.check(ids, start)
        if cache is not None:
            if start == 0:
                look_again(self)
            cache.reserve(*ids.shape)
        run = self.prepare(start, ids.shape[1], tap=tap, attend=attend, cache=cache, see=see)
        x = self.embed_tokens(ids, start, run)
        plain = cache is not None and tap is None and attend is None and see is None
        if compiled := way(self, ids.numel()) if plain else None:
            step, how = compiled
            x = step.following(x, run.rope, cache, how)
        else:
            for layer, block in enumerate(self.blocks):
                x = block(x, layer, run)
        if cache is not None:
            cache.advance(ids.shape[1])
        return x

    def prepare(
        self,
        start: int,
        T: int,
        *,
        tap: Tap | None = None,
        attend: Attend | None = None,
        cache: KVCache | None = None,
        see: See | None = None,
    ) -> Pass:
        """Return a Pass for the layers at positions start .. start + T - 1."""
        rope = rope_table(self.config, start, T) if self.config.positions == "rope" else None
        explicit = attend is None and tap is not None
        if attend is None:
            attend = attend_fused if tap is None else attend_explicit(tap)
        return Pass(rope, attend, cache, tap, explicit, see)

    def embed_tokens(self, ids: Tensor, start: int, run: Pass) -> Tensor:
        """Return the token embeddings, with position embeddings added if the model has them. [B, T] -> [B, T, D]"""
        x = self.embed(ids)
        if self.config.embed_scale:
            x = x * math.sqrt(self.config.d_model)
        x = run.at("embed", -1, x)
        T = ids.shape[1]
        if self.pos_embed is not None:
            return x + run.at("pos_embed", -1, self.pos_embed.weight[start : start + T])
        if self.config.positions == "sinusoidal":
            return x + run.at("pos_embed", -1, sinusoidal_positions(start, T, self.config.d_model))
        return x

    def logits(self, x: Tensor, *, tap: Tap | None = None, cached: bool = False) -> Tensor:
        """Apply the final norm and the output head. x [B, T, D] -> logits [B, T, V]

        With `cached`, for a forward pass with a cache, a few rows are computed by their fastest implementation
        (model.gpt.decode_ways).
        """
        if compiled := way(self, x.shape[:-1].numel()) if cached and tap is None else None:
            step, how = compiled
            return step.logits(x, how)
        run = Pass(None, attend_fused, None, tap)
        return run.at("logits", self.config.n_layer, self.unembed(self.normed(x, run)))

    def normed(self, x: Tensor, run: Pass | None = None) -> Tensor:
        """Apply the final norm, if the model has one. [B, T, D] -> [B, T, D]"""
        if self.final_norm is None:
            return x
        return self.final_norm.tapped(x, "final", self.config.n_layer, run or Pass(None, attend_fused))

    def check(self, ids: Tensor, start: int = 0) -> None:
        """Raise ValueError for ids that this model cannot process at positions from `start`."""
        c = self.config
        if ids.ndim != 2 or 0 in ids.shape:
            raise ValueError(f"ids must be [B, T] with at least one token, got {tuple(ids.shape)}")
        if self.pos_embed is not None and start + ids.shape[1] > c.n_ctx:
            raise ValueError(f"positions are learned up to {c.n_ctx}, got {start} + {ids.shape[1]} tokens")
        least, most = (int(end) for end in ids.aminmax())
        if least < 0 or most >= c.vocab_size:
            raise ValueError(f"ids must lie in 0 .. {c.vocab_size - 1}, got {least} .. {most}")


WRITES = ("attn.o.weight", "mlp.down.weight", "mlp.experts.down.weight")  # projections that write to the stream


@torch.no_grad()
def _initialize(model: Transformer) -> None:
    """Draw weights from Normal(0, 0.02), scaled by 1/sqrt(2 L) for projections that write to the stream; biases are 0.

    Radford et al. 2019.
    """
    small = 0.02 / math.sqrt(2 * model.config.n_layer)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        elif parameter.ndim >= 2:
            nn.init.normal_(parameter, std=small if name.endswith(WRITES) else 0.02)
    for block in model.blocks:
        block.attn.initialize()
