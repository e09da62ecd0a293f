"""Preferences: two texts at a time, of which a person or a rule chooses the better one."""

from collections.abc import Iterator, Mapping

from model.alignment.preferences import LONGEST, PROMPTS, Ask, Pair, agreement, chosen_by, write_texts
from model.alignment.rewards import RULES, as_text, parse_rules, parts, score, span
from model.errors import InputError, PlaygroundError, say
from model.text.surrogates import whole
from viz.numbers import number
from viz.seam.jobs import background
from viz.seam.notices import notice
from viz.seam.programs.endpoint import Endpoint
from viz.seam.settings import Number, Range, Settings, Text, read_all
from viz.seam.view import Custom, Event, Payload, Seen, Stream, View, Visit
from viz.work.limits import check_writing
from viz.work.playground import Playground

MOST_SHOWN = 300  # pairs that a page holds
MOST_RULED = 20  # that the rule chooses at a press of the button
MOST_AT = 1_000_000
MOST_TEXTS = 64  # of a program
RULE = Text("rule", "sentiment", max_length=600)
WRITING = (
    Text("prompts", "", max_length=2000, lines=3),
    RULE,
    Range("tokens", 8, 80, step=4, default=32),
    Range("temperature", 0.2, 2, step=0.1, default=1.0),
    Number("seed", 0, 1_000_000, 0),
)


def prompts_of(text: str) -> tuple[str, ...]:
    """Return the prompts that a person typed, one a line; the bundled ones where there is none."""
    return tuple(line.strip() for line in text.split("\n") if line.strip()) or PROMPTS


# --- what is drawn ---


def desk(seen: Seen) -> Payload:
    """Return the words of the two cards and of the table, and what the rule says."""
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


# --- events ---


def _asked(visit: Visit, sent: object) -> tuple[Settings, str, int]:
    """Return the settings of the form, the page's name for its question, and the number of the pair."""
    values = sent if isinstance(sent, Mapping) else {}
    settings = read_all(WRITING, visit.values.get("preferences_form"), None)
    at = values.get("at")
    at = at if isinstance(at, int) and not isinstance(at, bool) and 0 <= at <= MOST_AT else 0
    return settings, str(values.get("tag"))[:40], at


def _two(visit: Visit, settings: Settings, at: int) -> tuple[str, str, str]:
    """Return a prompt and two texts of the model; `at` counts the pairs, so that each has random numbers of its own."""
    prompts = prompts_of(settings.prompts)
    prompt, playground = prompts[at % len(prompts)], visit.playground
    check_writing(playground.options.allowed, 2, settings.tokens)
    model = playground.opened(visit.model_id)
    ask = Ask(1, settings.tokens, settings.temperature, settings.seed + at)
    with playground.computing.later():
        one, other = write_texts(model, prompt, 2, ask, lambda *_: background.hand_over(playground))
    return prompt, one, other


def write(visit: Visit, sent: object) -> Iterator[Payload]:
    """Yield two texts for a person, with what the rule gives each where it can be read."""
    settings, tag, at = _asked(visit, sent)
    prompt, one, other = _two(visit, settings, at)
    yield {"tag": tag, "prompt": prompt, "texts": [one, other], "scores": _scores(settings.rule, (one, other))}


def _scores(rule: str, texts: tuple[str, ...]) -> list[float] | None:
    try:
        return score(parse_rules(rule), texts).tolist()
    except InputError:
        return None


def let_rule(visit: Visit, sent: object) -> Iterator[Payload]:
    """Yield the rule chooses: every piece holds all pairs so far. Closing the iterator stops it."""
    settings, tag, at = _asked(visit, sent)
    rules, pairs, ties = parse_rules(settings.rule), [], 0
    for done in range(1, MOST_RULED + 1):
        pair = chosen_by(rules, *_two(visit, settings, at + done - 1))
        pairs += [_listed(pair)] if pair else []
        ties += pair is None
        yield {"tag": tag, "pairs": pairs, "ties": ties, "done": done, "total": MOST_RULED}


def _listed(pair: Pair) -> list[str]:
    return [pair.prompt, pair.chosen, pair.rejected, pair.by]


def read_listed(sent: object) -> tuple[Pair, ...]:
    """Return the pairs that a page holds; what is none is left out."""
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
    """How often the rule would have chosen as the person did."""
    settings, tag, _ = _asked(visit, sent)
    pairs = [pair for pair in read_listed(sent) if pair.by == "person"]
    try:
        found = agreement(pairs, parse_rules(settings.rule))
    except InputError:
        yield {"tag": tag}
        return
    yield {"tag": tag, "agreement": {"same": found.same, "other": found.other, "ties": found.ties}}


# --- for programs ---


def rule_rewards(
    playground: Playground,
    texts: list[str],
    rules: list[str],
) -> dict:
    """Return the reward that rules give to texts: a weighted sum of what each rule counts.

    Args:
        texts: At most 64 texts.
        rules: Each as "name: value * weight", where value and weight may be missing, as in "contains: happy, glad * 2".

    Returns:
        rules: as they were read; rewards: one a text; parts: the number of each rule for each text, not weighted
        [text][rule]; low, high: the least and the largest reward that these rules can give.
    """
    if len(texts) > MOST_TEXTS:
        raise InputError("A list is too long.", f"texts: {len(texts)}", say("At most {} entries.", MOST_TEXTS))
    read = parse_rules(rules)
    low, high = span(read)
    return {
        "rules": [as_text([each]) for each in read],
        "rewards": score(read, texts),
        "parts": parts(read, texts),
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
    layout=("form", "desk"),
    parts={"desk": Custom("preferences", desk, of=(), depends=("model",))},
    streams=(WRITER,),
    api=(Endpoint(rule_rewards, reads="server", kind="computed"),),
)
