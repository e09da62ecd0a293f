"""Every view's numbers as named functions for programs: Gradio's API, and tools of a language model (MCP)."""

import gradio as gr

from viz.api.groups import (
    activations,
    anatomy,
    attention,
    checks,
    compare,
    distance,
    effects,
    heads,
    page,
    positions,
    prices,
    sampling,
    scale,
    sharing,
    trained,
    work,
)
from viz.api.registry import Endpoint, register
from viz.page.playground import Playground
from viz.server.gradio_patches import answer_in_json, leave_out
from viz.views.tabs import TABS

ENDPOINTS = (
    Endpoint(page.models, reads="server", kind="listed"),
    Endpoint(page.model_info, reads="model", kind="listed", long=True),
    Endpoint(page.tokenize, reads="plain run"),
    Endpoint(attention.head_metrics, ("attention", "heads")),
    Endpoint(attention.attention, ("attention.map",)),
    Endpoint(attention.attention_links, ("attention.lines", "attention.text")),
    Endpoint(attention.attention_cell, ("attention.why",)),
    Endpoint(attention.find_heads, ("attention.find",)),
    Endpoint(attention.head_vectors, ("attention.why",)),
    Endpoint(sampling.distribution, ("sampling.shape",)),
    Endpoint(sampling.temperatures, ("sampling.heat",)),
    Endpoint(sampling.draws, ("sampling.draws",)),
    Endpoint(sampling.generate, ("sampling.race",), "plain run", long=True),
    Endpoint(sampling.many_samples, ("sampling.many",), "plain run", long=True),
    Endpoint(sampling.speculative, ("sampling.drafting",), "plain run", long=True),
    Endpoint(sampling.cache_size, ("sampling.cachelab",), "model", kind="computed"),
    Endpoint(sampling.cache_times, ("sampling.cachelab",), "plain run", long=True),
    Endpoint(activations.stream_sizes, ("inside.sizes",)),
    Endpoint(activations.outliers, ("inside.outliers",)),
    Endpoint(activations.norm, ("inside.onenorm",)),
    Endpoint(activations.norm_gains, ("inside.onenorm",), "model", kind="computed"),
    Endpoint(activations.norm_swap, ("inside.swap",), long=True),
    Endpoint(activations.neurons, ("inside.neurons",)),
    Endpoint(activations.neuron, ("inside.neurons",)),
    Endpoint(activations.neuron_survey, ("inside.neurons",), long=True),
    Endpoint(activations.residual_space, ("inside.space",), long=True),
    Endpoint(heads.head_survey, ("heads",), "model", long=True),
    Endpoint(heads.composition, ("heads",), "model", kind="computed"),
    Endpoint(effects.next_token, ("effects",)),
    Endpoint(effects.sweep, ("effects",), long=True),
    Endpoint(compare.compare_runs, ("compare",)),
    Endpoint(compare.compare_head, ("compare",)),
    Endpoint(compare.patch, ("compare",), "plain run", long=True),
    Endpoint(anatomy.anatomy, ("anatomy.diagram", "anatomy.params"), "model", kind="computed"),
    Endpoint(anatomy.part_numbers, ("anatomy.diagram",)),
    Endpoint(work.work, ("anatomy.work",), "model", kind="computed"),
    Endpoint(work.work_times, ("anatomy.work",), "plain run", long=True),
    Endpoint(work.memory, ("anatomy.memory",), "model", kind="computed"),
    Endpoint(scale.scaling_laws, ("anatomy.laws",), reads="server", kind="computed"),
    Endpoint(scale.tokenizers, ("anatomy.vocabs",), "plain run"),
    Endpoint(scale.merges, ("anatomy.vocabs",), "model", kind="computed"),
    Endpoint(prices.prices, ("anatomy.prices",), reads="server", kind="computed"),
    Endpoint(positions.position_vectors, ("design.posvec",), "model", kind="computed"),
    Endpoint(positions.rope_pairs, ("design.rope",)),
    Endpoint(distance.score_by_distance, ("design.distance",)),
    Endpoint(distance.past_trained_length, ("design.longer",), "model", long=True),
    Endpoint(checks.checks, ("checks",), long=True),
    Endpoint(trained.gradient_norms, ("design.wiring",), "server", long=True),
    Endpoint(trained.wiring_trial, ("design.wiring",), "server", long=True),
    Endpoint(trained.mlp_costs, ("design.mlps",), "server", kind="computed"),
    Endpoint(trained.mlp_trial, ("design.mlps",), "server", long=True),
    Endpoint(sharing.shared_heads, ("design.sharing",), "plain run", long=True),
    Endpoint(sharing.attention_kernels, ("design.kernels",), long=True),
    Endpoint(sharing.online_softmax, ("design.kernels",)),
    *(each for tab in TABS for each in tab.api),
)
# What has none, and why.
WITHOUT = {
    "training": "A run takes minutes and belongs to the visitor who started it: only its page can watch and stop it.",
}


def offer(playground: Playground) -> None:
    """Register every function; called where the page is built."""
    register(playground, ENDPOINTS)


def finish(page: gr.Blocks) -> None:
    """What is left to do once the page is launched."""
    leave_out(page, {each.name for each in ENDPOINTS})
    answer_in_json(page)
