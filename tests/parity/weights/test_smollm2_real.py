"""The real SmolLM2-135M: our reader and forward against transformers' own loading of the same GGUF file."""

import pytest
import torch

from model.errors import DownloadError
from model.gpt.tap import record
from model.loading.checkpoint import build, load_gguf
from model.loading.sources import smollm2_path
from tests.support.models.helpers import assert_close
from tests.support.models.rounding import within

pytestmark = pytest.mark.long

LENGTH = 32


@pytest.fixture(scope="session")
def pair():
    """(our model, transformers' model); transformers takes a quarter of a minute to dequantize the file."""
    try:
        path = smollm2_path()
    except DownloadError as error:
        pytest.skip(f"the weights cannot be fetched: {error}")
    from transformers import LlamaForCausalLM

    config, state, _ = load_gguf(path)
    hf = LlamaForCausalLM.from_pretrained(path.parent, gguf_file=path.name, attn_implementation="eager")
    return build(config, state), hf.eval()


@pytest.fixture(scope="session")
def repeated() -> torch.Tensor:
    """The same random ids twice, so that attention has something to find. [1, 2 LENGTH]"""
    half = torch.randint(0, 49_152, (1, LENGTH), generator=torch.Generator().manual_seed(0))
    return torch.cat((half, half), 1)


@torch.inference_mode()
def test_logits_and_patterns_are_those_of_transformers(pair, repeated):
    ours, hf = pair
    store: dict = {}
    logits = ours(repeated, tap=record({"pattern"}, store))
    wanted = hf(repeated, output_attentions=True)
    bound = within(ours, repeated, sites=["pattern", "logits"])
    said = bound["logits", ours.config.n_layer]
    assert_close(logits, wanted.logits, said, "with a tap")
    assert_close(ours(repeated), wanted.logits, said, "without")
    for layer, expected in enumerate(wanted.attentions):
        assert_close(store["pattern", layer], expected, bound["pattern", layer], f"pattern {layer}")


@torch.inference_mode()
def test_induction_heads_are_where_they_were_found(pair, repeated):
    """Heads 17.3, 17.4, 17.5, 18.6, 18.7 look at what followed the first occurrence: key t - LENGTH + 1."""
    ours, _ = pair
    store: dict = {}
    ours(repeated, tap=record({"pattern"}, store))
    queries = torch.arange(LENGTH, 2 * LENGTH)
    for layer, head in ((17, 3), (17, 4), (17, 5), (18, 6), (18, 7)):
        share = store["pattern", layer][0, head][queries, queries - LENGTH + 1].mean().item()
        assert share > 0.3, f"head {layer}.{head}: {share:.2f}"


@torch.inference_mode()
def test_what_it_says_makes_sense(pair):
    """ "The capital of France is" -> " Paris", by ids, no tokenizer involved."""
    ours, _ = pair
    prompt = torch.tensor([[504, 3575, 282, 4649, 314]])
    assert ours(prompt)[0, -1].argmax().item() == 7042
