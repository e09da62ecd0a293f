"""Checks of execution paths: the run's logits, computed again by another path through the model or in float64."""

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from model.checks.result import Finding, Subject, Worst, unable
from model.gpt.cache import KVCache
from model.gpt.decode_step import step_of
from model.gpt.decode_ways import MOST_ROWS, taken
from model.gpt.edits import Edit, starting_at
from model.gpt.tap import compose, identity
from model.gpt.transformer import Transformer
from model.kernels import ready
from model.progress import Progress
from model.tracing.trace import run as run_model

MOST_STEPS = 16  # maximum number of tokens fed one at a time
MOST_BYTES = 2 << 30  # maximum bytes of a second copy of the weights


@torch.inference_mode()
def fused(subject: Subject, progress: Progress) -> Finding:
    """Check that the fused forward pass, which materializes no pattern, gives the traced run's logits. The run's edits
    are applied.
    """
    logits = subject.run.model(subject.ids, tap=subject.run.tap)[0]
    return _logits(subject, logits)


@torch.inference_mode()
def stepwise(subject: Subject, progress: Progress) -> Finding:
    """Check that an unfused forward pass gives the same patterns as recomputation from the stored streams."""
    run, worst = subject.run, Worst("weight", "moved")

    def look(site: str, layer: int, tensor: Tensor) -> Tensor:
        if site == "pattern":
            expected = run.sites(layer, ["pattern"])["pattern"][0]
            worst.rows(expected, tensor[0], None, layer, allowed=subject.bound("pattern", layer))
        return tensor

    run.model.trunk(subject.ids, tap=look if run.tap is None else compose(run.tap, look))
    return worst.finding("no_attention")


@torch.inference_mode()
def explicit(subject: Subject, progress: Progress) -> Finding:
    """Check that an unfused forward pass, which materializes scores and patterns, gives the run's logits."""
    tap = identity if subject.run.tap is None else subject.run.tap
    return _logits(subject, subject.run.model(subject.ids, tap=tap)[0])


@torch.inference_mode()
def cached(subject: Subject, progress: Progress) -> Finding:
    """Check that the last tokens, fed one at a time with a KV cache, give the same logits as a single pass over the
    prompt.
    """
    return _in_every_way(subject, [1] * min(MOST_STEPS, subject.ids.shape[1] - 1), progress)


@torch.inference_mode()
def chunked(subject: Subject, progress: Progress) -> Finding:
    """Check that the prompt, fed in three uneven chunks, gives the same logits as a single pass."""
    T = subject.ids.shape[1]
    return _in_every_way(subject, [T // 3, T // 4] if T > 3 else [1] * (T - 1), progress)


def _in_every_way(subject: Subject, last: Sequence[int], progress: Progress) -> Finding:
    """Feed the prompt as one chunk, followed by chunks of the sizes `last`, with each implementation of a decode step.

    A compiled model has several implementations (model.gpt.decode_ways) for chunks this small. The page uses the
    fastest on the machine; the finding covers all of them. Returns the finding with the largest ratio of difference to
    bound.
    """
    few = 0 < max(last, default=0) <= MOST_ROWS and subject.run.tap is None
    step = step_of(subject.run.model) if few and ready.now() is not None else None
    findings = [_in_chunks(subject, last, progress, how) for how in (("torch",) if step is None else step.ways())]
    worst = max(findings, key=lambda each: each.difference / each.bound if each.bound else each.difference)
    return dataclasses.replace(worst, compared=sum(each.compared for each in findings))


def _in_chunks(subject: Subject, last: Sequence[int], progress: Progress, how: str) -> Finding:
    """Feed the prompt and the chunks with the implementation `how`; the first chunk is always computed by torch."""
    run, ids, T, parts = subject.run, subject.ids, subject.ids.shape[1], []
    if T < 2:
        return unable("one_token")
    cache, start = KVCache.empty(run.config, 1, T, whole=run.tap is not None), 0
    for done, size in enumerate((T - sum(last), *last)):
        chunk = ids[:, start : start + size]
        if run.tap is not None:
            parts.append(run.model(chunk, cache=cache, tap=starting_at(run.tap, start))[0])
        else:
            parts.append(taken(run.model, chunk, cache, how if done else "torch")[0])
        start += size
        progress(done + 1, len(last) + 1, "Feeding the prompt")
    return _logits(subject, torch.cat(parts))


@torch.inference_mode()
def batched(subject: Subject, progress: Progress) -> Finding:
    """Check that the prompt, as the middle row of a batch of three, gives the same logits as alone; the other rows are
    random tokens.
    """
    others = _random_ids(subject, 2, subject.ids.shape[1])
    logits = subject.run.model(torch.cat((others[:1], subject.ids, others[1:])), tap=subject.run.tap)[1]
    return _logits(subject, logits)


@torch.inference_mode()
def later_tokens(subject: Subject, progress: Progress) -> Finding:
    """Check that replacing the second half of the prompt by random tokens does not change the first half's logits."""
    T = subject.ids.shape[1]
    if T < 2:
        return unable("one_token")
    half, ids = (T + 1) // 2, subject.ids
    other = torch.cat((ids[:, :half], _random_ids(subject, 1, T - half)), 1)
    return _logits(subject, subject.run.model(other, tap=subject.run.tap)[0][:half], half)


@torch.inference_mode()
def no_edit(subject: Subject, progress: Progress) -> Finding:
    """Check that a run with edits that change nothing (one head per layer scaled by 1) equals the unedited run."""
    plain = subject.unedited
    edits = [Edit("scale", layer, layer % plain.config.n_head, factor=1.0) for layer in range(plain.config.n_layer)]
    other = run_model(plain.model, plain.tokens, edits=edits, unedited=plain)
    worst = Worst("logit", "moved")
    allowed = subject.plain().bound("logits")
    worst.rows(torch.from_numpy(other.logits), torch.from_numpy(plain.logits), allowed=allowed)
    return worst.finding()


@torch.inference_mode()
def float64(subject: Subject, progress: Progress) -> Finding:
    """Compare the run with the same model in float64, which shows the size of the float32 rounding error."""
    twin = twin_of(subject)
    if isinstance(twin, Finding):
        return twin
    progress(1, 2, "Computing in float64")
    return _logits(subject, twin(subject.ids, tap=subject.run.tap)[0])


def twin_of(subject: Subject) -> Transformer | Finding:
    """Return the model in float64, or a Finding if the copy would be too large."""
    size = sum(parameter.numel() * 8 for parameter in subject.run.model.parameters())
    if size > MOST_BYTES:
        return unable("too_large", f"{size / 2**30:.1f} GiB")
    return subject.once("float64", lambda: doubled(subject.run.model))


def doubled(model: Transformer) -> Transformer:
    """Return a copy of a model in float64."""
    with torch.device("meta"):
        twin = Transformer(model.config)
    twin.load_state_dict({name: tensor.double() for name, tensor in model.state_dict().items()}, assign=True)
    twin.tie()
    return twin.double().eval()  # gains that are not parameters, too


def _logits(subject: Subject, logits: Tensor, upto: int | None = None) -> Finding:
    """Compare the logits [T, V] with those of the run."""
    worst = Worst("logit", "moved")
    worst.rows(subject.logits[:upto], logits, allowed=subject.bound("logits")[:upto])
    return worst.finding()


def _random_ids(subject: Subject, batch: int, length: int) -> Tensor:
    """Draw random token ids with the subject's seed. [B, T]"""
    generator = torch.Generator().manual_seed(subject.seed)
    return torch.randint(0, subject.run.config.vocab_size, (batch, length), generator=generator)
