"""The forget view: sparse attention patterns and caches that evict keys, and their effect on the predictions."""

from dataclasses import replace
from typing import Annotated

import numpy as np

from model.forgetting.eviction import may_forget
from model.forgetting.policies import POLICIES, Policy
from model.forgetting.reading import PolicyReading
from viz.charts.heatmap import PatternWords, Window, pattern_figure
from viz.charts.layer_head_map import HeadWords, head_figure
from viz.labels import quoted
from viz.numbers import nats, percent, whole
from viz.seam.programs.answers import ranked_heads
from viz.seam.programs.arguments import OneOf, Rows, Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, named, places
from viz.seam.python_lines import model_script, script
from viz.seam.scene import Scene
from viz.seam.view import Figure, Job, Measure, Payload, Seen, Table, View
from viz.views.cheaper.forget.figures import (
    LossCurve,
    bucketed,
    buckets,
    loss_figure,
    map_panels,
    timeline_figure,
    token_loss_figure,
)
from viz.views.cheaper.forget.measure import (
    NAMES,
    SETTINGS,
    WINDOWS,
    HeadCut,
    TextRead,
    cost_prompt,
    cost_text,
    measure_head,
    measure_prompt,
    measure_text,
    question,
)
from viz.views.cheaper.naming import lines_of, name_of
from viz.words import joined

MOST = 4096  # maximum budget of the API

# --- the bundled text ---


def text_job(seen: Seen) -> Payload:
    """Describe the measurement on the bundled text: the number of windows and the policies compared."""
    return {"text": seen.here["hint"].format(n=WINDOWS)}


def text(seen: Seen) -> Payload:
    """Draw the loss by position with full attention, with a window, and with a window plus the first token."""
    words, read = seen.here, seen.result
    ends = buckets(read.full.shape[1])
    names = [seen.words["full"], *(name_of(seen.all_words, each) for each in read.policies)]
    losses = [read.full, *read.loss]
    curves = [LossCurve(name, bucketed(loss, ends)) for name, loss in zip(names, losses, strict=True)]
    return {
        "figure": loss_figure(curves, ends, words.plain()),
        "title": words["title"].format(n=whole(read.policies[0].budget)),
        "note": _saved(seen, read),
        "source": _text_source(seen, read),
        "file": "forget-first-token",
        "columns": [words["way"], words["positions"], words["position"], words["loss"]],
        "python": _text_lines(seen, read),
    }


def _saved(seen: Seen, read: TextRead) -> str:
    """Describe the extra loss beyond the length of the window, and the fraction of it that the first token recovers."""
    words, n = seen.here, read.policies[0].budget
    full, window, first = (float(np.nanmean(each[:, n:])) for each in (read.full, *read.loss))
    values = {"n": whole(n), "full": nats(full), "window": nats(window), "first": nats(first)}
    values |= {"lost": nats(window - full), "back": nats(window - first)}
    share = (window - first) / (window - full) if window > full else 0.0
    key = "note_back" if share > 0.1 else "note_little"
    return words[key].format(**values, share=percent(share))


def _text_source(seen: Seen, read: TextRead) -> str:
    windows, length = read.full.shape
    values = {"model": seen.facts.label, "dtype": seen.facts.dtype, "windows": whole(windows), "length": whole(length)}
    return seen.here["read"].format(**values)


def _text_lines(seen: Seen, read: TextRead) -> str:
    windows, length = read.full.shape
    lines = [
        "first = lm.tokenizer.begin_id",
        f"windows = windows_of(lm.tokenizer.encode_ids(bundled_text()), {length}, {windows}, first)",
        f"policies = [{', '.join(map(lines_of, read.policies))}]",
        "read_all(lm.model, windows, policies, size=lm.tokenizer.vocab_size)",
    ]
    imports = [each.replace("import read", "import read_all") for each in _IMPORTS]
    texts = "from model.text.held_out import bundled_text"
    return model_script(seen.facts, lines, ["from model.design.past_length import windows_of", *imports, texts])


_IMPORTS = ["from model.forgetting.policies import Policy", "from model.forgetting.reading import read"]


# --- one head ---


