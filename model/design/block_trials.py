"""Comparison of block wirings on a tiny model: gradient norms at initialization, and the first training steps."""

import contextlib
import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from model.gpt.config import ModelConfig
from model.gpt.passes import Pass
from model.gpt.transformer import Block, Transformer
from model.progress import Progress, silent
from model.public import one_of, public, whole
from model.text.held_out import bundled_text
from model.training.data import BYTES, Batch, Source, text_dataset
from model.training.loop import Recipe, Report, TrainingRun, from_model, steps, summed_loss, to_tensors
from model.training.tasks import IGNORE

DEPTHS = (4, 8, 16)  # numbers of blocks
WIDTH, HEADS = 64, 4
ROWS, LENGTH = 8, 32  # batch size, and tokens per row
SEEDS = 3  # number of random initializations to measure
WARMUP = 30  # number of warm-up steps, for the variants with warm-up
STARTS = ("gpt2", "glorot")
_DRAWN = 2048  # number of rows over which token frequencies are counted


@dataclass(frozen=True)
class Wiring:
    """The norm placement of a block, and whether its sublayers have residual connections."""

    placement: str  # a value of ModelConfig.norm_placement
    residuals: bool = True


WIRINGS: dict[str, Wiring] = {
    "pre": Wiring("pre"),
    "post": Wiring("post"),
    "pre_bare": Wiring("pre", False),
    "post_bare": Wiring("post", False),
}


@dataclass(frozen=True)
class Variant:
    """A wiring, trained with or without learning rate warm-up."""

    wiring: str
    warmup: bool = True


VARIANTS: dict[str, Variant] = {
    "pre": Variant("pre"),
    "pre_cold": Variant("pre", False),
    "post": Variant("post"),
    "post_cold": Variant("post", False),
    "pre_bare": Variant("pre_bare"),
}


@dataclass(frozen=True)
class Trial:
    """Settings of a comparison of block wirings."""

    depth: int = 8
    start: str = "gpt2"  # initialization, one of STARTS
    rate: float = 3e-3  # peak learning rate
    steps: int = 160
    seed: int = 0


@dataclass(frozen=True, eq=False)
class TrialData:
    """Training data of the tiny models: a byte-level text and the log frequencies of its tokens."""

    train: Source
    held_out: object  # model.training.data.HeldOut
    vocab_size: int
    characters: int
    log_share: np.ndarray  # [V] log frequency of each token in the training text, add-one smoothed

    def guessed(self, batch: Batch) -> float:
        """Return the loss of the unigram distribution on a batch, in nats per scored token."""
        return float(-self.log_share[batch.targets[batch.targets != IGNORE]].mean())


@dataclass(frozen=True, eq=False)
class Norms:
    """Norms of the gradients of one batch's mean loss, by block."""

    weights: np.ndarray  # [L] norm over all parameters of each block
    stream: np.ndarray  # [L] norm over each block's input, for all tokens of the batch
    loss: float  # mean loss of the batch, nats per token


@dataclass(frozen=True, eq=False)
class Starts:
    """The gradient norms of every wiring and seed at initialization."""

    depth: int
    weights: np.ndarray  # [W, N, L] by wiring in the order of WIRINGS, seed and block
    stream: np.ndarray  # [W, N, L], as `weights`
    losses: np.ndarray  # [W, N] nats per token

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.weights.nbytes + self.stream.nbytes + self.losses.nbytes


@dataclass(frozen=True, eq=False)
class Trained:
    """Results of the first steps of every variant, on the same batches; NaN after a non-finite loss or gradient."""

    trial: Trial
    losses: np.ndarray  # [V, N] by variant in the order of VARIANTS and step; nats per token, on the step's own batch
    norms: np.ndarray  # [V, N, L] gradient norm of each block's parameters, before clipping
    seconds: np.ndarray  # [V] median seconds per step
    frequencies: np.ndarray  # [N] loss of the unigram distribution on the same batches

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.losses.nbytes + self.norms.nbytes


# --- the model -------------------------------------------------------------------------------------


class Unadded(Block):
    """A block without residual connections: attention and MLP in sequence, with the norms in their usual places.

    Pre-norm: mlp(norm2(attn(norm1(x)))). Post-norm: norm2(mlp(norm1(attn(x)))). It shares the weights of `block`.
    Raises ValueError for a parallel block, in which the sublayers have no order.
    """

    def __init__(self, block: Block) -> None:
        nn.Module.__init__(self)
        if block.parallel:
            raise ValueError("the sublayers of a parallel block have no order")
        self.post_norm, self.parallel = block.post_norm, block.parallel
        self.norm1, self.attn, self.norm2, self.mlp = block.norm1, block.attn, block.norm2, block.mlp

    def forward(self, x: Tensor, layer: int, run: Pass) -> Tensor:
        """Compute the block. x [B, T, D] -> [B, T, D]"""
        mid = self.middle(run.at("resid_pre", layer, x), layer, run)
        if self.post_norm:
            out = self.norm2.tapped(self.mlp(mid, layer, run), "norm2", layer, run)
        else:
            out = self.mlp(self.norm2.tapped(mid, "norm2", layer, run), layer, run)
        return run.at("resid_post", layer, out)

    def middle(self, x: Tensor, layer: int, run: Pass) -> Tensor:
        """Compute the first sublayer and return the stream between the two. [B, T, D] -> [B, T, D]"""
        if self.post_norm:
            mid = self.norm1.tapped(self.attn(x, layer, run), "norm1", layer, run)
        else:
            mid = self.attn(self.norm1.tapped(x, "norm1", layer, run), layer, run)
        return run.at("resid_mid", layer, mid)


