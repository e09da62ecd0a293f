"""The line below the prompt that says what the model cannot do, with the measured reason and a model that can."""

import numpy as np

from model.loading.sources import BUILT_IN, available
from model.prompting.findings import AbleModel, Shortfall, shortfall
from viz.labels import visible
from viz.numbers import size
from viz.seam.scene import Scene
from viz.words import Catalogue

FIRST = 50  # a token beyond these ranks is called absent from them


def payload(scene: Scene) -> dict:
    """Build the payload of static/page/prompt/shortfall.js: {"kind", "reason", "able", "open", "model", "chat",
    "prompt"}.

    It is empty if the prompt is a conversation or of no known kind, or if the model continues it as expected. The
    rank is that of the unedited run.
    """
    if scene.prompt.turns or not len(scene.tokens):
        return {}
    found = shortfall(scene.model, scene.prompt.text, lambda: _last_logits(scene))
    if found is None:
        return {}
    only = scene.playground.options.allowed.models
    able = next((each for each in found.able if not only or each.id in only), None)
    said = {"kind": scene.words[f"shortfall.kind_{found.kind}"], "reason": _reason(found, scene)}
    return said | (_way(able, scene) if able else {})


def _last_logits(scene: Scene) -> np.ndarray:
    """Return the logits after the last token of the unedited run. [V]"""
    trace = scene.unedited
    with scene.playground.computing:
        return trace.logits_at(len(scene.tokens) - 1)


def _reason(found: Shortfall, scene: Scene) -> str:
    """Say why: by the rank of the expected token, or else by the model's result on prompts of this kind."""
    words, label = scene.words, scene.model.label
    if found.rank is not None:
        whole = "answer" if found.token == found.answer else "beginning"
        answer = words[f"shortfall.{whole}"].format(answer=visible(found.answer), token=visible(found.token))
        key = "absent" if found.rank > FIRST else "rank"
        return words[f"shortfall.{key}"].format(answer=answer, model=label, n=FIRST, rank=found.rank)
    right, of = (found.result.right, found.result.of) if found.result else (0, 0)
    return words["shortfall.result"].format(model=label, right=right, of=of)


def _way(able: AbleModel, scene: Scene) -> dict:
    """Describe the model that is able, and the button that opens the prompt on it."""
    words, label = scene.words, _label(able.id)
    result = {"model": label, "right": able.result.right, "of": able.result.of}
    same = able.id == scene.model.id
    key = "ask" if same else "ask_in" if able.chat else "open"
    text = words[f"shortfall.{key}"].format(model=label)
    return {
        "able": words["shortfall.able_chat" if able.chat else "shortfall.able"].format(**result),
        "open": _with_download(text, able.id, words),
        "model": "" if same else able.id,
        "chat": able.chat,
        "prompt": scene.prompt.text,
    }


def _label(model_id: str) -> str:
    return next(each.label for each in BUILT_IN if each.id == model_id)


def _with_download(text: str, model_id: str, words: Catalogue) -> str:
    """Add the size of the download to the button's text if the weights are not here."""
    if model_id in available():
        return text
    total = next(each.download_bytes for each in BUILT_IN if each.id == model_id)
    return words["shortfall.download"].format(open=text, size=size(total))
