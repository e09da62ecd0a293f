"""What a check is asked and what it answers: two ways to the same number, and how far they are apart.

A bound is never a number pulled out of the air, nor what one machine gave: it is 0, or what float32 can make of a sum
of so many terms, or what errors of float32's size were measured to do to the very number that is compared.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from model.api import LanguageModel
from model.checks.roundoff import bounds, summed, watched
from model.gpt.edits import EDITS
from model.gpt.tap import SITES, Tap
from model.gpt.trace import Trace
from model.progress import Progress

EPS = 2.0**-23  # the spacing of float32 numbers at 1
SEED = 0  # of the checks that draw random tokens
WATCHED = ("resid_pre", "pattern", "final_out", "logits")  # sites of a whole run whose bounds are measured


@dataclass(frozen=True)
class Finding:
    """What a check found. Where something was compared, `difference`, `bound` and the place belong together.

    They are of the place at which the difference is largest against its bound.
    """

    state: str  # "agrees", "differs", "unable" (cannot be checked here) or "broken" (the check itself failed)
    difference: float = 0.0  # math.inf for a number that is not finite
    bound: float = 0.0
    unit: str = ""  # a key of UNITS
    rule: str = "exact"  # a key of RULES: why the bound is what it is
    n: int = 0  # what the rule counts: the terms of a sum
    scale: float = 0.0  # the size of the numbers that the bound is relative to
    compared: int = 0  # how many numbers
    layer: int | None = None
    head: int | None = None
    position: int | None = None
    reason: str = ""  # for "unable" a key of REASONS, for "broken" what was raised
    got: str = ""  # what the reason is about
    seconds: float = field(default=0.0, compare=False)  # that it took

    def placed(self, position: int) -> "Finding":
        """The same at a position."""
        return replace(self, position=position)


UNITS = ("weight", "score", "stream", "logit", "probability", "normalised", "numbers", "bytes", "tokens")
RULES = ("exact", "sum", "moved", "double")  # "moved": as model.checks.roundoff measures it
REASONS = (
    "no_prompt",
    "one_token",
    "all_edited",
    "no_transformers",
    "no_counterpart",
    "too_large",
)


def unable(reason: str, got: str = "") -> Finding:
    """A check that cannot be made here, and why."""
    return Finding("unable", reason=reason, got=got)


@dataclass(frozen=True, eq=False)
class Subject:
    """What is checked: a run with its edits, the same without, and the text it came from."""

    lm: LanguageModel
    run: Trace
    unedited: Trace
    prompt: str | None = None  # None for a run that was given as token ids
    seed: int = SEED
    memo: dict[str, object] = field(default_factory=dict)  # what several checks share

    def once(self, name: str, make: Callable[[], object]) -> object:
        """A value that several checks read, made when the first asks for it."""
        if name not in self.memo:
            self.memo[name] = make()
        return self.memo[name]

    @property
    def ids(self) -> Tensor:
        """The prompt's tokens. [1, T]"""
        return torch.from_numpy(self.run.tokens.ids.copy()).long()[None]

    @property
    def logits(self) -> Tensor:
        """Those of the run. [T, V]"""
        return torch.from_numpy(self.run.logits)

    def logits_at(self, at: Sequence[int]) -> Tensor:
        """Those of some positions, without computing all. [n, V]"""
        if "logits" in vars(self.run):
            return self.logits[list(at)]
        with torch.inference_mode():
            return self.run.model.logits(self.run.residuals[-1][None, list(at)], tap=self.run.tap)[0]

    def edited(self, site: str) -> frozenset[tuple[int, int]]:
        """(layer, head) whose scores, pattern or z an edit has changed; a head or layer that is None means all."""
        config, found = self.run.config, set()
        for edit in self.run.key.edits:
            if EDITS[edit.kind].site == site:
                layers = range(config.n_layer) if edit.layer is None else (edit.layer,)
                heads = range(config.n_head) if edit.head is None else (edit.head,)
                found |= {(layer, head) for layer in layers for head in heads}
        return frozenset(found)

    def bound(self, site: str, layer: int | None = None) -> Tensor:
        """By how much rows of a site may be apart in two float32 computations of the whole run. [T] or [H, T]"""
        found = self.once("moved", lambda: bounds(self.run.model, self.ids, self.run.tap, WATCHED))
        return found[site, self.run.config.n_layer if layer is None else layer][0]

    def plain(self) -> "Subject":
        """The run without edits as a subject of its own, this one where it has none."""
        run = self.unedited
        return self if self.run.tap is None else self.once("plain", lambda: Subject(self.lm, run, run))

    def block_bound(self, site: str, layer: int) -> Tensor:
        """The same for one block, computed twice from the same stream. [T] or [H, T]"""
        run, T = self.run, len(self.run.tokens)

        def forward(n: int, tap: Tap) -> Tensor:
            explicit = run.prepare(layer, T, tap, explicit=True)
            return run.model.blocks[layer](run.residuals[layer].expand(n, -1, -1), layer, explicit)

        sites = {"pattern", "z", "attn_out", "mlp_out", "resid_post"}
        return self.once(f"moved {layer}", lambda: watched(forward, run.config, sites))[site, layer][0]

    def untouched(self, site: str, layer: int) -> Tensor:
        """The heads of a layer whose `site` is as the model made it. [n]"""
        out = self.edited(site)
        return torch.tensor([head for head in range(self.run.config.n_head) if (layer, head) not in out]).long()


