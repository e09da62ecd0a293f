"""The views of what a run predicts, for tests: a model, what a page asks, and what it is sent."""

import base64
import dataclasses

from model.api import LanguageModel
from model.predictions.predictions import predict
from model.text.tokenizer import from_tiktoken
from tests.support.models.helpers import serving, tiny_model
from tests.support.views.views import question
from viz.page.pipeline import payloads, scene_of
from viz.views.predictions import expected
from viz.work.playground import Options

PROMPT = "the cat sat"
EDITS = [{"kind": "scale", "layer": 0, "head": 1, "factor": 5}, {"kind": "zero", "layer": 2, "head": 0}]
HOSTILE = "\u202e<b>{token}</b>\n%{x} `${y}`"
V, UNUSED = 270, 263  # rows of the model; ids from 263 on have no token


def model_of(folder):
    """A shaken model over single bytes and a few longer tokens, with rows that no token uses."""
    ranks = folder / "bytes.tiktoken"
    pieces = [bytes([i]) for i in range(256)] + [b"th", b" c", b"at", b" s", "·".encode(), b"sa", b" sa"]
    ranks.write_text("".join(f"{base64.b64encode(piece).decode()} {i}\n" for i, piece in enumerate(pieces)))
    return LanguageModel("tiny", "Tiny", tiny_model({"vocab_size": V, "n_ctx": 300}), from_tiktoken(ranks))


def serve(lm):
    """A server with that model only."""
    return serving(lm, Options(model="tiny", max_tokens=60))


def asked(view, value=None, prompt=PROMPT, language="en", shown=None, **selection):
    page = question("predictions", view, value, prompt, language, **selection)
    board = {"guess_board": value} if view == "guess" else {}  # which it has in the place of a form
    return dataclasses.replace(page, values=page.values | board, shown=shown or {})


def drawn(playground, view, value=None, prompt=PROMPT, **changes):
    return payloads(playground, asked(view, value, prompt, **changes))[0]


def scene(playground, prompt=PROMPT, **selection):
    return scene_of(playground, asked("surprise", None, prompt, **selection))


def sure(playground, monkeypatch, view="surprise", **changes):
    """From now on, what the run expects is this instead."""
    whole_run = predict(scene(playground).trace)
    made = type(whole_run)(**vars(whole_run) | changes)
    monkeypatch.setattr(expected, "predict", lambda trace: made)


def drawn_anew(lm, view, **selection):
    """A part of a playground that has measured nothing yet."""
    return drawn(serve(lm), view, **selection)


def text_of(figure):
    return figure.to_json()


def token(lm, text):
    (number,) = lm.encode(text).ids.tolist()
    return number


def ran(lines, lm, monkeypatch):
    """What the last of a picture's Python lines is."""
    *first, last = lines.splitlines()
    monkeypatch.setattr("model.api.load_model", lambda name: lm)
    space = {}
    exec("\n".join(first), space)
    return eval(last, space)
