"""Decoders that our own Transformer does not know: what their traces hold is what transformers says."""

import functools

import numpy as np
import pytest
import torch

from model.errors import UnsupportedModel
from model.in_memory import language_model
from model.loading.families import family_of
from model.loading.from_memory import config_values
from tests.support.models import hooked

transformers = pytest.importorskip("transformers")

PROMPT = "The cat sat on the mat because the cat was tired"
NORMS = {
    "xglm": "model.layer_norm",
    "persimmon": "model.final_layernorm",
    "deepseek_v3": "model.norm",
}


@functools.cache
def both(family: str):
    """Our trace of the prompt, and what transformers gives for its ids."""
    model = hooked.build(family)
    run = language_model(model, hooked.tokenizer()).trace(PROMPT)
    ids = torch.from_numpy(run.tokens.ids)[None]
    with torch.inference_mode():
        said = model(ids, output_attentions=True, output_hidden_states=True, use_cache=False)
    return model, run, said


@pytest.mark.parametrize("family", hooked.FAMILIES)
def test_our_own_loader_refuses_the_family(family):
    with pytest.raises(UnsupportedModel, match=r"show\(model, tokenizer, prompt\)"):
        family_of(config_values(hooked.build(family)))


@pytest.mark.parametrize("family", hooked.FAMILIES)
def test_patterns_hidden_states_and_logits(family):
    _, run, said = both(family)
    for layer, attention in enumerate(said.attentions):
        assert attention.abs().max() > 0 and run.hidden(layer) == pytest.approx(said.hidden_states[layer][0].numpy())
        for head in range(hooked.H):
            assert run.pattern(layer, head) == pytest.approx(attention[0, head].numpy(), abs=1e-7)
    assert run.logits == pytest.approx(said.logits[0].numpy(), rel=1e-6)
    assert run.logits_at(-3) == pytest.approx(said.logits[0, -3].numpy(), rel=1e-6)


@pytest.mark.parametrize("family", hooked.FAMILIES)
def test_metrics_of_heads(family):
    _, run, said = both(family)
    table, ids = run.head_metrics(), run.tokens.ids
    T = len(ids)
    for layer, attention in enumerate(said.attentions):
        for head, A in enumerate(attention[0].double().numpy()):
            row = table.loc[layer, head]
            assert row["previous_token"] == pytest.approx(np.mean([A[i, i - 1] for i in range(1, T)]), abs=1e-6)
            assert row["self"] == pytest.approx(np.mean([A[i, i] for i in range(1, T)]), abs=1e-6)
            assert row["first_token"] == pytest.approx(np.mean(A[1:, 0]), abs=1e-6)
            same = [sum(A[i, j] for j in range(i) if ids[j] == ids[i]) for i in range(T) if ids[i] in ids[:i]]
            assert row["duplicate_token"] == pytest.approx(np.mean(same), abs=1e-6)


@torch.inference_mode()
@pytest.mark.parametrize("family", hooked.FAMILIES)
def test_the_lens_is_the_last_norm_and_the_head(family):
    model, run, said = both(family)
    norm, head = model.get_submodule(NORMS[family]), model.get_output_embeddings()
    cap = getattr(model.config, "final_logit_softcapping", None)
    table = run.logit_lens(1).set_index(["layer", "position"])
    for layer in range(hooked.L):
        logits = head(norm(said.hidden_states[layer]))[0]
        shares = (torch.tanh(logits / cap) * cap if cap else logits).softmax(-1)
        top = shares.max(-1)
        for position in range(len(run.tokens)):
            assert table.loc[layer, position]["token id"] == int(top.indices[position])
            assert table.loc[layer, position]["probability"] == pytest.approx(float(top.values[position]), rel=1e-4)
    final = said.logits[0].softmax(-1)
    assert table.loc[hooked.L, 3]["probability"] == pytest.approx(float(final[3].max()), rel=1e-5)


@pytest.mark.parametrize("family", hooked.FAMILIES)
def test_the_page_draws_the_distribution_of_the_next_token(family):
    from viz.page.notebook import page_of

    model, run, said = both(family)
    page = page_of(language_model(model, hooked.tokenizer()), PROMPT)
    figure = page.figure("start_curve")
    shares = said.logits[0, -1].double().softmax(-1).sort(descending=True).values
    ranks = np.asarray(figure.data[0].x, int)
    assert ranks[0] == 1 and np.asarray(figure.data[0].y) == pytest.approx(shares[ranks - 1].numpy(), rel=1e-4)
    assert page.figure("map_plot").data[0].z.shape == (len(run.tokens),) * 2


def gpt_oss(**changes):
    config = transformers.GptOssConfig(
        vocab_size=hooked.V,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        num_local_experts=2,
        num_experts_per_tok=2,
        layer_types=["full_attention", "full_attention"],
        **changes,
    )
    return transformers.GptOssForCausalLM(config).eval()


def test_a_model_whose_rows_leave_out_a_sink_is_refused():
    with pytest.raises(UnsupportedModel, match="do not sum to 1"):
        language_model(gpt_oss(swiglu_limit=6.0), hooked.tokenizer())


def test_sinks_of_a_family_that_we_compute_are_no_reason_to_refuse():
    lm = language_model(gpt_oss(), hooked.tokenizer())
    assert lm.gives == {"weights", "layers", "lens", "next", "token"}
    assert 0 < lm.trace(PROMPT).pattern(1, 2)[-1].sum() < 1
