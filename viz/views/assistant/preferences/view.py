"""The preferences view: a person or a rule chooses the better of two texts, pair by pair."""

from collections.abc import Iterator, Mapping

from model.alignment.preferences import LONGEST, PROMPTS, Pair, PairSettings, agreement, chosen_by, write_texts
from model.alignment.rewards import RULES, as_text, parse_rules, parts, score, span
from model.errors import InputError, PlaygroundError, say
from model.text.surrogates import whole
from viz.numbers import number
from viz.seam.jobs import background, stored_runs
from viz.seam.notices import notice
from viz.seam.programs.endpoint import Endpoint
from viz.seam.settings import Number, Range, Settings, Text, read_all
from viz.seam.view import Custom, Event, Payload, Seen, Stream, View, Visit
from viz.views.assistant.glance import Stage, glance_of_choice
from viz.words import Words
from viz.work.limits import check_writing
from viz.work.playground import Playground

MOST_SHOWN = 300  # maximum number of pairs on a page
MOST_RULED = 20  # number of pairs that the rule decides per click
MOST_AT = 1_000_000
MOST_TEXTS = 64  # maximum number of texts per API request
RULE = Text("rule", "sentiment", max_length=600)
WRITING = (
    Text("prompts", "", max_length=2000, lines=3),
    RULE,
    Range("tokens", 8, 80, step=4, default=32),
    Range("temperature", 0.2, 2, step=0.1, default=1.0),
    Number("seed", 0, 1_000_000, 0),
)


def prompts_of(text: str) -> tuple[str, ...]:
    """Parse the prompts entered by the visitor, one per line; return the bundled prompts if there are no lines."""
    return tuple(line.strip() for line in text.split("\n") if line.strip()) or PROMPTS


# --- parts ---


def desk(seen: Seen) -> Payload:
    """Build the payload of the two cards and the table, with the rule's reward range or its error message."""
    payload: Payload = {
        "words": seen.here.plain(),
        "most": MOST_SHOWN,
        "longest": LONGEST,
        "ruled": MOST_RULED,
        "model": seen.facts.label,
        "rules": [[name, seen.words[f"rules.{name}"]] for name in RULES],
        "chosen": seen.settings.rule,
        "start": [seen.settings.prompts, seen.settings.seed, seen.settings.tokens, seen.settings.temperature],
    }
    try:
        rules = parse_rules(seen.settings.rule)
    except InputError as error:
        shown = notice(error, seen.facts.language)
        return payload | {"wrong": f"{shown['text']} {shown['hint']}"}
    low, high = span(rules)
    return payload | {"range": seen.here["range"].format(rule=as_text(rules), low=number(low), high=number(high))}


def glance(seen: Seen) -> Payload:
    """Build the numbers and texts of the stored choices: the default rule on pairs of texts of the default model."""
    run, here = stored_runs.read(seen.view), Words(seen.all_words, "glance")
    four, language = run.value, seen.facts.language
    means = [sum(scores) / len(scores) for scores in (four.other_scores, four.chosen_scores)]
    stage = Stage("rule_reward", *means, (here["worse"], here["better"]))
    return {"glance": glance_of_choice(language, stage, four), "note": stored_runs.note(run, language)}


# --- events ---


def _read_request(visit: Visit, sent: object) -> tuple[Settings, str, int]:
    """Parse a request into the form's settings, the tag that the page expects back, and the index of the pair."""
    values = sent if isinstance(sent, Mapping) else {}
    settings = read_all(WRITING, visit.values.get("preferences_form"), None)
    at = values.get("at")
    at = at if isinstance(at, int) and not isinstance(at, bool) and 0 <= at <= MOST_AT else 0
    return settings, str(values.get("tag"))[:40], at


def _generate_two(visit: Visit, settings: Settings, at: int) -> tuple[str, str, str]:
    """Generate two texts for a prompt, and return all three. `at`, the index of the pair, is added to the seed."""
    prompts = prompts_of(settings.prompts)
    prompt, playground = prompts[at % len(prompts)], visit.playground
    check_writing(playground.options.allowed, 2, settings.tokens)
    model = playground.opened(visit.model_id)
    ask = PairSettings(1, settings.tokens, settings.temperature, settings.seed + at)
    with playground.computing.later():
        one, other = write_texts(model, prompt, 2, ask, lambda *_: background.hand_over(playground))
    return prompt, one, other


