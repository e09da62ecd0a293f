"""Input and result of a check: two computations of the same number, and their difference.

A bound is never chosen by hand or taken from the outcome on one machine. It is 0, the float32 rounding error of a sum
with this number of terms, or the measured effect of float32-sized errors on the compared number.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from model.api import LanguageModel
from model.checks.roundoff import UNIT, bounds, enough, multiplied, summed, watched
from model.gpt.edits import EDITS
from model.gpt.norm import Norm
from model.gpt.tap import Tap, block_sites
from model.gpt.transformer import Transformer
from model.loading.halves import in_float32, unit
from model.progress import Progress
from model.public import public
from model.tracing.trace import Trace

EPS = 2.0**-23  # the spacing of float32 numbers at 1
SEED = 0  # seed of the checks that draw random tokens
WATCHED = ("resid_pre", "pattern", "final_out", "logits")  # sites whose bounds are measured for a whole run


@dataclass(frozen=True)
class Finding:
    """Result of a check. `difference`, `bound` and the location are those of the largest ratio of difference
    to bound.
    """

    state: str  # "agrees", "differs", "unable" (cannot be checked here) or "broken" (the check itself failed)
    difference: float = 0.0  # math.inf if it is not finite
    bound: float = 0.0
    unit: str = ""  # a key of UNITS
    rule: str = "exact"  # a key of RULES: the reason for the bound
    n: int = 0  # number of terms, for the rule "sum"
    scale: float = 0.0  # size of the numbers to which the bound is relative
    compared: int = 0  # number of compared values
    layer: int | None = None
    head: int | None = None
    position: int | None = None
    reason: str = ""  # a key of REASONS for "unable", the type of the exception for "broken"
    got: str = ""  # details of the reason
    seconds: float = field(default=0.0, compare=False)

    def placed(self, position: int) -> "Finding":
        """Return a copy of the finding at another position."""
        return replace(self, position=position)


UNITS = ("weight", "score", "stream", "logit", "probability", "normalised", "numbers", "bytes", "tokens")
RULES = ("exact", "sum", "product", "moved", "double")  # "moved": measured by model.checks.roundoff
REASONS = (
    "no_prompt",
    "one_token",
    "all_edited",
    "no_attention",
    "no_transformers",
    "no_counterpart",
    "too_large",
    "two_way",
    "no_head",
    "alibi_twice",
    "beside",
    "own_layers",
)


def unable(reason: str, got: str = "") -> Finding:
    """Return the finding of a check that does not apply to this run or machine, with the reason."""
    return Finding("unable", reason=reason, got=got)


@dataclass(frozen=True, eq=False)
class Subject:
    """Input of the checks: a run with its edits, the same run without edits, and the prompt."""

    lm: LanguageModel
    run: Trace
    unedited: Trace
    prompt: str | None = None  # None if the run was made from token ids
    seed: int = SEED
    memo: dict[str, object] = field(default_factory=dict)  # values shared by several checks

    def once(self, name: str, make: Callable[[], object]) -> object:
        """Return a shared value, computed on first use."""
        if name not in self.memo:
            self.memo[name] = make()
        return self.memo[name]

    @property
    def ids(self) -> Tensor:
        """The prompt's tokens. [1, T]"""
        return torch.from_numpy(self.run.tokens.ids.copy()).long()[None]

    @property
    def logits(self) -> Tensor:
        """The run's logits. [T, V]"""
        return torch.from_numpy(self.run.logits)

    def logits_at(self, at: Sequence[int]) -> Tensor:
        """Compute the logits at the given positions only. [n, V]"""
        if "logits" in vars(self.run):
            return self.logits[list(at)]
        with torch.inference_mode():
            return self.run.model.logits(self.run.residuals[-1][None, list(at)], tap=self.run.head_tap)[0]

    def edited(self, site: str) -> frozenset[tuple[int, int]]:
        """Return the (layer, head) pairs whose `site` is changed by an edit;
        an edit's head or layer of None means all.
        """
        config, pairs = self.run.config, set()
        for edit in self.run.key.edits:
            if EDITS[edit.kind].site == site:
                layers = range(config.n_layer) if edit.layer is None else (edit.layer,)
                heads = range(config.n_head) if edit.head is None else (edit.head,)
                pairs |= {(layer, head) for layer in layers for head in heads}
        return frozenset(pairs)

    def bound(self, site: str, layer: int | None = None) -> Tensor:
        """Return the bound on the difference of two computations of the whole run, by row of a site. [T] or [H, T]"""
        bounds_by_site = self.once("moved", lambda: bounds(self.run.model, self.ids, self.run.tap, WATCHED))
        return bounds_by_site[site, self.run.config.n_layer if layer is None else layer][0]

    def plain(self) -> "Subject":
        """Return a subject for the unedited run, or this one if it has no edits."""
        run = self.unedited
        return self if self.run.tap is None else self.once("plain", lambda: Subject(self.lm, run, run))

    def worst(self, unit: str, rule: str, n: int) -> "Worst":
        """Return a Worst for this model. With float32 products the rule "product" becomes "sum"."""
        plain = rule == "product" and self.product_unit == UNIT
        return Worst(unit, "sum" if plain else rule, n, self.product_unit)

    @property
    def exact(self) -> Transformer:
        """The model with float32 products, used to measure bounds."""
        return self.once("exact", lambda: in_float32(self.run.model))

    @property
    def product_unit(self) -> float:
        """The largest relative error from rounding the inputs and results of products with weights."""
        return unit(self.run.model)

    def block_bound(self, site: str, layer: int) -> Tensor:
        """Return the bound on the difference of two computations of one block from the same stream. [T] or [H, T]"""
        run, T = self.run, len(self.run.tokens)

        def forward(n: int, tap: Tap) -> Tensor:
            explicit = run.prepare(layer, T, tap, explicit=True)
            return self.exact.blocks[layer](run.residuals[layer].expand(n, -1, -1), layer, explicit)

        def measure() -> dict:
            sites = {"pattern", "z", "attn_out", "after1_out", "mlp_out", "after2_out", "entry_out", "resid_post"}
            return watched(forward, run.config, sites, enough(T), product_unit=self.product_unit)

        return self.once(f"moved {layer}", measure)[site, layer][0]

    def untouched(self, site: str, layer: int) -> Tensor:
        """Return the heads of a layer whose `site` is not edited. [n]"""
        out = self.edited(site)
        return torch.tensor([head for head in range(self.run.config.n_head) if (layer, head) not in out]).long()


