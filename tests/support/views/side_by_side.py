"""Side by side, for tests: what a page asks to be written, and what it is sent."""

from model.api import LanguageModel
from tests.support.models.helpers import byte_tokenizer, tiny_model
from viz.page.wire.streams import answers
from viz.seam.view import Visit
from viz.views.sampling.side_by_side.run import Races
from viz.views.sampling.side_by_side.view import FEED
from viz.work.prompt import Prompt

PROMPT = "abcab"
ASKED = Prompt(PROMPT)
TOKENS = 12
SETTINGS = {"tokens": TOKENS, "seed": 3, "shared": True, "stop": [], "chat": False}
WARM = {"name": "", "method": "sample", "options": {}, "steps": [{"warp": "temperature", "values": {"temperature": 3}}]}
CARDS = {
    "strategies": [{"name": "greedy", "steps": [{"warp": "temperature", "values": {"temperature": 0}}]}, WARM],
    "settings": SETTINGS,
}


def model_of(folder):
    """A shaken model over single bytes with a short context."""
    return LanguageModel("tiny", "Tiny", tiny_model({"vocab_size": 256, "n_ctx": 60}), byte_tokenizer(folder))


def event(name, playground, races, owner, sent, cards=CARDS, language="en", prompt=ASKED):
    """What an event of the channel yields."""
    visit = Visit(playground, owner, language, "tiny", prompt, {"strategies": cards}, races)
    return answers(FEED.events[name], visit, sent)


def pieces(playground, sent=None, cards=CARDS, races=None, owner="me", language="en", prompt=ASKED):
    """What a page is sent of a run, from its first piece to its last."""
    sent = {"kind": "start", "tag": "a", **(sent or {})}
    return list(event("start", playground, races or Races(), owner, sent, cards, language, prompt))


def rows_of(found, count=2):
    """The records of every row once all pieces are put together as the page does."""
    rows = [[] for _ in range(count)]
    for piece in found:
        for tick in piece.get("ticks", ()):
            for row, change in zip(rows, tick, strict=True):
                if change:
                    del row[len(row) - change[1] :]
                    row += change[0]
    return rows


def going_on(found, row, at, **more):
    """What a page sends to go on from the first `at` tokens of a row."""
    opening = found[0]["opening"]
    each = opening["rows"][row]
    before = [record[:7] for record in rows_of(found)[row][:at]]
    sent = {"strategy": each["strategy"], "number": each["number"], "written": before}
    settings = opening["settings"]
    return {
        "kind": "branch",
        "model": "tiny",
        "prompt": opening["prompt"],
        "rows": [sent],
        "settings": settings,
        "limit": TOKENS,
        **more,
    }
