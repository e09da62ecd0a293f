"""The part of a model that is looked at, and the numbers of the prompt that pass through it."""

from collections.abc import Mapping
from dataclasses import dataclass

from model.activations.site_statistics import Passed, Vector, block_numbers, outside_numbers, vector
from model.anatomy.blueprint import Flow, Part, blueprint
from model.sampling.pipeline import softmax
from viz.charts.distribution import entropy, likeliest
from viz.labels import shorten, visible
from viz.page.background import kept
from viz.page.parts import choice
from viz.page.picking import position_of, source
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Values
from viz.page.typed import quoted
from viz.views.activations.norm.figures import told
from viz.views.anatomy.old_subject import Subject, subject_of
from viz.views.predictions.figures import percent
from viz.words import section

FIRST = "q"  # the part that is looked at before a click
KEYS = (
    FIRST,
    "tokens",
    "embed",
    "pos_embed",
    "norm1",
    "k",
    "v",
    "qk_norm",
    "rope",
    "scores",
    "softmax",
    "mix",
    "o",
    "add1",
    "norm2",
    "gate",
    "up",
    "act",
    "down",
    "add2",
    "final_norm",
    "unembed",
    "output",
)
_NEXT = 5  # likeliest next tokens that are named


@dataclass(frozen=True, eq=False)
class Looked:
    """The model, its parts for the prompt, and the part that is looked at."""

    subject: Subject
    parts: Mapping[str, Part]
    key: str

    @property
    def part(self) -> Part:
        """The part that is looked at."""
        return self.parts[self.key]


def looked_at(scene: Scene, values: Values) -> Looked:
    """The part that was clicked where this model has it, else q; raises PlaygroundError for a config of nothing."""
    subject = subject_of(scene, values)
    parts = blueprint(subject.config, len(scene.trace.tokens))
    key = choice(values.get("diagram_figure"), "part", KEYS)
    return Looked(subject, parts, key if key in parts else FIRST)


def name_of(scene: Scene, looked: Looked, key: str) -> str:
    """What a part is called."""
    both = key == "add2" and looked.subject.config.parallel_residual
    return scene.words["diagramparts.add_both" if both else f"diagramparts.{key}"]


# --- its numbers ---


def passed_of(scene: Scene, layer: int) -> Passed:
    """What passes through a block, worked out once."""

    def make() -> Passed:
        with scene.playground.computing:
            return block_numbers(scene.trace, layer)

    return kept(scene.playground, ("passed", scene.trace.key, layer), make)


def live_payload(scene: Scene, looked: Looked) -> dict:
    """The numbers of the prompt in the part, at the token and the head that are picked."""
    words = scene.words
    if not looked.subject.live:
        return {"empty": {"text": words["diagramlive.not_loaded"], "hint": words["diagramlive.not_loaded_hint"]}}
    about, table = _about(scene, looked), _table(scene, looked)
    return {
        "title": words["diagramlive.title"].format(part=name_of(scene, looked, looked.key)),
        "about": about,
        "run": f"{scene.run} {looked.key} {scene.head} {position_of(scene)}",
        "file": f"numbers-{looked.key}-layer-{scene.head[0]}",
        "source": source(scene),
    } | table


def _token(scene: Scene, position: int) -> str:
    return shorten(visible(scene.trace.tokens.pieces[position]), 40)