Sites = dict[str, Tensor]  # site -> tensor without the batch axis


@public()
def subject_of(lm: LanguageModel, run: Trace, prompt: str | None = None) -> Subject:
    """Return the subject for a run. Raises ValueError if the run has a tap that is not made of edits."""
    run.require_key()
    return Subject(lm, run, run.unedited(), prompt)


@torch.inference_mode()
def walk(subject: Subject) -> Iterator[tuple[int, Sites]]:
    """Yield each layer with its block's sites, recomputed from the run's streams, and last those of the final norm.

    Only one block is in memory at a time.
    """
    run, config = subject.run, subject.run.config
    for layer in range(config.n_layer):
        names = block_sites(config, layer)  # sorted, since a check reports the first of equal ratios
        at, source = run.sites(layer, names), config.kv_source(layer)
        if source != layer:  # keys and values are those of an earlier layer
            at |= run.sites(source, [name for name in block_sites(config, source) if name in ("k", "k_rot", "v")])
        yield layer, {name: tensor[0] for name, tensor in at.items()}
    if run.model.final_norm is not None:
        sites: Sites = {}

        def tap(site: str, layer: int, tensor: Tensor) -> Tensor:
            sites[site] = tensor
            return tensor

        run.model.normed(run.residuals[-1][None], run.prepare(config.n_layer, len(run.tokens), tap))
        yield config.n_layer, {name: tensor[0] for name, tensor in sites.items()}


