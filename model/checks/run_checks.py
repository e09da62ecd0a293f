"""Checks of whole runs, mostly in float64: text, prediction, the sums and draws shown by views, and gradients."""

import math
import unicodedata
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from model.checks.path_checks import twin_of
from model.checks.result import Finding, Subject, Worst, counted, gain, unable
from model.checks.roundoff import RESULTS, moved, summed, watched
from model.checks.roundoff import STEP as MOVE
from model.generation.next_token import logits_after
from model.generation.strategies import DecodingPlan, Sampler, Setup, Strategy, rows_of
from model.gpt.layers import MLPS
from model.gpt.norm import Norm
from model.gpt.tap import compose
from model.gpt.transformer import output_matrix
from model.predictions.attribution import attribute, by_source, components
from model.predictions.gradients import embedded_site, gradients
from model.progress import Progress
from model.sampling import pipeline
from model.text.tokenizer import Tokenizer
from model.tracing.logit_lens import read_layers
from model.tracing.ranking import top_ids

MOST_PLACES, FEW = 16, 4  # maximum number of positions with float64 logits, or with a logit lens
DRAWS = 64
GRADIENT_TOKENS = 12
# Number of finite differences with every number perturbed. Each is one draw: that 4 normal ones all lie within half of
# their standard deviation has probability 0.02, and that 16 do, 2e-7.
MOVED = 16
STEP = 1e-7  # in float64: large compared with its rounding error, small enough that hardly any ReLU switches


# --- the text -----------------------------------------------------------------------------------


def tokens(subject: Subject, progress: Progress) -> Finding:
    """Check that the tokens' bytes, concatenated, are the prompt's bytes, each at the position given by its token's
    span.
    """
    if subject.prompt is None:
        return unable("no_prompt")
    tokenizer, encoded = subject.lm.tokenizer, subject.run.tokens
    if tokenizer.library is not None:
        special = subject.run.config.two_way  # as in LanguageModel.encode
        return _spans(tokenizer, subject.prompt, encoded.ids.tolist(), special)
    skip = len(tokenizer.begin_ids)
    text = unicodedata.normalize("NFC", subject.prompt) if tokenizer.vocabulary.nfc else subject.prompt
    expected = np.frombuffer(text.encode(), np.uint8)
    start = int(encoded.spans[skip, 0]) if len(encoded) > skip else 0
    decoded = tokenizer.decode_bytes(encoded.ids[skip:].tolist())
    spans = b"".join(decoded[a - start : b - start] for a, b in encoded.spans[skip:].tolist())
    wrong = 0
    for other in (decoded, spans, b"".join(encoded.raw[skip:])):
        actual, n = np.frombuffer(other, np.uint8), min(len(other), len(expected))
        wrong = max(wrong, int((actual[:n] != expected[:n]).sum()) + abs(len(actual) - len(expected)))
    return counted(wrong, len(expected), "bytes")


def _spans(tokenizer: Tokenizer, text: str, ids: list[int], special: bool) -> Finding:
    """Check that the spans of the prompt's tokens, concatenated, are the prompt's bytes, and that their ids are run.

    A tokenizer of the `tokenizers` library may change the text, so the bytes of its tokens need not be those of the
    prompt.
    """
    expected, tokens = text.encode(), tokenizer.encode(text, special=special)
    parts = b"".join(expected[a:b] for a, b in tokens.spans.tolist())
    wrong = sum(a != b for a, b in zip(parts, expected, strict=False)) + abs(len(parts) - len(expected))
    same = ids == [*tokenizer.begin_ids, *tokens.ids.tolist(), *tokenizer.vocabulary.finish]
    return counted(wrong + (not same), len(expected), "bytes")


# --- the first stream, the last one, logits ---------------------------------------------------------


