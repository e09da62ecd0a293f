"""The layout of a model diagram: the position of each part, and the lines between them. The page adds the words.

x is a fraction of the width, y is in pixels. The residual stream runs down the left side. Parts that read from it or
add to it are beside it; a norm that acts on the stream itself lies across it. `config` is a ModelConfig, and parts are
those of model.anatomy.blueprint.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from model.anatomy.mixers.kinds import keys_of, kinds, state_mixer

STREAM = 0.06  # x of the residual stream
LEFT, RIGHT, EDGE = 0.15, 0.94, 0.965  # x of the bounds of parts beside the stream, and of the block's right edge
INSIDE, HALF, APART = 0.02, 0.56, 0.012  # x: left edge of a norm across the stream, center between sublayers; gap
TIED = 0.988  # x of the line that marks tied weights
LOW, HIGH, TALL, GAP, SUM = 38, 42, 84, 17, 26  # pixels: heights of boxes (TALL: with heads), gap, diameter of a sum
LANE = 0.05  # width of the lane past the parts of a mixer
HEADER = 44  # pixels between the top of the block and its first part


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
    """Boxes in the order of the computation, lines between them, sums other than parts, and frames of layers."""

    boxes: list[Box] = field(default_factory=list)
    lines: list[Connection] = field(default_factory=list)
    sums: list[float] = field(default_factory=list)  # y of each sum on the stream
    frames: list[tuple[float, float]] = field(default_factory=list)  # y of the top and bottom of each kind of layer
    height: float = 0
    side: tuple[str, ...] = ()  # parts of a mixer that read the sublayer's input from the side

    def kind_of(self, box: Box) -> int | None:
        """Return the number of the frame that a box is in; None outside the layers."""
        inside = (n for n, (top, bottom) in enumerate(self.frames) if top <= box.y < bottom)
        return next(inside, None)

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


_SIDE = {"gated_delta": ("rates", "state_gate"), "linear": ("state_gate",), "retention": ("state_gate",)}


def drawing(config, parts: Sequence[str]) -> Drawing:
    """Lay out the parts of `model.anatomy.blueprint.blueprint`, whose keys are passed in the same order.

    Every kind of layer has a frame of its own, in which a part that other kinds have, too, is drawn again.
    """
    result = Drawing(side=_SIDE.get(state_mixer(config) or "", ()))
    tokens = result.put("tokens", 0, (0, EDGE), LOW)
    embed = result.put("embed", tokens.bottom + GAP, (0, HALF - APART if "entry_embed" in parts else EDGE))
    result.down(STREAM, tokens, embed)
    y = embed.bottom + GAP
    for key in ("pos_embed", "segment_embed"):
        if key not in parts:
            continue
        table = result.put(key, y, (LEFT, EDGE))
        result.line("sum", (LEFT, table.center_y), (STREAM, table.center_y))
        result.sums.append(table.center_y)
        y = table.bottom + GAP
    if "entry_embed" in parts:  # beside the stream: the layers read it on their own
        table = result.put("entry_embed", embed.y, (HALF + APART, EDGE))
        vectors = result.put("entry_proj", y, (LEFT, EDGE))
        result.down(table.center_x, tokens, table)
        result.down(table.center_x, table, vectors)
        result.line("flow", (STREAM, vectors.center_y), (LEFT, vectors.center_y))
        y = vectors.bottom + GAP
    if "embed_norm" in parts:  # across the stream, which it replaces
        norm = result.put("embed_norm", y, (0, EDGE), LOW)
        result.line("flow", (STREAM, norm.y - GAP / 2), (STREAM, norm.y))
        y = norm.bottom + GAP
    for kind in kinds(config):
        before = len(result.boxes)
        bottom = _block(result, config, keys_of(config, kind, parts), y + HEADER)
        result.boxes[before:] = sorted(result.boxes[before:], key=lambda box: parts.index(box.key))
        result.frames.append((y, bottom))
        y = bottom + GAP
    end = _tail(result, parts, y)
    result.lines.insert(0, Connection(((STREAM, embed.bottom), (STREAM, end)), "stream"))
    head = next((box for box in result.boxes if box.key == "unembed"), None)
    if config.tie_embeddings and head is not None:
        top, bottom = embed.center_y, head.center_y
        start = [(EDGE, top)]
        if "entry_embed" in parts:  # past the table beside it
            between = embed.bottom + GAP / 3
            top, start = between, [(embed.center_x, embed.bottom), (embed.center_x, between)]
        result.line("tied", *start, (TIED, top), (TIED, bottom), (EDGE, bottom))
    result.height = max(box.bottom for box in result.boxes)
    return result


def _tail(diagram: Drawing, parts: Sequence[str], y: float) -> float:
    """Add the parts after the blocks. Returns the y where the stream ends, which is the top of the first of them."""
    shown = [key for key in ("final_norm", "head_dense", "head_norm", "unembed", "output") if key in parts]
    boxes = []
    for key in shown:
        boxes.append(diagram.put(key, y, (0, EDGE), LOW if key in ("output", "head_norm") else HIGH))
        y = boxes[-1].bottom + GAP
    if not boxes:  # a checkpoint of the layers alone
        return y
    diagram.line("flow", (STREAM, boxes[0].y - GAP / 2), (STREAM, boxes[0].y))
    for upper, lower in itertools.pairwise(boxes):
        diagram.down(STREAM, upper, lower)
    return boxes[0].y


# --- one block -----------------------------------------------------------------------------------------


def _block(diagram: Drawing, config, parts: Sequence[str], y: float) -> float:
    """Add all parts of one block, starting at `y`. Returns the y where the block ends."""
    if config.parallel_residual:
        return _side_by_side(diagram, parts, (_attention, _mlp), ("norm2", "add2"), y)
    place_sublayer = _post_norm if config.norm_placement == "post" else _beside
    if "scores" in parts and "in_proj" in parts:
        y = _side_by_side(diagram, parts, (_attention, _state), ("", "add1"), y)
    else:
        y = place_sublayer(diagram, parts, ("1", _mixer(parts)), y)
    if "add2" in parts:
        y = place_sublayer(diagram, parts, ("2", _mlp), y)
    return _ending(diagram, parts, y) - GAP / 2


def _ending(diagram: Drawing, parts: Sequence[str], y: float) -> float:
    """Add what follows the MLP: a token's own vector for the layer, and the scale of the stream. Returns the y below
    them.
    """
    if "entry" in parts:
        entry = diagram.put("entry", y + GAP, (LEFT, RIGHT))
        _from_stream(diagram, Ends([entry], entry), y)
        _sum(diagram, "add3", entry)
        y = entry.bottom + GAP
    if "scale" in parts:  # across the stream, which it replaces
        scale = diagram.put("scale", y, (INSIDE, RIGHT), LOW)
        diagram.line("flow", (STREAM, scale.y - GAP / 2), (STREAM, scale.y))
        y = scale.bottom + GAP
    return y


def _mixer(parts: Sequence[str]) -> "_Sublayer":
    """Return the function that adds the boxes of a layer's mixer."""
    return _attention if "scores" in parts else _state if "in_proj" in parts else _linear


