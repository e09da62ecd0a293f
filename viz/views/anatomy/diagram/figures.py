"""A model as a drawing: where each part stands, and the lines between them. The page fills in the words.

Across, places are shares of the width; down, pixels. The residual stream runs down the left side; what reads from it
and adds to it stands beside it, what acts on the stream itself stands across it. `config` is a ModelConfig, a part
one of model.blueprint.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

STREAM = 0.06  # where the residual stream runs
LEFT, RIGHT, EDGE = 0.15, 0.94, 0.965  # of what stands beside it, and of the block
INSIDE, HALF, APART = 0.02, 0.56, 0.012  # of a norm across the stream; between two sublayers; between two boxes
TIED = 0.988  # of the line that says that two matrices are one
LOW, HIGH, TALL, GAP, SUM = 38, 42, 84, 17, 26  # pixels: boxes, the one with the heads, between them, a sum
HEADER = 44  # of the block, above its first part
MOST_HEADS = 32  # drawn one by one


@dataclass(frozen=True)
class Box:
    """A part: its left edge and width as shares, its top and height in pixels; a sum is round."""

    key: str
    x: float
    y: float
    w: float
    h: float
    round: bool = False

    @property
    def middle(self) -> float:
        """Across."""
        return self.x + self.w / 2

    @property
    def half(self) -> float:
        """Down."""
        return self.y + self.h / 2

    @property
    def foot(self) -> float:
        """Its lower edge."""
        return self.y + self.h


@dataclass(frozen=True)
class Line:
    """A way of numbers: "flow" and "sum" (it ends at a sum) have an arrow, "stream" and "join" none; in "tied" no
    numbers flow."""

    points: tuple[tuple[float, float], ...]
    kind: str = "flow"


@dataclass
class Drawing:
    """Boxes in the order of the computation, lines below them, sums that are no parts, and the frame of the block."""

    boxes: list[Box] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    sums: list[float] = field(default_factory=list)  # on the stream, at these heights
    frame: tuple[float, float] = (0, 0)  # top and foot
    height: float = 0

    def put(self, key: str, y: float, span: tuple[float, float], h: float = HIGH) -> Box:
        """Return a box between two places."""
        box = Box(key, span[0], y, span[1] - span[0], h)
        self.boxes.append(box)
        return box

    def line(self, kind: str, *points: tuple[float, float]) -> None:
        """A way through these points."""
        self.lines.append(Line(points, kind))

    def down(self, x: float, upper: Box, lower: Box) -> None:
        """An arrow from one box to the one below it."""
        self.line("flow", (x, upper.foot), (x, lower.y))


def drawing(config, parts: Sequence[str]) -> Drawing:
    """Where the parts of `model.anatomy.blueprint.blueprint` stand, given by key in their order."""
    result = Drawing()
    tokens = result.put("tokens", 0, (0, EDGE), LOW)
    embed = result.put("embed", tokens.foot + GAP, (0, EDGE))
    result.down(STREAM, tokens, embed)
    y = embed.foot + GAP
    if "pos_embed" in parts:
        table = result.put("pos_embed", y, (LEFT, EDGE))
        result.line("sum", (LEFT, table.half), (STREAM, table.half))
        result.sums.append(table.half)
        y = table.foot + GAP
    foot = _block(result, config, parts, y + HEADER)
    result.frame = (y, foot)
    end = _tail(result, parts, foot + GAP)
    result.lines.insert(0, Line(((STREAM, embed.foot), (STREAM, end)), "stream"))
    head = next(box for box in result.boxes if box.key == "unembed")
    if config.tie_embeddings:
        result.line("tied", (EDGE, embed.half), (TIED, embed.half), (TIED, head.half), (EDGE, head.half))
    result.boxes.sort(key=lambda box: parts.index(box.key))
    result.height = max(box.foot for box in result.boxes)
    return result


def _tail(diagram: Drawing, parts: Sequence[str], y: float) -> float:
    """Return the parts after the blocks; returns where the stream ends: at the first of them."""
    shown = [key for key in ("final_norm", "unembed", "output") if key in parts]
    boxes = []
    for key in shown:
        boxes.append(diagram.put(key, y, (0, EDGE), LOW if key == "output" else HIGH))
        y = boxes[-1].foot + GAP
    diagram.line("flow", (STREAM, boxes[0].y - GAP / 2), (STREAM, boxes[0].y))
    for upper, lower in itertools.pairwise(boxes):
        diagram.down(STREAM, upper, lower)
    return boxes[0].y


# --- one block -----------------------------------------------------------------------------------------


def _block(diagram: Drawing, config, parts: Sequence[str], y: float) -> float:
    """Return all of one block from y on; gives where it ends."""
    if config.parallel_residual:
        return _parallel(diagram, parts, y)
    half = _after_sum if config.norm_placement == "post" else _before_sum
    for number, sublayer in (("1", _attention), ("2", _mlp)):
        y = half(diagram, parts, (number, sublayer), y)
    return y - GAP / 2


_Sublayer = tuple[str, Callable[..., tuple[list[Box], Box]]]  # the number of its norm and sum, and what it is made of


def _before_sum(diagram: Drawing, parts: Sequence[str], sublayer: _Sublayer, y: float) -> float:
    """x + f(N(x)): the norm stands beside the stream."""
    number, place = sublayer
    norm = diagram.put(f"norm{number}", y, (LEFT, RIGHT), LOW)
    diagram.line("flow", (STREAM, norm.half), (LEFT, norm.half))
    first, last = place(diagram, parts, norm.foot + GAP, (LEFT, RIGHT))
    for box in first:
        diagram.down(box.middle, norm, box)
    _sum(diagram, f"add{number}", last)
    return last.foot + GAP


def _after_sum(diagram: Drawing, parts: Sequence[str], sublayer: _Sublayer, y: float) -> float:
    """N(x + f(x)): the norm stands across the stream."""
    number, place = sublayer
    first, last = place(diagram, parts, y + GAP, (LEFT, RIGHT))
    for box in first:
        diagram.line("flow", (STREAM, y), (box.middle, y), (box.middle, box.y))
    _sum(diagram, f"add{number}", last)
    norm = diagram.put(f"norm{number}", last.foot + GAP, (INSIDE, RIGHT), LOW)
    diagram.line("flow", (STREAM, norm.y - GAP / 2), (STREAM, norm.y))
    return norm.foot + GAP


def _parallel(diagram: Drawing, parts: Sequence[str], y: float) -> float:
    """x + attention(N1(x)) + MLP(N2(x)), side by side."""
    spans = (LEFT, HALF - APART), (HALF + APART, RIGHT)
    norms = [diagram.put(f"norm{n}", y + GAP, span, LOW) for n, span in zip("12", spans, strict=True)]
    for norm in norms:
        diagram.line("flow", (STREAM, y), (norm.middle, y), (norm.middle, norm.y))
    first, o = _attention(diagram, parts, norms[0].foot + GAP, spans[0])
    others, down = _mlp(diagram, parts, norms[1].foot + GAP, spans[1], o.y)
    for norm, boxes in zip(norms, (first, others), strict=True):
        for box in boxes:
            diagram.down(box.middle, norm, box)
    foot = o.foot + GAP
    diagram.line("join", (down.middle, down.foot), (down.middle, foot), (o.middle, foot))
    diagram.line("sum", (o.middle, o.foot), (o.middle, foot), (STREAM, foot))
    diagram.boxes.append(Box("add2", STREAM, foot - SUM / 2, 0, SUM, True))
    return foot + GAP


def _sum(diagram: Drawing, key: str, last: Box) -> None:
    """Add the output of a sublayer to the stream."""
    diagram.line("sum", (last.x, last.half), (STREAM, last.half))
    diagram.boxes.append(Box(key, STREAM, last.half - SUM / 2, 0, SUM, True))


def _columns(diagram: Drawing, keys: Sequence[str], y: float, span: tuple[float, float]) -> list[Box]:
    """Boxes side by side."""
    left, width = span[0], (span[1] - span[0] + APART) / len(keys)
    return [diagram.put(key, y, (left + i * width, left + (i + 1) * width - APART)) for i, key in enumerate(keys)]


def _attention(diagram: Drawing, parts: Sequence[str], y: float, span: tuple[float, float]) -> tuple[list[Box], Box]:
    """From q, k and v to o; gives what reads the input, and o."""
    q, k, v = first = _columns(diagram, "qkv", y, span)
    upper, ways, y = q, (q.middle, k.middle), q.foot + GAP
    for key in ("qk_norm", "rope", "scores", "softmax"):
        if key in parts:
            box = diagram.put(key, y, (q.x, k.x + k.w), TALL if key == "scores" else LOW)
            for x in ways:
                diagram.down(x, upper, box)
            if key in ("scores", "softmax"):  # q and k have become one
                ways = (box.middle,)
            upper, y = box, box.foot + GAP
    mix = diagram.put("mix", y, span, LOW)
    diagram.down(ways[0], upper, mix)
    diagram.down(v.middle, v, mix)
    o = diagram.put("o", mix.foot + GAP, span)
    diagram.down(o.middle, mix, o)
    return first, o


def _mlp(
    diagram: Drawing, parts: Sequence[str], y: float, span: tuple[float, float], at: float | None = None
) -> tuple[list[Box], Box]:
    """From up (and gate) to down, which stands at `at` where that is given; gives what reads the input, and down."""
    first = _columns(diagram, [key for key in ("gate", "up") if key in parts], y, span)
    act = diagram.put("act", first[0].foot + GAP, span, LOW)
    for box in first:
        diagram.down(box.middle, box, act)
    down = diagram.put("down", act.foot + GAP if at is None else at, span)
    diagram.down(down.middle, act, down)
    return first, down


# --- what stands in the boxes ----------------------------------------------------------------------------


def sub(config, key: str, part) -> str:
    """Return the second line of a box: how wide its matrix is, or the shape of what it gives."""
    c = config
    q, kv = c.n_head * c.d_head, c.n_kv_head * c.d_head
    wide = {
        "embed": (c.vocab_size, c.d_model),
        "q": (c.d_model, q),
        "k": (c.d_model, kv),
        "v": (c.d_model, kv),
        "o": (q, c.d_model),
        "gate": (c.d_model, c.d_mlp),
        "up": (c.d_model, c.d_mlp),
        "down": (c.d_mlp, c.d_model),
        "unembed": (c.d_model, c.vocab_size),
    }
    if key == "pos_embed" and c.positions == "learned":
        return f"{c.n_ctx} × {c.d_model}"
    if key in wide:
        return " → ".join(map(str, wide[key]))
    return shape_text(part.gives[-1])


def shape_text(flow) -> str:
    """[H 12, T 9, E 64]"""
    return f"[{', '.join(f'{letter} {n:,}' for letter, n in flow.axes)}]"


def heads_drawn(config, chosen: int | None) -> dict:
    """How many KV heads and query heads of each are drawn one by one, whether there are more, and which is chosen."""
    size = min(config.group_size, MOST_HEADS)
    groups = max(min(config.n_kv_head, MOST_HEADS // size), 1)
    shown = chosen is not None and chosen % config.group_size < size and chosen // config.group_size < groups
    return {
        "groups": groups,
        "size": size,
        "more": groups < config.n_kv_head or size < config.group_size,
        "chosen": [chosen // config.group_size, chosen % config.group_size] if shown else None,
    }


def drawn(diagram: Drawing, of: Mapping[str, str]) -> dict:
    """Return the drawing as the page takes it, places rounded, so that they are short. `of`: the component
    of a part.
    """

    def points(line: Line) -> list[list[float]]:
        return [[round(x, 4), round(y, 1)] for x, y in line.points]

    return {
        "boxes": [
            {
                "key": box.key,
                "x": round(box.x, 4),
                "y": box.y,
                "w": round(box.w, 4),
                "h": box.h,
                "round": box.round,
                "of": of.get(box.key, ""),
            }
            for box in diagram.boxes
        ],
        "lines": [{"kind": line.kind, "points": points(line)} for line in diagram.lines],
        "sums": diagram.sums,
        "sum": SUM,
        "stream": STREAM,
        "frame": diagram.frame,
        "edge": EDGE,
        "height": diagram.height,
    }
