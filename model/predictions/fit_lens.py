"""Fit a tuned lens: `python -m model.predictions.fit_lens tinygpt story.txt more.txt`.

The fit has two stages. The first is the least-squares affine map from each layer's stream to the last one's, truncated
to a low rank (reduced-rank regression; compare the linear shortcuts of Din et al. 2023). In the second, Adam minimizes
the KL divergence of the lens from the model's own prediction, for all layers at once (Belrose et al. 2023, section 3).
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from model.api import LanguageModel, load_model
from model.errors import InputError, PlaygroundError, say
from model.gpt.layers import capped
from model.gpt.transformer import Transformer
from model.loading.sources import WEIGHTS
from model.predictions.tuned_lens import FILE, TunedLens, save_lens

EVERY = 50  # steps between two checkpoints
CHUNK = 1 << 16  # characters per chunk of a text; one chunk in ten is held out
MOST = 20_000_000  # maximum number of characters read from one text
RIDGE = 1e-4  # ridge penalty of the least squares, relative to the mean square of the stream


@dataclass(frozen=True)
class FitSettings:
    """Hyperparameters of a fit."""

    rank: int = 64
    steps: int = 300
    rows: int = 4  # batch size in sequences
    length: int = 128  # tokens per sequence
    first: int = 100  # batches for the least squares
    rate: float = 1e-3  # initial learning rate of Adam, decayed to 0 along a cosine
    seed: int = 0


@torch.inference_mode()
def streams(model: Transformer, ids: Tensor) -> Tensor:
    """Return the residual streams entering every block and leaving the last one. ids [B, T] -> [L + 1, B * T, D]"""
    run = model.prepare(0, ids.shape[1])
    residuals = [model.embed_tokens(ids, 0, run)]
    for layer, block in enumerate(model.blocks):
        residuals.append(block(residuals[-1], layer, run))
    return torch.stack(residuals).flatten(1, 2)


def batches(lm: LanguageModel, texts: Sequence[str], settings: FitSettings, *, held_out: bool) -> Iterator[Tensor]:
    """Yield endless batches of windows of the texts, each text equally often. Each batch is ids [rows, length].

    Raises InputError if no text is long enough.
    """
    rng = np.random.default_rng((settings.seed, held_out))
    parts = [[t[i : i + CHUNK] for i in range(0, len(t), CHUNK)] for t in texts]
    parts = [[p for n, p in enumerate(each) if (n % 10 == 9) == held_out] for each in parts]
    wide = 8 * settings.length  # characters that certainly contain enough tokens
    parts = [long_enough for each in parts if (long_enough := [p for p in each if len(p) > wide])]
    if not parts:
        raise InputError(
            "The texts are too short to fit a lens.", "", say("Give at least one of {} characters.", 10 * CHUNK)
        )
    while True:
        rows = []
        while len(rows) < settings.rows:
            of = parts[rng.integers(len(parts))]
            text = of[rng.integers(len(of))]
            start = rng.integers(len(text) - wide)
            ids = lm.encode(text[start : start + wide]).ids[: settings.length]
            if len(ids) == settings.length:
                rows.append(ids)
        yield torch.from_numpy(np.stack(rows))


def least_squares(lm: LanguageModel, source: Iterator[Tensor], settings: FitSettings) -> TunedLens:
    """Compute the best affine maps of the given rank, by the squared error of the last stream scaled to norm 1.

    The first token of each sequence is excluded, because its stream often has hundreds of times the norm of the
    others.
    """
    config, L = lm.config, lm.config.n_layer
    D = config.d_model
    square, cross = torch.zeros(L, D + 1, D + 1, dtype=torch.float64), torch.zeros(L, D + 1, D, dtype=torch.float64)
    for _ in range(settings.first):
        ids = next(source)
        h = streams(lm.model, ids).view(L + 1, *ids.shape, D)[:, :, 1:].flatten(1, 2)
        weight = 1 / h[-1].norm(dim=-1, keepdim=True)
        for layer in range(L):
            x = torch.cat((h[layer], torch.ones(len(weight), 1)), -1) * weight
            square[layer] += x.T @ x
            cross[layer] += x.T @ ((h[-1] - h[layer]) * weight)
    rank = min(settings.rank, D)
    down, up, bias = torch.zeros(L, D, rank), torch.zeros(L, rank, D), torch.zeros(L, D)
    for layer in range(L):
        n = square[layer, D, D]
        mean, mean_change = square[layer, D, :D] / n, cross[layer, D] / n
        spread = square[layer, :D, :D] - n * torch.outer(mean, mean)
        spread += RIDGE * spread.diagonal().mean() * torch.eye(D, dtype=torch.float64)
        full = torch.linalg.solve(spread, cross[layer, :D] - n * torch.outer(mean, mean_change))  # [D, D]
        _, _, right = torch.linalg.svd(torch.linalg.cholesky(spread).T @ full, full_matrices=False)
        directions = right[:rank]  # [R, D]: the directions in which the fitted part varies most
        down[layer], up[layer] = full @ directions.T, directions
        bias[layer] = mean_change - mean @ full @ directions.T @ directions
    return TunedLens(down, up, bias, {})


def _norm(model: Transformer, x: Tensor) -> Tensor:
    return x if model.final_norm is None else model.final_norm(x)


def step(model: Transformer, lens: TunedLens, h: Tensor, target: Tensor, tell: bool = True) -> list[float]:
    """Add the gradient of every layer's KL(target || lens) to the lens's tensors; return the KLs in nats if `tell`.

    h [L + 1, N, D], target [N, V] probabilities. The gradient with respect to the logits is softmax - target, times the
    slope of a cap, so no autograd graph of the logits is stored. The two large products are in bfloat16, whose rounding
    error is far below the sampling noise.
    """
    W = model.unembed.weight.detach().bfloat16()  # [V, D]
    by, cap = model.config.logit_multiplier, model.config.logit_cap
    bias = 0 if model.unembed.bias is None else model.unembed.bias.detach()
    divergences = []
    for layer in range(len(lens.bias)):
        y = _norm(model, lens.translate(layer, h[layer]))
        with torch.no_grad():
            logits = capped(((y.bfloat16() @ W.T).float() + bias) * by, cap)
            q = logits.softmax(-1)
            if tell:
                divergences.append(float(torch.special.xlogy(target, target / q).sum(-1).mean()))
            slope = q.sub_(target) if cap is None else q.sub_(target) * (1 - (logits / cap).square())
            by_y = ((slope * by).bfloat16() @ W).float() / len(y)
        y.backward(by_y)
    return divergences


def fit(lm: LanguageModel, texts: Sequence[str], settings: FitSettings, checkpoint: Path | None = None) -> TunedLens:
    """Fit a lens for a model; with a checkpoint file, resume an interrupted fit.

    The model's own weights stay frozen.
    """
    model, source = lm.model.requires_grad_(False), batches(lm, texts, settings, held_out=False)
    saved = torch.load(checkpoint, weights_only=True) if checkpoint and checkpoint.is_file() else None
    lens = least_squares(lm, source, settings) if saved is None else TunedLens(*saved["lens"], {})
    tensors = [t.clone().requires_grad_() for t in (lens.down, lens.up, lens.bias)]
    lens = TunedLens(*tensors, {})
    adam = torch.optim.Adam(tensors, lr=settings.rate, betas=(0.9, 0.99))
    start = 0
    if saved is not None:
        adam.load_state_dict(saved["adam"])
        start = saved["step"]
        for _ in range(settings.first + start):
            next(source)  # skip the batches already used
    began = time.monotonic()
    for n in range(start, settings.steps):
        h = streams(model, next(source))
        with torch.inference_mode():
            target = model.head(_norm(model, h[-1])).softmax(-1)
        h, target = h.clone(), target.clone()  # copies outside inference mode
        tell = (n + 1) % 10 == 0
        kl = step(model, lens, h, target, tell)
        for group in adam.param_groups:
            group["lr"] = settings.rate * 0.5 * (1 + math.cos(math.pi * n / settings.steps))
        adam.step()
        adam.zero_grad()
        if tell:
            print(f"step {n + 1} kl {np.mean(kl):.4f} {time.monotonic() - began:.0f} s", flush=True)
        if checkpoint and (n + 1) % EVERY == 0:
            torch.save({"lens": [t.detach() for t in tensors], "adam": adam.state_dict(), "step": n + 1}, checkpoint)
    # rounded as in the file
    return TunedLens(*(t.detach().half().float() for t in tensors[:2]), tensors[2].detach(), {})


@torch.inference_mode()
def divergence(lm: LanguageModel, lens: TunedLens, source: Iterator[Tensor], n: int) -> dict[str, list[float]]:
    """Compute the mean KL(final || lens) by layer in nats, of the plain and of the tuned lens, over `n` batches."""
    model, L = lm.model, lm.config.n_layer
    means = {"plain": np.zeros(L), "tuned": np.zeros(L)}
    for _ in range(n):
        h = streams(model, next(source))
        final = model.logits(h[-1:])[0].log_softmax(-1)
        for layer in range(L):
            for name, x in (("plain", h[layer]), ("tuned", lens.translate(layer, h[layer]))):
                log_q = model.logits(x[None])[0].log_softmax(-1)
                means[name][layer] += float(F.kl_div(log_q, final, log_target=True, reduction="batchmean")) / n
    return {name: [round(float(v), 4) for v in values] for name, values in means.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 1 for invalid arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m model.predictions.fit_lens", description="Fit a tuned lens to a model."
    )
    parser.add_argument("model", help="model id, a folder or a .gguf file")
    parser.add_argument("texts", nargs="+", type=Path, help="UTF-8 text files; each counts the same")
    parser.add_argument("--out", type=Path, help="the file to write; beside the model's weights unless given")
    parser.add_argument("--rank", type=int, default=FitSettings.rank)
    parser.add_argument("--steps", type=int, default=FitSettings.steps, help="of Adam")
    parser.add_argument("--judged", type=int, default=16, help="batches of held-out text that it is judged by")
    parser.add_argument("--rate", type=float, default=FitSettings.rate, help="learning rate of Adam")
    options = parser.parse_args(argv)
    settings = FitSettings(rank=options.rank, steps=options.steps, rate=options.rate)
    try:
        lm = load_model(options.model)
        out = options.out or WEIGHTS / options.model / FILE
        texts = [path.read_text(encoding="utf-8", errors="replace")[:MOST] for path in options.texts]
        checkpoint = out.with_suffix(".checkpoint")
        out.parent.mkdir(parents=True, exist_ok=True)
        lens = fit(lm, texts, settings, checkpoint)
        by_layer = divergence(lm, lens, batches(lm, texts, settings, held_out=True), options.judged)
    except (PlaygroundError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    about = {
        "model": options.model,
        "texts": [p.name for p in options.texts],
        "settings": vars(settings),
        "kl": by_layer,
    }
    save_lens(TunedLens(lens.down, lens.up, lens.bias, about), out)
    checkpoint.unlink(missing_ok=True)
    print(json.dumps(by_layer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
