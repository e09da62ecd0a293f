"""The numbers of tiny trainings: gradients of wirings before and during the first steps, and MLPs side by side."""

from typing import Annotated

from model.design.block_trials import STARTS, VARIANTS, WIRINGS, Trial
from model.design.mlp_trials import KINDS, MlpTrial, config_of, cost, curves, gated, verdict
from viz.api.arguments import OneOf, Within
from viz.api.reading import done
from viz.page.playground import Playground
from viz.views.design.mlps import view as mlps
from viz.views.design.norms_residuals import view as norms_residuals
from viz.views.design.trials import page_lesson

Depth = Annotated[int, Within(2, 16)]
Rate = Annotated[float, Within(1e-5, 0.1)]
Start = Annotated[str, OneOf(STARTS)]


def gradient_norms(playground: Playground, depth: Depth = 8, start: Start = "gpt2") -> dict:
    """Lengths of the gradients of a tiny model before its first step: pre- and post-norm, with and without residuals.

    Args:
        depth: Blocks of the tiny model.
        start: Its weights. gpt2: normal(0, 0.02), smaller with depth where a block writes to the stream. glorot: by
            width alone, as in the theory of Xiong et al. 2020.

    Returns:
        wirings: wiring; weights: length of the gradient of each block's parameters; stream: of what enters each block;
        both a list of blocks for each seed of the weights; losses: one a seed (nats a byte).
    """
    found = norms_residuals.found_starts(playground, depth, start)
    rows = [
        {"wiring": key, "weights": found.weights[n], "stream": found.stream[n], "losses": found.losses[n]}
        for n, key in enumerate(WIRINGS)
    ]
    return {"depth": found.depth, "start": start, "wirings": rows}


def wiring_trial(
    playground: Playground,
    depth: Depth = 8,
    start: Start = "gpt2",
    rate: Rate = 0.003,
    steps: Annotated[int, Within(2, 200)] = 160,
) -> dict:
    """The first steps of a tiny model as five variants: pre- and post-norm, with and without warm-up, and pre-norm
    without residuals; trained on the server now, on the same batches. Takes about 20 seconds.

    Args:
        depth: Blocks of the tiny model.
        start: Its weights: gpt2 or glorot, see gradient_norms.
        rate: The largest learning rate; the warm-up takes 30 steps.
        steps: How many steps each variant makes.

    Returns:
        variants: variant; losses: of every step's batch (nats a byte); norms: length of each block's gradient at every
        step, before clipping; seconds: median of a step. frequencies: the loss of who knows how often each byte occurs.
    """
    found = done(playground, norms_residuals.train_job(playground, Trial(depth, start, rate, steps)))
    rows = [
        {"variant": key, "losses": found.losses[n], "norms": found.norms[n], "seconds": found.seconds[n]}
        for n, key in enumerate(VARIANTS)
    ]
    return {"frequencies": found.frequencies, "variants": rows}


def mlp_costs(playground: Playground) -> dict:
    """SwiGLU, GELU and ReLU with equal parameters: widths, parameters and FLOPs; and the functions inside them.

    Returns:
        kinds: kind with d_mlp, mlp_params (of one block), params (of the model), mlp_flops (of one MLP, a token) and
        train_flops (of the model, a token, forward and backward). x; functions: name with values and derivative at x.
        gate: x and values of silu(gate) * up, a row for each up.
    """
    size = page_lesson(playground).vocab_size
    x, found = curves()
    at, values = gated()
    return {
        "kinds": [{"kind": kind, **vars(cost(config_of(kind, size)))} for kind in KINDS],
        "x": x,
        "functions": [{"name": name, "values": both[0], "derivative": both[1]} for name, both in found.items()],
        "gate": {"x": at, "values": values},
    }


def mlp_trial(
    playground: Playground,
    start: Start = "glorot",
    rate: Rate = 0.001,
    steps: Annotated[int, Within(6, 360)] = 240,
) -> dict:
    """SwiGLU, GELU and ReLU with equal parameters, trained on the server now on the same batches with three seeds.
    Takes about 25 seconds.

    Args:
        start: The weights: gpt2 or glorot, see gradient_norms.
        rate: The largest learning rate.
        steps: How many steps each model makes.

    Returns:
        moments: steps at which held-out text was looked at; kinds: kind with held_out (a row a seed, nats a byte),
        losses (of every step's batch, a row a seed) and seconds (median of a step); verdict: SwiGLU against GELU at the
        end: difference of the means, spread over seeds, apart: whether no two seeds overlap.
    """
    found = done(playground, mlps.train_job(playground, MlpTrial(start, rate, steps)))
    rows = [
        {"kind": kind, "held_out": found.held_out[n], "losses": found.losses[n], "seconds": found.seconds[n]}
        for n, kind in enumerate(KINDS)
    ]
    return {"moments": found.moments, "kinds": rows, "verdict": vars(verdict(*found.held_out[:2, :, -1]))}
