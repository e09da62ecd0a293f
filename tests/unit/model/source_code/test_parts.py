"""Every part of a model and every step to a weight has its lines, and they are those of the model's own wiring."""

import ast

import pytest
import torch

from model.anatomy.architectures import ARCHITECTURES
from model.anatomy.blueprint import blueprint
from model.errors import InputError
from model.gpt.mlp import MLP
from model.gpt.presets import PRESETS
from model.gpt.rope_scaling import RopeScaling
from model.gpt.tap import SITES, record
from model.source_code.excerpts import Span, excerpt
from model.source_code.mini import MINI_PARTS, like_mini, mini_spans
from model.source_code.parts import PARTS, Wiring, code_of_part, sizes_of, wiring_of
from model.source_code.steps import MINI_STEPS, STEPS, code_of_step
from tests.support.models.helpers import MORE_VARIANTS, VARIANTS, L, random_ids, tiny_config, tiny_model
from tests.support.models.mixtures import MIXTURES
from tests.support.models.states import STATES

T, MOST = 7, 14  # tokens; lines of a span
ALL = VARIANTS | MORE_VARIANTS | MIXTURES
CONFIGS = {f"variant {name}": tiny_config(changes) for name, changes in (ALL | STATES).items()} | {
    name: each.config for name, each in ARCHITECTURES.items()
}
_AT = {"original_n_ctx": 20}
SCALINGS = {
    "linear": {},
    "dynamic": _AT,
    "llama3": _AT | {"low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "yarn": _AT | {"beta_fast": 32.0, "beta_slow": 1.0},
    "longrope": _AT | {"short_factors": (1.0,) * 6, "long_factors": (2.0,) * 6},
    "proportional": {"rotated": 0.25},
}


def checked(spans: list[Span], sizes) -> str:
    """The text of the spans, each of which is there, short, and Python."""
    assert spans
    texts = []
    for span in spans:
        found = excerpt(span, sizes)  # raises where a name is gone
        assert 0 < len(found.text.splitlines()) <= MOST, found
        ast.parse(found.text)
        texts.append(found.text)
    return "\n".join(texts)


@pytest.mark.parametrize("name", CONFIGS)
def test_every_part_has_its_lines(name):
    config = CONFIGS[name]
    sizes = sizes_of(config, T)
    for part in blueprint(config, T):
        checked(PARTS[part](Wiring(config)), sizes)
        if like_mini(config):
            checked(mini_spans(MINI_PARTS[part]), sizes)
        code = code_of_part(Wiring(config), part, T)
        assert len(code.own) == len(PARTS[part](Wiring(config))) and bool(code.mini) == like_mini(config)
        assert part in ("tokens", "output", "rates") or any(each.shapes for each in code.own), part


@pytest.mark.parametrize("name", ALL)
def test_every_step_has_its_lines(name):
    wiring = wiring_of(tiny_model(ALL[name]), 1)
    for step in STEPS:
        checked(STEPS[step](wiring), sizes_of(wiring.config, T))
        code = code_of_step(wiring, step, T, 3)
        assert len(code.own) == len(STEPS[step](wiring))
        assert bool(code.mini) == (like_mini(wiring.config) and step != "check")
    assert set(MINI_STEPS) == set(STEPS)


@pytest.mark.parametrize("name", ALL)
def test_shapes_are_those_of_a_run(name):
    model = tiny_model(ALL[name])
    sizes, store = sizes_of(model.config, T), {}
    with torch.inference_mode():
        model(random_ids(1, T), tap=record([site for site in sizes if site in SITES], store))
    seen = {site: tuple(tensor.shape) for (site, layer), tensor in store.items() if layer in (-1, 1, L)}
    inner = "mlp_post" if model.config.n_expert == 1 else "router"
    assert {"scores", "q", inner, "logits"} <= set(seen)
    assert seen == {site: sizes[site] for site in seen}


def test_the_lines_follow_the_wiring():
    def text(name, part):
        config = CONFIGS[name]
        return checked(PARTS[part](Wiring(config)), sizes_of(config, T))

    assert "def layernorm_parts" in text("gpt2", "norm1") and "def rmsnorm_parts" in text("llama-3.1-8b", "norm1")
    assert "self.gate(x)" in text("llama-3.1-8b", "up") and "self.gate(x)" not in text("gpt2", "up")
    assert "def gelu_tanh" in text("gpt2", "act") and "gelu" not in text("llama-3.1-8b", "act")
    assert "self.norm1.tapped(x + written" in text("variant post", "add1")
    assert "x + (written" in text("gpt2", "add1") and "x + written" not in text("gpt2", "add1")
    assert "experts.one(expert" in text("variant mixtral", "down") and "down(run.at" in text("gpt2", "down")
    assert "def route" not in text("variant mixtral", "router") and "topk" in text("variant mixtral", "router")
    assert "def capped" in text("variant gemma", "cap") and "def alibi_slopes" in text("variant bloom", "alibi")
    assert "def rotate_adjacent" in text("variant gptj", "rope") and "def rotate(" in text("variant neox", "rope")
    assert "self.sinks" in text("variant oss", "softmax") and "self.sinks" not in text("gpt2", "softmax")
    assert "sinusoidal_positions" in text("variant post", "pos_embed")
    assert "pos_embed.weight" in text("gpt2", "pos_embed")
    assert "d_model**0.5" in text("variant post", "embed") and "embed_factor" not in text("gpt2", "embed")
    assert like_mini(PRESETS["gpt2"]) and not like_mini(CONFIGS["llama-3.1-8b"])
    with pytest.raises(InputError):
        code_of_part(Wiring(CONFIGS["gpt2"]), "rope", T)


class Louder(MLP):
    """Another module than the config's own."""

    def forward(self, x, layer, run):
        post = self.up(x)
        return run.at("mlp_out", layer, 2 * self.down(post))


def test_the_lines_are_those_of_the_module_that_is_loaded():
    model = tiny_model()
    model.blocks[1].mlp.__class__ = Louder
    assert "2 * self.down(post)" not in code_of_part(wiring_of(model, 0), "down", T).own[0].text
    shown = code_of_part(wiring_of(model, 1), "down", T).own[0]
    assert shown.function == "Louder.forward" and "2 * self.down(post)" in shown.text


def test_a_window_hides_keys_in_its_own_lines():
    model = tiny_model({"mixer": ("sliding_window", "softmax", "softmax"), "window": 4})
    texts = [code_of_step(wiring_of(model, layer), "mask", T, 3).own for layer in (0, 1)]
    texts = ["\n".join(each.text for each in own) for own in texts]
    assert "distance >= self.window" in texts[0] and "self.window is None" not in texts[1]


@pytest.mark.parametrize("kind", SCALINGS)
def test_each_scaling_of_the_rotation_has_its_lines(kind):
    config = tiny_config({"positions": "rope", "rope_scaling": RopeScaling(kind=kind, factor=2.0, **SCALINGS[kind])})
    text = checked(PARTS["rope"](Wiring(config)), sizes_of(config, T))
    told = {
        "linear": "/ scaling.factor",
        "dynamic": "stretch",
        "llama3": "high_freq",
        "yarn": "_yarn_share",
        "proportional": "pairs",
    }
    assert told.get(kind, "long_factors") in text


def test_only_a_model_like_it_has_the_lines_of_mini_gpt():
    changes = [{"score_cap": 3.0}, {"sinks": True}, {"positions": "alibi"}, {"embed_norm": True}, {"head_bias": True}]
    changes += [{"logit_cap": 3.0}, {"residual_multiplier": 0.5}, {"qkv_limit": 1.0}, {"score_multiplier": 0.5}]
    changes += [{"logit_multiplier": 0.5}, {"embed_multiplier": 2.0}, {"norm_placement": "sandwich"}, {"mlp": "relu2"}]
    assert like_mini(tiny_config({"n_kv_head": 4}))
    assert not any(like_mini(tiny_config({"n_kv_head": 4} | each)) for each in changes)


def test_shapes_of_a_row_are_those_of_its_query():
    config = CONFIGS["variant gpt2"]

    def shapes(step):
        return [text for each in code_of_step(Wiring(config), step, T, 3).own for _, text in each.shapes]

    assert shapes("products") == [f"[1, {config.n_head}, {T}, {T}]", f"[4, {config.d_head}]"]
    assert shapes("softmax") == [f"[1, {config.n_head}, {T}, {T}]", "[4]", "[4]"]
