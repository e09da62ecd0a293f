"""The layout of a model diagram: the position of each part, and the lines between them. The page adds the words.

x is a fraction of the width, y is in pixels. The residual stream runs down the left side. Parts that read from it or
add to it are beside it; a norm that acts on the stream itself lies across it. `config` is a ModelConfig, and parts are
those of model.anatomy.blueprint.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

STREAM = 0.06  # x of the residual stream
LEFT, RIGHT, EDGE = 0.15, 0.94, 0.965  # x of the bounds of parts beside the stream, and of the block's right edge
INSIDE, HALF, APART = 0.02, 0.56, 0.012  # x: left edge of a norm across the stream, center between sublayers; gap
TIED = 0.988  # x of the line that marks tied weights
LOW, HIGH, TALL, GAP, SUM = 38, 42, 84, 17, 26  # pixels: heights of boxes (TALL: with heads), gap, diameter of a sum
HEADER = 44  # pixels between the top of the block and its first part
MOST_HEADS = 32  # maximum number of heads drawn individually


@dataclass(frozen=True)
class Box:
    """A part: its left edge and width as fractions of the page width, its top and height in pixels. A sum is round."""

    key: str
    x: float
    y: float
    w: float
    h: float
    round: bool = False

    @property
    def center_x(self) -> float:
        """The horizontal center."""
        return self.x + self.w / 2

    @property
    def center_y(self) -> float:
        """The vertical center."""
        return self.y + self.h / 2

    @property
    def bottom(self) -> float:
        """The lower edge."""
        return self.y + self.h


@dataclass(frozen=True)
class Connection:
    """A connection between boxes.

    "flow" and "sum" (which ends at a sum) have an arrow; "stream" and "join" do not. "tied" only marks tied weights.
    """

    points: tuple[tuple[float, float], ...]
    kind: str = "flow"


@dataclass
class Drawing:
    """Boxes in the order of the computation, lines between them, sums other than parts, and the frame of the block."""

    boxes: list[Box] = field(default_factory=list)
    lines: list[Connection] = field(default_factory=list)
    sums: list[float] = field(default_factory=list)  # y of each sum on the stream
    frame: tuple[float, float] = (0, 0)  # y of its top and bottom
    height: float = 0

    def put(self, key: str, y: float, span: tuple[float, float], h: float = HIGH) -> Box:
        """Add a box between two x positions and return it."""
        box = Box(key, span[0], y, span[1] - span[0], h)
        self.boxes.append(box)
        return box

    def line(self, kind: str, *points: tuple[float, float]) -> None:
        """Add a line through the given points."""
        self.lines.append(Connection(points, kind))

    def down(self, x: float, upper: Box, lower: Box) -> None:
        """Add an arrow at `x` from one box to the box below it."""
        self.line("flow", (x, upper.bottom), (x, lower.y))


def drawing(config, parts: Sequence[str]) -> Drawing:
    """Lay out the parts of `model.anatomy.blueprint.blueprint`, whose keys are passed in the same order."""
    result = Drawing()
    tokens = result.put("tokens", 0, (0, EDGE), LOW)
    embed = result.put("embed", tokens.bottom + GAP, (0, EDGE))
    result.down(STREAM, tokens, embed)
    y = embed.bottom + GAP
    if "pos_embed" in parts:
        table = result.put("pos_embed", y, (LEFT, EDGE))
        result.line("sum", (LEFT, table.center_y), (STREAM, table.center_y))
        result.sums.append(table.center_y)
        y = table.bottom + GAP
    bottom = _block(result, config, parts, y + HEADER)
    result.frame = (y, bottom)
    end = _tail(result, parts, bottom + GAP)
    result.lines.insert(0, Connection(((STREAM, embed.bottom), (STREAM, end)), "stream"))
    head = next(box for box in result.boxes if box.key == "unembed")
    if config.tie_embeddings:
        top, bottom = embed.center_y, head.center_y
        result.line("tied", (EDGE, top), (TIED, top), (TIED, bottom), (EDGE, bottom))
    result.boxes.sort(key=lambda box: parts.index(box.key))
    result.height = max(box.bottom for box in result.boxes)
    return result


def _tail(diagram: Drawing, parts: Sequence[str], y: float) -> float:
    """Add the parts after the blocks. Returns the y where the stream ends, which is the top of the first of them."""
    shown = [key for key in ("final_norm", "unembed", "output") if key in parts]
    boxes = []
    for key in shown:
        boxes.append(diagram.put(key, y, (0, EDGE), LOW if key == "output" else HIGH))
        y = boxes[-1].bottom + GAP
    diagram.line("flow", (STREAM, boxes[0].y - GAP / 2), (STREAM, boxes[0].y))
    for upper, lower in itertools.pairwise(boxes):
        diagram.down(STREAM, upper, lower)
    return boxes[0].y


# --- one block -----------------------------------------------------------------------------------------


def _block(diagram: Drawing, config, parts: Sequence[str], y: float) -> float:
    """Add all parts of one block, starting at `y`. Returns the y where the block ends."""
    if config.parallel_residual:
        return _parallel(diagram, parts, y)
    place_sublayer = _post_norm if config.norm_placement == "post" else _pre_norm
    for number, sublayer in (("1", _attention), ("2", _mlp)):
        y = place_sublayer(diagram, parts, (number, sublayer), y)
    return y - GAP / 2


_Sublayer = tuple[str, Callable[..., tuple[list[Box], Box]]]  # number of its norm and sum, function that adds its boxes


def _pre_norm(diagram: Drawing, parts: Sequence[str], sublayer: _Sublayer, y: float) -> float:
    """Add a sublayer x + f(N(x)), with its norm beside the stream. Returns the y below it."""
    number, add_boxes = sublayer
    norm = diagram.put(f"norm{number}", y, (LEFT, RIGHT), LOW)
    diagram.line("flow", (STREAM, norm.center_y), (LEFT, norm.center_y))
    first, last = add_boxes(diagram, parts, norm.bottom + GAP, (LEFT, RIGHT))
    for box in first:
        diagram.down(box.center_x, norm, box)
    _sum(diagram, f"add{number}", last)
    return last.bottom + GAP


def _post_norm(diagram: Drawing, parts: Sequence[str], sublayer: _Sublayer, y: float) -> float:
    """Add a sublayer N(x + f(x)), with its norm across the stream. Returns the y below it."""
    number, add_boxes = sublayer
    first, last = add_boxes(diagram, parts, y + GAP, (LEFT, RIGHT))
    for box in first:
        diagram.line("flow", (STREAM, y), (box.center_x, y), (box.center_x, box.y))
    _sum(diagram, f"add{number}", last)
    norm = diagram.put(f"norm{number}", last.bottom + GAP, (INSIDE, RIGHT), LOW)
    diagram.line("flow", (STREAM, norm.y - GAP / 2), (STREAM, norm.y))
    return norm.bottom + GAP


def _parallel(diagram: Drawing, parts: Sequence[str], y: float) -> float:
    """Add x + attention(N1(x)) + MLP(N2(x)), with the sublayers side by side. Returns the y below them."""
    spans = (LEFT, HALF - APART), (HALF + APART, RIGHT)
    norms = [diagram.put(f"norm{n}", y + GAP, span, LOW) for n, span in zip("12", spans, strict=True)]
    for norm in norms:
        diagram.line("flow", (STREAM, y), (norm.center_x, y), (norm.center_x, norm.y))
    first, o = _attention(diagram, parts, norms[0].bottom + GAP, spans[0])
    others, down = _mlp(diagram, parts, norms[1].bottom + GAP, spans[1], o.y)
    for norm, boxes in zip(norms, (first, others), strict=True):
        for box in boxes:
            diagram.down(box.center_x, norm, box)
    bottom = o.bottom + GAP
    diagram.line("join", (down.center_x, down.bottom), (down.center_x, bottom), (o.center_x, bottom))
    diagram.line("sum", (o.center_x, o.bottom), (o.center_x, bottom), (STREAM, bottom))
    diagram.boxes.append(Box("add2", STREAM, bottom - SUM / 2, 0, SUM, True))
    return bottom + GAP


def _sum(diagram: Drawing, key: str, last: Box) -> None:
    """Add the sum node that joins a sublayer's output to the stream."""
    diagram.line("sum", (last.x, last.center_y), (STREAM, last.center_y))
    diagram.boxes.append(Box(key, STREAM, last.center_y - SUM / 2, 0, SUM, True))