@dataclass(frozen=True)
class Ends:
    """Boxes of a sublayer: those that read its input from above and from the right, and the last one."""

    first: list[Box]
    last: Box
    side: list[Box] = field(default_factory=list)


# (diagram, parts, y, x positions, y of the last box or None) -> boxes
_Sublayer = Callable[[Drawing, Sequence[str], float, tuple[float, float], float | None], Ends]


def _beside(diagram: Drawing, parts: Sequence[str], sublayer: tuple[str, _Sublayer], y: float) -> float:
    """Add a sublayer x + f(N(x)), x + N(f(x)) or x + N'(f(N(x))), with its norms beside the stream. Returns the y below
    it.
    """
    number, add_boxes = sublayer
    if f"norm{number}" in parts:
        norm = diagram.put(f"norm{number}", y, (LEFT, RIGHT), LOW)
        diagram.line("flow", (STREAM, norm.center_y), (LEFT, norm.center_y))
        ends = add_boxes(diagram, parts, norm.bottom + GAP, (LEFT, RIGHT), None)
        for box in ends.first:
            diagram.down(box.center_x, norm, box)
        _from_side(diagram, ends.side, (RIGHT, norm.center_y))
    else:
        ends = add_boxes(diagram, parts, y + GAP, (LEFT, RIGHT), None)
        _from_stream(diagram, ends, y)
    last = ends.last
    if f"after{number}" in parts:
        after = diagram.put(f"after{number}", last.bottom + GAP, (LEFT, RIGHT), LOW)
        diagram.down(last.center_x, last, after)
        last = after
    _sum(diagram, f"add{number}", last)
    return last.bottom + GAP


def _from_stream(diagram: Drawing, ends: Ends, y: float) -> None:
    """Add arrows from the stream at `y` to the boxes below it."""
    for box in ends.first:
        diagram.line("flow", (STREAM, y), (box.center_x, y), (box.center_x, box.y))
    _from_side(diagram, ends.side, (STREAM, y))


