"""What a model is made of: weights by part from a config alone, and the numbers of a prompt in one part."""

from typing import Annotated

from model.anatomy.anatomy import ARCHITECTURES, config_of, n_params
from model.anatomy.anatomy import PARTS as COMPONENTS
from model.anatomy.blueprint import Flow, blueprint, by_component, shares
from model.api import LanguageModel
from model.errors import InputError
from model.gpt.config import to_dict
from viz.api.arguments import Long, OneOf, Within
from viz.api.reading import at, on
from viz.page.playground import Playground
from viz.page.scene import Scene
from viz.views.anatomy.diagram import part as partview
from viz.views.anatomy.subject import published_of


def anatomy(
    playground: Playground,
    model: LanguageModel,
    architecture: Annotated[str, OneOf(("", *ARCHITECTURES))] = "",
    config: Annotated[str, Long()] = "",
    tokens: Annotated[int, Within(1, 1 << 20)] = 8,
) -> dict:
    """What a model is made of, from its config alone: every part with its formula, shapes and parameters.

    Args:
        architecture: A well-known one by name. Empty: the loaded model, or the config.
        config: The text of a config.json of the Hugging Face Hub; else empty.
        tokens: Tokens of the prompt that the shapes are for.

    Returns:
        config: sizes and choices. parts: in the order of the computation key, formula, reads and gives (tensors with
        their axes), tensors (weights of the first block, or those outside, with their shapes), once (parameters in one
        block), whole (in all) and share. components: parameters of each. total; published: the published count of this
        very config, else null; counted: sum(p.numel()) of the loaded model, null where another one is asked for.
    """
    if architecture and config:
        raise InputError("Give an architecture or a config, not both.", architecture, "Leave one of them empty.")
    found = config_of(config) if config else ARCHITECTURES[architecture].config if architecture else model.config
    held, published = shares(found), published_of(found)
    parts = []
    for key, part in blueprint(found, tokens).items():
        share = held.get(key)
        parts.append(
            {
                "part": key,
                "formula": part.formula,
                "reads": _flows(part.reads),
                "gives": _flows(part.gives),
                "tensors": [{"name": each.name, "shape": each.shape} for each in share.tensors] if share else [],
                "once": share.once if share else 0,
                "whole": share.whole if share else 0,
                "share": share.share if share else 0.0,
            }
        )
    return {
        "config": to_dict(found),
        "parts": parts,
        "components": by_component(held, COMPONENTS),
        "total": n_params(found),
        "published": published[0] if published else None,
        "counted": None if architecture or config else model.n_params,
    }


def _flows(flows: tuple[Flow, ...]) -> list[dict]:
    return [{"tensor": flow.site, "axes": dict(flow.axes)} for flow in flows]


def part_numbers(
    scene: Scene, part: Annotated[str, OneOf(partview.KEYS)] = "q", layer: int = 0, head: int = 0, position: int = -1
) -> dict:
    """The numbers of the prompt that pass through one part of the model, at one token.

    Args:
        part: A part as the endpoint anatomy lists it.

    Returns:
        vectors: what it reads and gives, each with tensor, head (null where there are no heads), n (how many numbers),
        rms, mean, largest (in absolute value) and its place. attention: of the parts scores and softmax the largest and
        the mean score, the largest weight with its key, and the entropy of the weights (nats); else null. active: of
        the part act the share of neurons above 0; else null.
    """
    here = at(on(scene, layer, head), position)
    looked = partview.looked_at(here, {"diagram_figure": {"part": part}})
    if looked.key != part:
        raise InputError("This model has no such part.", part, f"Choose one of: {', '.join(looked.parts)}.")
    vectors = [
        {"way": way, "tensor": site, "head": which} | vars(each)
        for way, site, which, each in partview.vectors(here, looked)
    ]
    place = partview.position_of(here)
    rows = partview.passed_of(here, layer).rows if part in ("scores", "softmax") else None
    active = float(partview.passed_of(here, layer).active[place]) if part == "act" else None
    return {
        "part": part,
        "formula": looked.part.formula,
        "layer": layer if looked.part.block else None,
        "position": place,
        "vectors": vectors,
        "attention": rows and {name: each[head, place] for name, each in vars(rows).items()},
        "active": active,
    }