def _columns(diagram: Drawing, keys: Sequence[str], y: float, span: tuple[float, float]) -> list[Box]:
    """Add boxes of equal width side by side, and return them."""
    left, width = span[0], (span[1] - span[0] + APART) / len(keys)
    return [diagram.put(key, y, (left + i * width, left + (i + 1) * width - APART)) for i, key in enumerate(keys)]


def _attention(diagram: Drawing, parts: Sequence[str], y: float, span: tuple[float, float]) -> tuple[list[Box], Box]:
    """Add the parts of attention, from q, k and v to o. Returns the boxes that read the input, and the box of o."""
    q, k, v = first = _columns(diagram, "qkv", y, span)
    upper, xs, y = q, (q.center_x, k.center_x), q.bottom + GAP
    for key in ("qk_norm", "rope", "scores", "softmax"):
        if key in parts:
            box = diagram.put(key, y, (q.x, k.x + k.w), TALL if key == "scores" else LOW)
            for x in xs:
                diagram.down(x, upper, box)
            if key in ("scores", "softmax"):  # q and k are combined from here on
                xs = (box.center_x,)
            upper, y = box, box.bottom + GAP
    mix = diagram.put("mix", y, span, LOW)
    diagram.down(xs[0], upper, mix)
    diagram.down(v.center_x, v, mix)
    o = diagram.put("o", mix.bottom + GAP, span)
    diagram.down(o.center_x, mix, o)
    return first, o