def _from_side(diagram: Drawing, boxes: Sequence[Box], source: tuple[float, float]) -> None:
    """Add arrows from a point along the right edge to the right side of the boxes below it."""
    for box in boxes:
        right = box.x + box.w
        lane = right + APART
        diagram.line("flow", source, (lane, source[1]), (lane, box.center_y), (right, box.center_y))


def _post_norm(diagram: Drawing, parts: Sequence[str], sublayer: tuple[str, _Sublayer], y: float) -> float:
    """Add a sublayer N(x + f(x)), with its norm across the stream. Returns the y below it."""
    number, add_boxes = sublayer
    ends = add_boxes(diagram, parts, y + GAP, (LEFT, RIGHT), None)
    _from_stream(diagram, ends, y)
    _sum(diagram, f"add{number}", ends.last)
    norm = diagram.put(f"norm{number}", ends.last.bottom + GAP, (INSIDE, RIGHT), LOW)
    diagram.line("flow", (STREAM, norm.y - GAP / 2), (STREAM, norm.y))
    return norm.bottom + GAP


def _side_by_side(
    diagram: Drawing, parts: Sequence[str], both: tuple[_Sublayer, _Sublayer], keys: tuple[str, str], y: float
) -> float:
    """Add x + f(N1(x)) + g(N2(x)), with f and g side by side, and one norm for both or one for each. Returns the y
    below them. `keys` are those of the second norm and of the sum.
    """
    second, add = keys
    spans = (LEFT, HALF - APART), (HALF + APART, RIGHT)
    if second in parts:
        norms = [diagram.put(f"norm{n}", y + GAP, span, LOW) for n, span in zip("12", spans, strict=True)]
    else:
        norms = [diagram.put("norm1", y + GAP, (LEFT, RIGHT), LOW)] * 2
    _from_stream(diagram, Ends(norms[: 1 + (second in parts)], norms[0]), y)
    ends = [both[0](diagram, parts, norms[0].bottom + GAP, spans[0], None)]
    o = ends[0].last
    ends.append(both[1](diagram, parts, norms[1].bottom + GAP, spans[1], o.y))
    down = ends[1].last
    for norm, each in zip(norms, ends, strict=True):
        for box in each.first:
            diagram.down(box.center_x, norm, box)
        _from_side(diagram, each.side, (norm.x + norm.w, norm.center_y))
    bottom = max(o.bottom, down.bottom) + GAP
    diagram.line("join", (down.center_x, down.bottom), (down.center_x, bottom), (o.center_x, bottom))
    diagram.line("sum", (o.center_x, o.bottom), (o.center_x, bottom), (STREAM, bottom))
    diagram.boxes.append(Box(add, STREAM, bottom - SUM / 2, 0, SUM, True))
    return bottom + GAP + (SUM / 2 if add == "add1" else 0)


def _sum(diagram: Drawing, key: str, last: Box) -> None:
    """Add the sum node that joins a sublayer's output to the stream."""
    diagram.line("sum", (last.x, last.center_y), (STREAM, last.center_y))
    diagram.boxes.append(Box(key, STREAM, last.center_y - SUM / 2, 0, SUM, True))


def _columns(diagram: Drawing, keys: Sequence[str], y: float, span: tuple[float, float]) -> list[Box]:
    """Add boxes of equal width side by side, and return them."""
    left, width = span[0], (span[1] - span[0] + APART) / len(keys)
    return [diagram.put(key, y, (left + i * width, left + (i + 1) * width - APART)) for i, key in enumerate(keys)]


def _attention(diagram: Drawing, parts: Sequence[str], y: float, span: tuple[float, float], at: float | None) -> Ends:
    """Add the parts of attention, from q, k and v to o."""
    left, width = span[0], (span[1] - span[0] + APART) / 3
    shared = "borrowed" in parts  # keys and values of an earlier layer
    if shared:
        first = [diagram.put("q", y, (left, left + 1.5 * width - APART))]
        k = v = diagram.put("borrowed", y, (left + 1.5 * width, span[1]))
    else:
        first = _columns(diagram, "qkv", y, span)
        k, v = first[1:]
    q, of_v, y = first[0], left + 2.5 * width - APART / 2, first[0].bottom + GAP
    # The last box of q and of k, by its x.
    lowest = {q.center_x: q, left + (1.75 if shared else 1.5) * width - APART / 2: k}
    if "v_norm" in parts:
        norm = diagram.put("v_norm", y, (v.x, v.x + v.w), LOW)
        diagram.down(of_v, v, norm)
        v = norm
    for key in ("qk_norm", "rope", "scores", "cap", "alibi", "window", "sinks", "softmax"):
        if key in parts:
            alone = shared and key in ("qk_norm", "rope")  # the keys went through it in their own layer
            right = left + (1.5 if alone else 2) * width - APART
            box = diagram.put(key, y, (left, right), TALL if key == "scores" else LOW)
            for x in [q.center_x] if alone else lowest:
                diagram.down(x, lowest[x], box)
                lowest[x] = box
            if key == "scores":  # q and k are combined from here on
                lowest = {box.center_x: box}
            y = box.bottom + GAP
    mix = diagram.put("mix", y, span, LOW)
    for x, upper in (*lowest.items(), (of_v, v)):
        diagram.down(x, upper, mix)
    last, side = mix, []
    for key in ("gate_o", "o"):
        if key in parts:
            box = diagram.put(key, last.bottom + GAP, span, LOW if key == "gate_o" else HIGH)
            diagram.down(box.center_x, last, box)
            last, side = box, [*side, box] if key == "gate_o" else side
    return Ends(first, last, side)


