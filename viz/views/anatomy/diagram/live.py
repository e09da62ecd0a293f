"""The table of the prompt's live numbers in the selected part of the diagram."""

from model.activations.site_statistics import Passed
from model.anatomy.mixers.kinds import layers_with, state_mixer
from model.anatomy.mixers.mlp_rows import spans_of
from viz.labels import quoted
from viz.numbers import BIT, bits, logit, number, percent, whole
from viz.seam.python_lines import script
from viz.seam.view import Payload, Seen
from viz.views.anatomy.diagram.measure import Outside, Parts, vectors
from viz.words import joined

_Rows = tuple[list[list], list[str], list[str]]  # rows, Python lines, imports
_BLOCK = ["from model.activations.site_statistics import block_numbers"]
_SCORES = ("scores", "cap", "alibi", "window", "sinks")
_TWO_WAY = ("scores", "window", "output")  # parts with other words where tokens also attend to later ones
_PER_HEAD = ("q", "k", "v", "qk_norm", "rope", *_SCORES, "softmax", "mix", "gate_o")
_STATE = ("in_proj", "conv", "rates", "state", "state_gate", "out_proj")


def name_of(seen: Seen, key: str) -> str:
    """Return the display name of a part."""
    return seen.words.within("names")[_words_key(seen, key)]


def purpose_of(seen: Seen, key: str) -> str:
    """Describe what a part computes."""
    words, mixer = seen.words.within("does"), state_mixer(seen.results["main"].subject.config)
    kind = "overwritten" if key == "state" and mixer in ("delta", "gated_delta") else mixer
    return words.get(f"{key}_{kind}") or words[_words_key(seen, key)]


def tensor_of(seen: Seen, site: str) -> str:
    """Return the display name of a tensor."""
    mixer = site == "attn_out" and state_mixer(seen.results["main"].subject.config)
    return seen.words.within("tensors")["attn_mixer" if mixer else site]


def _words_key(seen: Seen, key: str) -> str:
    """Return the words key of a part. The only sum of a parallel block adds both sublayers, so it has its own key."""
    config = seen.results["main"].subject.config
    if config.two_way and key in _TWO_WAY:
        return f"{key}_two_way"
    if key == "add1" and state_mixer(config) is not None:
        return "add_mixer"
    return "add_both" if key == "add2" and config.parallel_residual else key


def live(seen: Seen) -> Payload:
    """Build the table of the selected part's live numbers at the selected token and head."""
    words, parts = seen.here, seen.results["main"]
    key = parts.chosen(seen.settings.figure, seen.facts.head[0])
    if not parts.subject.live:
        return {"empty": {"text": words["not_loaded"], "hint": words["not_loaded_hint"]}}
    if empty := _absent(seen, key):
        return {"empty": empty}
    builders = {"tokens": _token_rows, "softmax": _softmax_rows, "output": _output_rows}
    builders |= dict.fromkeys(_SCORES, _score_rows)
    if key in builders:
        columns = ("what", "value")
        rows, lines, imports = builders[key](seen)
    else:
        columns = ("vector", "n", "rms", "mean", "largest")
        rows, lines, imports = _vector_rows(seen, key)
    return {
        "title": words["title"].format(part=name_of(seen, key)),
        "about": _about(seen, key),
        "columns": [words[column] for column in columns],
        "rows": rows,
        "file": f"numbers-{key}-layer-{seen.facts.head[0]}",
        "python": script(seen.facts, lines, imports),
    }


def _absent(seen: Seen, key: str) -> dict[str, str] | None:
    """Return why the selected layer has no numbers of a part; None if it has them."""
    words, parts, layer = seen.here, seen.results["main"], seen.facts.head[0]
    config = parts.subject.config
    if not parts.parts[key].block:
        return None
    layers = layers_with(config, key)
    if layer not in layers:
        text = words["elsewhere"].format(layer=layer, part=name_of(seen, key))
        return {"text": text, "hint": words["elsewhere_hint"].format(layers=", ".join(spans_of(layers)))}
    if config.ssm_beside and key in _STATE:
        return {"text": words["unread"], "hint": words["unread_hint"]}
    return None


def _token(seen: Seen, position: int) -> str:
    return quoted(seen.facts.pieces[position])


