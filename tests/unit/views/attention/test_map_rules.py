"""The map, the lines and the text say by which rules a layer turns scores into weights."""

import pytest

from model.api import LanguageModel
from tests.support.models.helpers import MORE_VARIANTS, H, byte_tokenizer, serving, tiny_model
from viz.numbers import number, percent
from viz.page.pipeline import PageRequest, payloads
from viz.words import LANGUAGES, words

PROMPT = "abcabcdabc"
PARTS = {"map": "map_plot", "lines": "lines_links", "text": "text_reading"}
ENCODER = {"norm_placement": "post", "two_way": True, "n_kv_head": H}
CAP = MORE_VARIANTS["gemma"]["score_cap"]
ALL = MORE_VARIANTS | {"gated": {"output_gate": True, "mixer": ("softmax", "gated_delta", "short_conv")}}


def shown_in(view, folder, changes, language, layer) -> tuple[dict, LanguageModel]:
    lm = LanguageModel("tiny", "Tiny", tiny_model(changes | {"vocab_size": 256, "n_ctx": 300}), byte_tokenizer(folder))
    values = {"attention_view": {"view": view}}
    asked = PageRequest("tiny", PROMPT, {"heads": [[layer, 1]]}, values, {}, language, "attention")
    return payloads(serving(lm), asked)[0][PARTS[view]], lm


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("name", "layer", "keys"),
    [
        ("gemma", 0, ("window", "cap")),
        ("gemma", 1, ("cap",)),
        ("bloom", 0, ("alibi",)),
        ("olmo", 0, ()),
        ("oss", 1, ("window", "sink")),
        ("encoder", 0, ("two_way",)),
        ("local", 0, ("two_way", "window_two_way")),
        ("gated", 0, ("gate",)),
        ("gated", 1, ()),
    ],
)
@pytest.mark.parametrize("view", PARTS)
def test_the_rules_of_a_layer_are_said(tmp_path, view, name, layer, keys, language):
    changes = {**ALL, "encoder": ENCODER, "local": ENCODER | {"mixer": "sliding_window", "window": 6}}[name]
    shown, lm = shown_in(view, tmp_path, changes, language, layer)
    note, last = shown["note"], len(PROMPT) - 1
    shares = 1 - lm.trace(PROMPT).pattern(layer, 1).sum(1)
    values = {"layer": layer, "n": 3 if name == "local" else lm.config.window, "cap": number(CAP), "position": last}
    values |= {"share": percent(float(shares[last])), "mean": percent(float(shares.mean()))}
    values |= {"head": 1, "slope": number(2 ** (-8 * 2 / H))}
    said = {key if view == "map" or key != "sink" else "sink_mean" for key in keys}
    for key in ("window", "cap", "alibi", "sink", "sink_mean", "two_way", "window_two_way", "gate"):
        text = words(language)[f"attention.rules.{key}"].format(**values)
        assert (text in note) == (key in said), (key, note, text)
    assert view == "map" or shown["sink"] == ("sink" in keys)
