"""Example prompts for each model; a test asserts that each shows what its description claims."""

from collections.abc import Mapping
from typing import Any

from viz.seam.jobs.stored import PROMPT
from viz.words import Catalogue

FIRST = PROMPT
_DOG = "Lily had a red dog. Lily took it to the park. Everybody liked the red"
_NAME = "Lily had a fox named Fizz. Tom had a ball. Lily had a fox named"
_STORE = "When Mary and John went to the store, John gave a drink to"
_GEESE = "Mrs Pemberton keeps seven grey geese behind the mill, and Mrs Pemberton keeps seven grey geese"
_PAIRS = "hot -> cold\nbig -> small\nhappy -> sad\nfast ->"
_CODE = "def add(a, b):\n    return a + b\n\ndef subtract(a, b):\n    return a -"
_STORY = {
    "coreference": FIRST,
    "repeated": _GEESE,
    "copied": _DOG,
    "name": _NAME,
    "feeling": "Tom lost his favorite toy. He looked for it everywhere, but it was gone. Tom was very",
    "opening": "Once upon a time there was a little",
}
_TEXT = {
    "coreference": FIRST,
    "repeated": _GEESE,
    "indirect_object": _STORE,
    "fact": "The Eiffel Tower is in the city of",
    "few_shot": _PAIRS,
    "code": _CODE,
}
EXAMPLES: Mapping[str, Mapping[str, str]] = {"tinygpt": _STORY, "smollm2-135m": _TEXT}
Place = Mapping[str, Any]  # a state of the page with its settings, as in a link


def _lines(layer: int, head: int, token: int) -> Place:
    """Build the state that shows the attention of one head at one token."""
    view = {"attention_view": {"view": "lines"}}
    return {"tab": "attention", "heads": [[layer, head]], "tokens": [token], "values": view}


def _induction(layer: int, head: int) -> Place:
    """Build the state that shows a head's attention map, with the heads sorted by induction."""
    values = {"attention_view": {"view": "map"}, "overview_heads": {"order": "induction"}}
    return {"tab": "attention", "heads": [[layer, head]], "values": values}


_FOLLOWED: Place = {
    "tab": "predictions",
    "values": {"predictions_view": {"view": "follow"}, "follow_form": {"measure": "probability"}},
}
PLACES: Mapping[str, Mapping[str, Place]] = {
    "tinygpt": {
        "coreference": _lines(7, 5, 7),
        "repeated": _induction(7, 7),
        "copied": _FOLLOWED,
        "name": {
            "tab": "effects",
            "edits": [{"kind": "zero", "layer": 7, "head": head} for head in (0, 1, 3, 5)],
            "values": {"effects_view": {"view": "edits"}},
        },
        "feeling": {"tab": "start"},
        "opening": {
            "tab": "sampling",
            "values": {"sampling_view": {"view": "temperature"}, "pipeline": {"steps": []}},
        },
    },
    "smollm2-135m": {
        "coreference": _lines(13, 8, 7),
        "repeated": _induction(17, 5),
        "indirect_object": {  # compares Mary with John
            "tab": "predictions",
            "target": 5099,
            "distractor": 2322,
            "values": {"predictions_view": {"view": "logit_parts"}},
        },
        "fact": {"tab": "predictions", "values": {"predictions_view": {"view": "lens"}}},
        "few_shot": _lines(22, 8, 13),
        "code": _FOLLOWED,
    },
}
ANY = {"coreference": FIRST, "repeated": _GEESE, "indirect_object": _STORE}  # for models without their own examples


def examples(model_id: str) -> Mapping[str, str]:
    """Return the example prompts of a model, by the key of their words."""
    return EXAMPLES.get(model_id, ANY)


def payload(words: Catalogue, model_id: str) -> dict:
    """Build the list of examples. Descriptions appear only for models on which they were verified."""
    tried, places = model_id in EXAMPLES, PLACES.get(model_id, {})
    items = [
        {
            "name": words[f"examples.{key}.name"],
            "shows": words[f"examples.{key}.{'shows' if tried else 'asks'}"],
            "text": text,
            "place": places.get(key),
        }
        for key, text in examples(model_id).items()
    ]
    title = words["examples.title" if tried else "examples.untried"]
    return {"label": words["examples.label"], "title": title, "show": words["examples.show"], "items": items}
