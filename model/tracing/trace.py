"""A run of one prompt through one model: the residual stream is stored, everything else is recomputed on demand."""

import dataclasses
import functools
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from model.arguments import check_head, check_layer, check_position
from model.errors import InputError, say
from model.gpt.edit_checks import check_edits
from model.gpt.edits import (
    Edit,
    Means,
    acting,
    directions_of,
    embeddings_of,
    mean_places,
    sites_edited,
    starting_at,
    tap_of,
)
from model.gpt.experts import require_dense
from model.gpt.layers import future
from model.gpt.mixers.needs import need_qkv, need_scores
from model.gpt.mixers.projection import project_head
from model.gpt.mixers.scoring import Scoring
from model.gpt.mixers.traced import hidden_weights, mixing_matrix
from model.gpt.passes import Beside, Pass, attend_fused
from model.gpt.tap import SITES, Tap, compose, record
from model.gpt.transformer import Block, Transformer, attention_input
from model.progress import Passed, Progress, silent, unseen
from model.public import listed, one_of, public, unchecked, whole
from model.records import RunKey, Tokens
from model.tracing.head_metrics import metrics_table
from model.tracing.head_reducer import HeadReducer
from model.tracing.kept import Kept
from model.tracing.logit_lens import lens_rows, read_layers
from model.tracing.norm_sites import norm_rows

RUNNING = "Running the prompt"  # progress label of a run, layer by layer
_ATTENTION = frozenset({"scores", "pattern"})  # sites that exist only in explicit attention