def embedding(subject: Subject, progress: Progress) -> Finding:
    """Check that the first stream is the token's row of W_E, scaled if the config requires it, plus the position
    embedding and that of its text, normalized if the config requires it.
    """
    model, config, ids = subject.run.model, subject.run.config, subject.ids[0]
    x = model.embed.weight.detach()[ids].double()
    x = x * config.embed_multiplier * (config.d_model**0.5 if config.embed_scale else 1)
    if subject.run.key.edits and subject.run.tap is not None:
        x = subject.run.tap("embed", -1, x[None])[0]  # embeddings that are replaced by an edit
    if model.pos_embed is not None:
        x = x + model.pos_embed.weight.detach()[: len(ids)].double()
    elif config.positions == "sinusoidal":
        at, i = torch.arange(len(ids))[:, None].double(), torch.arange(config.d_model) // 2 * 2
        angle = at / 10_000.0 ** (i.double() / config.d_model)
        x = x + torch.where(torch.arange(config.d_model) % 2 == 0, angle.sin(), angle.cos())
    if model.segment_embed is not None:
        x = x + model.segment_embed.weight.detach()[model.segments(subject.ids)[0]].double()
    worst, size = Worst("stream", "sum", 2), x.abs().amax(-1)
    if config.positions == "sinusoidal":  # a sine inherits the error of its angle, which grows with the position
        size = size + torch.arange(len(ids))
    if model.embed_norm is not None:
        x = _normed(model.embed_norm, x)
        worst, size = Worst("stream", "sum", config.d_model), x.abs().amax(-1) + gain(model.embed_norm).abs().max()
    worst.rows(subject.run.residuals[0], x, size)
    return worst.finding()


def lens(subject: Subject, progress: Progress) -> Finding:
    """Check that the logit lens on the last stream gives the run's own probabilities of the most likely tokens, at up
    to 4 positions.
    """
    at = _places(subject, FEW)
    reading, logits = read_layers(subject.run, at, top=8), subject.logits_at(at)
    worst, model = Worst("probability", "moved"), subject.run.model
    share = logits.double().softmax(-1)
    ids = torch.from_numpy(reading.ids[-1]).long()
    x = subject.run.residuals[-1][None, at]
    logits_of, unit = subject.exact.logits, subject.product_unit
    bounds = watched(
        lambda n, tap: logits_of(x.expand(n, -1, -1), tap=tap), model.config, ["logits"], product_unit=unit
    )
    # p (dz - sum of p dz) with each |dz| within its bound, plus the rounding error of the softmax itself
    allowed = share.amax(-1) * (2 * bounds["logits", model.config.n_layer][0] + summed(model.config.vocab_size))
    worst.rows(torch.from_numpy(reading.probabilities[-1]), share.gather(-1, ids), allowed=allowed)
    finding = worst.finding()
    return _at_position(finding, at)


def unembedding(subject: Subject, progress: Progress) -> Finding:
    """Check that the logits are W_U times the normalized last stream, with the head's dense layer, bias, multiplier
    and cap if it has them, computed in float64 at up to 16 positions.
    """
    run, model, at = subject.run, subject.run.model, _places(subject)
    x = run.residuals[-1][at].double()
    x = x if model.final_norm is None else _normed(model.final_norm, x)
    if model.head_dense is not None:
        dense = model.head_dense
        x = F.linear(x, dense.weight.detach().double(), None if dense.bias is None else dense.bias.detach().double())
        x = _normed(model.head_norm, MLPS[run.config.mlp](x))
    weight, worst = model.unembed.weight.detach(), subject.worst("logit", "product", run.config.d_model)
    logits = torch.cat([x @ rows.double().T for rows in weight.split(8192)], -1)
    # Terms of opposite sign cancel; the rounding error is relative to |x| |w|, with the row w of W_U of largest norm.
    size = x.norm(dim=-1) * float(weight.norm(dim=-1).max())
    if (bias := model.unembed.bias) is not None:
        logits, size = logits + bias.detach().double(), size + bias.detach().abs().max()
    by, cap = run.config.logit_multiplier, run.config.logit_cap
    logits = logits * by if cap is None else cap * torch.tanh(logits * by / cap)
    worst.rows(subject.logits_at(at), logits, size * by)
    return _at_position(worst.finding(), at)


def _normed(norm: Norm, x: Tensor) -> Tensor:
    """Apply a norm by its formula. [..., D] float64 -> [..., D]"""
    centered = x - x.mean(-1, keepdim=True) if norm.kind == "layernorm" else x
    x = centered / (centered.square().mean(-1, keepdim=True) + norm.eps).sqrt() * gain(norm)
    return x if norm.bias is None else x + norm.bias.detach().double()


