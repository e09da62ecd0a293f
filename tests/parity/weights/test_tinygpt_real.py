"""The bundled model beside transformers: logits and patterns on real weights."""

import pytest
import torch

from model.api import load_model
from model.loading import sources
from tests.support.models.helpers import assert_close
from tests.support.models.rounding import within

TEXT = "Once upon a time there was a little dog named Max. Max liked to run. One day, Max saw a big cat and Max ran."


@pytest.fixture(scope="module")
def lm():
    return load_model("tinygpt")


@pytest.fixture(scope="module")
def reference():
    import transformers

    folder = sources.WEIGHTS / "tinygpt"
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", local_files_only=True
    )
    return model.eval(), transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)


def test_token_ids_are_the_same(lm, reference):
    for text in (TEXT, "Zoë's 1,234 cafés…\n\n\ttab  and   spaces", "你好 🐢"):
        assert lm.encode(text).ids.tolist() == reference[1](text)["input_ids"]


def test_logits_and_patterns_are_the_same(lm, reference):
    run = lm.trace(TEXT)
    with torch.inference_mode():
        out = reference[0](torch.tensor(run.tokens.ids)[None], output_attentions=True)
    bound = within(lm.model, torch.tensor(run.tokens.ids)[None], sites=["pattern", "logits"])
    assert_close(run.logits, out.logits[0], bound["logits", lm.config.n_layer][0], "logits")
    for layer, patterns in enumerate(out.attentions):
        for head in range(lm.config.n_head):
            off = bound["pattern", layer][0, head]
            assert_close(run.pattern(layer, head), patterns[0, head], off, f"head {layer}.{head}")
