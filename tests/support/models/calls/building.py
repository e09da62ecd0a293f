"""Rows of the anatomy, the design and the cost of a model."""

import numpy as np
import torch

from model.anatomy.flops import PassSize, operations
from model.anatomy.footprint import Setting
from model.anatomy.prices import bundled, read_prices, talk
from model.design.depth_gradients import Stack
from model.design.expert_trial import ExpertTrial
from model.design.kv_sharing import stops
from model.design.mixer_trial import MixerTrial
from model.design.mlp_trials import MlpTrial
from model.design.positions import head_qk, pair_of
from model.quantization.formats import FORMATS, Scheme
from tests.support.models.calls.row import IDS, POLICY, SEED, Row, blank, rows

rows("model.text", public_vocabularies__public_vocabulary=Row(lambda c: {"name": "gpt2"}))
rows(
    "model.anatomy",
    two_ways__two_ways=Row(lambda c: {"config": c.config}, slow=True),
    anatomy__config_of=Row(lambda c: {"text": '{"model_type": "gpt2"}'}, {}, {"text": "config|JSON"}),
    anatomy__n_params=Row(lambda c: {"config": c.config}),
    anatomy__weights=Row(lambda c: {"config": c.config}),
    blueprint__blueprint=Row(lambda c: {"config": c.config, "T": 3}),
    parameter_shares__shares=Row(lambda c: {"config": c.config}),
    component_times__measure=Row(
        lambda c: {"model": c.model, "ids": IDS, "every": True, "budget": 1.0}, {"budget": "half, zero"}, slow=True
    ),
    mixers__operation__PassSize=Row(lambda c: {"T": 3, "S": 3, "logits": 1}, {"logits": "zero"}),
    flops__by_group=Row(lambda c: {"ops": operations(c.config, PassSize(3, 3)), "useful": True}, {"ops": "empty"}),
    flops__total=Row(lambda c: {"ops": operations(c.config, PassSize(3, 3)), "useful": True}, {"ops": "empty"}),
    flops__counted=Row(lambda c: {"config": c.config, "reading": PassSize(3, 3)}, slow=True),
    flops__crossing=Row(lambda c: {"config": c.config, "against": "projections", "useful": True}),
    flops__next_token=Row(lambda c: {"cached": 3}, {"cached": "zero"}),
    flops__operations=Row(lambda c: {"config": c.config, "reading": PassSize(3, 3)}),
    flops__prompt=Row(lambda c: {"T": 3, "logits": 1}, {"logits": "zero"}),
    footprint__Setting=Row(
        lambda c: {"mode": "inference", "form": "float32", "batch": 1, "tokens": 8, "item": 4, "explicit": False}
    ),
    footprint__parts=Row(lambda c: {"config": c.config, "setting": Setting()}),
    footprint__weights_bytes=Row(lambda c: {"config": c.config, "form": "float32"}),
    prices__cost=Row(lambda c: {"price": read_prices(bundled())[0], "tokens": talk(1, 2, 3)}),
    prices__read_prices=Row(lambda c: {"text": bundled()}, {}, {"text": "table|price|column"}),
    prices__talk=Row(lambda c: {"question": 1, "answer": 2, "turns": 3}, {"question": "zero", "answer": "zero"}),
    scaling__kaplan_params=Row(lambda c: {"params": 1e6}, {"params": "half, huge"}),
    scaling__kaplan_tokens=Row(lambda c: {"tokens": 1e6}, {"tokens": "half, huge"}),
    scaling__kaplan_compute=Row(lambda c: {"pf_days": 1e6}, {"pf_days": "half, huge"}),
    scaling__loss_of=Row(
        lambda c: {"law": "besiroglu", "params": 1e6, "tokens": 1e7}, {"params": "half, huge", "tokens": "half, huge"}
    ),
    scaling__tokens_for=Row(
        lambda c: {"law": "besiroglu", "params": 1e6, "loss": 3.0}, {"params": "half, huge", "loss": "half, huge"}
    ),
    scaling__compute_of=Row(
        lambda c: {"hours": 1.0, "flops_per_second": 1e12, "utilization": 0.4},
        {"hours": "half", "flops_per_second": "half, huge"},
        {"hours": "budget"},
    ),
    scaling__optimum=Row(lambda c: {"law": "besiroglu", "compute": 1e20}, {"compute": "huge"}, {"compute": "budget"}),
    scaling__planned=Row(
        lambda c: {"law": "besiroglu", "quantity": "compute", "value": 1e20}, {"value": "huge"}, {"value": "budget"}
    ),
    scaling__extra_compute=Row(lambda c: {"law": "besiroglu", "share": 2.0}, {"share": "half, huge"}),
    scaling_curves__contours=Row(lambda c: {"law": "besiroglu"}),
    scaling_curves__frontiers=Row(lambda c: {"compute": 1e20}, {"compute": "huge"}),
    scaling_curves__size_curves=Row(
        lambda c: {"law": "besiroglu", "compute": 1e20, "most": 4.0}, {"compute": "huge", "most": "half, huge"}
    ),
)
rows(
    "model.design",
    block_trials__data_of=Row(
        lambda c: {"text": "abc " * 4000}, {"text": "text, empty text"}, {"text": "Text"}, slow=True
    ),
    block_trials__starts=Row(lambda c: {"data": blank(Row), "depth": 2, "start": "gpt2", "seeds": 1}, slow=True),
    block_trials__starts_by_depth=Row(lambda c: {"data": None, "start": "gpt2"}, slow=True),
    depth_gradients__Stack=Row(
        lambda c: {"depth": 3, "residual": False, "norm": "none", "activation": "linear", "gain": 0.9},
        {"gain": "zero, half, negative"},
    ),
    depth_gradients__by_layer=Row(lambda c: {"stack": Stack(), "seeds": 1}),
    kernel_costs__measure=Row(
        lambda c: {"shape": (2, 2, 8), "limit": 64, "budget": 1.0}, {"budget": "half, zero"}, slow=True
    ),
    kernels__exactness=Row(
        lambda c: {
            "q": torch.ones(1, 2, 3, 4),
            "k": torch.ones(1, 2, 3, 4),
            "v": torch.ones(1, 2, 3, 4),
            "ways": ("naive",),
        },
        {"ways": "empty", "q": "longer", "k": "longer", "v": "longer"},
    ),
    kernels__layer_qkv=Row(lambda c: {"trace": c.run, "layer": 0}),
    kernels__online_steps=Row(
        lambda c: {"scores": np.array([1.0, 2.0]), "values": np.ones((2, 3)), "block": 1},
        {"scores": "nan", "block": "huge"},
    ),
    kv_sharing__pattern_at=Row(
        lambda c: {"model": c.model, "stored": stops(c.model, IDS, 1, "mean"), "layer": 0, "head": 0, "seed": 0}, SEED
    ),
    kv_sharing__pooled=Row(
        lambda c: {"model": c.model, "groups": 1, "merge": "mean", "seed": 0}, SEED, {"groups": "KV heads"}
    ),
    kv_sharing__readers=Row(lambda c: {"config": c.config, "groups": 1}, {}, {"groups": "KV heads"}),
    kv_sharing__stops=Row(
        lambda c: {"model": c.model, "ids": IDS, "groups": 1, "merge": "mean", "seed": 0}, SEED, {"groups": "KV heads"}
    ),
    kv_sharing__survey=Row(lambda c: {"model": c.model, "ids": IDS, "seed": 0}, SEED),
    mlp_trials__MlpTrial=Row(lambda c: {"start": "glorot", "rate": 1e-3, "steps": 3}, {"rate": "half"}),
    mlp_trials__curves=Row(
        lambda c: {"low": -1.0, "high": 1.0, "points": 3}, {"low": "negative, zero", "high": "zero, half"}
    ),
    mlp_trials__gated=Row(
        lambda c: {"low": -1.0, "high": 1.0, "points": 3}, {"low": "negative, zero", "high": "zero, half"}
    ),
    mlp_trials__train_mlps=Row(lambda c: {"data": None, "trial": MlpTrial()}, slow=True),
    past_length__windows_of=Row(
        lambda c: {"ids": IDS, "length": 2, "most": 1, "first": 3},
        {"most": "huge", "first": "zero"},
        {"length": "length|short"},
    ),
    positions__as_rope=Row(lambda c: {"config": c.config}),
    positions__contributions=Row(lambda c: {"pair": pair_of(c.config, head_qk(c.run, 0, 0), 2, 1), "distances": [0]}),
    positions__head_qk=Row(lambda c: {"trace": c.run, "layer": 0, "head": 0}),
    positions__pair_of=Row(
        lambda c: {"config": c.config, "head": head_qk(c.run, 0, 0), "query": 2, "key": 1},
        {"query": "zero", "key": "zero"},
        {"query": "position", "key": "position"},
    ),
    score_scaling__drawn=Row(lambda c: {"sizes": [4], "keys": 4, "seed": 0}, SEED | {"sizes": "empty"}),
    score_scaling__lookup=Row(
        lambda c: {"scores": np.array([1.0, 2.0]), "values": np.ones((2, 3)), "temperatures": np.array([1.0])},
        {"temperatures": "longer, deeper", "scores": "nan"},
    ),
    shuffled__new_order=Row(
        lambda c: {"T": 5, "seed": 0, "first": 0}, SEED | {"first": "zero"}, {"T": "tokens|T", "first": "tokens|first"}
    ),
    shuffled__shuffled=Row(
        lambda c: {"model": c.model, "ids": IDS, "order": np.array([1, 0, 2, 3, 4]), "way": "model"},
        {},
        {"ids": "ids|order"},
    ),
    expert_trial__ExpertTrial=Row(
        lambda c: {
            "n_expert": 4,
            "experts_per_token": 1,
            "balances": (0.0,),
            "capacity_factor": 1.25,
            "steps": 2,
            "rate": 1e-3,
            "seed": 0,
        },
        SEED | {"balances": "empty", "capacity_factor": "half", "rate": "half"},
    ),
    expert_trial__train_mixtures=Row(lambda c: {"trial": ExpertTrial()}, slow=True),
    mixer_trial__MixerTrial=Row(
        lambda c: {"mixers": ("softmax", "linear"), "task": "induction", "steps": 3, "rate": 1e-3, "seeds": 1},
        {"rate": "half"},
        {"mixers": "mixers"},
    ),
    mixer_trial__compare=Row(lambda c: {"trial": MixerTrial()}, slow=True),
    mixer_trial__verdict=Row(lambda c: {"found": None}, slow=True),
)
rows(
    "model.forgetting",
    costs__seen_by=Row(lambda c: {"policy": POLICY, "T": 5}, {"T": "zero"}),
    costs__cost_of=Row(lambda c: {"config": c.config, "policy": POLICY, "T": 5}, {"T": "zero"}),
    costs__cached=Row(lambda c: {"policy": POLICY, "T": 5}, {"T": "zero"}),
    costs__other_operations=Row(lambda c: {"n_weights": 5, "T": 5}, {"T": "zero", "n_weights": "zero"}),
    eviction__read_through=Row(
        lambda c: {"policy": POLICY, "scores": torch.zeros(1, 1, 1, 3, 3)}, {"scores": "nan, longer"}
    ),
    policies__Policy=Row(
        lambda c: {"kind": "window", "budget": 4, "first": 1, "global_at": (0,), "dilation": 2, "seed": 0, "read": 0.5},
        SEED | {"first": "zero", "global_at": "empty", "read": "zero"},
        {"kind": "eviction policy"},
    ),
    policies__mask_of=Row(lambda c: {"policy": POLICY, "T": 5}, {"T": "zero"}),
    reading__read=Row(
        lambda c: {
            "model": c.model,
            "ids": torch.tensor([IDS]),
            "policy": POLICY,
            "following": torch.tensor([1]),
            "size": 9,
        },
        {"ids": "longer", "following": "longer", "size": "huge"},
        {"ids": "ids", "following": "following|ids"},
        slow=True,
    ),
    reading__read_all=Row(
        lambda c: {"model": c.model, "windows": torch.tensor([IDS]), "policies": [POLICY], "size": 9, "since": 0},
        {"since": "zero", "windows": "longer", "size": "huge"},
        slow=True,
    ),
    sparse__sparse_attention=Row(
        lambda c: {
            "policy": POLICY,
            "q": torch.ones(1, 2, 3, 4),
            "k": torch.ones(1, 2, 3, 4),
            "v": torch.ones(1, 2, 3, 4),
        }
    ),
    sparse__timed=Row(
        lambda c: {"config": c.config, "policy": POLICY, "lengths": [8]}, {"lengths": "empty"}, slow=True
    ),
    sparse__computed=Row(lambda c: {"policy": POLICY, "T": 5}),
)
rows(
    "model.quantization",
    experiments__measure=Row(
        lambda c: {"model": c.model, "texts": (IDS, IDS), "keys": ["fp16"], "head": False},
        {"keys": "empty"},
        slow=True,
    ),
    experiments__with_format=Row(lambda c: {"model": c.model, "kind": FORMATS["fp16"], "head": False}),
    formats__Scheme=Row(
        lambda c: {"key": "x", "bits": 4, "symmetric": True, "per": "tensor", "group": 0},
        {"key": "text, empty", "group": "zero"},
    ),
    formats__stored=Row(lambda c: {"weight": torch.ones(2, 32), "kind": FORMATS["int4-32"]}, {"weight": "longer"}),
    formats__weight_error=Row(
        lambda c: {"weight": torch.ones(2, 32), "values": torch.ones(2, 32), "nbytes": 64}, {"nbytes": "zero"}
    ),
    int8__int8=Row(lambda c: {"lm": c.lm}),
    layer_sweep__sweep=Row(
        lambda c: {"model": c.model, "ids": IDS, "kind": FORMATS["fp16"], "by": "matrix"}, slow=True
    ),
    rounding__compare=Row(
        lambda c: {
            "model": c.model,
            "layer": 0,
            "matrix": "v",
            "scheme": Scheme("x", 4, True, "channel"),
            "texts": [IDS, IDS],
        },
        {},
        {"texts": "text|ids"},
    ),
    texts__held_out_ids=Row(lambda c: {"lm": c.lm, "most": 3}, {"most": "huge"}),
)