def probabilities(subject: Subject, progress: Progress) -> Finding:
    """Check that the probabilities of the next token sum to 1 at up to 16 positions."""
    at = _places(subject)
    total = subject.logits_at(at).softmax(-1).double().sum(-1)
    worst = Worst("probability", "sum", subject.run.config.vocab_size)
    worst.values(total, torch.ones_like(total))
    return _at_position(worst.finding(), at)


def numbers(subject: Subject, progress: Progress) -> Finding:
    """Check that the stored streams, and the logits at up to 16 positions, contain no NaN or infinity."""
    return _finite([subject.run.residuals, subject.logits_at(_places(subject))])


def weights(subject: Subject, progress: Progress) -> Finding:
    """Check that no weight is NaN or infinite."""
    return _finite([parameter.detach() for parameter in subject.run.model.parameters()])


def _finite(tensors: Sequence[Tensor]) -> Finding:
    """Count the non-finite values. Tensors with a finite sum are not searched."""
    suspect = [tensor for tensor in tensors if not tensor.sum().isfinite()]
    wrong = sum(int((~tensor.isfinite()).sum()) for tensor in suspect)
    return counted(wrong, sum(tensor.numel() for tensor in tensors), "numbers")


def _places(subject: Subject, most: int = MOST_PLACES) -> list[int]:
    """Return up to `most` evenly spaced positions including the last one."""
    T = len(subject.run.tokens)
    return sorted({T - 1, *np.linspace(0, T - 1, min(T, most)).astype(int).tolist()})


def _at_position(finding: Finding, at: Sequence[int]) -> Finding:
    """Return the finding with its row number replaced by the position."""
    return finding if finding.position is None else finding.placed(at[finding.position])


# --- sums shown in the views --------------------------------------------------------------------------


def parts(subject: Subject, progress: Progress) -> Finding:
    """Check that the contributions to a logit sum to the logit, through the cap if the model has one, for the five most
    likely next tokens.
    """
    outputs, worst, cap = _part_outputs(subject), Worst("logit", "moved"), subject.run.config.logit_cap
    own = subject.logits_at([outputs.position])[0]
    allowed = subject.bound("logits")[outputs.position]
    for token in top_ids(outputs.logits, 5).tolist():
        attribution = attribute(outputs, subject.run.model, token)
        parts = attribution.parts()["value"].abs()
        total = attribution.total if cap is None else cap * math.tanh(attribution.total / cap)
        each = (total, own[token], parts.sum(), allowed + summed(len(parts)) * parts.sum())
        total, logit, size, bound = (torch.tensor([float(value)]).double() for value in each)
        worst.values(total, logit, size, allowed=bound)
    return worst.finding().placed(outputs.position)


def sources(subject: Subject, progress: Progress) -> Finding:
    """Check that a head's contributions to a logit by source token sum to the head's total, for the unedited head of
    each layer with the largest total.
    """
    outputs, run = _part_outputs(subject), subject.run
    attribution = attribute(outputs, run.model, int(top_ids(outputs.logits, 1)[0]))
    worst = Worst("logit", "moved")
    for layer in range(run.config.n_layer):
        heads = subject.untouched("z", layer).numpy()
        if len(heads) and run.config.is_attention(layer):  # other mixers gate z, so it is not a sum over tokens
            head = int(heads[np.abs(attribution.heads[layer][heads]).argmax()])
            each = by_source(run, layer, head, outputs.position, attribution.directions[layer])
            E, weight = run.config.at(layer).d_head, output_matrix(run.model, layer).double()
            along = weight[:, head * E : (head + 1) * E].T @ torch.from_numpy(attribution.directions[layer])  # [E]
            # z is computed twice, and the errors of its E numbers are independent
            bound = subject.block_bound("z", layer)[head, outputs.position] * along.norm()
            values = (each.sum(), attribution.heads[layer, head], np.abs(each).sum(), bound)
            total, part, size, allowed = (torch.tensor([[float(value)]]).double() for value in values)
            worst.values(total, part, size, layer, torch.tensor([head]), allowed)
    attention = any(map(run.config.is_attention, range(run.config.n_layer)))
    return worst.finding("all_edited" if attention else "no_attention").placed(outputs.position)


def _part_outputs(subject: Subject):
    """Return the output of every component at the last token of the prompt."""
    return subject.once("components", lambda: components(subject.run))