@dataclass(frozen=True)
class HeadQKV:
    """Queries, keys and values of one head, each [T, d_head] float32; q and k include the position encoding."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray


class Trace:
    """The results of one run; created by `run`, and by model.hooked.trace for a model of another library.

    `residuals[l]` enters layer l, and `residuals[n_layer]` leaves the last one. Methods recompute the inside of a
    layer from them, so their results equal those of the run, edits included, up to the rounding error of float32.
    Layers and heads out of range raise InputError.
    """

    def __init__(
        self,
        model: Any,
        key: RunKey,
        tokens: Tokens,
        residuals: Tensor,
        reducer: HeadReducer,
        kept: Kept | None = None,
    ) -> None:
        self.model, self.key, self.tokens = model, key, tokens  # a Transformer, or a model.hooked.model.Hooked
        self.residuals = residuals  # [L + 1, T, D]
        self.thumbnails = reducer.thumbnails.numpy()  # [L, H, t, t] uint8
        self.metrics = reducer.metrics.numpy()  # [L, H, metrics] in the order of HEAD_METRICS
        self.rows = reducer.rows  # [fields of RowStats, L, H, T]: row statistics, averaged by the metrics
        self.tap = reducer.tap
        self.kept = kept  # of a hooked model only
        self.seconds = 0.0  # elapsed wall time of the run
        self.piece: Callable[[int], str] | None = None  # function from id to text, if the tokenizer is known
        self._read: tuple[int, np.ndarray] | None = None  # last position whose logits were requested, and its logits

    @property
    def config(self):
        """The ModelConfig of the model that was run."""
        return self.model.config

    @property
    def nbytes(self) -> int:
        """The size in memory in bytes; logits count once they have been computed."""
        logits = self.__dict__.get("logits")
        stored = self.residuals.nbytes + self.thumbnails.nbytes + self.metrics.nbytes + self.rows.nbytes
        if self.kept is not None:
            return stored + self.kept.nbytes
        last_logits = 0 if self._read is None else self._read[1].nbytes
        return stored + last_logits + (0 if logits is None else logits.nbytes)

    # --- one head ---

    @public()
    @torch.inference_mode()
    def qkv(self, layer: int, head: int) -> HeadQKV:
        """Compute queries, keys and values of one head; the KV head is head // (H / G). Raises InputError for a layer
        with a state space.
        """
        need_qkv(self.config, layer)
        return HeadQKV(*(part[0, 0].numpy() for part in self._head(layer, head)))

    @public()
    @torch.inference_mode()
    def scores(self, layer: int, head: int) -> np.ndarray:
        """Compute the scores before the softmax: q.k / sqrt(d_head), by the layer's rules (model.gpt.mixers.scoring);
        NaN where the key is hidden: later tokens, and those outside a window or blocked by an edit.

        float32 [T, T], one row per query. Raises InputError for a layer without softmax.
        """
        need_scores(self.config, layer)
        if self._tap_in(layer) is not None:
            scores = self.sites(layer, ["scores"])["scores"][0, self._checked(layer, head)]
        else:
            q, k, _ = self._head(layer, head)
            scores = self._scoring(layer, head).scores(q, k)[0, 0]
        T = len(self.tokens)
        hidden = scores.isneginf() if self.config.two_way else future(T, T) | scores.isneginf()
        return scores.masked_fill(hidden, torch.nan).numpy()

    @public()
    @torch.inference_mode()
    def pattern(self, layer: int, head: int) -> np.ndarray:
        """Compute the attention weights: one row per query, 0 above the diagonal. float32 [T, T]

        A row sums to 1, or, in a model with sinks, to 1 less the weight of the head's sink.

        For a layer without softmax, these are the absolute values of the matrix equivalent to its recurrence, with
        every row divided by its sum (model.gpt.mixers.hidden), averaged over the head's channels if it has any.
        `mixing` returns the matrix itself.
        """
        head = self._checked(layer, head)
        if self.kept is not None:
            return self.kept.attention[layer, head].numpy()
        if not self.config.is_attention(layer):
            return hidden_weights(self, layer, head).numpy()
        if self._tap_in(layer) is not None:
            return self.sites(layer, ["pattern"])["pattern"][0, head].numpy()
        q, k, _ = self._head(layer, head)
        scoring = self._scoring(layer, head)
        return scoring.pattern(scoring.scores(q, k))[0, 0].numpy()

    @public(index=unchecked)
    @torch.inference_mode()
    def mixing(self, layer: int, index: int) -> np.ndarray:
        """Compute the signed matrix that maps values to outputs: `mixing @ v = mixed`. float32 [T, T]

        `index` is a head or, in a layer without queries and keys, a channel (in a Mamba 2 layer a state head), where v
        and mixed are the sites of all heads side by side. With softmax, the matrix is the pattern, and mixed is z
        unless that is gated.
        """
        check_layer(layer, self.config.n_layer)
        if self.config.is_attention(layer):
            return self.pattern(layer, index)
        check_head(index, self.config.matrices(layer))
        return mixing_matrix(self, layer, index).numpy()

    def _scoring(self, layer: int, head: int) -> Scoring:
        """Return the rules by which one head turns q.k into weights."""
        return self.model.blocks[layer].attn.scoring.of(head)

    @public()
    @torch.inference_mode()
    def z(self, layer: int, head: int) -> np.ndarray:
        """Compute a head's output before the output projection: pattern times values. float32 [T, config.z_width]"""
        return self.sites(layer, ["z"])["z"][0, self._checked(layer, head)].numpy()

    def _head(self, layer: int, head: int) -> tuple[Tensor, Tensor, Tensor]:
        """Compute q, k, v of one head, [1, 1, T, E] each, from the weights of that head alone."""
        kv = self._checked(layer, head) // self.config.at(layer).group_size
        if self._tap_in(layer) is not None:
            names = ("q_rot", "k_rot", "v") if self.config.rotates(layer) else ("q", "k", "v")
            source = self.config.kv_source(layer)
            q = self.sites(layer, names[:1])[names[0]] if source != layer else None
            at = self.sites(source, names)
            q = at[names[0]] if q is None else q
            return q[:, head : head + 1], at[names[1]][:, kv : kv + 1], at["v"][:, kv : kv + 1]
        attn, x = self.model.blocks[layer].attn, attention_input(self.model, layer, self.residuals[layer])
        return project_head(attn, x, self.prepare(layer, len(x)), head, kv)

    def _checked(self, layer: int, head: int) -> int:
        check_layer(layer, self.config.n_layer)
        check_head(head, self.config.n_head)
        return head

    # --- one layer ---

    def prepare(self, layer: int, T: int, tap: Tap | None = None, *, explicit: bool = False) -> Pass:
        """Return a Pass that runs layer `layer` as in this trace, with its edits, followed by `tap`.

        T may be less than the prompt's length, because a token does not depend on later ones. `explicit` passes scores
        and pattern to `tap`. Otherwise, the [H, T, T] tensors are computed only if an edit or the trace's own tap
        needs them.
        """
        own = self._tap_in(layer)
        if own is not None:
            tap = own if tap is None else compose(own, tap)
            explicit = explicit or _explicit(self.key.edits, layer)
        attend = None if explicit else attend_fused
        each = self.model.prepare(0, T, tap=tap, attend=attend, text=len(self.tokens))
        if layer < self.config.n_layer and not self.config.alone:
            self._beside(layer, T, each.beside)
        return each

    def _beside(self, layer: int, T: int, beside: Beside) -> None:
        """Store what a layer reads beside the stream, in this trace, of the first T tokens."""
        ids = torch.from_numpy(np.ascontiguousarray(self.tokens.ids[:T], dtype=np.int64))
        self.model.enter(ids[None], self.residuals[0][None, :T], beside)
        source = self.config.kv_source(layer)
        if source != layer:
            run, block = self.prepare(source, T), self.model.blocks[source]
            x = run.at("resid_pre", source, self.residuals[source][None, :T])
            beside.kv[source] = block.attn.project(block.read(x, source, run), source, run)[1:]

    def embedding_pass(self, tap: Tap, start: int = 0) -> Pass:
        """Return a Pass for the embeddings of tokens from `start` on, with the trace's edits, followed by `tap`."""
        edited = bool(self.key.edits) and _reaches(self.key.edits, -1)
        return Pass(None, attend_fused, None, compose(starting_at(self.tap, start), tap) if edited else tap)

    def _tap_in(self, layer: int) -> Tap | None:
        """Return the trace's own tap if it can change this layer; other layers run without it."""
        return self.tap if _reaches(self.key.edits, layer) else None

    @property
    def head_tap(self) -> Tap | None:
        """The trace's own tap if it can change what follows the layers, which edits do not."""
        return self._tap_in(self.config.n_layer)

    @public(names=one_of(SITES))
    @torch.inference_mode()
    def sites(self, layer: int, names: Collection[str]) -> dict[str, Tensor]:
        """Compute tensors of one layer at the named sites of model.gpt.tap.SITES, e.g. "mlp_post"; their axes are
        listed there.
        """
        check_layer(layer, self.config.n_layer)
        store: dict[tuple[str, int], Tensor] = {}
        each = self.prepare(layer, len(self.tokens), record(names, store), explicit=not _ATTENTION.isdisjoint(names))
        self.model.blocks[layer](self.residuals[layer][None], layer, each)
        if missing := [name for name in names if (name, layer) not in store]:
            if any(name.startswith("mlp_") for name in missing):
                require_dense(self.config)
            raise InputError(
                "The layers of this model have no such site.", ", ".join(missing), say("Sites: {}.", ", ".join(SITES))
            )
        return {name: store[name, layer] for name in names}

    @public()
    def mlp_activations(self, layer: int) -> np.ndarray:
        """Compute the input of the MLP's down projection: f(pre), or silu(gate) * up. float32 [T, M]"""
        return self.sites(layer, ["mlp_post"])["mlp_post"][0].numpy()

    @public()
    def hidden(self, layer: int) -> np.ndarray:
        """Return the float32 residual stream [T, D] entering layer `layer`; for n_layer, that after the last layer."""
        check_layer(layer, self.config.n_layer + 1)
        return self.residuals[layer].numpy()

    @public()
    @torch.inference_mode()
    def middle(self, layer: int) -> np.ndarray:
        """Compute the residual stream between the attention and the MLP of a layer (resid_mid). [T, D]"""
        check_layer(layer, self.config.n_layer)
        each = self.prepare(layer, len(self.tokens))
        x = each.at("resid_pre", layer, self.residuals[layer][None])
        return self.model.blocks[layer].middle(x, layer, each)[0].numpy()

    # --- the whole run ---

    @public()
    def edit(self, *edits: Edit, progress: Progress = silent, passed: Passed = unseen) -> "Trace":
        """Run the same tokens again with these edits added; this trace is unchanged.

        Means are those of the unedited run. Raises InputError if an edit does not fit the model or the prompt,
        ValueError if the trace has a tap that is not made of edits, because its key then does not determine the
        result.
        """
        self.require_key()
        unedited = None if self.key.edits else self
        edits = (*self.key.edits, *edits)
        return self._rerun(edits, unedited, progress, passed)

    def unedited(self) -> "Trace":
        """Return the run without edits: this trace if it has no edits, else a new one."""
        return self if self.tap is None and not self.key.edits else self._rerun()

    def _rerun(
        self,
        edits: Sequence[Edit] = (),
        unedited: "Trace | None" = None,
        progress: Progress = silent,
        passed: Passed = unseen,
    ) -> "Trace":
        """Run the same tokens through the same model with other edits."""
        of = {"model_id": self.key.model_id, "edits": edits, "unedited": unedited}
        trace = run(self.model, self.tokens, **of, progress=progress, passed=passed)
        trace.piece = self.piece
        return trace

    def require_key(self) -> None:
        """Raise ValueError if the trace was run with its own tap: its key then does not determine its numbers."""
        if self.tap is not None and not self.key.edits:
            raise ValueError("this trace was run with a tap, which its key does not hold; run it with edits instead")

    @functools.cached_property
    def logits(self) -> np.ndarray:
        """The logits at every position, computed on first use. float32 [T, V]"""
        if self.kept is not None:
            return self.kept.logits
        return self._logits(self.residuals[-1])

    @public()
    def logits_at(self, position: int) -> np.ndarray:
        """Compute the float32 logits [V] after the token at `position`; negative positions count from the end.

        The last result is cached: do not write to it.
        """
        T = len(self.tokens)
        check_position(position, T, from_end=True)
        at, read = position % T, self._read
        if self.kept is not None:
            return self.kept.logits[at]
        if read is None or read[0] != at:
            read = self._read = at, self._logits(self.residuals[-1][at][None])[0]
        return read[1]

    @torch.inference_mode()
    def _logits(self, x: Tensor) -> np.ndarray:
        return self.model.logits(x[None], tap=self.head_tap)[0].numpy()

    @public(top=whole(1), positions=listed)
    def logit_lens(self, top: int = 10, positions: Sequence[int] | None = None) -> pd.DataFrame:
        """Compute the most likely next tokens if the model stopped before each layer, and its own prediction as layer
        n_layer.

        Columns layer, position, rank (1 is the most likely), token id, piece and probability. All positions by
        default; negative ones count from the end. `piece` is empty if the tokenizer is unknown. Layer n_layer has the
        softmax of `logits`. Raises InputError if a position does not exist or `top` is below 1. nostalgebraist 2020,
        "interpreting GPT: the logit lens": the final norm is recomputed on each stream.
        """
        positions = range(len(self.tokens)) if positions is None else positions
        return lens_rows(read_layers(self, positions, top=top), self.piece or (lambda number: ""))

    def head_metrics(self) -> pd.DataFrame:
        """Return all HEAD_METRICS of every head on this prompt, indexed by (layer, head); NaN where undefined."""
        return metrics_table(self.metrics)

    def norms(self) -> pd.DataFrame:
        """Compute mean, variance, RMS and norm of each norm layer's inputs; one row per (site, layer, token).

        Sites are norm1, after1, norm2, after2, where the model has them, and final (layer n_layer). rms^2 = mean^2 +
        variance; norm = rms sqrt(d_model).
        """
        return norm_rows(self)


