"""A transformers model that is in memory: what is refused, what identifies it, and what is left as it was."""

import gc
import subprocess
import sys

import pytest
import torch

from model.api import load_model
from model.errors import InputError, PlaygroundError, UnsupportedModel
from model.gpt.edits import Edit
from model.in_memory import language_model
from tests.support.models import hooked

transformers = pytest.importorskip("transformers")
PROMPT = "The cat sat on the mat"


@pytest.fixture(scope="module")
def words():
    return hooked.tokenizer()


def test_nothing_of_the_project_imports_transformers():
    code = "import sys, model.in_memory, viz.inline; print('transformers' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "False"


def test_what_cannot_be_read_is_refused_with_a_remedy(words):
    known = hooked.build("persimmon")
    with torch.device("meta"):
        meta = transformers.PersimmonForCausalLM(known.config)
    bert = transformers.BertConfig(
        vocab_size=99, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    t5 = transformers.T5Config(vocab_size=99, d_model=32, num_layers=1, num_heads=2, d_kv=16, d_ff=32)
    quantized, adapted = hooked.build("persimmon"), hooked.build("xglm")
    quantized.config.quantization_config = {"load_in_4bit": True}
    adapted.peft_config = {}
    cases = [
        ((words, known), "The model and the tokenizer are swapped.", "model, then its tokenizer"),
        ((3, words), "This is not a transformers model.", "model, then its tokenizer"),
        ((known, None), "The tokenizer of the model is missing.", "tokenizer"),
        ((known, "a text"), "This is not a tokenizer.", "prompt"),
        ((meta, words), "The model has weights that are not in memory.", "offloading"),
        ((transformers.BertForMaskedLM(bert), words), "This model is not a decoder.", "show_attention"),
        ((transformers.BertModel(bert), words), "so it is not a decoder", "show_attention"),
        ((transformers.T5ForConditionalGeneration(t5), words), "This model is not a decoder.", "show_attention"),
        ((known.model, words), "no hidden states or no logits", "AutoModelForCausalLM"),
        ((quantized, words), "quantized", "bfloat16"),
        ((adapted, words), "adapters", "merge_and_unload"),
    ]
    for given, what, hint in cases:
        with pytest.raises(PlaygroundError) as error:
            language_model(*given)
        assert what in error.value.what and hint in error.value.hint, given


def test_a_compiled_model_is_the_model_that_was_compiled(words):
    config = transformers.GPT2Config(vocab_size=hooked.V, n_positions=64, n_embd=32, n_layer=1, n_head=2)
    model = transformers.GPT2LMHeadModel(config).eval()
    lm = language_model(torch.compile(model), words)
    assert "weights" in lm.gives and lm.id == language_model(model, words).id


def test_sizes_are_found_by_the_names_that_transformers_gives_them(words):
    config = transformers.XGLMConfig(vocab_size=hooked.V, d_model=32, ffn_dim=32, num_layers=2, attention_heads=4)
    lm = language_model(transformers.XGLMForCausalLM(config).eval(), words)
    assert (lm.config.n_layer, lm.config.n_head, lm.config.d_model) == (2, 4, 32)


def test_a_tokenizer_with_more_tokens_than_rows_is_refused(words):
    config = transformers.OPTConfig(vocab_size=100, hidden_size=32, num_hidden_layers=1, num_attention_heads=2)
    with pytest.raises(InputError, match="more tokens than the model has rows"):
        language_model(transformers.OPTForCausalLM(config), words)


def test_the_model_is_left_as_it_was(words):
    model = hooked.build("persimmon", eager=False)
    model.train()
    model.model.layers[0].eval()
    before = model.config._attn_implementation
    assert before == "sdpa"
    first, second = (language_model(model, words).trace(PROMPT).logits for _ in range(2))
    assert (first == second).all()  # no dropout
    assert model.training and not model.model.layers[0].training
    assert model.config._attn_implementation == before
    assert all(not module._forward_pre_hooks for module in model.modules())


def test_a_model_that_was_trained_in_between_has_another_id_and_other_numbers(words):
    model = hooked.build("persimmon")
    first = language_model(model, words)
    assert language_model(model, words).id == first.id and not first.changed()
    other = language_model(hooked.build("persimmon"), words)
    assert other.id != first.id
    with torch.no_grad():
        model.lm_head.weight.mul_(2)
    second = language_model(model, words)
    assert first.changed() and not second.changed() and second.id not in (first.id, other.id)
    assert (first.trace(PROMPT).key.model_id, second.trace(PROMPT).key.model_id) == (first.id, second.id)
    replaced = model.lm_head.weight
    model.lm_head.weight = torch.nn.Parameter(replaced.detach().clone())
    assert second.changed()


def test_our_own_architecture_notices_a_change_too_and_does_not_hold_the_model(words):
    config = transformers.GPT2Config(vocab_size=hooked.V, n_positions=64, n_embd=32, n_layer=1, n_head=2)
    model = transformers.GPT2LMHeadModel(config).eval()
    lm = language_model(model, words)
    with torch.no_grad():
        model.transformer.ln_f.weight.add_(1)
    assert lm.changed()
    again = language_model(model, words)
    assert again.id != lm.id
    del model
    gc.collect()
    assert not again.changed()


def test_a_page_refuses_a_model_whose_weights_have_changed(words):
    from viz.work.playground import Options, Playground

    model = hooked.build("persimmon")
    lm = language_model(model, words)
    playground = Playground(Options())
    playground.give(lm)
    assert playground.opened(lm.id) is lm and (lm.label, lm.id) in playground.choices()
    with torch.no_grad():
        model.lm_head.weight.mul_(2)
    with pytest.raises(InputError, match="weights of this model have changed"):
        playground.opened(lm.id)
    playground.give(language_model(model, words))
    assert lm.id not in playground.given and len(playground.given) == 1
    playground.close()


def test_without_a_last_norm_there_is_no_lens_and_the_rest_works(words):
    config = transformers.OPTConfig(
        vocab_size=hooked.V,
        hidden_size=32,
        word_embed_proj_dim=32,
        activation_function="silu",  # which no OPT has, so that our own forward pass does not compute it
        ffn_dim=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        do_layer_norm_before=False,
    )
    lm = language_model(transformers.OPTForCausalLM(config).eval(), words)
    run = lm.trace(PROMPT)
    assert lm.gives == {"next", "token"} and run.pattern(1, 1).sum(1) == pytest.approx(1)
    with pytest.raises(InputError, match="no lens of OPTForCausalLM"):
        run.logit_lens(1)


def test_what_only_our_own_forward_has_is_refused_and_no_size_is_made_up(words):
    lm = language_model(hooked.build("persimmon"), words, id="mine", label="My model")
    assert (lm.id, lm.label) == ("mine", "My model")
    run = lm.trace(PROMPT)
    asked = [
        lambda: lm.config.d_mlp,
        lambda: lm.config.n_kv_head,
        lambda: lm.model.blocks,
        lambda: run.qkv(0, 0),
        lambda: run.scores(0, 0),
        lambda: run.sites(0, ["mlp_post"]),
        lambda: run.middle(0),
        lambda: run.edit(Edit("zero", 0, 1)),
        lambda: list(lm.generate(PROMPT)),
    ]
    for number, each in enumerate(asked):
        with pytest.raises(InputError, match="only the attention, hidden states and logits of My model"):
            each()
            pytest.fail(f"{number} gave something")
    assert lm.n_params == sum(each.numel() for each in lm.model.theirs.parameters())


def test_a_prompt_beyond_the_context_is_refused(words):
    with pytest.raises(InputError, match="too long"):
        language_model(hooked.build("persimmon"), words).trace([1] * (hooked.N_CTX + 1))


def test_an_attention_that_cannot_be_computed_step_by_step_is_refused(words):
    with pytest.raises(UnsupportedModel) as error:
        model = hooked.build("persimmon", eager=False)
        model.set_attn_implementation = lambda name: None  # a model that keeps its own way
        language_model(model, words)
    assert 'attn_implementation="eager"' in error.value.hint


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_a_hooked_model_keeps_its_type(words, dtype):
    model = hooked.build("persimmon").to(dtype)
    lm = language_model(model, words)
    assert lm.dtype == str(dtype).removeprefix("torch.") and lm.gives == {"lens", "next", "token"}
    run = lm.trace(PROMPT)
    with torch.inference_mode():
        wanted = model(torch.from_numpy(run.tokens.ids)[None]).logits[0].float().numpy()
    assert run.logits == pytest.approx(wanted, rel=1e-6) and run.logits.dtype == "float32"


def test_the_survey_of_heads_is_that_of_the_same_weights_in_our_own_forward(words):
    """A GPT-2 by its own code and by ours: the hooked path gives what the known one gives."""
    from model.attention.measures import attend_rows, measure
    from model.attention.surveys import random_survey
    from model.hooked.config import config_of
    from model.hooked.model import Hooked
    from model.hooked.trace import run
    from model.loading.from_memory import config_values

    config = transformers.GPT2Config(vocab_size=hooked.V, n_positions=64, n_embd=32, n_layer=2, n_head=2)
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(config).eval()
    lm, outside = language_model(model, words), Hooked(model, config_of(config_values(model), "GPT-2", ""))
    known, found = (random_survey(each, pool=hooked.V, sequences=2) for each in (lm.model, outside))
    assert found.mean.to_numpy() == pytest.approx(known.mean.to_numpy(), abs=1e-5, nan_ok=True)
    ours = lm.trace(PROMPT)
    theirs = run(outside, ours.tokens)
    assert theirs.metrics == pytest.approx(ours.metrics, abs=1e-5, nan_ok=True)
    assert abs(theirs.thumbnails.astype(int) - ours.thumbnails).max() <= 1
    assert attend_rows(theirs, 1, [2, 4]).numpy() == pytest.approx(attend_rows(ours, 1, [2, 4]).numpy(), abs=1e-6)
    assert measure(theirs, "rollout", 1, 0) == pytest.approx(measure(ours, "rollout", 1, 0), abs=1e-6, nan_ok=True)


def test_the_bundled_model_is_not_hooked():
    assert load_model("tinygpt").gives == {"weights", "layers", "lens", "next", "token"}