def _state(diagram: Drawing, parts: Sequence[str], y: float, span: tuple[float, float], at: float | None) -> Ends:
    """Add the parts of a mixer with channels, from its input projection to its output projection. What opens the gate
    comes from the input projection, past the parts between them, unless it is computed from the sublayer's input.

    `at` is the least y of the output projection.
    """
    inner = span if diagram.side else (span[0], span[1] - LANE)
    first = last = diagram.put("in_proj", y, span)
    side = []
    for key in ("conv", "rates", "state", "state_gate"):
        if key in parts:
            box = diagram.put(key, last.bottom + GAP, span if key == "state_gate" else inner, LOW)
            diagram.down((inner[0] + inner[1]) / 2, last, box)
            last, side = box, [*side, box] if key in diagram.side else side
    if not diagram.side:
        x = span[1] - LANE / 2
        diagram.line("flow", (x, first.bottom), (x, last.y))
    out = diagram.put("out_proj", max(last.bottom + GAP, at or 0), span)
    diagram.down(out.center_x, last, out)
    return Ends([first], out, side)


def _linear(diagram: Drawing, parts: Sequence[str], y: float, span: tuple[float, float], at: float | None) -> Ends:
    """Add the parts of a mixer with queries, keys and a state: from q, k and v to o."""
    first = _columns(diagram, [key for key in ("q", "k", "v", "rates") if key in parts], y, span)
    q, k = first[:2]
    upper, y = q, q.bottom + GAP
    for key in ("qk_norm", "rope"):
        if key in parts:
            box = diagram.put(key, y, (q.x, k.x + k.w), LOW)
            for x in (q.center_x, k.center_x):
                diagram.down(x, upper, box)
            upper, y = box, box.bottom + GAP
    state = diagram.put("state", y, span, LOW)
    for x, above in ((q.center_x, upper), (k.center_x, upper), *((box.center_x, box) for box in first[2:])):
        diagram.down(x, above, state)
    gate = diagram.put("state_gate", state.bottom + GAP, span, LOW)
    diagram.down(gate.center_x, state, gate)
    o = diagram.put("o", gate.bottom + GAP, span)
    diagram.down(o.center_x, gate, o)
    return Ends(first, o, [gate] if "state_gate" in diagram.side else [])


def _mlp(diagram: Drawing, parts: Sequence[str], y: float, span: tuple[float, float], at: float | None) -> Ends:
    """Add the parts of the MLP, from up (and gate) to down, or from the router to the sum of the experts.

    `at` is the y of the top of down; if it is None, down is placed below the activation. Beside the experts is the MLP
    that every token passes, or that of layers without experts.
    """
    beside = [key for key in ("shared", "dense") if key in parts]
    whole, edge = span, span[1] - (span[1] - span[0]) / 3 + APART
    span = (span[0], edge - APART) if beside else span
    router = [diagram.put("router", y, span, LOW)] if "router" in parts else []
    others = [diagram.put(key, y + n * (HIGH + GAP), (edge, whole[1])) for n, key in enumerate(beside)]
    y = router[0].bottom + GAP if router else y
    first = _columns(diagram, [key for key in ("gate", "up") if key in parts], y, span)
    act = diagram.put("act", first[0].bottom + GAP, span, LOW)
    for box in first:
        diagram.down(box.center_x, box, act)
        if router:
            diagram.down(box.center_x, router[0], box)
    down = diagram.put("down", act.bottom + GAP if at is None else at, whole)
    diagram.down(act.center_x, act, down)
    for upper, lower in itertools.pairwise(others):
        diagram.line("join", (upper.center_x, upper.bottom), (upper.center_x, lower.y))
    if others:
        diagram.down(others[-1].center_x, others[-1], down)
    return Ends([*(router or first), *others[:1]], down)
