"""The numbers of the prompt in the part that was clicked, as a table."""

from model.activations.site_statistics import Passed
from viz.labels import quoted
from viz.numbers import BIT, bits, logit, number, percent, whole
from viz.seam.python_lines import script
from viz.seam.view import Payload, Seen
from viz.views.anatomy.diagram.measure import Outside, Parts, vectors
from viz.words import joined

_Rows = tuple[list[list], list[str], list[str]]  # rows, Python lines, imports
_BLOCK = ["from model.activations.site_statistics import block_numbers"]
_OF_HEADS = ("q", "k", "v", "qk_norm", "rope", "scores", "softmax", "mix")


def name_of(seen: Seen, key: str) -> str:
    """Return the name of a part."""
    return seen.words.within("names")[_both(seen, key)]


def does(seen: Seen, key: str) -> str:
    """Return the function of a part in words."""
    return seen.words.within("does")[_both(seen, key)]


def _both(seen: Seen, key: str) -> str:
    """Return the words of a part: in a parallel block one sum adds both."""
    return "add_both" if key == "add2" and seen.results["main"].subject.config.parallel_residual else key


def live(seen: Seen) -> Payload:
    """Return the numbers at the token and the head that are picked."""
    words, parts = seen.here, seen.results["main"]
    key = parts.chosen(seen.settings.figure)
    if not parts.subject.live:
        return {"empty": {"text": words["not_loaded"], "hint": words["not_loaded_hint"]}}
    special = {"tokens": _of_tokens, "scores": _of_scores, "softmax": _of_softmax, "output": _of_output}
    if key in special:
        columns = ("what", "value")
        rows, lines, imports = special[key](seen)
    else:
        columns = ("vector", "n", "rms", "mean", "largest")
        rows, lines, imports = _of_vectors(seen, key)
    return {
        "title": words["title"].format(part=name_of(seen, key)),
        "about": _about(seen, key),
        "columns": [words[column] for column in columns],
        "rows": rows,
        "file": f"numbers-{key}-layer-{seen.facts.head[0]}",
        "python": script(seen.facts, lines, imports),
    }


def _token(seen: Seen, position: int) -> str:
    return quoted(seen.facts.pieces[position])


def _about(seen: Seen, key: str) -> str:
    """Where these numbers are."""
    words, facts, parts = seen.here, seen.facts, seen.results["main"]
    (layer, head), at, config = facts.head, facts.position, parts.subject.config
    values = {"layer": layer, "token": _token(seen, at), "position": at}
    texts = [words["of_layer" if parts.parts[key].block else "of_token"].format(**values)]
    if key in _OF_HEADS:
        size = config.group_size
        texts.append(words["of_head" if size == 1 else "of_kv"].format(head=head, kv=head // size))
    if key == "act":
        share = float(seen.results["inside"].active[at])
        texts.append(words["active"].format(share=percent(share), n=whole(config.d_mlp)))
    if key == "rope":
        texts.append(words["lengths"])
    return joined(texts)


def _of_vectors(seen: Seen, key: str) -> _Rows:
    """Return the sizes of the vectors that the part reads and gives."""
    words, tensors, facts = seen.here, seen.words.within("tensors"), seen.facts
    parts: Parts = seen.results["main"]
    (layer, head), at, block = facts.head, facts.position, parts.parts[key].block
    sizes = seen.results["inside" if block else "outside"].sizes
    rows, lines = [], []
    for each in vectors(parts, key, sizes, head, at):
        vector = each.vector
        place = words["place"].format(value=number(vector.largest), place=vector.place)
        name = words[each.way].format(tensor=tensors[each.site])
        rows.append([name, whole(vector.n), number(vector.rms), number(vector.mean), place])
        head_argument = "" if each.head is None else f", {each.head}"
        lines.append(f"vector(found[{each.site!r}], {at if block else 0}{head_argument})")
    if key == "unembed":
        rows.append(_logits(seen))
        lines.append(f"run.logits_at({at})")
    first, function = f"found = block_numbers(run, {layer}).sizes", "block_numbers"
    if not block:
        first, function = f"found = outside_numbers(run, {at})", "outside_numbers"
    return rows, [first, *lines], [f"from model.activations.site_statistics import {function}, vector"]


def _logits(seen: Seen) -> list[str]:
    """Return the row of the logits; their largest is the likeliest token's, whatever the size of the negative ones."""
    words, result = seen.here, seen.results["outside"].logits
    name = words["gives"].format(tensor=seen.words.within("tensors")["logits"])
    place = words["place"].format(value=logit(result.largest), place=result.place)
    return [name, whole(result.n), logit(result.rms), logit(result.mean), place]


def _of_tokens(seen: Seen) -> _Rows:
    words, facts = seen.here, seen.facts
    at = facts.position
    rows = [
        [words["id"], str(int(facts.tokens.ids[at]))],
        [words["text"], _token(seen, at)],
        [words["tokens"], whole(len(facts.tokens))],
    ]
    return rows, [f"run.tokens.ids[{at}], run.tokens.pieces[{at}]"], []


def _row(seen: Seen) -> tuple[list[str], dict[str, float]]:
    """Return the picked head's row of attention: its Python lines and numbers."""
    (layer, head), at, passed = seen.facts.head, seen.facts.position, seen.results["inside"]
    each = f"{{name: each[{head}, {at}] for name, each in vars(rows).items()}}"
    return [f"rows = block_numbers(run, {layer}).rows", each], row_of(passed, head, at)


def row_of(passed: Passed, head: int, position: int) -> dict[str, float]:
    """Return one row of attention in a few numbers."""
    return {name: float(each[head, position]) for name, each in vars(passed.rows).items()}


def _of_scores(seen: Seen) -> _Rows:
    words, (lines, row) = seen.here, _row(seen)
    rows = [
        [words["keys"], whole(seen.facts.position + 1)],
        [words["top_score"], number(row["top_score"])],
        [words["mean_score"], number(row["mean_score"])],
    ]
    return rows, lines, _BLOCK


def _of_softmax(seen: Seen) -> _Rows:
    words, (lines, row) = seen.here, _row(seen)
    key = int(row["key"])
    rows = [
        [words["top"], number(row["top"])],
        [words["key"], words["named"].format(token=_token(seen, key), position=key)],
        [words["entropy"], words["bits"].format(value=bits(row["entropy"] / BIT))],
    ]
    return rows, lines, _BLOCK


def _of_output(seen: Seen) -> _Rows:
    """Return the likeliest next tokens."""
    words, facts = seen.here, seen.facts
    result: Outside = seen.results["outside"]
    rows: list[list] = [
        [words["next"].format(rank=rank), {"text": f"“{quoted(facts.piece(n))}”  {percent(share)}", "bar": share}]
        for rank, (n, share) in enumerate(zip(result.ids, result.shares, strict=True), 1)
    ]
    rows.append([words["next_entropy"], words["bits"].format(value=bits(result.entropy / BIT))])
    lines = [
        f"logits = run.logits_at({facts.position})[:lm.tokenizer.vocab_size]",
        f"softmax(logits)[{list(result.ids)}]",
    ]
    return rows, lines, ["from model.sampling.pipeline import softmax"]