def config_of(depth: int, placement: str, vocab_size: int = BYTES) -> ModelConfig:
    """Return the config of the tiny model: LayerNorm, learned positions, GELU, tied embeddings, width 64."""
    return ModelConfig(
        vocab_size=vocab_size,
        n_ctx=LENGTH,
        n_layer=depth,
        d_model=WIDTH,
        n_head=HEADS,
        norm_placement=placement,
        mlp="gelu",
    )


def initialized(config: ModelConfig, seed: int, start: str = "gpt2") -> Transformer:
    """Return a new trainable model. The same seed gives the same weights for every norm placement.

    `gpt2`: normal(0, 0.02), with the projections that write to the stream scaled by 1/sqrt(2 L) (Radford et al. 2019).
    `glorot`: the matrices of the blocks are normal with variance 2 / (inputs + outputs) (Glorot & Bengio 2010), as in
    the theory of Xiong et al. 2020. The global random state is restored.
    """
    if start not in STARTS:
        raise ValueError(f"start must be one of {', '.join(STARTS)}, got {start!r}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Transformer(config)
        if start == "glorot":
            for parameter in model.blocks.parameters():
                if parameter.ndim == 2:
                    nn.init.xavier_normal_(parameter)
    return model.requires_grad_(True)


def without_additions(model: Transformer) -> Transformer:
    """Replace each block of the model in place by an Unadded block with the same weights, and return the model."""
    for layer, block in enumerate(model.blocks):
        model.blocks[layer] = Unadded(block)
    return model


def wired(wiring: Wiring, depth: int, vocab_size: int, seed: int, start: str) -> Transformer:
    """Return a new tiny model with this wiring."""
    model = initialized(config_of(depth, wiring.placement, vocab_size), seed, start)
    return model if wiring.residuals else without_additions(model)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Run the matrix products of this thread on one core, since two threads take twice as long for tiny matrices.

    torch has a thread count for each thread and a default for future threads. A short-lived thread restores the
    default.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    other = threading.Thread(target=torch.set_num_threads, args=(before,))
    other.start()
    other.join()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def chapter() -> str:
    """Return the chapter bundled with the app (model/texts_data), with each paragraph as a separate document."""
    return "\n<|endoftext|>\n".join(part.strip() for part in bundled_text().split("\n\n") if part.strip())


@public()
def data_of(text: str) -> TrialData:
    """Encode a text as bytes and hold out one document in ten. Raises InputError if the text is too short."""
    dataset = text_dataset(text, BYTES)
    (held_out,) = dataset.held_out.values()
    ids = dataset.train(np.random.default_rng(0), _DRAWN, LENGTH, 0.0).targets
    size = dataset.tokenizer.vocab_size
    counts = 1 + np.bincount(ids.ravel(), minlength=size)
    return TrialData(dataset.train, held_out, size, len(text), np.log(counts / counts.sum()))


# --- gradients at initialization -------------------------------------------------------------------


def gradient_norms(model: Transformer, batch: Batch) -> Norms:
    """Return the gradient norms of the batch's mean loss for each block. Nothing is accumulated into `.grad`.

    weights[l]^2 = sum over the parameters p of block l of ||dLoss/dp||^2; stream[l] = ||dLoss/dx|| of x [B, T, D], the
    stream that enters block l.
    """
    ids, targets = to_tensors(batch, next(model.parameters()).device)
    inputs: list[Tensor] = []
    hooks = [block.register_forward_pre_hook(lambda module, args: inputs.append(args[0])) for block in model.blocks]
    try:
        with torch.enable_grad():
            loss = summed_loss(model, ids, targets) / max(int((targets != IGNORE).sum()), 1)
    finally:
        for hook in hooks:
            hook.remove()
    owned = [tuple(block.parameters()) for block in model.blocks]
    gradients = iter(torch.autograd.grad(loss, [*(p for block in owned for p in block), *inputs]))
    weights = [_length([next(gradients) for _ in block]) for block in owned]
    return Norms(np.array(weights), np.array([_length([each]) for each in gradients]), loss.item())


def _length(gradients: list[Tensor]) -> float:
    return math.sqrt(sum(each.square().sum().item() for each in gradients))


def fixed_batch(data: TrialData) -> Batch:
    """Return the batch on which the gradients at initialization are measured."""
    return data.train(np.random.default_rng(0), ROWS, LENGTH, 0.0)


@public(depth=whole(1, 256), start=one_of(STARTS), seeds=whole(1, 1024))
def starts(
    data: TrialData, depth: int, start: str = "gpt2", *, seeds: int = SEEDS, progress: Progress = silent
) -> Starts:
    """Compute the gradient norms of every wiring at initialization, on one batch, for several seeds of the weights."""
    batch, norms = fixed_batch(data), []
    total = len(WIRINGS) * seeds
    with one_thread():
        for number, wiring in enumerate(WIRINGS.values()):
            for seed in range(seeds):
                progress(number * seeds + seed, total, "")
                norms.append(gradient_norms(wired(wiring, depth, data.vocab_size, seed, start), batch))
    shape = (len(WIRINGS), seeds)
    return Starts(
        depth,
        np.array([each.weights for each in norms]).reshape(*shape, depth),
        np.array([each.stream for each in norms]).reshape(*shape, depth),
        np.array([each.loss for each in norms]).reshape(shape),
    )


@public(start=one_of(STARTS))
def starts_by_depth(data: TrialData, start: str = "gpt2", progress: Progress = silent) -> tuple[Starts, ...]:
    """Compute `starts` for every depth of DEPTHS."""
    each, results = len(WIRINGS) * SEEDS, []
    for number, depth in enumerate(DEPTHS):

        def part(done: int, total: int | None, what: str, before: int = number * each) -> None:
            progress(before + done, each * len(DEPTHS), what)

        results.append(starts(data, depth, start, progress=part))
    return tuple(results)


def exponent(depths: tuple[int, ...], values: np.ndarray) -> float:
    """Fit the exponent p in value ~ depth^p: the slope of log value against log depth. values [N]"""
    return float(np.polyfit(np.log(depths), np.log(values), 1)[0])


# --- the first steps -------------------------------------------------------------------------------


@dataclass(eq=False)
class _Runner:
    """State of one variant during training; `squares` are the blocks' squared gradient norms at the current step."""

    run: TrainingRun
    reports: Iterator[Report]
    squares: np.ndarray  # [L], one entry per block
    seconds: list[float] = field(default_factory=list)
    astray: bool = False  # whether its loss or gradient was not finite


def train_wirings(data: TrialData, trial: Trial, progress: Progress = silent) -> Trained:
    """Train every variant for the first steps, alternately, on the same batches and from the same initial weights.

    AdamW, gradient clipping at 1 and the learning rate schedule come from the project's training code. After the
    warm-up the learning rate is constant.
    """
    runners = [_runner(data, trial, variant) for variant in VARIANTS.values()]
    losses = np.full((len(runners), trial.steps), np.nan)
    norms = np.full((len(runners), trial.steps, trial.depth), np.nan)
    with one_thread():
        for step in range(trial.steps):
            for number, runner in enumerate(runners):
                progress(step * len(runners) + number, trial.steps * len(runners), "")
                if not runner.astray:
                    losses[number, step], norms[number, step] = _one_step(runner)
    seconds = np.array([float(np.median(runner.seconds)) for runner in runners])
    batches = (step_batch(data, trial, step) for step in range(trial.steps))
    return Trained(trial, losses, norms, seconds, np.array([data.guessed(batch) for batch in batches]))


def step_batch(data: TrialData, trial: Trial, step: int) -> Batch:
    """Return the batch of a step, the same for every variant, drawn as in the training code."""
    return data.train(np.random.default_rng([trial.seed, step]), ROWS, LENGTH, step / trial.steps)


def recipe_of(trial: Trial, warmup: bool) -> Recipe:
    """Return the training recipe of a variant: constant learning rate, with or without warm-up."""
    return Recipe(
        steps=trial.steps,
        batch=ROWS,
        length=LENGTH,
        learning_rate=trial.rate,
        schedule="trapezoid",
        decay=0.0,
        warmup=min(WARMUP, trial.steps) if warmup else 0,
        seed=trial.seed,
    )


def _runner(data: TrialData, trial: Trial, variant: Variant) -> _Runner:
    recipe = recipe_of(trial, variant.warmup)
    model = wired(WIRINGS[variant.wiring], trial.depth, data.vocab_size, trial.seed, trial.start)
    run, squares = from_model(model, recipe), np.zeros(trial.depth)

    def watch(layer: int, parameter: Tensor) -> None:
        def add(tensor: Tensor) -> None:  # called when the parameter's gradient is complete, before it is clipped
            squares[layer] += tensor.grad.square().sum().item()

        parameter.register_post_accumulate_grad_hook(add)

    for layer, block in enumerate(model.blocks):
        for parameter in block.parameters():
            watch(layer, parameter)
    return _Runner(run, steps(run, recipe, data.train), squares)


def _one_step(runner: _Runner) -> tuple[float, np.ndarray]:
    """Train for one step. Returns the batch loss and the gradient norms of the blocks [L]; NaN if the loss or the
    gradient was not finite.
    """
    runner.squares[:] = 0.0
    with torch.enable_grad():
        report = next(runner.reports)
    runner.seconds.append(report.seconds)
    if not (math.isfinite(report.loss) and math.isfinite(report.gradient_norm)):
        runner.astray = True
        return math.nan, np.full(len(runner.squares), np.nan)
    return report.loss, np.sqrt(runner.squares)
