"""The texts in the boxes of a model diagram, and the drawing in the page's format."""

from collections.abc import Mapping

from model.anatomy.mixers.kinds import state_mixer
from model.anatomy.mixers.rows import state_shape
from viz.views.anatomy.diagram.boxes import EDGE, STREAM, SUM, Connection, Drawing

MOST_HEADS = 32  # maximum number of heads drawn individually


def second_line(config, key: str, part, share=None) -> str:
    """Format the second line of a box: the dimensions of its matrix, or the shape of its output. `share` are its
    parameters.
    """
    c = config
    q, kv = c.n_head * c.d_head, c.n_kv_head * c.d_head
    width = c.d_mlp if c.n_expert == 1 else c.d_expert
    matrices = {
        "embed": (c.vocab_size, c.d_model),
        "q": (c.d_model, q),
        "k": (c.d_model, kv),
        "v": (c.d_model, kv),
        "o": (q, c.d_model),
        "gate_o": (c.d_model, q),
        "gate": (c.d_model, width),
        "up": (c.d_model, width),
        "down": (width, c.d_model),
        "router": (c.d_model, c.n_expert),
        "shared": (c.d_model, c.d_shared, c.d_model),
        "dense": (c.d_model, c.d_mlp, c.d_model),
        "head_dense": (c.d_model, c.d_model),
        "unembed": (c.d_model, c.vocab_size),
        "entry": (c.d_model, c.d_layer_input, c.d_model),
    }
    if key == "pos_embed" and c.positions == "learned":
        return f"{c.n_ctx} × {c.d_model}"
    if key == "entry_embed":
        return f"{c.vocab_size} → {c.n_layer} × {c.d_layer_input}"
    if key == "entry_proj":
        return f"{c.d_model} → {c.n_layer} × {c.d_layer_input}"
    if key == "segment_embed":
        return f"{c.n_segment} × {c.d_model}"
    if key in matrices:
        text = " → ".join(map(str, matrices[key]))
        return f"{text} · {c.n_expert} ×" if c.n_expert > 1 and key in ("gate", "up", "down") else text
    rules = {
        "cap": f"± {c.score_cap or 0:g}",
        "window": f"|t − j| ≤ {(c.window or 0) // 2:,}" if c.two_way else f"t − j < {c.window or 0:,}",
        "alibi": "− m_h (t − j) / √E" if c.alibi_rounded else "− m_h (t − j)",
        "sinks": f"[H {c.n_head:,}]",
    }
    if key in rules:
        return rules[key]
    if key == "state":
        return _shape(state_shape(c, state_mixer(c)))
    if share is not None and key in ("in_proj", "conv", "out_proj"):
        out, width = next(each.shape for each in share.tensors if len(each.shape) == 2)
        return f"{width} × {out}" if key == "conv" else f"{width} → {out}"
    return shape_text(part.gives[-1])


def shape_text(flow) -> str:
    """Format the shape of a tensor, such as [H 12, T 9, E 64]."""
    return _shape(flow.axes)


def _shape(axes: tuple[tuple[str, int], ...]) -> str:
    return f"[{', '.join(f'{letter} {n:,}' for letter, n in axes)}]"


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
        "frames": diagram.frames,
        "edge": EDGE,
        "height": diagram.height,
    }
