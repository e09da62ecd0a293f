"""Attention of models that this project does not know, through arrays: a BERT and a T5 of transformers.

What the document holds is what the model put out, up to half a step of its 16-bit numbers, in every unit and mask.
"""

import numpy as np
import pytest
import torch

from model.recorded.files import read_npz, save_npz
from model.recorded.record import record_of
from tests.parity.common import shake
from viz.recorded.document import MOST, document, unpacked

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

STEP = 0.5 / MOST + 1e-7
CLS, SEP, PAD = 1, 2, 0


def weights_of(record) -> np.ndarray:
    """The weights that the viewer reads."""
    found = document(record)
    return unpacked(found["weights"], record.weights.shape, causal=found["mask"] == "causal")


@pytest.fixture(scope="module")
def bert():
    config = transformers.BertConfig(
        vocab_size=40,
        hidden_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=32,
        attn_implementation="eager",
    )
    torch.manual_seed(0)
    model = transformers.BertModel(config).eval()
    shake(model)
    return model


@pytest.fixture(scope="module")
def t5():
    config = transformers.T5Config(
        vocab_size=40,
        d_model=48,
        d_kv=12,
        d_ff=64,
        num_layers=2,
        num_decoder_layers=3,
        num_heads=4,
        decoder_start_token_id=0,
        attn_implementation="eager",
    )
    torch.manual_seed(1)
    model = transformers.T5Model(config).eval()
    shake(model)
    return model


def test_a_bert(bert, tmp_path):
    ids = torch.tensor([[CLS, 7, 8, 9, 7, 11, SEP]])
    tokens = ["[CLS]", "the", "cat", "##s", "the", "mat", "[SEP]"]
    with torch.no_grad():
        output = bert(ids, output_attentions=True)
    expected = torch.cat(output.attentions).numpy()
    for given in (output, output.attentions, list(output.attentions), np.stack(output.attentions)[:, 0]):
        record = record_of(given, tokens)
        assert record.mask == "two-way" and record.weights.shape == (3, 4, 7, 7)
        assert np.abs(weights_of(record) - expected).max() <= STEP
    assert np.ptp(expected) > 0.5  # heads that attend to something
    save_npz(record, tmp_path / "bert.npz")
    assert np.array_equal(read_npz(tmp_path / "bert.npz").weights, expected)


def test_a_padded_batch_of_a_bert(bert):
    ids = torch.tensor([[CLS, 7, 8, 9, 10, SEP], [CLS, 12, 13, SEP, PAD, PAD]])
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])
    with torch.no_grad():
        padded = bert(ids, attention_mask=mask, output_attentions=True)
        alone = bert(ids[1:, :4], output_attentions=True)
    tokens = ["[CLS]", "dog", "ran", "[SEP]", "[PAD]", "[PAD]"]
    record = record_of(padded, tokens, batch=1, padding=mask[1])
    assert record.queries == ("[CLS]", " dog", " ran", "[SEP]")
    assert np.abs(weights_of(record) - torch.cat(alone.attentions).numpy()).max() <= STEP + 1e-5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_a_t5(t5, dtype):
    source, target = torch.tensor([[7, 8, 9, 10, 1]]), torch.tensor([[0, 12, 13]])
    tokens, keys = ["<pad>", "▁Das", "▁Haus"], ["▁The", "▁hou", "se", "▁stands", "</s>"]
    with torch.no_grad():
        output = t5.to(dtype)(input_ids=source, decoder_input_ids=target, output_attentions=True)
    t5.float()
    kinds = {
        "encoder": (output.encoder_attentions, keys, None, "two-way"),
        "decoder": (output.decoder_attentions, tokens, None, "causal"),
        "cross": (output.cross_attentions, tokens, keys, "cross"),
    }
    for which, (expected, queries, others, mask) in kinds.items():
        record = record_of(output, queries, others, which=which)
        assert record.mask == mask and len(record.weights) == len(expected) == (2 if which == "encoder" else 3)
        assert np.abs(weights_of(record) - torch.cat(expected).float().numpy()).max() <= STEP
    assert record.queries == ("<pad>", " Das", " Haus") and record.keys == (" The", " hou", "se", " stands", "</s>")