def _mlp(
    diagram: Drawing, parts: Sequence[str], y: float, span: tuple[float, float], at: float | None = None
) -> tuple[list[Box], Box]:
    """Add the parts of the MLP, from up (and gate) to down. Returns the boxes that read the input, and the box of down.

    `at` is the y of the top of down; if it is None, down is placed below the activation.
    """
    first = _columns(diagram, [key for key in ("gate", "up") if key in parts], y, span)
    act = diagram.put("act", first[0].bottom + GAP, span, LOW)
    for box in first:
        diagram.down(box.center_x, box, act)
    down = diagram.put("down", act.bottom + GAP if at is None else at, span)
    diagram.down(down.center_x, act, down)
    return first, down


# --- texts in the boxes ----------------------------------------------------------------------------------


def second_line(config, key: str, part) -> str:
    """Format the second line of a box: the dimensions of its matrix, or the shape of its output."""
    c = config
    q, kv = c.n_head * c.d_head, c.n_kv_head * c.d_head
    matrices = {
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
    if key in matrices:
        return " → ".join(map(str, matrices[key]))
    return shape_text(part.gives[-1])


def shape_text(flow) -> str:
    """Format the shape of a tensor, such as [H 12, T 9, E 64]."""
    return f"[{', '.join(f'{letter} {n:,}' for letter, n in flow.axes)}]"


def heads_drawn(config, chosen: int | None) -> dict:
    """Determine the heads that are drawn individually, and locate the selected one among them.

    Returns groups (number of KV heads), size (query heads per KV head), more (whether heads are omitted) and chosen
    ([KV head, query head within it]; None if the selected head is not drawn).
    """
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
    """Convert the drawing to the page's format, with rounded coordinates. `of` maps a part to its component."""

    def points(line: Connection) -> list[list[float]]:
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