def sampler(subject: Subject, progress: Progress) -> Finding:
    """Check the probabilities that the sampler reports for 64 draws against the softmax of the logits in float64."""
    logits = logits_after(subject.run, -1, subject.lm.tokenizer.vocab_size)
    wide = logits.double()
    share = (wide - wide.logsumexp(-1)).exp()
    drawn = [_draw(subject, logits, seed) for seed in range(DRAWS)]
    ids = torch.tensor([each.id for each in drawn])
    worst = Worst("probability", "double", 1)
    reported = torch.tensor([each.probability for each in drawn], dtype=torch.float64)
    worst.values(reported, share[ids], torch.ones(DRAWS))
    return worst.finding().placed(len(subject.run.tokens) - 1)


def draws(subject: Subject, progress: Progress) -> Finding:
    """Draw tokens with 64 seeds twice, and once more from the sorted cumulative probabilities. Counts the seeds whose
    tokens differ.
    """
    logits = logits_after(subject.run, -1, subject.lm.tokenizer.vocab_size)
    share = logits.double().softmax(-1)
    sizes, ids = share.sort(descending=True, stable=True)
    edges, wrong = sizes.cumsum(-1), 0
    for seed in range(DRAWS):
        first, second = (_draw(subject, logits, seed) for _ in range(2))
        u = pipeline.uniform(seed, 0)
        place = min(int((edges <= u * float(edges[-1])).sum()), len(ids) - 1)
        near = (edges - u).abs().min() < 1e-12  # u equals an edge up to float64 rounding, so both neighbors are correct
        wrong += int(first.id != second.id or (int(ids[place]) != first.id and not near))
    return counted(wrong, DRAWS, "tokens", len(subject.run.tokens) - 1)


def _draw(subject: Subject, logits: Tensor, seed: int):
    """Return the sampler's token for a seed."""
    rows = subject.once("rows", lambda: rows_of(logits[None]))
    ids = tuple(subject.run.tokens.ids.tolist())
    setup = Setup(ids, DecodingPlan(1, seed), len(logits), None, 1)
    return Sampler(Strategy(), setup, 0).decide(rows, torch.empty(0)).change.made[0]


@torch.inference_mode(False)
def gradient(subject: Subject, progress: Progress) -> Finding:
    """Check gradient x activation of each of the first tokens against a finite difference in float64.

    e . df/de is the derivative of the logit as a token's embedding is scaled: (f(1 + h) - f(1 - h)) / 2h.
    """
    run, t, unit = subject.run, min(len(subject.run.tokens), GRADIENT_TOKENS), subject.product_unit
    twin = twin_of(subject)
    if isinstance(twin, Finding):
        return twin
    token = int(subject.logits_at([t - 1])[0].argmax())
    result = gradients(run, t - 1, token, most=4, progress=progress)
    generator = torch.Generator().manual_seed(subject.seed)
    directions = torch.randint(0, 2, (MOVED, t), generator=generator).double() * 2 - 1
    steps = STEP * torch.cat((torch.eye(t).double(), directions))
    sizes = torch.stack((1 + steps, 1 - steps), 1).flatten(0, 1)[:, :, None]  # pairs of +h and -h [2 (t + MOVED), t, 1]

    place = embedded_site(run.config)

    def stretched(site: str, layer: int, x: Tensor) -> Tensor:
        return x * sizes if site == place else x

    def shaken(site: str, layer: int, x: Tensor) -> Tensor:
        """Perturb the last MOVED pairs, both rows of a pair equally."""
        if site == "pos_embed":
            return x
        pairs = x[2 * t :].split(2)
        return torch.cat((x[: 2 * t], *(moved(site, pair, run.config, generator, unit) for pair in pairs)))

    with torch.no_grad():
        tap = compose(*(each for each in (run.tap, stretched, shaken) if each is not None))
        f = twin(subject.ids[:, :t].clone().expand(len(sizes), t), tap=tap)[:, -1, token]
    slopes, other = ((f[0::2] - f[1::2]) / (2 * STEP)).split((t, MOVED))
    worst = Worst("logit", "moved")
    # Effect of forward-pass errors on the gradient; the backward pass has as many errors in the same blocks.
    allowed = RESULTS * (other - directions @ slopes).abs().max() * (unit / MOVE)
    size = torch.full((t,), max(abs(result.value), float(slopes.abs().sum())))
    worst.values(torch.from_numpy(result.gradient_x_activation), slopes, size, allowed=allowed.expand(t))
    return worst.finding()
