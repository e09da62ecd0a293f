"""The table of variants, a summary of their gains, and every question with its transcript."""

from model.prompting.question_sets import QuestionSet, question_set
from model.prompting.trial import Answered, VariantRow
from model.shares import Paired, paired
from viz.labels import visible
from viz.numbers import number, percent, whole
from viz.seam.scene import Scene
from viz.seam.settings import choice
from viz.seam.view import Payload, Seen
from viz.views.sampling.prompts.measure import NAMES, TrialResult


def chance(selected: QuestionSet) -> float | None:
    """Compute the chance-level accuracy; None for a set without choices."""
    if not selected.choosable:
        return None
    return sum(1 / len(each.choices) for each in selected.questions) / len(selected.questions)


def label(seen: Seen, name: str, row: VariantRow) -> str:
    """Format a variant's name with its number of examples, if any."""
    title = seen.words.within("names")[name]
    return seen.words["with_examples"].format(name=title, n=row.variant.examples) if row.variant.examples else title


def against(result: TrialResult, row: VariantRow) -> Paired:
    """Compare a variant with the first one on the same questions by a paired test."""
    return paired(row.right, result.rows[0][1].right)


def verdict(seen: Seen, test: Paired) -> str:
    """Describe the outcome of the paired test between a variant and the first one."""
    words = seen.words.within("verdict")
    if not test.only_first and not test.only_second:
        return words["same"]
    if not test.clear:
        return words["unclear"]
    return words["better" if test.only_first > test.only_second else "worse"]


def compare(seen: Seen) -> Payload:
    """Build the table with one row per variant: right answers, interval, and the comparison with the first variant."""
    words, result, rows = seen.here, seen.result, []
    for index, (name, row) in enumerate(result.rows):
        low, high = row.interval
        cells: list = [
            label(seen, name, row),
            f"{sum(row.right)} / {len(row.right)}",
            {"text": percent(row.share), "bar": row.share},
            f"{percent(low)} – {percent(high)}",
        ]
        test = against(result, row)
        more = [whole(test.only_first), whole(test.only_second), number(test.p), verdict(seen, test)]
        cells += more if index else ["–"] * 3 + [words["first"]]
        rows.append([*cells, scored(seen, row)])
    columns = ("variant", "right", "share", "interval", "only_here", "only_first", "p", "verdict", "how")
    return {
        "title": words["title"].format(n=whole(len(result.rows[0][1].right))),
        "about": words["about"],
        "columns": [words[key] for key in columns],
        "rows": rows,
        "same": False,
    }


def scored(seen: Seen, row: VariantRow) -> str:
    """Describe how a variant is scored: by the log-probabilities of the choices, or by the generated text."""
    by_choice = any(each.scores for each in row.answers)
    return seen.words.within("how")[row.variant.score if by_choice else "text"]


def facts(seen: Seen) -> Payload:
    """Summarize which variants improve the accuracy, which reduce it, which make no clear difference, and which were
    left out.
    """
    words, result = seen.here, seen.result
    by_verdict: dict[str, list[str]] = {"better": [], "worse": [], "unclear": [], "same": []}
    for name, row in result.rows[1:]:
        test = against(result, row)
        kind = "same" if not test.only_first + test.only_second else "unclear"
        if test.clear:
            kind = "better" if test.only_first > test.only_second else "worse"
        by_verdict[kind].append(label(seen, name, row))
    n = whole(len(result.rows[0][1].right))
    items = [
        [words[kind], words[f"{kind}_text"].format(names=", ".join(names), n=n)]
        for kind, names in by_verdict.items()
        if names
    ]
    if len(result.rows) > 1 and not by_verdict["better"]:
        items.insert(0, [words["nothing"], words["nothing_text"].format(model=seen.facts.label)])
    items += _votes(seen)
    items += _calls(seen)
    unread = [(name, sum(not each.said for each in row.answers), row) for name, row in result.rows]
    if lines := [f"{label(seen, name, row)}: {whole(count)}" for name, count, row in unread if count]:
        items.append([words["unread"], words["unread_text"].format(names=", ".join(lines))])
    if result.left_out:
        names = ", ".join(seen.words.within("names")[name] for name in result.left_out)
        items.append([words["left_out"], words["left_out_text"].format(names=names)])
    return {"title": words["title"], "items": items}


def _votes(seen: Seen) -> list[list[str]]:
    """Describe the number of tied votes."""
    words = seen.here
    for name, row in seen.result.rows:
        if name == "votes":
            ties = sum(each.votes is not None and each.votes.tied for each in row.answers)
            values = {"ties": whole(ties), "n": whole(len(row.answers)), "samples": row.variant.samples}
            return [[words["ties"], words["ties_text"].format(**values)]]
    return []


def _calls(seen: Seen) -> list[list[str]]:
    """Describe the number of tool calls and of finished episodes."""
    words = seen.here
    for name, row in seen.result.rows:
        if name == "react":
            episodes = [each.episode for each in row.answers if each.episode]
            finished = sum(each.ended == "finished" for each in episodes)
            values = {"calls": whole(sum(each.calls for each in episodes)), "n": whole(len(episodes))}
            return [[words["calls"], words["calls_text"].format(**values, finished=whole(finished))]]
    return []


# --- the list of questions ---------------------------------------------------------------------------------------


def read_shown(sent: object, scene: Scene) -> str:
    """Parse the name of the variant to list; "" stands for the last one measured."""
    return choice(sent, "variant", ("", *NAMES))


def listed(seen: Seen) -> Payload:
    """Build the list of all questions for one variant: the answers, whether they are right, and the transcripts."""
    words, result = seen.here, seen.result
    rows = dict(result.rows)
    shown = seen.settings.list if seen.settings.list in rows else result.rows[-1][0]
    row = rows[shown]
    return {
        "title": words["title"],
        "variants": [[name, label(seen, name, each)] for name, each in result.rows],
        "shown": shown,
        "rows": [_row(seen, each) for each in row.answers],
        "words": words.plain(),
        "file": f"prompts-{question_set_of(seen).key}-{shown}",
        "note": words["note"],
    }


def question_set_of(seen: Seen) -> QuestionSet:
    """Return the question set of the current settings."""
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
    """Split the transcript after the prompt into labeled parts: [label, text] each."""
    words = seen.here
    if answer.episode:
        steps = [[words[step.by], step.text] for step in answer.episode.steps]
        return [*steps, [words["ended"], words[f"ended_{answer.episode.ended.replace(' ', '_')}"]]]
    if answer.votes is not None:
        counts = ", ".join(f"{name} × {count}" for name, count in answer.votes.counts) or "–"
        samples = [[words["sample"].format(n=n), text] for n, text in enumerate(answer.samples, 1)]
        return [[words["votes"], counts], *samples]
    if answer.scores:
        scores = zip(answer.question.choices, answer.scores, strict=True)
        return [[words["scores"], "\n".join(f"{name}: {number(score)}" for name, score in scores)]]
    return [[words["model"], answer.written]]
