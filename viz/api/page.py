"""Endpoints that belong to no tab: the models, and how they split text into tokens."""

import dataclasses

from model.api import LanguageModel, list_models
from viz.seam.scene import Scene
from viz.work.playground import Playground


def models(playground: Playground) -> dict:
    """List the models that the other endpoints accept.

    Returns:
        models: records with id, label, and loaded, which says whether it is in memory; default: the id that is used if
        a call gives none. limits: the maximum number of tokens in a prompt on this server.
    """
    rows = [
        {"id": each, "label": label, "loaded": playground.models.peek(each) is not None}
        for label, each in playground.choices()
    ]
    limits = {"prompt_tokens": playground.options.max_tokens}
    return {"models": rows, "default": playground.options.model, "limits": limits}


def model_info(playground: Playground, model: LanguageModel) -> dict:
    """Describe a model's sizes, architecture and parameters. Loads the model if it is not in memory.

    Returns:
        config: layers, heads, widths, norms, position encoding and all other choices of the architecture; parameters;
        bytes; vocabulary: its number of tokens; label.
    """
    listed = list_models()
    lines = dict(zip(listed["id"], listed["line"], strict=True))
    return {
        "label": model.label,
        "line": lines.get(model.id),
        "parameters": model.n_params,
        "bytes": model.nbytes,
        "vocabulary": model.tokenizer.vocab_size,
        "chat": bool(model.tokenizer.chat_template),
        "config": {field.name: getattr(model.config, field.name) for field in dataclasses.fields(model.config)},
    }


def tokenize(scene: Scene) -> dict:
    """Split a text into the model's tokens.

    Returns:
        tokens: records with position, id, text, and start and end: the token's bytes in the text.
    """
    tokens = scene.trace.tokens
    rows = [
        {"position": n, "id": token, "text": piece, "start": start, "end": end}
        for n, (token, piece, (start, end)) in enumerate(
            zip(tokens.ids.tolist(), tokens.pieces, tokens.spans.tolist(), strict=True)
        )
    ]
    return {"tokens": rows}