def _about(seen: Seen, key: str) -> str:
    """Describe the layer, token and head that the numbers belong to."""
    words, facts, parts = seen.here, seen.facts, seen.results["main"]
    (layer, head), at, config = facts.head, facts.position, parts.subject.config
    values = {"layer": layer, "token": _token(seen, at), "position": at}
    sentences = [words["of_layer" if parts.parts[key].block else "of_token"].format(**values)]
    if key in _PER_HEAD:
        size = config.at(layer).group_size
        sentences.append(words["of_head" if size == 1 else "of_kv"].format(head=head, kv=head // size))
    if key in _STATE and (channels := config.channels(layer)):
        width = channels // config.n_head
        sentences.append(words["of_channels"].format(head=head, first=head * width, last=(head + 1) * width - 1))
    if key == "act" and (active := seen.results["inside"].active) is not None:
        share = float(active[at])
        sentences.append(words["active"].format(share=percent(share), n=whole(config.at(layer).d_mlp)))
    if key == "rope" and not config.rotates(layer):
        sentences.append(words["unrotated"])
    elif key == "rope" and (config.rope_scaling is None or config.rope_scaling.amplitude == 1):
        sentences.append(words["lengths"])
    return joined(sentences)


def _vector_rows(seen: Seen, key: str) -> _Rows:
    """Build one row per vector that the part reads or outputs."""
    words, facts = seen.here, seen.facts
    parts: Parts = seen.results["main"]
    layer, at, block = facts.head[0], facts.position, parts.parts[key].block
    sizes = seen.results["inside" if block else "outside"].sizes
    rows, lines = [], []
    for each in vectors(parts, key, sizes, facts.head, at):
        vector = each.vector
        place = words["place"].format(value=number(vector.largest), place=vector.place)
        name = words[each.way].format(tensor=tensor_of(seen, each.site))
        rows.append([name, whole(vector.n), number(vector.rms), number(vector.mean), place])
        head_argument = "" if each.head is None else f", {each.head}"
        lines.append(f"vector(sizes[{each.of!r}], {at if block else 0}{head_argument})")
    if key == "unembed":
        rows.append(_logits(seen))
        lines.append(f"run.logits_at({at})")
    first, function = f"sizes = block_numbers(run, {layer}).sizes", "block_numbers"
    if not block:
        first, function = f"sizes = outside_numbers(run, {at})", "outside_numbers"
    return rows, [first, *lines], [f"from model.activations.site_statistics import {function}, vector"]


def _logits(seen: Seen) -> list[str]:
    """Build the row of the logits. Its largest value is the maximum, not the largest absolute value."""
    words, result = seen.here, seen.results["outside"].logits
    name = words["gives"].format(tensor=seen.words.within("tensors")["logits"])
    place = words["place"].format(value=logit(result.largest), place=result.place)
    return [name, whole(result.n), logit(result.rms), logit(result.mean), place]


def _token_rows(seen: Seen) -> _Rows:
    words, facts = seen.here, seen.facts
    at = facts.position
    rows = [
        [words["id"], str(int(facts.tokens.ids[at]))],
        [words["text"], _token(seen, at)],
        [words["tokens"], whole(len(facts.tokens))],
    ]
    return rows, [f"run.tokens.ids[{at}], run.tokens.pieces[{at}]"], []


def _attention_row(seen: Seen) -> tuple[list[str], dict[str, float]]:
    """Return the Python lines and the summary of the selected head's attention row."""
    (layer, head), at, passed = seen.facts.head, seen.facts.position, seen.results["inside"]
    summary = f"{{name: each[{head}, {at}] for name, each in vars(rows).items()}}"
    return [f"rows = block_numbers(run, {layer}).rows", summary], row_of(passed, head, at)


def row_of(passed: Passed, head: int, position: int) -> dict[str, float]:
    """Return summary statistics of one attention row, by name."""
    return {name: float(each[head, position]) for name, each in vars(passed.rows).items()}


def _score_rows(seen: Seen) -> _Rows:
    words, (lines, row) = seen.here, _attention_row(seen)
    rows = [
        [words["keys"], whole(int(row["visible"]))],
        [words["top_score"], number(row["top_score"])],
        [words["mean_score"], number(row["mean_score"])],
    ]
    return rows, lines, _BLOCK


def _softmax_rows(seen: Seen) -> _Rows:
    words, (lines, row) = seen.here, _attention_row(seen)
    key = int(row["key"])
    rows = [
        [words["top"], number(row["top"])],
        [words["key"], words["named"].format(token=_token(seen, key), position=key)],
        [words["entropy"], words["bits"].format(value=bits(row["entropy"] / BIT))],
    ]
    return rows, lines, _BLOCK


def _output_rows(seen: Seen) -> _Rows:
    """Build the rows of the most likely next tokens and of the entropy."""
    words, facts = seen.here, seen.facts
    result: Outside = seen.results["outside"]
    rows: list[list] = [
        [
            words["token_rank" if seen.facts.config.two_way else "next"].format(rank=rank),
            {"text": f"“{quoted(facts.piece(n))}”  {percent(share)}", "bar": share},
        ]
        for rank, (n, share) in enumerate(zip(result.ids, result.shares, strict=True), 1)
    ]
    rows.append([words["next_entropy"], words["bits"].format(value=bits(result.entropy / BIT))])
    lines = [
        f"logits = run.logits_at({facts.position})[:lm.tokenizer.vocab_size]",
        f"softmax(logits)[{list(result.ids)}]",
    ]
    return rows, lines, ["from model.sampling.pipeline import softmax"]
