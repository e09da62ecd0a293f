"""The table of variants, what they gain in words, and every question with its transcript."""

from model.prompting.question_sets import QuestionSet, question_set
from model.prompting.trial import Answered, Row
from model.shares import Paired, paired
from viz.labels import visible
from viz.numbers import number, percent, whole
from viz.seam.scene import Scene
from viz.seam.settings import choice
from viz.seam.view import Payload, Seen
from viz.views.sampling.prompts.measure import NAMES, Found


def chance(asked: QuestionSet) -> float | None:
    """Return the accuracy of guessing among the choices; None where there are none."""
    if not asked.choosable:
        return None
    return sum(1 / len(each.choices) for each in asked.questions) / len(asked.questions)


def label(seen: Seen, name: str, row: Row) -> str:
    """Return a variant's name with the number of its examples."""
    known = seen.words.within("names")[name]
    return seen.words["with_examples"].format(name=known, n=row.variant.examples) if row.variant.examples else known


def against(found: Found, row: Row) -> Paired:
    """Return a variant beside the first one, on the same questions."""
    return paired(row.right, found.rows[0][1].right)


def verdict(seen: Seen, test: Paired) -> str:
    """Return whether the variant differs from the first one, in words."""
    words = seen.words.within("verdict")
    if not test.only_first and not test.only_second:
        return words["same"]
    if not test.clear:
        return words["unclear"]
    return words["better" if test.only_first > test.only_second else "worse"]


def compare(seen: Seen) -> Payload:
    """Return a row a variant: right answers, interval, and the comparison with the first one."""
    words, found, rows = seen.here, seen.result, []
    for at, (name, row) in enumerate(found.rows):
        low, high = row.interval
        cells: list = [
            label(seen, name, row),
            f"{sum(row.right)} / {len(row.right)}",
            {"text": percent(row.share), "bar": row.share},
            f"{percent(low)} – {percent(high)}",
        ]
        test = against(found, row)
        more = [whole(test.only_first), whole(test.only_second), number(test.p), verdict(seen, test)]
        cells += more if at else ["–"] * 3 + [words["first"]]
        rows.append([*cells, scored(seen, row)])
    columns = ("variant", "right", "share", "interval", "only_here", "only_first", "p", "verdict", "how")
    return {
        "title": words["title"].format(n=whole(len(found.rows[0][1].right))),
        "about": words["about"],
        "columns": [words[key] for key in columns],
        "rows": rows,
        "same": False,
    }


def scored(seen: Seen, row: Row) -> str:
    """How the answers were found: by choices or in what was written."""
    by_choice = any(each.scores for each in row.answers)
    return seen.words.within("how")[row.variant.score if by_choice else "text"]


def facts(seen: Seen) -> Payload:
    """What helps, what hurts, what cannot be told, and what was left out."""
    words, found = seen.here, seen.result
    sorted_: dict[str, list[str]] = {"better": [], "worse": [], "unclear": [], "same": []}
    for name, row in found.rows[1:]:
        test = against(found, row)
        kind = "same" if not test.only_first + test.only_second else "unclear"
        if test.clear:
            kind = "better" if test.only_first > test.only_second else "worse"
        sorted_[kind].append(label(seen, name, row))
    n = whole(len(found.rows[0][1].right))
    items = [
        [words[kind], words[f"{kind}_text"].format(names=", ".join(names), n=n)]
        for kind, names in sorted_.items()
        if names
    ]
    if len(found.rows) > 1 and not sorted_["better"]:
        items.insert(0, [words["nothing"], words["nothing_text"].format(model=seen.facts.label)])
    items += _votes(seen)
    items += _calls(seen)
    unread = [(name, sum(not each.said for each in row.answers), row) for name, row in found.rows]
    if said := [f"{label(seen, name, row)}: {whole(count)}" for name, count, row in unread if count]:
        items.append([words["unread"], words["unread_text"].format(names=", ".join(said))])
    if found.left_out:
        names = ", ".join(seen.words.within("names")[name] for name in found.left_out)
        items.append([words["left_out"], words["left_out_text"].format(names=names)])
    return {"title": words["title"], "items": items}


def _votes(seen: Seen) -> list[list[str]]:
    """How often the vote was tied."""
    words = seen.here
    for name, row in seen.result.rows:
        if name == "votes":
            ties = sum(each.votes is not None and each.votes.tied for each in row.answers)
            values = {"ties": whole(ties), "n": whole(len(row.answers)), "samples": row.variant.samples}
            return [[words["ties"], words["ties_text"].format(**values)]]
    return []


def _calls(seen: Seen) -> list[list[str]]:
    """How often a tool was really called, and how the episodes ended."""
    words = seen.here
    for name, row in seen.result.rows:
        if name == "react":
            episodes = [each.episode for each in row.answers if each.episode]
            finished = sum(each.ended == "finished" for each in episodes)
            values = {"calls": whole(sum(each.calls for each in episodes)), "n": whole(len(episodes))}
            return [[words["calls"], words["calls_text"].format(**values, finished=whole(finished))]]
    return []


# --- every question ---------------------------------------------------------------------------------------


def read_shown(sent: object, scene: Scene) -> str:
    """Return the variant whose answers are listed; "" for the last one measured."""
    return choice(sent, "variant", ("", *NAMES))


def listed(seen: Seen) -> Payload:
    """Return every question of one variant: its answer, whether it is right, and the whole transcript."""
    words, found = seen.here, seen.result
    rows = dict(found.rows)
    shown = seen.settings.list if seen.settings.list in rows else found.rows[-1][0]
    row = rows[shown]
    return {
        "title": words["title"],
        "variants": [[name, label(seen, name, each)] for name, each in found.rows],
        "shown": shown,
        "rows": [_row(seen, each) for each in row.answers],
        "words": words.plain(),
        "file": f"prompts-{found_set(seen).key}-{shown}",
        "note": words["note"],
    }


def found_set(seen: Seen) -> QuestionSet:
    """Return the set that was asked."""
    return question_set(seen.settings.asked)


def _row(seen: Seen, answer: Answered) -> dict:
    words = seen.here
    return {
        "question": answer.question.text,
        "answer": answer.question.answer,
        "said": visible(answer.said),
        "right": answer.right,
        "prompt": answer.prompt,
        "parts": _parts(seen, answer),
        "tied": words["tied"] if answer.votes and answer.votes.tied else "",
    }


def _parts(seen: Seen, answer: Answered) -> list[list[str]]:
    """Who wrote what after the prompt: [name, text] each."""
    words = seen.here
    if answer.episode:
        steps = [[words[step.by], step.text] for step in answer.episode.steps]
        return [*steps, [words["ended"], words[f"ended_{answer.episode.ended.replace(' ', '_')}"]]]
    if answer.votes is not None:
        counts = ", ".join(f"{name} × {count}" for name, count in answer.votes.counts) or "–"
        samples = [[words["sample"].format(n=at + 1), text] for at, text in enumerate(answer.samples)]
        return [[words["votes"], counts], *samples]
    if answer.scores:
        scores = zip(answer.question.choices, answer.scores, strict=True)
        return [[words["scores"], "\n".join(f"{name}: {number(score)}" for name, score in scores)]]
    return [[words["model"], answer.written]]
