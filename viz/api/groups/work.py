"""What a model costs: operations and bytes by formula, and where the time goes, measured."""

import dataclasses
from typing import Annotated

from model.anatomy import flops, footprint
from model.anatomy.anatomy import ARCHITECTURES, n_params
from model.anatomy.component_times import Forward
from model.api import LanguageModel
from model.gpt.config import ModelConfig
from viz.api.arguments import OneOf, Within
from viz.api.reading import done
from viz.page.playground import Playground
from viz.page.scene import Scene
from viz.views.anatomy.compute import times
from viz.views.anatomy.compute import view as work_view
from viz.views.anatomy.memory import view as memory_view
from viz.views.anatomy.old_subject import LOADED

Which = Annotated[str, OneOf((LOADED, *ARCHITECTURES))]


def _config(model: LanguageModel, architecture: str) -> ModelConfig:
    """Of the loaded model or of a well-known one."""
    return model.config if architecture == LOADED else ARCHITECTURES[architecture].config


def _operations(config: ModelConfig, reading: flops.Reading, item: int) -> dict:
    """All of one forward."""
    found = flops.operations(config, reading)
    rows = [
        {
            "operation": op.key,
            "times": op.layers,
            "products": op.products,
            "all": op.all_products,
            "useful": op.all_useful,
            "elementwise": op.all_elementwise,
        }
        for op in found
    ]
    return {
        "operations": rows,
        "total": flops.total(found),
        "useful": flops.total(found, useful=True),
        "intensity": flops.intensity(config, reading, item),
    }


def work(
    playground: Playground,
    model: LanguageModel,
    architecture: Which = LOADED,
    tokens: Annotated[int, Within(1, work_view.MOST)] = 1024,
    every_head: bool = True,
    item: Annotated[str, OneOf(tuple(work_view.ITEMS))] = "float32",
) -> dict:
    """FLOPs of every operation of a prompt and of one token after it, from the config alone.

    Args:
        architecture: loaded (the model), or a well-known architecture.
        tokens: Length of the prompt, which is then in the cache.
        every_head: Whether the output head runs for every token of the prompt, or for the last one.
        item: What a number is stored as, for the intensity.

    Returns:
        prompt and step (one token more): operations (products: FLOPs of matrix products of one layer, times: how often,
        all, useful: without the pairs that the mask hides, elementwise: counted apart), total, useful, intensity (FLOPs
        a byte of weights and cache). crossing: contexts at which scores and mix take as much as the projections, and as
        the rest of the layer. rules: 2 N and 6 N a token, N of the blocks' matrices or of all parameters.
    """
    config, size = _config(model, architecture), work_view.ITEMS[item]
    return {
        "prompt": _operations(config, flops.prompt(tokens, None if every_head else 1), size),
        "step": _operations(config, flops.next_token(tokens), size),
        "crossing": {name: flops.crossing(config, name) for name in flops.AGAINST},
        "rules": flops.rules(config),
    }


def _forward(found: Forward) -> dict:
    parts = [
        {"component": each.key, "seconds": each.times.median, "flops": each.flops, "rate": each.rate}
        for each in found.parts
    ]
    return {"parts": parts, "clocked": found.clocked.median, "plain": found.plain.median, "flops": found.flops}


def work_times(scene: Scene, every_head: bool = True) -> dict:
    """Seconds by component of the prompt and of one token more, measured on the server now.

    Args:
        every_head: Whether the output head runs for every token of the prompt, or for the last one.

    Returns:
        prompt and step: parts (component, median seconds, flops, rate in FLOPs a second), clocked and plain: seconds of
        the whole forward with and without the clock, flops. threads.
    """
    values = {times.FORM: {"logits": times.LOGITS[0 if every_head else 1]}}
    found = done(scene.playground, times.plan(scene, values))
    return {"prompt": _forward(found.prompt), "step": _forward(found.step), "threads": found.threads}


def memory(
    playground: Playground,
    model: LanguageModel,
    architecture: Which = LOADED,
    mode: Annotated[str, OneOf(footprint.MODES)] = "inference",
    weights: Annotated[str, OneOf(tuple(footprint.FORMATS))] = "float32",
    tokens: Annotated[int, Within(1, memory_view.MOST_TOKENS_ASKED)] = 1024,
    batch: Annotated[int, Within(1, memory_view.MOST_BATCH)] = 1,
    item: Annotated[str, OneOf(tuple(memory_view.ITEMS))] = "float32",
    explicit_attention: bool = False,
) -> dict:
    """Bytes of weights, cache, activations, gradients and optimizer, and what fits into 8, 16, 24 and 80 GB.

    Args:
        architecture: loaded (the model), or a well-known architecture.
        mode: inference, or training with AdamW: adamw (all float32) or mixed (16 bytes a parameter).
        weights: Their format, for inference.
        tokens: Of context.
        batch: Texts at once.
        item: What cache and activations are stored as, for inference.
        explicit_attention: Whether attention matrices are made, and kept in training.

    Returns:
        parts in bytes and their total; formats: bytes of the weights in each; fits: for each memory (gigabytes) the
        longest context at this batch and the largest batch at this context, 0 where nothing fits; parameters.
    """
    config = _config(model, architecture)
    setting = footprint.Setting(mode, weights, batch, tokens, memory_view.ITEMS[item], explicit_attention)
    fits = []
    for size in memory_view.BUDGETS:
        longest, most = footprint.largest(config, setting, size * memory_view.GB)
        fits.append({"gigabytes": size, "context": longest, "batch": most})
    return {
        "setting": dataclasses.asdict(setting),
        "parts": footprint.parts(config, setting),
        "total": footprint.total_bytes(config, setting),
        "formats": {form: footprint.weights_bytes(config, form) for form in footprint.FORMATS},
        "fits": fits,
        "parameters": n_params(config),
    }
