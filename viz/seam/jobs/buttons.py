"""The button of a slow measure: its label, the cost beside it, and what the view shows until it is pressed."""

from viz.numbers import number
from viz.seam.jobs import background
from viz.seam.view import Part, Payload, Seen
from viz.words import joined


def button_of(
    part: Part, seen: Seen, result: background.Result | None, auto: bool = False, example: bool = False
) -> Payload:
    """Build the payload of a job's button, or the reason why it is missing.

    `auto`: the page starts the job without a click; `example`: the view shows the result of the example scene.
    """
    hint = part.draw(seen) if part.draw else {"text": seen.here.get("hint") or ""}
    if "problem" in hint or "empty" in hint:
        return hint
    start = hint.get("start") or seen.here["start"]
    if hint.get("unready"):
        return background.unready(seen.all_words, start, hint["text"])
    if hint.get("done"):
        return background.button(start, seen.all_words, None) | {"state": "done", "text": hint["text"]}
    text = joined([seen.all_words["job.example_shown"] if example else "", hint.get("text", "")])
    shown = background.button(start, seen.all_words, result, text)
    if result and result.threads:
        # One time only: how long it takes here if the button says so, else how long it took.
        word, said = "job.stored_again" if hint.get("text") else "job.stored", hint.get("text", "")
        taken = {"threads": result.threads, "seconds": number(result.seconds, 2)}
        shown |= {"again": start, "text": seen.all_words[word].format(hint=said, **taken)}
    elif part.again and result:
        shown |= {"again": seen.all_words["job.again"]}
    return shown | {"auto": True} if auto else shown
