"""Python lines that repeat a check in simple terms, if a few suffice; the last one gives the largest difference."""

from collections.abc import Sequence

_HEADS = "heads = [(layer, head) for layer in range(lm.config.n_layer) for head in range(lm.config.n_head)]"
_IDS = "ids = torch.tensor(run.tokens.ids)[None]  # [1, T]"

PYTHON: dict[str, Sequence[str]] = {
    "tokens": ("sum(map(len, run.tokens.raw)), lm.tokenizer.decode(run.tokens.ids)",),
    "rows": (_HEADS, "max(abs(run.pattern(*at).astype(float).sum(1) - 1).max() for at in heads)"),
    "no_future": (_HEADS, "max(abs(np.triu(run.pattern(*at), 1)).max() for at in heads)"),
    "scores": (
        _HEADS,
        "def scores(at):",
        "    qkv = run.qkv(*at)",
        "    return qkv.q.astype(float) @ qkv.k.T / lm.config.d_head**0.5",
        "max(np.nanmax(abs(run.scores(*at) - scores(at))) for at in heads)",
    ),
    "softmax": (
        _HEADS,
        "def softmax(scores):",
        "    weights = np.exp(np.nan_to_num(scores, nan=-np.inf) - np.nanmax(scores, 1, keepdims=True))",
        "    return weights / weights.sum(1, keepdims=True)",
        "max(abs(run.pattern(*at) - softmax(run.scores(*at).astype(float))).max() for at in heads)",
    ),
    "mixed": (
        _HEADS,
        "max(abs(run.z(*at) - run.pattern(*at).astype(float) @ run.qkv(*at).v).max() for at in heads)",
    ),
    "numbers": ("int((~torch.isfinite(run.residuals)).sum()), int((~np.isfinite(run.logits)).sum())",),
    "weights": ("sum(int((~weight.isfinite()).sum()) for weight in lm.model.parameters())",),
    "probabilities": (
        "p = torch.from_numpy(run.logits).softmax(-1)",
        "abs(p.sum(-1, dtype=torch.float64) - 1).max()",
    ),
    "fused": (
        _IDS,
        "with torch.inference_mode():",
        "    logits = lm.model(ids, tap=run.tap)[0]",
        "abs(logits.numpy() - run.logits).max()",
    ),
    "batched": (
        _IDS,
        "other = torch.randint(0, lm.config.vocab_size, ids.shape)",
        "with torch.inference_mode():",
        "    logits = lm.model(torch.cat((other, ids, other)), tap=run.tap)[1]",
        "abs(logits.numpy() - run.logits).max()",
    ),
    "later_tokens": (
        _IDS,
        "half = (ids.shape[1] + 1) // 2",
        "other = torch.cat((ids[:, :half], ids[:, half:].flip(1)), 1)",
        "with torch.inference_mode():",
        "    logits = lm.model(other, tap=run.tap)[0]",
        "abs(logits[:half].numpy() - run.logits[:half]).max()",
    ),
    "parity_logits": ("# model.parity.compare builds the model of transformers; see hf_config and hf_state there",),
}


# Checks that skip heads with edits of the compared numbers, unlike the short Python lines.
EDITED_AWAY = ("scores", "softmax", "mixed")


def repeat(prompt: str | None, key: str | None) -> list[str]:
    """Build the lines that run the check `key`, or all checks if it is None. `prompt`: the tokenized text, if any."""
    subject = f"subject = subject_of(lm, run, {prompt!r})" if prompt is not None else "subject = subject_of(lm, run)"
    if key is None:
        return [subject, "run_checks(subject)"]
    return [subject, f"run_checks(subject, [{key!r}])[{key!r}]"]
