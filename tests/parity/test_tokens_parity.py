"""Hidden tokens, replaced embeddings and placed vectors against transformers: its masks, its inputs, hooks on it."""

import numpy as np
import pytest
import torch

from model.gpt.edits import Edit
from model.steering.placing import placing_edit
from tests.parity.test_steering_parity import IDS, NEW
from tests.parity.two_models import blocks
from tests.support.models.helpers import assert_close
from tests.support.models.rounding import logits_within

HIDDEN = (2, 4)


def hiding(T: int) -> torch.Tensor:
    """The mask that transformers adds to the scores: later keys, and the hidden ones from all but themselves."""
    mask = torch.full((T, T), torch.finfo(torch.float32).min).triu(1)
    for key in HIDDEN:
        mask[key + 1 :, key] = torch.finfo(torch.float32).min
    return mask[None, None]


@torch.no_grad()
def masked(hf, ids) -> torch.Tensor:
    return hf(torch.tensor([ids]), attention_mask=hiding(len(ids)), use_cache=False).logits[0]


def test_a_hidden_token_is_a_mask_of_transformers_alone_and_while_text_is_written(both):
    hf, lm = both
    edit, ids = Edit("hide_token", positions=",".join(map(str, HIDDEN))), list(IDS)
    run = lm.trace(IDS).edit(edit)
    bound = logits_within(lm.model, torch.tensor([IDS]), run.tap)[0]
    assert_close(run.logits, masked(hf, IDS), bound)
    assert np.abs(run.logits[-1] - lm.trace(IDS).logits[-1]).max() > 1e-2
    for _ in range(NEW):
        ids.append(int(masked(hf, ids)[-1].argmax()))
    ticks = lm.generate(IDS, "greedy", NEW, edits=[edit])
    assert [made.id for tick in ticks for made in tick.changes[0].made] == ids[len(IDS) :]


@pytest.mark.parametrize("kind", ["embed_zero", "embed_mean", "embed_token"])
@torch.no_grad()
def test_a_replaced_embedding_is_an_input_of_transformers(both, kind: str):
    hf, lm = both
    table = hf.get_input_embeddings().weight
    x = table[torch.tensor(IDS)].clone()
    x[[1, 3]] = {"embed_zero": torch.zeros(48), "embed_mean": table.mean(0), "embed_token": table[77]}[kind]
    edit = Edit(kind, positions="1,3", token=77 if kind == "embed_token" else None)
    run = lm.trace(IDS).edit(edit)
    bound = logits_within(lm.model, torch.tensor([IDS]), run.tap)[0]
    assert_close(run.logits, hf(inputs_embeds=x[None], use_cache=False).logits[0], bound)
    assert np.abs(run.logits[-1] - lm.trace(IDS).logits[-1]).max() > 1e-3


@pytest.mark.parametrize("row", [1, 2, 3])
@torch.no_grad()
def test_a_placed_vector_is_what_a_hook_of_transformers_writes(both, row: int):
    hf, lm = both
    source = [7, 7, 12, 40, 3]
    vector = torch.from_numpy(lm.trace(source).hidden(2)[3])

    def write(module, given, out):
        x = (out[0] if isinstance(out, tuple) else out).clone()
        x[:, 4] = vector
        return (x, *out[1:]) if isinstance(out, tuple) else x

    hook = blocks(hf)[row - 1].register_forward_hook(write)
    logits = hf(torch.tensor([IDS]), use_cache=False).logits[0]
    hook.remove()
    run = lm.trace(IDS).edit(placing_edit(vector.numpy(), row, 4))
    bound = logits_within(lm.model, torch.tensor([IDS]), run.tap)[0]
    assert_close(run.logits, logits, bound)
    assert np.abs(run.logits[4] - lm.trace(IDS).logits[4]).max() > 1e-2