def _about(scene: Scene, looked: Looked) -> str:
    """Where these numbers are."""
    words, (layer, head), at = scene.words, scene.head, position_of(scene)
    given = {"layer": layer, "token": _token(scene, at), "position": at}
    said = [words["diagramlive.of_layer" if looked.part.block else "diagramlive.of_token"].format(**given)]
    if looked.key in ("q", "k", "v", "qk_norm", "rope", "scores", "softmax", "mix"):
        size = looked.subject.config.group_size
        kind = "diagramlive.of_head" if size == 1 else "diagramlive.of_kv"
        said.append(words[kind].format(head=head, kv=head // size))
    if looked.key == "act":
        share, n = float(passed_of(scene, layer).active[at]), looked.subject.config.d_mlp
        said.append(words["diagramlive.active"].format(share=percent(share), n=f"{n:,}"))
    if looked.key == "rope":
        said.append(words["diagramlive.lengths"])
    return " ".join(said)


def _table(scene: Scene, looked: Looked) -> dict:
    """Columns, rows and Python lines: sizes of vectors, or single numbers where there are no vectors."""
    special = {"tokens": _of_tokens, "scores": _of_scores, "softmax": _of_softmax, "output": _of_output}
    if looked.key in special:
        rows, lines, imports = special[looked.key](scene)
        columns = [scene.words["diagramlive.what"], scene.words["diagramlive.value"]]
        return {"columns": columns, "rows": rows, "python": python_lines(scene, lines, imports)}
    return _of_vectors(scene, looked)


def vectors(scene: Scene, looked: Looked) -> list[tuple[str, str, int | None, Vector]]:
    """The vectors that a part reads and gives at the picked token: (reads or gives, site, head, sizes)."""
    layer, at, part = scene.head[0], position_of(scene), looked.part
    inside = passed_of(scene, layer).sizes if part.block else {}
    outside = {} if part.block else outside_numbers(scene.trace, at)
    found = []
    for way, flows in (("reads", part.reads), ("gives", part.gives)):
        for flow in flows:
            site = flow.site
            if looked.subject.config.qk_norm and (looked.key in "qk" or (looked.key == "qk_norm" and way == "reads")):
                site = {"q": "q_raw", "k": "k_raw"}.get(site, site)
            if looked.key == "o" and way == "reads":
                site = "heads"
            if part.block and site in inside:
                head = _head(scene, flow) if site != "heads" else None
                found.append((way, site, head, vector(inside[site], at, head)))
            elif site in outside:
                found.append((way, site, None, vector(outside[site], 0)))
    return found


def _head(scene: Scene, flow: Flow) -> int | None:
    """The head of a tensor with heads: the picked one, or the KV head that it reads."""
    letter = flow.axes[0][0]
    if letter not in "HG":
        return None
    return scene.head[1] if letter == "H" else scene.head[1] // scene.model.config.group_size


def _of_vectors(scene: Scene, looked: Looked) -> dict:
    words, (layer, _), at = scene.words, scene.head, position_of(scene)
    rows, lines = [], []
    for way, site, head, each in vectors(scene, looked):
        name = words[f"diagramlive.{way}"].format(tensor=words[f"diagramtensors.{site}"])
        place = words["diagramlive.place"].format(value=told(each.largest), place=each.place)
        rows.append([name, f"{each.n:,}", told(each.rms), told(each.mean), place])
        lines.append(f"vector(found[{site!r}], {at if looked.part.block else 0}{'' if head is None else f', {head}'})")
    if looked.key == "unembed":
        rows.append(_logits(scene, at))
        lines.append(f"run.logits_at({at})")
    made = f"found = block_numbers(run, {layer}).sizes"
    needed = "block_numbers"
    if not looked.part.block:
        made, needed = f"found = outside_numbers(run, {at})", "outside_numbers"
    imports = [f"from model.activations.site_statistics import {needed}, vector"]
    return {
        "columns": [words[f"diagramlive.{column}"] for column in ("vector", "n", "rms", "mean", "largest")],
        "rows": rows,
        "python": python_lines(scene, [made, *lines], imports),
    }


def _logits(scene: Scene, at: int) -> list[str]:
    """The row of the logits; their largest is the likeliest token's, not the one that is largest in absolute value."""
    words, logits = scene.words, scene.trace.logits_at(at)
    name = words["diagramlive.gives"].format(tensor=words["diagramtensors.logits"])
    sizes = float((logits.astype(float) ** 2).mean() ** 0.5), float(logits.mean())
    place = words["diagramlive.place"].format(value=told(float(logits.max())), place=int(logits.argmax()))
    return [name, f"{len(logits):,}", *map(told, sizes), place]


_Rows = tuple[list[list[str]], list[str], list[str]]  # rows, Python lines, imports


def _of_tokens(scene: Scene) -> _Rows:
    said, at = section(scene.words, "diagramlive"), position_of(scene)
    rows = [
        [said["id"], str(int(scene.trace.tokens.ids[at]))],
        [said["text"], _token(scene, at)],
        [said["tokens"], str(len(scene.trace.tokens))],
    ]
    return rows, [f"run.tokens.ids[{at}], run.tokens.pieces[{at}]"], []


def _row(scene: Scene) -> tuple[list[str], dict[str, float]]:
    """The numbers of the picked head's row of attention."""
    (layer, head), at = scene.head, position_of(scene)
    rows = passed_of(scene, layer).rows
    each = f"{{name: each[{head}, {at}] for name, each in vars(rows).items()}}"
    lines = [f"rows = block_numbers(run, {layer}).rows", each]
    return lines, {name: float(each[head, at]) for name, each in vars(rows).items()}


_IMPORTS = ["from model.activations.site_statistics import block_numbers"]


def _of_scores(scene: Scene) -> _Rows:
    said, (lines, row) = section(scene.words, "diagramlive"), _row(scene)
    rows = [
        [said["keys"], f"{position_of(scene) + 1:,}"],
        [said["top_score"], told(row["top_score"])],
        [said["mean_score"], told(row["mean_score"])],
    ]
    return rows, lines, _IMPORTS


def _of_softmax(scene: Scene) -> _Rows:
    said, (lines, row) = section(scene.words, "diagramlive"), _row(scene)
    key = int(row["key"])
    rows = [
        [said["top"], told(row["top"])],
        [said["key"], said["named"].format(token=_token(scene, key), position=key)],
        [said["entropy"], said["nats"].format(value=told(row["entropy"]))],
    ]
    return rows, lines, _IMPORTS


def _of_output(scene: Scene) -> _Rows:
    """The likeliest next tokens."""
    said, at = section(scene.words, "diagramlive"), position_of(scene)
    logits = scene.trace.logits_at(at)
    usable = logits[: scene.model.tokenizer.vocab_size]
    ids = likeliest(usable, _NEXT)
    shares = softmax(usable)[ids].tolist()
    rows = [
        [said["next"].format(rank=rank), {"text": f"“{quoted(scene, n)}”  {percent(share)}", "bar": share}]
        for rank, (n, share) in enumerate(zip(ids, shares, strict=True), 1)
    ]
    rows.append([said["next_entropy"], said["nats"].format(value=told(entropy(usable)))])
    lines = [f"logits = run.logits_at({at})[:lm.tokenizer.vocab_size]", f"softmax(logits)[{ids}]"]
    return rows, lines, ["from model.sampling.pipeline import softmax"]