def head(seen: Seen) -> Payload:
    """Draw the selected head: full attention, mask of visible keys, rescaled weights, and lost weights."""
    words, limited, (layer, index), policy = seen.here, seen.result, seen.facts.head, _policy(seen)
    assert isinstance(limited, HeadCut)
    T = len(limited.full)
    names = [words["full"], words["mask"], words["left"], words["gone"]]
    axes = PatternWords(*(words[key] for key in ("query", "key", "weight", "largest")))
    meta = {"whole": True, "height": 860, "narrow": 1300}
    figure = pattern_figure(
        map_panels(limited.full, limited.seen, limited.left, names), seen.facts.tokens, axes, Window.whole(T), meta=meta
    )
    kept = int(limited.seen.sum(1).max())
    note = words["note" if limited.lost >= 5e-4 else "note_nothing"].format(
        lost=percent(limited.lost), kept=whole(kept), source=POLICIES[policy.kind].source
    )
    lines = [
        f"scores = torch.tensor(run.scores({layer}, {index})).nan_to_num(-torch.inf)  # without edits",
        f"weights, seen = read_through({lines_of(policy)}, scores[None, None, None])",
    ]
    imports = [
        "import torch",
        "from model.forgetting.eviction import read_through",
        "from model.forgetting.policies import Policy",
    ]
    return {
        "figure": figure,
        "title": words["title"].format(layer=layer, head=index, policy=name_of(seen.all_words, policy)),
        "note": note,
        "file": f"forget-{policy.kind}-{layer}-{index}",
        "columns": [words["map"], words["query"], words["key"], words["weight"]],
        "python": script(seen.facts, lines, imports),
    }


def _policy(seen: Seen) -> Policy:
    """Build the policy from the form; fields that its kind does not use take their defaults."""
    uses = POLICIES[seen.settings.kind].uses
    values = {name: seen.settings[name] for name in ("first", "dilation", "seed") if name in uses}
    selected = tuple(sorted(seen.facts.picked)) if "global_at" in uses else ()
    return Policy(seen.settings.kind, seen.settings.budget, **values, global_at=selected)


# --- the prompt ---


def job(seen: Seen) -> Payload:
    """Describe the measurement: the policy in every head and layer, and that edits are ignored."""
    words = seen.here
    hint = words["hint"].format(policy=name_of(seen.all_words, _policy(seen)))
    return {"text": joined([hint, words["no_edits"]]) if seen.facts.edits else hint}


def _shared(seen: Seen, read: PolicyReading) -> Payload:
    """Build the payload fields shared by the parts on the prompt: source line and file name."""
    facts = seen.facts
    values = {"model": facts.label, "dtype": facts.dtype, "policy": name_of(seen.all_words, read.policy)}
    return {"source": seen.words["prompt_source"].format(**values), "file": f"forget-{seen.part}-{read.policy.kind}"}


def _lines(seen: Seen, read: PolicyReading, last: str) -> str:
    ids = "torch.tensor(run.tokens.ids)[None]"
    line = f"reading = read(lm.model, {ids}, {lines_of(read.policy)}, size=lm.tokenizer.vocab_size)"
    return script(seen.facts, [line, last], ["import torch", *_IMPORTS])


def loss(seen: Seen) -> Payload:
    """Draw the loss of each prompt token with full attention and under the policy."""
    words, read = seen.here, seen.result
    if len(seen.facts.pieces) < 2:
        return {"empty": {"text": words["empty"], "hint": words["one"]}}
    full, less = read.full_loss[0, :-1], read.loss[0, :-1]
    values = {"full": nats(float(full.mean())), "less": nats(float(less.mean()))}
    values |= {"agree": percent(float(read.agree.mean())), "kl": nats(float(read.kl.mean()))}
    names = (seen.words["full"], name_of(seen.all_words, read.policy))
    return {
        "figure": token_loss_figure(full, less, seen.facts.pieces, names, words.plain()),
        "title": words["title"],
        "note": words["note"].format(**values),
        "columns": [words["way"], words["token"], words["place"], words["loss"]],
        "python": _lines(seen, read, "reading.loss[0], reading.full_loss[0]"),
    } | _shared(seen, read)


def lost(seen: Seen) -> Payload:
    """Draw the fraction of each head's attention weight on hidden keys."""
    words, read = seen.here, seen.result
    layer, head = (int(n) for n in np.unravel_index(int(read.lost.argmax()), read.lost.shape))
    note = words["note"].format(layer=layer, head=head, share=percent(float(read.lost[layer, head])))
    hover = f"{words['value']}: %{{z:.1%}}"
    return {
        "figure": head_figure(read.lost, HeadWords(words["layer"], words["head"], words["value"]), hover, signed=False),
        "title": words["title"],
        "note": joined([note, words["mean"].format(share=percent(float(read.lost.mean())))]),
        "columns": [words["layer"], words["head"], words["value"]],
        "python": _lines(seen, read, "reading.lost  # [layer, head]"),
    } | _shared(seen, read)


def following(seen: Seen) -> Payload:
    """Build the table of the most likely next tokens with full attention and under the policy."""
    words, read = seen.here, seen.result
    both = {i: (p, less) for i, p, less in (*read.before, *read.after)}
    rows = [
        [
            quoted(seen.facts.piece(i)),
            {"text": percent(p), "bar": p},
            {"text": percent(less), "bar": less},
        ]
        for i, (p, less) in sorted(both.items(), key=lambda item: -max(item[1]))[:10]
    ]
    same = read.before[0][0] == read.after[0][0]
    about = words["same" if same else "other"].format(
        before=quoted(seen.facts.piece(read.before[0][0])), after=quoted(seen.facts.piece(read.after[0][0]))
    )
    return {
        "title": words["title"],
        "about": about,
        "columns": [words["token"], words["full"], words["less"]],
        "rows": rows,
        "python": _lines(seen, read, "reading.before, reading.after"),
    } | _shared(seen, read)


