"""The tuned lens: its maps, how they are fitted, and the files that come with the bundled models."""

import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from model.api import load_model
from model.errors import CheckpointError, InputError
from model.gpt.config import ModelConfig
from model.predictions import fit_lens, tuned_lens
from model.predictions.fit_lens import FitSettings, batches, divergence, fit, least_squares, main, step, streams
from model.predictions.tuned_lens import TunedLens, load_lens, read_lens, save_lens
from tests.support.models.helpers import VARIANTS, D, L, V, byte_model, tiny_model

SMALL = FitSettings(rank=8, steps=8, rows=3, length=24, first=6, rate=3e-3)


def some_lens(rank=3):
    return TunedLens(torch.randn(L, D, rank), torch.randn(L, rank, D), torch.randn(L, D), {})


def test_translate_adds_a_low_rank_map_and_leaves_the_last_stream():
    lens, x = some_lens(), torch.randn(5, D)
    for layer in range(L):
        full = torch.eye(D) + lens.down[layer] @ lens.up[layer]
        torch.testing.assert_close(lens.translate(layer, x), x @ full + lens.bias[layer], rtol=1e-4, atol=1e-4)
    assert torch.equal(lens.translate(L, x), x)
    with pytest.raises(IndexError):
        lens.translate(L + 1, x)


def test_a_file_gives_back_what_was_written(tmp_path):
    model, lens = tiny_model(), some_lens()
    lens = TunedLens(lens.down, lens.up, lens.bias, {"kl": {"plain": [1.0]}})
    save_lens(lens, tmp_path / "new" / "lens.safetensors")
    again = read_lens(tmp_path / "new" / "lens.safetensors", model.config)
    assert torch.equal(again.bias, lens.bias)
    assert torch.equal(again.down, lens.down.half().float())
    assert torch.equal(again.up, lens.up.half().float())
    assert again.about == lens.about


