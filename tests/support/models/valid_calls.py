"""One valid call of every public function, and which odd values of its arguments are legal."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from model.activations.residual_statistics import survey as stream_of
from model.alignment.lora import Lora
from model.alignment.preferences import Ask, Pair, split
from model.alignment.reward_model import RewardModel, RewardRecipe
from model.alignment.rewards import parse_rules
from model.anatomy.flops import Reading, operations
from model.anatomy.footprint import Setting
from model.anatomy.prices import bundled, read_prices, talk
from model.api import LanguageModel
from model.attention.approximations.ways import Way
from model.attention.effects import Target
from model.by_hand.sheets import SHEETS, example
from model.checks.result import subject_of
from model.design.depth_gradients import Stack
from model.design.expert_trial import ExpertTrial
from model.design.kv_sharing import stops
from model.design.mixer_trial import MixerTrial
from model.design.mlp_trials import MlpTrial
from model.design.positions import head_qk, pair_of
from model.forgetting.policies import Policy
from model.generation.decoder import GeneratedToken, Plan, Strategy
from model.generation.generate import Tick
from model.generation.requests import Draft, Request
from model.gpt.edits import Edit
from model.loading.tokenizer_comparison import cut
from model.predictions.attribution import components
from model.predictions.predictions import predict
from model.predictions.samples import Many
from model.prompting.choices import Asked
from model.prompting.trial import Variant
from model.quantization.formats import FORMATS, Scheme
from model.sampling.pipeline import Step

Values = dict[str, object]


@dataclass(frozen=True)
class Row:
    """A valid call: its arguments, made of the models at hand."""

    given: Callable[["Given"], Values]
    legal: dict[str, str] = field(default_factory=dict)  # labels of odd values, by argument, that are legal
    words: dict[str, str] = field(default_factory=dict)  # what a refusal calls an argument, if not by its name
    slow: bool = False  # only what `public` itself refuses is tried
    owner: Callable[["Given"], object] | None = None  # of a method


class Given:
    """A tiny model, a run, and what is made of them, once each."""

    def __init__(self, lm: LanguageModel) -> None:
        self.lm, self.model, self.config = lm, lm.model, lm.config

    @functools.cached_property
    def run(self):
        return self.lm.trace("abcabd")

    @functools.cached_property
    def stream(self):
        return stream_of(self.run)


IDS = [97, 98, 99, 97, 98]
POLICY = Policy("window", 4)
TWO = torch.tensor([[0.5, 1.0, 2.0], [0.1, 0.2, 0.3]])
INSIDE = torch.ones(2, 3, dtype=torch.bool)
PAIRS = tuple(Pair(f"p{n}", f"good {n}", f"bad {n}") for n in range(4))
STEPS = (Step("temperature", (("temperature", 0.8),)),)
ANY = "negative, zero, half, huge"
SEED = {"seed": "zero"}
TEXT = {"text": "text, empty"}


def _text(c: Given) -> Values:
    return {"text": "abc"}


ROWS: dict[str, Row] = {}


def rows(module: str, **entries: Row) -> None:
    """Add the rows of a module."""
    ROWS.update({f"{module}.{name.replace('__', '.')}": row for name, row in entries.items()})


def blank(kind: type) -> object:
    """Return an object of a class without its contents, where only its kind counts."""
    return object.__new__(kind)


rows(
    "model.activations",
    neurons__layer_activations=Row(lambda c: {"run": c.run, "layer": 0}),
    neurons__promoted=Row(
        lambda c: {"model": c.model, "layer": 0, "neurons": [1], "most": 2, "vocab": 9},
        {"most": "huge", "vocab": "huge"},
        {"neurons": "neuron"},
    ),
    norm_swap__places_of=Row(lambda c: {"config": c.config, "where": "all"}, {}, {"where": "norm"}),
    norm_swap__swapped=Row(
        lambda c: {"run": c.run, "swap": "no_mean", "places": [(0, "norm1")]}, {}, {"swap": "change of a norm"}
    ),
    norm_walk__norm_input=Row(lambda c: {"run": c.run, "layer": 0, "site": "norm1"}, {}, {"site": "norm"}),
    norm_walk__walk=Row(lambda c: {"run": c.run, "layer": 0, "site": "norm1", "position": 1}, {}, {"site": "norm"}),
    principal_components__principal=Row(
        lambda c: {"run": c.run, "scaled": True, "first": True, "components": 2}, {"components": "huge"}
    ),
    principal_components__work=Row(lambda c: {"layers": 2, "T": 3, "D": 4}),
    residual_statistics__carriers=Row(
        lambda c: {"stream": c.stream, "rule": "x100", "sites": ["norm1"]}, {"sites": "empty"}
    ),
    residual_statistics__outliers=Row(
        lambda c: {"stream": c.stream, "rule": "x100", "sites": ["norm1"]}, {"sites": "empty"}
    ),
    residual_statistics__statistic=Row(lambda c: {"stream": c.stream, "name": "cosine"}),
    residual_statistics__survey=Row(lambda c: {"run": c.run}),
    site_statistics__block_numbers=Row(lambda c: {"trace": c.run, "layer": 0}),
    routing__routing=Row(lambda c: {"trace": c.run, "capacity_factor": 1.5}, {"capacity_factor": "half"}, slow=True),
)
rows(
    "model.alignment",
    preferences__Ask=Row(
        lambda c: {"pairs": 2, "new_tokens": 4, "temperature": 1.0, "seed": 0}, SEED | {"temperature": "half"}
    ),
    preferences__pairs_by_rule=Row(
        lambda c: {"lm": c.lm, "prompts": ["ab"], "rules": parse_rules("contains: a"), "ask": Ask(1, 2)}, slow=True
    ),
    preferences__read_pairs=Row(
        lambda c: {"text": '{"prompt": "a", "chosen": "b", "rejected": "c"}'}, {}, {"text": "line|pairs"}
    ),
    preferences__split=Row(lambda c: {"pairs": PAIRS, "share": 0.25, "seed": 0}, SEED),
    reward_model__RewardRecipe=Row(
        lambda c: {
            "body": False,
            "steps": 2,
            "batch": 2,
            "learning_rate": 0.1,
            "weight_decay": 0.1,
            "held_out": 0.2,
            "seed": 0,
        },
        SEED | {"learning_rate": "zero", "weight_decay": "zero, half"},
    ),
    reward_model__calibration=Row(lambda c: {"margins": np.array([0.5, -1.0, 2.0]), "bins": 5}, {"margins": "longer"}),
    reward_model__accuracy=Row(lambda c: {"margins": np.array([0.5, -1.0, 2.0])}, {"margins": "longer"}),
    reward_model__pair_loss=Row(lambda c: {"chosen": TWO, "rejected": TWO}),
    reward_model__train=Row(lambda c: {"lm": c.lm, "parts": split(PAIRS), "recipe": RewardRecipe()}, slow=True),
    reward_reading__change_words=Row(
        lambda c: {"reward": blank(RewardModel), "encode": len, "text": "a b", "instead": "x", "most": 3},
        {"text": "text, empty text", "instead": "text, empty", "most": "huge"},
        {"text": "word"},
        slow=True,
    ),
    rewards__parse_rules=Row(lambda c: {"value": "contains: a"}, {}, {"value": "rule"}),
    lora__Lora=Row(lambda c: {"rank": 8, "alpha": 16.0, "matrices": "qv"}, {"alpha": "half"}),
    lora__adapt=Row(lambda c: {"model": c.model, "lora": Lora(), "seed": 0}, SEED, slow=True),
    reinforcement__advantages__token_rewards=Row(
        lambda c: {"rewards": TWO[:, 0], "log_ratios": TWO, "written": INSIDE, "coefficient": 0.1},
        {"coefficient": "zero, half"},
    ),
    reinforcement__advantages__returns=Row(
        lambda c: {"rewards": TWO, "written": INSIDE, "gamma": 1.0}, {"gamma": "zero"}
    ),
    reinforcement__advantages__gae=Row(
        lambda c: {"rewards": TWO, "values": TWO, "written": INSIDE, "gamma": 1.0, "lam": 0.9},
        {"gamma": "zero", "lam": "zero"},
    ),
    reinforcement__advantages__leave_one_out=Row(lambda c: {"rewards": TWO[0], "group": 3}),
    reinforcement__advantages__group_normalised=Row(
        lambda c: {"rewards": TWO[0], "group": 3, "least": 1e-6}, {"least": "half"}
    ),
    reinforcement__advantages__whiten=Row(
        lambda c: {"values": TWO, "written": INSIDE, "least": 1e-6}, {"least": "half"}
    ),
    reinforcement__losses__policy_gradient_loss=Row(lambda c: {"log_probs": TWO, "advantages": TWO, "written": INSIDE}),
    reinforcement__losses__ppo_loss=Row(
        lambda c: {"log_probs": TWO, "old": TWO, "advantages": TWO, "written": INSIDE, "clip": 0.2}, {"clip": "half"}
    ),
    reinforcement__losses__value_loss=Row(
        lambda c: {"values": TWO, "old": TWO, "targets": TWO, "written": INSIDE, "clip": 0.2}, {"clip": "half"}
    ),
    reinforcement__losses__grpo_loss=Row(
        lambda c: {
            "log_probs": TWO,
            "old": TWO,
            "reference": TWO,
            "advantages": TWO,
            "written": INSIDE,
            "clip": 0.2,
            "beta": 0.1,
        },
        {"clip": "half", "beta": "zero, half"},
    ),
    reinforcement__losses__dpo_margins=Row(
        lambda c: {"chosen": TWO[0], "rejected": TWO[0], "chosen_reference": TWO[0], "rejected_reference": TWO[0]}
    ),
    reinforcement__losses__dpo_loss=Row(
        lambda c: {"margins": TWO[0], "beta": 0.1}, {"beta": "half", "margins": "longer"}
    ),
)
rows(
    "model.anatomy",
    anatomy__config_of=Row(lambda c: {"text": '{"model_type": "gpt2"}'}, {}, {"text": "config|JSON"}),
    anatomy__n_params=Row(lambda c: {"config": c.config}),
    anatomy__weights=Row(lambda c: {"config": c.config}),
    blueprint__blueprint=Row(lambda c: {"config": c.config, "T": 3}),
    blueprint__shares=Row(lambda c: {"config": c.config}),
    component_times__measure=Row(
        lambda c: {"model": c.model, "ids": IDS, "every": True, "budget": 1.0}, {"budget": "half"}, slow=True
    ),
    flops__Reading=Row(lambda c: {"T": 3, "S": 3, "logits": 1}, {"logits": "zero"}),
    flops__by_group=Row(lambda c: {"ops": operations(c.config, Reading(3, 3)), "useful": True}, {"ops": "empty"}),
    flops__total=Row(lambda c: {"ops": operations(c.config, Reading(3, 3)), "useful": True}, {"ops": "empty"}),
    flops__counted=Row(lambda c: {"config": c.config, "reading": Reading(3, 3)}, slow=True),
    flops__crossing=Row(lambda c: {"config": c.config, "against": "projections", "useful": True}),
    flops__next_token=Row(lambda c: {"cached": 3}, {"cached": "zero"}),
    flops__operations=Row(lambda c: {"config": c.config, "reading": Reading(3, 3)}),
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
        lambda c: {"hours": 1.0, "flops_per_second": 1e12, "utilisation": 0.4},
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
    tokenizer_comparison__built_in=Row(lambda c: {"name": "tinygpt"}),
    tokenizer_comparison__counted=Row(lambda c: {"tokens": cut("bytes", None, "abc")}),
    tokenizer_comparison__cut=Row(
        lambda c: {"name": "bytes", "tokenizer": c.lm.tokenizer, "text": "abc"},
        {"name": "text, empty", "text": "text, empty"},
    ),
)
rows(
    "model",
    shares__wilson=Row(lambda c: {"share": 0.5, "n": 3}, {"share": "zero", "n": "zero"}),
    shares__paired=Row(
        lambda c: {"first": [True, False], "second": [True, True]}, {}, {"first": "answers", "second": "answers"}
    ),
    text__bpe_steps__replay=Row(lambda c: {"tokenizer": c.lm.tokenizer, "text": "abc"}, TEXT),
    api__load_model=Row(
        lambda c: {"model_id": "tinygpt", "offline": True, "stored": False, "dtype": "float32", "device": "cpu"},
        {},
        {"model_id": "model|folder"},
    ),
    api__LanguageModel__encode=Row(lambda c: {"text": "abc", "special": False}, TEXT, owner=lambda c: c.lm),
    api__LanguageModel__decode=Row(lambda c: {"ids": IDS}, {"ids": "empty"}, {"ids": "id|ids"}, owner=lambda c: c.lm),
    api__LanguageModel__trace=Row(
        lambda c: {"prompt": IDS}, {"prompt": "text"}, {"prompt": "prompt|id"}, owner=lambda c: c.lm
    ),
    api__LanguageModel__generate=Row(
        lambda c: {
            "prompt": IDS,
            "strategies": "greedy",
            "max_new_tokens": 2,
            "seed": 0,
            "shared": True,
            "stop": ("x",),
            "edits": (Edit("zero", 0, 0),),
            "together": False,
        },
        SEED | {"prompt": "text", "stop": "text, empty, empty text", "edits": "empty"},
        {"prompt": "prompt|id", "strategies": "strateg"},
        owner=lambda c: c.lm,
    ),
)
rows(
    "model.attention",
    approximations__costs__operations=Row(lambda c: {"way": Way("linear"), "T": 3, "E": 4}),
    approximations__costs__softmax_operations=Row(lambda c: {"T": 3, "E": 4}),
    approximations__measure__approximate=Row(
        lambda c: {"qkv": c.run.qkv(0, 0), "way": Way("linear"), "layer": 0}, {"layer": "zero"}
    ),
    approximations__measure__sweep=Row(
        lambda c: {"qkv": c.run.qkv(0, 0), "layer": 0, "seeds": 1, "curves": ["linear"]},
        {"layer": "zero", "curves": "empty"},
        slow=True,
    ),
    approximations__ways__Way=Row(
        lambda c: {"method": "performer", "size": 4, "seed": 0, "orthogonal": False, "projection": "random"}, SEED
    ),
    cell__explain=Row(
        lambda c: {"trace": c.run, "layer": 0, "head": 0, "query": 2, "key": 1},
        {"key": "zero"},
        {"query": "position|query|later", "key": "position|key"},
    ),
    circuits__composition=Row(lambda c: {"model": c.model, "layer": 0, "head": 0}),
    circuits__copying=Row(lambda c: {"model": c.model}),
    effects__metric=Row(lambda c: {"trace": c.run, "target": Target("logit", token=3), "reference": c.run}),
    effects__next_tokens=Row(
        lambda c: {"before": c.run, "after": c.run, "position": 2, "most": 3, "vocab": 9},
        {"position": "zero, negative", "most": "huge", "vocab": "huge"},
    ),
    effects__patch=Row(
        lambda c: {"clean": c.run, "corrupted": c.run, "target": Target("logit", token=3), "site": "resid_pre"},
        {},
        {"site": "patched"},
    ),
    effects__patch_heads=Row(
        lambda c: {"clean": c.run, "corrupted": c.run, "target": Target("logit", token=3), "position": 2},
        {"position": "zero, negative"},
    ),
    effects__sweep=Row(
        lambda c: {"trace": c.run, "how": "zero", "target": Target("logit", token=3)}, {}, {"how": "kind of edit"}
    ),
    find_heads__rank_heads=Row(
        lambda c: {"trace": c.run, "queries": [2], "keys": [1], "measure": "weights"},
        {},
        {"queries": "position|No token", "keys": "position|No token"},
    ),
    measures__measure=Row(
        lambda c: {"trace": c.run, "name": "weights", "layer": 0, "head": 0}, {}, {"name": "measure"}
    ),
    state_space__state_space=Row(
        lambda c: {"trace": c.run, "layer": 0, "source": 0}, {"layer": "all", "source": "all"}, slow=True
    ),
    state_space__decay_tokens=Row(lambda c: {"found": None}),
    surveys__labels=Row(lambda c: {"random": None, "least": 0.25}, {"least": "zero"}, slow=True),
    surveys__random_survey=Row(
        lambda c: {"model": c.model, "pool": 9, "sequences": 2, "length": 16, "seed": 0},
        SEED | {"pool": "huge"},
        {"length": "sequences|length"},
    ),
    surveys__sentence_survey=Row(lambda c: {"model": c.model, "encode": c.lm.encode}, slow=True),
    turns__by_turn=Row(
        lambda c: {"values": np.ones((2, 3)), "turns": np.array([0, 1, -1]), "count": 2},
        {"values": "longer, deeper", "count": "huge"},
        {"count": "turns"},
    ),
)
rows(
    "model.checks",
    registry__run_checks=Row(
        lambda c: {"subject": subject_of(c.lm, c.run), "keys": ["softmax"]},
        {"keys": "empty"},
        {"keys": "checks"},
        slow=True,
    ),
    result__subject_of=Row(lambda c: {"lm": c.lm, "run": c.run, "prompt": "abc"}, {"prompt": "text, empty"}),
)
rows(
    "model.design",
    block_trials__lesson_of=Row(
        lambda c: {"text": "abc " * 4000}, {"text": "text, empty text"}, {"text": "Text"}, slow=True
    ),
    block_trials__starts=Row(lambda c: {"lesson": blank(Row), "depth": 2, "start": "gpt2", "seeds": 1}, slow=True),
    block_trials__starts_by_depth=Row(lambda c: {"lesson": None, "start": "gpt2"}, slow=True),
    depth_gradients__Stack=Row(
        lambda c: {"depth": 3, "residual": False, "norm": "none", "activation": "linear", "gain": 0.9},
        {"gain": "zero, half, negative"},
    ),
    depth_gradients__by_layer=Row(lambda c: {"stack": Stack(), "seeds": 1}),
    kernel_costs__measure=Row(
        lambda c: {"shape": (2, 2, 8), "limit": 64, "budget": 1.0}, {"budget": "half"}, slow=True
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
    mlp_trials__train_mlps=Row(lambda c: {"lesson": None, "trial": MlpTrial()}, slow=True),
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
        {"kind": "way of forgetting"},
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
REQUEST = Request(256, STEPS, 2, 2)
rows(
    "model.generation",
    cache_costs__cache_bytes=Row(
        lambda c: {"config": c.config, "batch": 1, "length": 5, "heads": 2}, {"length": "zero"}
    ),
    cache_costs__measure=Row(
        lambda c: {"model": c.model, "ids": IDS, "limit": 8, "budget": 1.0},
        {"budget": "half", "limit": "huge"},
        slow=True,
    ),
    decoder__Strategy=Row(
        lambda c: {"steps": STEPS, "method": "sample", "options": (), "name": "", "memory": POLICY},
        {"name": "text, empty", "steps": "all", "method": "all", "options": "empty"},
    ),
    draft_costs__compare=Row(
        lambda c: {"model": c.model, "ids": IDS, "draft": Draft(), "request": REQUEST},
        {},
        {"ids": "prompt|id"},
        slow=False,
    ),
    generate__generate=Row(
        lambda c: {
            "model": c.model,
            "ids": IDS,
            "strategies": [Strategy()],
            "plan": Plan(2),
            "size": 256,
            "text": c.lm.decode,
        },
        {},
        {"ids": "prompt|id", "strategies": "strateg|rows", "size": "id|size"},
        slow=False,
    ),
    next_token__context_at=Row(lambda c: {"run": c.run, "position": 2}, {"position": "zero, negative"}),
    next_token__logits_after=Row(
        lambda c: {"run": c.run, "position": 2, "vocab_size": 9}, {"position": "zero, negative", "vocab_size": "huge"}
    ),
    samples__Many=Row(lambda c: {"count": 2, "max_new_tokens": 2, "seed": 0, "stop": ("x",)}, SEED | {"stop": "empty"}),
    samples__take_samples=Row(
        lambda c: {"lm": c.lm, "prompt": IDS, "strategies": [Strategy()], "many": Many(1, 2)},
        {"prompt": "text"},
        {"prompt": "prompt|id"},
        slow=False,
    ),
    speculative__speculate=Row(
        lambda c: {"model": c.model, "ids": IDS, "draft": Draft(), "request": REQUEST},
        {},
        {"ids": "prompt|id"},
        slow=False,
    ),
    text_statistics__measure_text=Row(lambda c: {"tokens": [blank(GeneratedToken)]}, {"tokens": "empty"}, slow=True),
    text_statistics__written=Row(
        lambda c: {"ticks": [blank(Tick)], "count": 1}, {"ticks": "empty", "count": "zero"}, slow=True
    ),
)
rows(
    "model.predictions",
    attribution__attribute=Row(
        lambda c: {"outputs": components(c.run), "model": c.model, "token": 3, "distractor": 4},
        {"token": "zero", "distractor": "zero"},
        {"distractor": "token"},
    ),
    attribution__by_source=Row(
        lambda c: {"run": c.run, "layer": 0, "head": 0, "position": 2, "u": np.ones(c.config.d_model)},
        {"layer": "zero"},
    ),
    attribution__components=Row(lambda c: {"run": c.run, "position": 2}, {"position": "zero, negative"}),
    attribution__promoted=Row(
        lambda c: {"outputs": components(c.run), "model": c.model, "layer": 0, "head": 0, "top": 2, "vocab": 9},
        {"top": "huge", "vocab": "huge"},
    ),
    gradients__gradients=Row(
        lambda c: {"run": c.run, "position": 2, "token": 3, "distractor": 4, "most": 4},
        {"position": "zero, negative", "token": "zero", "distractor": "zero"},
        {"distractor": "token", "most": "steps|most"},
        slow=False,
    ),
    next_token__next_token=Row(
        lambda c: {"logits": np.array([1.0, 2.0]), "temperatures": [0.0, 1.0], "u": 0.5, "top": 2},
        {"logits": "longer", "u": "zero", "top": "huge"},
        {"u": "random number"},
    ),
    predictions__follow=Row(lambda c: {"run": c.run, "token": 3}, {"token": "zero"}),
    predictions__follow_all=Row(
        lambda c: {"run": c.run, "tokens": [3], "positions": slice(None)}, {"tokens": "empty"}, {"tokens": "token"}
    ),
    predictions__predict=Row(lambda c: {"run": c.run, "top": 2}, {"top": "huge"}),
    predictions__summarise=Row(lambda c: {"predictions": predict(c.run), "tokens": c.run.tokens}),
    tuned_lens__load_lens=Row(lambda c: {"model_id": "tiny", "config": c.config}, {"model_id": "text, empty"}),
)
rows(
    "model.prompting",
    choices__choice_log_probs=Row(
        lambda c: {"model": c.model, "asked": [Asked((97, 98), ((99,),))], "size": 256}, {}, {"size": "id|size"}
    ),
    prompts__Shots=Row(lambda c: {"count": 2, "order": 0, "shuffled": False}, {"count": "zero", "order": "zero"}),
    question_sets__question_set=Row(lambda c: {"key": None}, {}, {"key": "question set|key"}),
    trial__Variant=Row(
        lambda c: {"strategy": "zero", "score": "sum", "samples": 2, "temperature": 0.7, "system": "", "seed": 0},
        SEED | {"system": "text, empty", "temperature": "half"},
    ),
    trial__trial=Row(lambda c: {"lm": c.lm, "asked": None, "variants": [Variant("zero")], "most": 2}, slow=True),
    trial__curve=Row(
        lambda c: {"lm": c.lm, "asked": None, "counts": [1], "orders": 1, "score": "sum", "most": 2}, slow=True
    ),
)
rows(
    "model.quantization",
    experiments__measure=Row(
        lambda c: {"model": c.model, "texts": (IDS, IDS), "keys": ["float16"], "head": False},
        {"keys": "empty"},
        slow=True,
    ),
    experiments__with_format=Row(lambda c: {"model": c.model, "kind": FORMATS["float16"], "head": False}),
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
        lambda c: {"model": c.model, "ids": IDS, "kind": FORMATS["float16"], "by": "matrix"}, slow=True
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
rows(
    "model.sampling",
    draw_statistics__band=Row(
        lambda c: {"n": 3, "shares": np.array([0.5, 0.5]), "level": 0.9},
        {"n": "zero", "level": "half", "shares": "longer"},
    ),
    draw_statistics__bar_of=Row(lambda c: {"probabilities": np.array([0.5, 0.5])}, {"probabilities": "longer"}),
    draw_statistics__fit=Row(lambda c: {"counts": np.array([5.0, 5.0]), "shares": np.array([0.5, 0.5])}),
    draw_statistics__uniforms=Row(
        lambda c: {"seed": 0, "n": 3, "first": 0, "row": 0}, SEED | {"n": "zero", "first": "zero", "row": "zero"}
    ),
    pipeline__draw=Row(
        lambda c: {"probabilities": np.array([0.5, 0.5]), "u": 0.5},
        {"probabilities": "longer", "u": "zero"},
        {"u": "random number"},
    ),
    pipeline__softmax=Row(lambda c: {"logits": np.array([0.5, 0.5])}, {"logits": "longer, deeper"}),
    pipeline__uniform=Row(lambda c: {"seed": 0, "step": 0, "row": 0}, SEED | {"step": "zero", "row": "zero"}),
    temperatures__heat=Row(
        lambda c: {"logits": torch.tensor([1.0, 2.0]), "steps": STEPS, "values": [1.0], "top": 2},
        {"logits": "longer", "values": "zero", "top": "huge", "steps": "empty"},
        {"steps": "step"},
    ),
    temperatures__temperatures=Row(lambda c: {"logarithmic": True}),
    warps__final=Row(
        lambda c: {"logits": torch.tensor([1.0, 2.0]), "steps": STEPS},
        {"logits": "longer", "steps": "empty"},
        {"steps": "step"},
    ),
    warps__shape=Row(
        lambda c: {"logits": torch.tensor([1.0, 2.0]), "steps": STEPS},
        {"logits": "longer", "steps": "empty"},
        {"steps": "step"},
    ),
)
RUN = {"owner": lambda c: c.run}
BOTH = Row(lambda c: {"layer": 0, "head": 0}, {"layer": "zero", "head": "zero"}, **RUN)
LAYER = Row(lambda c: {"layer": 0}, {"layer": "zero"}, **RUN)
rows(
    "model.tracing.trace",
    Trace__qkv=BOTH,
    Trace__scores=BOTH,
    Trace__pattern=BOTH,
    Trace__z=BOTH,
    Trace__mlp_activations=LAYER,
    Trace__hidden=LAYER,
    Trace__middle=LAYER,
    Trace__mixing=Row(lambda c: {"layer": 0, "index": 0}, {"index": "zero"}, {"index": "head"}, **RUN),
    Trace__sites=Row(lambda c: {"layer": 0, "names": ["z"]}, {"names": "empty"}, {"names": "name|site"}, **RUN),
    Trace__edit=Row(lambda c: {}, **RUN),
    Trace__logits_at=Row(lambda c: {"position": 2}, {"position": "zero, negative"}, **RUN),
    Trace__logit_lens=Row(lambda c: {"top": 2, "positions": [1]}, {"top": "huge"}, {"positions": "position"}, **RUN),
    run=Row(
        lambda c: {"model": c.model, "tokens": c.run.tokens, "model_id": "x", "edits": [Edit("zero", 0, 0)]},
        {"model_id": "text, empty", "edits": "empty"},
    ),
)
rows(
    "model.training.jobs",
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
    mixers__MixerTrial=Row(
        lambda c: {"mixers": ("softmax", "linear"), "task": "induction", "steps": 3, "rate": 1e-3, "seeds": 1},
        {"rate": "half"},
        {"mixers": "mixers"},
    ),
    mixers__compare=Row(lambda c: {"trial": MixerTrial()}, slow=True),
    mixers__verdict=Row(lambda c: {"found": None}, slow=True),
)
SHEET = SHEETS["rounding"]
rows(
    "model.by_hand",
    sheets__sheet_of=Row(lambda c: {"name": "rounding"}, {}, {"name": "sheet"}),
    sheets__example=Row(lambda c: {"sheet": SHEET, "name": "int8"}, {}, {"name": "example"}),
    sheets__worked=Row(
        lambda c: {"sheet": SHEET, "typed": example(SHEET, "int8"), "options": {"scheme": "affine"}},
        {"options": "empty"},
    ),
    calculations__rounding__rounding=Row(lambda c: {"given": {}, "scheme": "affine"}, {}, slow=True),
)