def timeline(seen: Seen) -> Payload:
    """Draw when each key is evicted, by layer."""
    words, read = seen.here, seen.result
    if not may_forget(read.policy) or read.gone is None:
        return {"empty": {"text": words["empty"], "hint": words["no_cache"]}}
    T = len(seen.facts.pieces)
    gone = read.gone.mean(1)  # [L, T], averaged over KV heads
    if not (read.gone < T).any():
        return {"empty": {"text": words["empty"], "hint": words["nothing"].format(n=whole(read.policy.budget))}}
    stays = (read.gone >= T).mean((0, 1))  # fraction of layers and KV heads that keep a token's key to the end
    longest = int(stays[: max(1, T - read.policy.budget)].argmax())
    note = words["note"].format(
        token=quoted(seen.facts.pieces[longest]), position=longest, share=percent(float(stays[longest]))
    )
    return {
        "figure": timeline_figure(gone, seen.facts.pieces, words.plain()),
        "title": words["title"],
        "note": joined([words["about"], note]),
        "columns": [words["layer"], words["token"], words["stay"]],
        "python": _lines(seen, read, "reading.gone  # [layer, KV head, token]"),
    } | _shared(seen, read)


# --- for programs ---


def forgetting(
    scene: Scene,
    kind: Annotated[str, OneOf(tuple(POLICIES))] = "first",
    budget: Annotated[int, Within(1, MOST)] = 32,
    first: Annotated[int, Within(0, 16)] = 1,
    dilation: Annotated[int, Within(1, 8)] = 2,
    seed: Annotated[int, Within(0, 99)] = 0,
    global_at: list[int] = (),
    most: Rows = 20,
) -> dict:
    """Measure a prompt's predictions when each query can attend to at most `budget` keys, without retraining.

    Args:
        kind: window, first (the first tokens and a window), h2o, snapkv, dilated, strided, block, longformer or
            bigbird.
        budget: Maximum number of keys that a query can attend to, including its own.
        first: For kind first: number of initial tokens that stay.
        dilation: For kind dilated: distance between neighboring keys.
        seed: For kind bigbird: seed of its random keys.
        global_at: For longformer and bigbird: positions of global tokens, which attend to every earlier token and to
            which every later token attends. Empty: the first tokens.

    Returns:
        kind; budget; loss and full_loss: loss of each token from the second on, in nats; kl (nats) and agree (fraction
        of positions with the same top token): means over the prompt; lost: fraction of the weight on hidden keys, by
        layer and head; strongest: the heads with the largest such fractions; before and after: the most likely next
        tokens with full attention and under the policy, each with both probabilities; gone: the first query that can no
        longer attend to a token's key, by layer, KV head and token (the prompt's length for a key that stays; null for
        patterns that are not caches).
    """
    positions = tuple(places(scene, global_at)) if global_at else ()
    selected = replace(scene, picked=replace(scene.picked, tokens=positions))
    options = {"kind": kind, "budget": min(budget, len(scene.tokens)), "first": first, "dilation": dilation}
    read: PolicyReading = measured(VIEW, "main", selected, **options, seed=seed)
    tokens = {
        name: [named(scene.model, i) | {"full": p, "less": less} for i, p, less in getattr(read, name)]
        for name in ("before", "after")
    }
    return {
        "kind": kind,
        "budget": options["budget"],
        "loss": read.loss[0, :-1],
        "full_loss": read.full_loss[0, :-1],
        "kl": float(read.kl.mean()),
        "agree": float(read.agree.mean()),
        "lost": read.lost,
        "strongest": ranked_heads(read.lost, most, size=True),
        **tokens,
        "gone": read.gone,
    }


VIEW = View(
    "forget",
    settings=SETTINGS,
    form_depends=("plain",),
    measures=(
        Measure("text", measure_text, depends=("model", "limit"), slow=True, cost=cost_text),
        Measure("head", measure_head, depends=("plain", "head"), settings=NAMES, question=question),
        Measure(
            "main", measure_prompt, depends=("plain",), settings=NAMES, question=question, slow=True, cost=cost_prompt
        ),
    ),
    layout=("text_job", "text", "form", "head", "job", ("loss", "following"), ("lost", "timeline")),
    parts={
        "text_job": Job("text", text_job, settings=()),
        "text": Figure(text, of="text", settings=()),
        "head": Figure(head, of="head", depends=("tokens",)),
        "job": Job("main", job, depends=("edits", "tokens")),
        "loss": Figure(loss),
        "following": Table(following),
        "lost": Figure(lost),
        "timeline": Figure(timeline),
    },
    api=(Endpoint(forgetting, long=True),),
)