Sites = dict[str, Tensor]  # without the batch axis


def subject_of(lm: LanguageModel, run: Trace, prompt: str | None = None) -> Subject:
    """What to check of a run; raises ValueError for one with a tap that is not made of edits."""
    run.require_key()
    return Subject(lm, run, run.unedited(), prompt)


@torch.inference_mode()
def walk(subject: Subject) -> Iterator[tuple[int, Sites]]:
    """Every block's sites, recomputed from the streams that the run kept; at the end those of the final norm.

    One block is held at a time.
    """
    run, config = subject.run, subject.run.config
    absent = {"embed", "pos_embed", "final_in", "final_scale", "final_out", "logits"}
    absent |= set() if config.positions == "rope" else {"q_rot", "k_rot"}
    absent |= set() if config.mlp == "swiglu" else {"mlp_up"}
    for layer in range(config.n_layer):
        names = [name for name in SITES if name not in absent]  # in order: of equals, a check tells of the first
        yield layer, {name: tensor[0] for name, tensor in run.sites(layer, names).items()}
    if run.model.final_norm is not None:
        found: Sites = {}

        def tap(site: str, layer: int, tensor: Tensor) -> Tensor:
            found[site] = tensor
            return tensor

        run.model.normed(run.residuals[-1][None], run.prepare(config.n_layer, len(run.tokens), tap))
        yield config.n_layer, {name: tensor[0] for name, tensor in found.items()}


@dataclass(eq=False)
class Worst:
    """Keeps the place at which a difference is largest against its bound; `differs` where one is beyond it."""

    unit: str
    rule: str = "exact"
    n: int = 0
    ratio: float = -1.0
    found: Finding = field(init=False)
    carry: Tensor | None = None  # what a check takes from block to block

    def __post_init__(self) -> None:
        self.found = Finding("agrees", unit=self.unit, rule=self.rule, n=self.n)

    @property
    def roundings(self) -> float:
        """How many times EPS of the numbers' size a difference may be, where no bound was measured."""
        return {"exact": 0, "double": 2.0**-20, "sum": summed(self.n) / EPS}[self.rule]

    def rows(
        self,
        actual: Tensor,
        expected: Tensor,
        scale: Tensor | None = None,
        layer: int | None = None,
        heads: Tensor | None = None,
        allowed: Tensor | None = None,
    ) -> None:
        """Compare [T, n] or [heads, T, n]; the bound of a row is relative to its largest number, or to `scale` [.., T].

        `heads` names those of the first axis. Where the rule is "moved", `allowed` is the bound itself, [.., T].
        """
        if actual.shape != expected.shape:
            raise ValueError(f"shapes differ: {tuple(actual.shape)} and {tuple(expected.shape)}")
        if actual.numel() == 0:
            return
        gap = (actual.double() - expected.double()).abs().amax(-1)
        size = (expected.double().abs().amax(-1) if scale is None else scale.double()).expand_as(gap)
        bound = self.roundings * EPS * size if allowed is None else allowed.double().expand_as(gap)
        ratio = torch.where(gap == 0, 0.0, gap / bound)  # nothing apart is within any bound, 0 among them
        ratio = torch.where(ratio.isnan() | ~gap.isfinite(), torch.inf, ratio)
        self.found = replace(self.found, compared=self.found.compared + actual.numel())
        at = int(ratio.flatten().argmax())
        if float(ratio.flatten()[at]) > self.ratio:
            row, head = at % gap.shape[-1], at // gap.shape[-1]
            self.ratio = float(ratio.flatten()[at])
            apart = float(gap.flatten()[at])
            self.found = replace(
                self.found,
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
        """Compare a number a row: [T] or [heads, T]."""
        self.rows(actual[..., None], expected[..., None], scale, layer, heads, allowed)

    def finding(self) -> Finding:
        """What was found; a check that compared nothing has not agreed."""
        return self.found if self.found.compared else unable("all_edited")


def counted(wrong: int, compared: int, unit: str, position: int | None = None) -> Finding:
    """A count of what is not as it should be, of which there may be none."""
    state = "agrees" if wrong == 0 else "differs"
    return Finding(state, float(wrong), 0.0, unit, "exact", 0, 0.0, compared, position=position)


Look = Callable[[Subject, Progress], Finding]
AtBlock = Callable[[Subject, int, Sites, Worst], None]
