"""The GPT: one configurable forward pass for tracing, generation, training and interventions."""

import functools
import math

import torch
from torch import Tensor, nn

from model.gpt.cache import KVCache
from model.gpt.config import ModelConfig
from model.gpt.decode_step import look_again
from model.gpt.decode_ways import way
from model.gpt.experts import Experts
from model.gpt.layers import MLPS, capped, rope_table, sinusoidal_positions
from model.gpt.linear import Linear, join
from model.gpt.mixers.modules import build_mixer
from model.gpt.mixers.needs import need_head
from model.gpt.mlp import MLP, NoMLP
from model.gpt.norm import Norm, without_gain
from model.gpt.passes import Attend, Beside, Pass, See, attend_explicit, attend_fused
from model.gpt.tap import Tap


class Entry(nn.Module):
    """The way by which a token also enters a layer: N(W (f(gate(x)) * e)), added to the stream x after the MLP.

    e is the token's vector for this layer (`Transformer.layer_input`). As in Gemma 3n and 4.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        D, P = config.d_model, config.d_layer_input
        self.act = MLPS[config.mlp]
        self.gate, self.up, self.norm = Linear(D, P, False), Linear(P, D, False), Norm(config, D)

    def forward(self, x: Tensor, layer: int, run: Pass) -> Tensor:
        written = self.up(self.act(self.gate(x)) * run.beside.input(layer))
        return run.at("entry_out", layer, self.norm(written))


class Block(nn.Module):
    """One layer, wired by the config.

    pre-norm        parallel                 post-norm               output-norm      sandwich
    x --+           x --+--------+           x --+                   x --+            x --+
    |  norm1        |  norm1   norm2         |  attn                 |  attn          |  norm1
    |  attn         |  attn    mlp           +---+ add, norm1        |  after1        |  attn
    +---+ add       +---+--------+ add       |  mlp                  +---+ add        |  after1
    |  norm2                                 +---+ add, norm2        |  mlp           +---+ add
    |  mlp                                                           |  after2        ...
    +---+ add                                                        +---+ add

    Parallel blocks with one norm have no norm2: the MLP reads what attention reads.
    """

    def __init__(self, config: ModelConfig, layer: int = 0) -> None:
        super().__init__()
        placement, D, P = config.norm_placement, config.d_model, config.d_layer_input
        self.post_norm, self.parallel = placement == "post", config.parallel_residual
        self.norm1 = None if placement == "output" or layer in config.unnormed else Norm(config, D)
        self.attn = build_mixer(config, layer)
        self.after1 = Norm(config, D) if placement in ("output", "sandwich") else None
        unread = placement == "output" or config.shared_norm or not config.has_mlp(layer)
        self.norm2 = None if unread else Norm(without_gain(config) if config.expert_norms else config, D)
        single = MLP if config.has_mlp(layer) else NoMLP
        self.mlp = Experts(config) if config.has_experts(layer) else single(config.at(layer))
        self.after2 = Norm(config, D) if placement in ("output", "sandwich") else None
        self.entry = Entry(config) if P else None
        self.scale = nn.Parameter(torch.ones(1)) if config.layer_scale else None

    def forward(self, x: Tensor, layer: int, run: Pass) -> Tensor:
        """Compute one layer. x [B, T, D] -> [B, T, D]"""
        x = run.at("resid_pre", layer, x)
        read = self.read(x, layer, run)
        mid = self._attended(x, read, layer, run)
        if self.post_norm:
            out = self.norm2.tapped(mid + self.mlp(mid, layer, run), "norm2", layer, run)
        else:
            source = x if self.parallel else mid
            if self.norm2 is not None:
                read = self.norm2.tapped(source, "norm2", layer, run)
            elif not self.parallel:
                read = source
            written = self.mlp(read, layer, run)
            out = mid + (written if self.after2 is None else self.after2.tapped(written, "after2", layer, run))
        if self.entry is not None:
            out = out + self.entry(out, layer, run)
        if self.scale is not None:
            out = out * self.scale
        return run.at("resid_post", layer, out)

    def read(self, x: Tensor, layer: int, run: Pass) -> Tensor:
        """Compute the input of the attention: the stream, through norm1 if it is placed there. [..., D] -> [..., D]"""
        return x if self.post_norm or self.norm1 is None else self.norm1.tapped(x, "norm1", layer, run)

    def middle(self, x: Tensor, layer: int, run: Pass) -> Tensor:
        """Compute the attention sublayer: resid_pre, after the tap, -> resid_mid. [B, T, D] -> [B, T, D]"""
        return self._attended(x, self.read(x, layer, run), layer, run)

    def _attended(self, x: Tensor, read: Tensor, layer: int, run: Pass) -> Tensor:
        """Add the attention's output to the stream. [B, T, D] each"""
        written = self.attn(read, layer, run)
        if self.post_norm:
            mid = self.norm1.tapped(x + written, "norm1", layer, run)
        else:
            mid = x + (written if self.after1 is None else self.after1.tapped(written, "after1", layer, run))
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
        self.segment_embed = _embedding(config.n_segment, config.d_model) if config.n_segment else None
        self.embed_norm = Norm(config, config.d_model) if config.embed_norm else None
        P = config.d_layer_input
        self.entry_embed = _embedding(config.vocab_size, config.n_layer * P) if P else None
        self.entry_proj = Linear(config.d_model, config.n_layer * P, bias=False) if P else None
        self.entry_norm = Norm(config, P) if P else None
        self.blocks = nn.ModuleList(Block(config, layer) for layer in range(config.n_layer))
        self.final_norm = Norm(config, config.d_model) if config.final_norm else None
        self.head_dense = Linear(config.d_model, config.d_model, config.mlp_bias) if config.head_dense else None
        self.head_norm = Norm(config, config.d_model) if config.head_dense else None
        self.unembed = Linear(config.d_model, config.vocab_size, bias=config.head_bias)
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
        text: int | None = None,
    ) -> Pass:
        """Return a Pass for the layers at positions start .. start + T - 1 of a text of `text` tokens, by default
        start + T; some scalings of RoPE depend on it.
        """
        c, rope, local = self.config, None, None
        if c.positions == "rope":
            rope = rope_table(c, start, T, text=text)
            local = rope_table(c, start, T, local=True) if c.rope_theta_local is not None else None
        explicit = attend is None and tap is not None
        if attend is None:
            attend = attend_fused if tap is None else attend_explicit(tap)
        return Pass(rope, attend, cache, tap, explicit, see, local)

    def embed_tokens(self, ids: Tensor, start: int, run: Pass) -> Tensor:
        """Return the token embeddings, with position embeddings added and normalized if the model does so. [B, T] ->
        [B, T, D]
        """
        x = self.embed(ids)
        if self.config.embed_factor != 1:
            x = x * self.config.embed_factor
        x = run.at("embed", -1, x)
        T = ids.shape[1]
        if self.pos_embed is not None:
            x = x + run.at("pos_embed", -1, self.pos_embed.weight[start : start + T])
        elif self.config.positions == "sinusoidal":
            x = x + run.at("pos_embed", -1, sinusoidal_positions(start, T, self.config.d_model))
        if self.segment_embed is not None:
            x = x + run.at("segment_embed", -1, self.segment_embed(self.segments(ids)))
        x = x if self.embed_norm is None else self.embed_norm.tapped(x, "embed_norm", -1, run)
        self.enter(ids, x, run.beside)
        return x

    def enter(self, ids: Tensor, x: Tensor, beside: Beside) -> None:
        """Store the tokens' vectors for each layer, if the model has them. x [B, T, D] are the tokens' embeddings"""
        if self.entry_embed is not None:
            beside.inputs = functools.partial(self.layer_input, self.entry_embed(ids), x)

    def layer_input(self, rows: Tensor, x: Tensor, layer: int) -> Tensor:
        """Compute the vectors by which the tokens enter a layer: (sqrt(P) E[id] + N(W x / sqrt(D))) / sqrt(2).

        rows [B, T, L P] are those of `entry_embed`, and x [B, T, D] the tokens' embeddings -> [B, T, P]
        """
        P, D = self.config.d_layer_input, self.config.d_model
        part = slice(layer * P, (layer + 1) * P)
        projected = self.entry_norm(self.entry_proj.part(x, part) * D**-0.5)
        return (projected + rows[..., part] * P**0.5) * 2**-0.5

    def segments(self, ids: Tensor) -> Tensor:
        """Return the segment of each token: the number of ends of segments before it, or the last one. [B, T]"""
        if self.config.segment_end is None:
            return torch.zeros_like(ids)
        ends = (ids == self.config.segment_end).long()
        return (ends.cumsum(-1) - ends).clamp(max=self.config.n_segment - 1)

    def logits(self, x: Tensor, *, tap: Tap | None = None, cached: bool = False) -> Tensor:
        """Apply the final norm and the output head. x [B, T, D] -> logits [B, T, V]

        With `cached`, for a forward pass with a cache, a few rows are computed by their fastest implementation
        (model.gpt.decode_ways).
        """
        if compiled := way(self, x.shape[:-1].numel()) if cached and tap is None else None:
            step, how = compiled
            return step.logits(x, how)
        run = Pass(None, attend_fused, None, tap)
        return run.at("logits", self.config.n_layer, self.head(self.normed(x, run)))

    def head(self, x: Tensor) -> Tensor:
        """Apply the output head to normalized rows, with dense layer, multiplier and cap if configured.
        [..., D] -> [..., V]
        """
        need_head(self.config)
        if self.head_dense is not None:
            x = self.head_norm(MLPS[self.config.mlp](self.head_dense(x)))
        return capped(self.uncapped(x), self.config.logit_cap)

    def uncapped(self, x: Tensor) -> Tensor:
        """Compute the head without dense layer and cap, which is linear apart from a bias. [..., D] -> [..., V]"""
        logits, by = self.unembed(x), self.config.logit_multiplier
        return logits if by == 1 else logits * by

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