@public()
@torch.inference_mode()
def run(
    model: Transformer,
    tokens: Tokens,
    *,
    model_id: str = "",
    tap: Tap | None = None,
    edits: Sequence[Edit] = (),
    unedited: Trace | None = None,
    progress: Progress = silent,
    passed: Passed = unseen,
) -> Trace:
    """Run the prompt once, keep the residual stream, and reduce every head to its metrics and thumbnail.

    Edits become part of the key; `unedited`, a run of the same tokens without edits, saves another run for their
    means. `progress` is called for each layer, and may raise to end the run. `passed` receives the trace before each
    layer but the first; its methods already return the final numbers of earlier layers. Raises InputError if the
    prompt is empty or exceeds the context length, or if an edit does not fit; ValueError if both a tap and edits are
    given.
    """
    check_length(len(tokens), model.config.n_ctx)
    edits = tuple(edits)
    if edits and tap is not None:
        raise ValueError("give a tap or edits, not both: the key holds edits only")
    started = time.perf_counter()
    if edits:
        check_edits(edits, model.config, len(tokens))
    if acting(edits):
        directions = directions_of(edits, model.unembed.weight)
        embeddings = embeddings_of(edits, model.embed.weight, model.config.embed_factor)
        tap = tap_of(edits, _means(model, tokens, edits, unedited), directions, embeddings)
    ids = torch.from_numpy(np.ascontiguousarray(tokens.ids, dtype=np.int64))
    config, layers = model.config, range(model.config.n_layer)
    explicit = [layer for layer in layers if _explicit(edits, layer)]
    reducer = HeadReducer(ids, len(layers), config.n_head, tap, explicit, two_way=config.two_way)
    residuals = torch.empty(len(layers) + 1, len(ids), config.d_model)
    model.check(ids[None])
    tapped = model.prepare(0, len(ids), tap=tap, attend=reducer, see=reducer.see)
    tapped = dataclasses.replace(tapped, explicit=tap is not None)
    plain = dataclasses.replace(tapped, tap=None)
    trace = Trace(model, RunKey(model_id, tuple(tokens.ids.tolist()), edits), tokens, residuals, reducer)
    x = model.embed_tokens(ids[None], 0, tapped if _reaches(edits, -1) else plain)
    for layer, block in enumerate(model.blocks):
        progress(layer, len(layers), RUNNING)
        show(trace, layer, started, passed)
        # before any edit, because a recomputed block passes its own resid_pre through the tap again
        residuals[layer] = x[0]
        x = _through(block, x, layer, edits, tapped, plain)
    residuals[-1] = x[0]
    reducer.finish()
    trace.seconds = time.perf_counter() - started
    return trace