@dataclass(eq=False)
class Worst:
    """Tracker of the largest ratio of a difference to its bound. The state is "differs" if a difference exceeds its
    bound.
    """

    unit: str
    rule: str = "exact"
    n: int = 0
    product_unit: float = UNIT  # for the rule "product"
    ratio: float = -1.0
    largest: Finding = field(init=False)
    carry: Tensor | None = None  # state that a check carries from block to block

    def __post_init__(self) -> None:
        self.largest = Finding("agrees", unit=self.unit, rule=self.rule, n=self.n)

    @property
    def roundings(self) -> float:
        """Allowed difference in multiples of EPS times the size of the numbers,
        for rules whose bound is not measured.
        """
        product = multiplied(self.n, self.product_unit) / EPS
        return {"exact": 0, "double": 2.0**-20, "sum": summed(self.n) / EPS, "product": product}[self.rule]

    def rows(
        self,
        actual: Tensor,
        expected: Tensor,
        scale: Tensor | None = None,
        layer: int | None = None,
        heads: Tensor | None = None,
        allowed: Tensor | None = None,
    ) -> None:
        """Compare two tensors [T, n] or [heads, T, n]. The bound of a row is relative to its largest number, or to
        `scale` [.., T].

        `heads` are the head indices along the first axis. For the rule "moved", `allowed` [.., T] is the bound itself.
        """
        if actual.shape != expected.shape:
            raise ValueError(f"shapes differ: {tuple(actual.shape)} and {tuple(expected.shape)}")
        if actual.numel() == 0:
            return
        gap = (actual.double() - expected.double()).abs().amax(-1)
        size = (expected.double().abs().amax(-1) if scale is None else scale.double()).expand_as(gap)
        bound = self.roundings * EPS * size if allowed is None else allowed.double().expand_as(gap)
        ratio = torch.where(gap == 0, 0.0, gap / bound)  # a difference of 0 is within any bound, even 0
        ratio = torch.where(ratio.isnan() | ~gap.isfinite(), torch.inf, ratio)
        self.largest = replace(self.largest, compared=self.largest.compared + actual.numel())
        at = int(ratio.flatten().argmax())
        if float(ratio.flatten()[at]) > self.ratio:
            row, head = at % gap.shape[-1], at // gap.shape[-1]
            self.ratio = float(ratio.flatten()[at])
            apart = float(gap.flatten()[at])
            self.largest = replace(
                self.largest,
                difference=apart if math.isfinite(apart) else math.inf,
                bound=float(bound.flatten()[at]),
                scale=float(size.flatten()[at]),
                layer=layer,
                position=row,
                head=None if gap.ndim == 1 else int(head if heads is None else heads[head]),
                state="differs" if self.ratio > 1 else "agrees",
            )

    def values(
        self,
        actual: Tensor,
        expected: Tensor,
        scale: Tensor | None = None,
        layer: int | None = None,
        heads: Tensor | None = None,
        allowed: Tensor | None = None,
    ) -> None:
        """Compare two tensors with one number per row, [T] or [heads, T]."""
        self.rows(actual[..., None], expected[..., None], scale, layer, heads, allowed)

    def finding(self, nothing: str = "all_edited") -> Finding:
        """Return the result. If nothing was compared, the check is "unable" with the reason `nothing`."""
        return self.largest if self.largest.compared else unable(nothing)


def gain(norm: Norm) -> Tensor:
    """Return the gain of a norm in float64: ones, whatever the module holds, unless it has weights. [D]"""
    weight = norm.weight.detach().double()
    return weight if isinstance(norm.weight, nn.Parameter) else torch.ones_like(weight)


def counted(wrong: int, compared: int, unit: str, position: int | None = None) -> Finding:
    """Return a finding from a number of wrong items; it agrees if that number is 0."""
    state = "agrees" if wrong == 0 else "differs"
    return Finding(state, float(wrong), 0.0, unit, "exact", 0, 0.0, compared, position=position)


Look = Callable[[Subject, Progress], Finding]
AtBlock = Callable[[Subject, int, Sites, Worst], None]