def attention_input(model: Transformer, layer: int, stream: Tensor) -> Tensor:
    """Compute what a layer's attention reads of the stream, without a tap. [..., D] -> [..., D]"""
    return model.blocks[layer].read(stream, layer, _UNTAPPED)


def output_matrix(model: Transformer, layer: int) -> Tensor:
    """Return the matrix from the heads' outputs to what they add to attn_out, with the multiplier. [D, H * E]"""
    attn = model.blocks[layer].attn
    return attn.o.weight.detach() if attn.factor == 1 else attn.o.weight.detach() * attn.factor


def share_ends(ours: Transformer, theirs: Transformer) -> None:
    """Give a model everything of another one but its blocks: embeddings, last norm and output head."""
    for name, module in theirs.named_children():
        if name != "blocks":
            setattr(ours, name, module)


def share_norms(ours: Block, theirs: Block) -> None:
    """Give a block with an attention of softmax another's norms, those of q and k included, and its sinks."""
    for name in ("norm1", "after1", "norm2", "after2"):
        setattr(ours, name, getattr(theirs, name))
    ours.attn.q_norm, ours.attn.k_norm, ours.attn.sinks = theirs.attn.q_norm, theirs.attn.k_norm, theirs.attn.sinks


_UNTAPPED = Pass(None, attend_fused)
WRITES = (
    "attn.o.weight",
    "mlp.down.weight",
    "mlp.experts.down.weight",
    "entry.up.weight",
)  # projections that write to the stream


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