@pytest.mark.parametrize("content", [b"", b"no lens", (1 << 62).to_bytes(8, "little") + b"{}"])
def test_a_broken_file_is_refused(tmp_path, content):
    (tmp_path / "lens.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_lens(tmp_path / "lens.safetensors", tiny_model().config)


@pytest.mark.parametrize("lost", ["down", "up", "bias"])
def test_a_file_that_lacks_a_tensor_is_refused(tmp_path, lost):
    lens = some_lens()
    tensors = {name: getattr(lens, name) for name in ("down", "up", "bias") if name != lost}
    save_file(tensors, tmp_path / "lens.safetensors")
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_lens(tmp_path / "lens.safetensors", tiny_model().config)


def test_a_lens_of_another_model_is_refused(tmp_path):
    save_lens(some_lens(), tmp_path / "lens.safetensors")
    with pytest.raises(CheckpointError, match="belongs to another model"):
        read_lens(tmp_path / "lens.safetensors", tiny_model({"n_layer": L + 1}).config)


@pytest.mark.parametrize("name", ["", "hub:gpt2", "../weights/tinygpt", "trained:1", "/etc"])
def test_other_models_have_no_lens(name):
    assert load_lens(name, tiny_model().config) is None


# --- fitting ---


@pytest.mark.parametrize("variant", VARIANTS)
def test_streams_are_those_of_the_forward(variant):
    model = tiny_model(VARIANTS[variant])
    ids = torch.randint(V, (2, 7))
    h = streams(model, ids)
    assert h.shape == (L + 1, 14, D)
    with torch.inference_mode():
        torch.testing.assert_close(model.logits(h[-1:])[0], model(ids).flatten(0, 1))


@pytest.mark.parametrize("variant", ["gpt2", "llama", "post"])
def test_step_is_the_gradient_of_the_divergence(variant):
    model, h = tiny_model(VARIANTS[variant]).requires_grad_(False), torch.randn(L + 1, 6, D)
    target = torch.randn(6, V).softmax(-1)
    ours = TunedLens(*(t.requires_grad_() for t in vars(some_lens()).values() if isinstance(t, torch.Tensor)), {})
    told = step(model, ours, h, target)
    plain = TunedLens(*(t.detach().clone().requires_grad_() for t in (ours.down, ours.up, ours.bias)), {})
    losses = []
    for layer in range(L):
        logits = model.logits(plain.translate(layer, h[layer])[None])[0]
        losses.append(F.kl_div(logits.log_softmax(-1), target, reduction="batchmean"))
    sum(losses).backward()
    assert told == pytest.approx([float(loss.detach()) for loss in losses], rel=2e-2)  # 16 bits where that is faster
    for name in ("down", "up", "bias"):
        found, wanted = getattr(ours, name).grad, getattr(plain, name).grad
        assert (found - wanted).abs().max() < 0.03 * wanted.abs().max()


def test_least_squares_finds_an_affine_map(tmp_path, monkeypatch):
    """Where the last stream is an affine map of rank 2 of the others, that map is found."""
    lm = byte_model(tmp_path)
    wanted, bias = 0.03 * torch.randn(L, D, 2) @ torch.randn(L, 2, D), torch.randn(L, D)

    def made(model, ids):
        last = torch.randn(ids.numel(), D)
        before = [torch.linalg.solve((torch.eye(D) + wanted[n]).T, (last - bias[n]).T).T for n in range(L)]
        return torch.stack([*before, last])

    monkeypatch.setattr(fit_lens, "streams", made)
    monkeypatch.setattr(fit_lens, "RIDGE", 1e-9)
    source = iter(lambda: torch.zeros(4, 40, dtype=torch.long), None)
    lens = least_squares(lm, source, FitSettings(rank=2, first=10))
    for layer in range(L):
        torch.testing.assert_close(lens.down[layer] @ lens.up[layer], wanted[layer], rtol=0.02, atol=0.02)
        torch.testing.assert_close(lens.bias[layer], bias[layer], rtol=0.02, atol=0.02)


def test_fitting_brings_every_layer_closer_to_the_answer(tmp_path):
    lm = byte_model(tmp_path)
    text = "".join(chr(97 + (i * i) % 26) for i in range(700_000))
    lens = fit(lm, [text], SMALL)
    kl = divergence(lm, lens, batches(lm, [text], SMALL, held_out=True), 4)
    assert (np.array(kl["tuned"]) < 0.8 * np.array(kl["plain"])).all()


def test_a_fit_that_was_cut_short_goes_on(tmp_path, monkeypatch):
    lm, text = byte_model(tmp_path), "one two three " * 50_000
    monkeypatch.setattr(fit_lens, "EVERY", 4)
    whole = fit(lm, [text], SMALL, tmp_path / "a")
    calls = []

    def broken(*given):
        calls.append(given)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return step(*given)

    monkeypatch.setattr(fit_lens, "step", broken)
    with pytest.raises(KeyboardInterrupt):
        fit(lm, [text], SMALL, tmp_path / "b")
    monkeypatch.setattr(fit_lens, "step", step)
    again = fit(lm, [text], SMALL, tmp_path / "b")
    assert torch.equal(again.bias, whole.bias)
    assert torch.equal(again.down, whole.down)


def test_windows_of_the_held_out_part_are_not_fitted_on(tmp_path):
    lm = byte_model(tmp_path)
    text = "".join(chr(48 + n) * fit_lens.CHUNK for n in range(10))  # the tenth part is all "9"
    nine = ord("9")
    fitted, held = (next(batches(lm, [text], SMALL, held_out=out)) for out in (False, True))
    assert fitted.shape == held.shape == (SMALL.rows, SMALL.length)
    assert (held == nine).all()
    source = batches(lm, [text], SMALL, held_out=False)
    assert not any((next(source) == nine).any() for _ in range(20))


def test_short_texts_are_refused(tmp_path):
    with pytest.raises(InputError, match="too short"):
        next(batches(byte_model(tmp_path), ["too short"], SMALL, held_out=False))


def test_command_line(tmp_path, monkeypatch, capsys):
    lm = byte_model(tmp_path)
    monkeypatch.setattr(fit_lens, "load_model", lambda name: lm)
    text, out = tmp_path / "text", tmp_path / "made" / "lens.safetensors"
    text.write_text("abc def " * 100_000)
    assert main(["tiny", str(text), "--out", str(out), "--rank", "4", "--steps", "2"]) == 0
    lens = read_lens(out, lm.config)
    assert lens.down.shape == (L, D, 4)
    assert lens.about["texts"] == ["text"]
    assert len(lens.about["kl"]["tuned"]) == L
    assert not out.with_suffix(".checkpoint").exists()
    assert main(["tiny", str(tmp_path / "none"), "--out", str(out)]) == 1
    assert "none" in capsys.readouterr().err


# --- those that come with the project ---


@pytest.mark.parametrize("name", ["tinygpt", "smollm2-135m"])
def test_the_files_and_their_cards_say_what_they_gain(name):
    path = tuned_lens.WEIGHTS / name / tuned_lens.FILE
    shapes = {"tinygpt": (8, 256, 8), "smollm2-135m": (30, 576, 9)}
    n_layer, d_model, n_head = shapes[name]
    config = ModelConfig(vocab_size=10, n_ctx=8, n_layer=n_layer, d_model=d_model, n_head=n_head)
    kl = read_lens(path, config).about["kl"]
    assert len(kl["plain"]) == len(kl["tuned"]) == n_layer
    assert (np.array(kl["tuned"]) < np.array(kl["plain"])).all()
    card = (path.parent / "README.md").read_text(encoding="utf-8")
    table = {
        cells[1]: cells[2:-1] for cells in (re.split(r" *\| *", line) for line in card.splitlines()) if len(cells) > 3
    }
    layers = [int(cell) for cell in table["residual stream before layer"]]
    for row, kind in (("logit lens", "plain"), ("tuned lens", "tuned")):
        assert table[row] == [f"{kl[kind][layer]:.2f}" for layer in layers]


def test_the_lens_of_the_bundled_model_beats_the_plain_one():
    tinygpt = load_model("tinygpt")
    lens = load_lens("tinygpt", tinygpt.config)
    ids = tinygpt.encode("Once upon a time there was a little bear who lived in the forest with her mother.").ids
    kl = divergence(tinygpt, lens, iter([torch.from_numpy(ids)[None]]), 1)
    assert (np.array(kl["tuned"]) < np.array(kl["plain"])).all()