def write(visit: Visit, sent: object) -> Iterator[Payload]:
    """Generate two texts for a person to compare, and yield them with their rewards under the rule.

    The rewards are None if the rule is invalid.
    """
    settings, tag, at = _read_request(visit, sent)
    prompt, one, other = _generate_two(visit, settings, at)
    yield {"tag": tag, "prompt": prompt, "texts": [one, other], "scores": _scores(settings.rule, (one, other))}


def _scores(rule: str, texts: tuple[str, ...]) -> list[float] | None:
    try:
        return score(parse_rules(rule), texts).tolist()
    except InputError:
        return None


def let_rule(visit: Visit, sent: object) -> Iterator[Payload]:
    """Generate MOST_RULED pairs and let the rule choose in each. Every update holds all pairs so far.

    Closing the iterator stops it.
    """
    settings, tag, at = _read_request(visit, sent)
    rules, pairs, ties = parse_rules(settings.rule), [], 0
    for done in range(1, MOST_RULED + 1):
        pair = chosen_by(rules, *_generate_two(visit, settings, at + done - 1))
        pairs += [_as_list(pair)] if pair else []
        ties += pair is None
        yield {"tag": tag, "pairs": pairs, "ties": ties, "done": done, "total": MOST_RULED}


def _as_list(pair: Pair) -> list[str]:
    return [pair.prompt, pair.chosen, pair.rejected, pair.by]


def read_listed(sent: object) -> tuple[Pair, ...]:
    """Parse the list of pairs sent by a page, skipping malformed entries."""
    listed = sent.get("pairs") if isinstance(sent, Mapping) else None
    pairs = []
    for each in listed[:MOST_SHOWN] if isinstance(listed, list) else []:
        if isinstance(each, list) and len(each) == 4 and all(isinstance(part, str) for part in each):
            try:
                pairs.append(Pair(*(whole(part) for part in each)))
            except PlaygroundError:
                continue
    return tuple(pairs)


def judge(visit: Visit, sent: object) -> Iterator[Payload]:
    """Count the person's pairs for which the rule chooses the same text, the other one, or neither."""
    settings, tag, _ = _read_request(visit, sent)
    pairs = [pair for pair in read_listed(sent) if pair.by == "person"]
    try:
        counts = agreement(pairs, parse_rules(settings.rule))
    except InputError:
        yield {"tag": tag}
        return
    yield {"tag": tag, "agreement": {"same": counts.same, "other": counts.other, "ties": counts.ties}}


# --- for programs ---


def rule_rewards(
    playground: Playground,
    texts: list[str],
    rules: list[str],
) -> dict:
    """Compute the rewards of texts under rules: the weighted sum of the rules' values.

    Args:
        texts: At most 64 texts.
        rules: Each as "name: value * weight", where value and weight may be omitted, as in "contains: happy, glad * 2".

    Returns:
        rules: the rules as parsed; rewards: one per text; parts: the unweighted value of each rule for each text,
        [text][rule]; low, high: the smallest and largest possible reward under these rules.
    """
    if len(texts) > MOST_TEXTS:
        raise InputError("A list is too long.", f"texts: {len(texts)}", say("At most {} entries.", MOST_TEXTS))
    parsed = parse_rules(rules)
    low, high = span(parsed)
    return {
        "rules": [as_text([each]) for each in parsed],
        "rewards": score(parsed, texts),
        "parts": parts(parsed, texts),
        "low": low,
        "high": high,
    }


WRITER = Stream(
    "writer",
    "feed",
    {
        "write": Event(write, trigger="multiple"),
        "rule": Event(let_rule, trigger="multiple"),
        "judge": Event(judge, trigger="multiple"),
    },
)
VIEW = View(
    "preferences",
    settings=WRITING,
    layout=("glance", "form", "desk"),
    parts={
        "glance": Custom("firstglance", glance, of=(), settings=()),
        "desk": Custom("preferences", desk, of=(), depends=("model",)),
    },
    streams=(WRITER,),
    api=(Endpoint(rule_rewards, reads="server", kind="computed"),),
)