def _through(block: Block, x: Tensor, layer: int, edits: Sequence[Edit], tapped: Pass, plain: Pass) -> Tensor:
    """Run one block, with the tap only where it can change something. [1, T, D] -> [1, T, D]

    Of a layer that is edited only at its end, the rest runs as without edits, so that what an edit does not reach is
    bitwise the same.
    """
    sites = sites_edited(edits, layer)
    if sites == {"resid_post"}:
        return tapped.at("resid_post", layer, block(x, layer, plain))
    return block(x, layer, tapped if sites or not edits else plain)


def show(trace: Trace, layer: int, started: float, passed: Passed) -> None:
    """Pass a trace under construction to `passed` before each layer but the first, with the seconds elapsed."""
    if layer:
        trace.seconds = time.perf_counter() - started
        passed(trace, layer)


def _means(model: Transformer, tokens: Tokens, edits: Sequence[Edit], unedited: Trace | None) -> Means:
    """Average over this prompt's positions what the edits by a mean need: a head's z, or an MLP's output."""
    places = mean_places(edits)
    if not places:
        return {}
    unedited = unedited or run(model, tokens)
    return {(layer, head): _written(unedited, layer, head).mean(0) for layer, head in places}


def _written(trace: Trace, layer: int, head: int | None) -> Tensor:
    """Return a head's z [T, E], or the output of the layer's MLP [T, D] if `head` is None."""
    if head is None:
        return trace.sites(layer, ["mlp_out"])["mlp_out"][0]
    return torch.from_numpy(trace.z(layer, head))


def _reaches(edits: Sequence[Edit], layer: int) -> bool:
    """Return whether the tap can change this layer; a tap that is not made of edits can change any."""
    return not edits or bool(sites_edited(edits, layer))


def _explicit(edits: Sequence[Edit], layer: int) -> bool:
    """Return whether the tap needs the scores or the pattern of this layer."""
    return not edits or not _ATTENTION.isdisjoint(sites_edited(edits, layer))


def check_length(T: int, limit: int) -> None:
    """Raise InputError unless 1 <= T <= limit."""
    if T == 0:
        raise InputError("The prompt is empty.", "", "Type a few words, or choose an example.")
    if limit < T:
        raise InputError("The prompt is too long.", f"{T} tokens", say("Shorten it to {} tokens or fewer.", limit))
