"""Is this right? Checks that anyone can run on the model and the prompt in front of them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from model.checks.registry import CHECKS, GROUPS, machine, quick, run_checks, seconds_of, summary
from model.checks.result import SEED, Finding, Subject
from model.errors import InputError, say
from model.progress import Progress, silent
from viz.numbers import decimals, number, whole
from viz.seam.jobs.background import Job as Work
from viz.seam.programs.arguments import got
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import done, measured
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.settings import Settings
from viz.seam.view import Custom, Facts, Job, Measure, Payload, Seen, View
from viz.views.checks.checks.figures import FORMULAS, apart, place_on_scale, share_of, share_text
from viz.views.checks.checks.python_lines import EDITED_AWAY, PYTHON, repeat
from viz.words import Words
from viz.work.prompt import Prompt

WAITING = Finding("waiting")
_IMPORTS = ("from model.checks.registry import run_checks", "from model.checks.result import subject_of")


@dataclass(frozen=True)
class Checked:
    """The results, and what decides the last digits besides the model."""

    findings: dict[str, Finding]  # by keys of CHECKS; those that wait for the button are missing
    device: str
    torch: str  # version
    threads: int


@dataclass(frozen=True)
class Plan:
    """The checks that the button starts."""

    waiting: int  # checks that wait for the button
    seconds: float  # that all take, roughly


def subject_of(scene: Scene) -> Subject:
    """Return the run that is shown, with its edits."""
    return Subject(scene.model, scene.trace, scene.unedited, text_of(scene.prompt))


def text_of(prompt: Prompt) -> str | None:
    """Return the text that the run's tokens say; None for a conversation, and where special tokens were read in the
    text.
    """
    return None if prompt.turns or prompt.special else prompt.text


def measure_plan(scene: Scene, settings: Settings) -> Plan:
    """How much there is to check, from the sizes alone."""
    subject = subject_of(scene)
    return Plan(len(CHECKS) - len(quick(subject)), seconds_of(subject))


def measure_all(scene: Scene, settings: Settings, progress: Progress = silent) -> Checked:
    """Return all checks."""
    return Checked(run_checks(subject_of(scene), progress=progress), scene.model.device, **machine())


def measure_shown(scene: Scene, settings: Settings, results: Mapping[str, Checked | None]) -> Checked:
    """Return all checks after the button; before that those that are quick enough for a click."""
    if results["all"]:
        return results["all"]
    subject = subject_of(scene)
    return Checked(run_checks(subject, quick(subject)), scene.model.device, **machine())


# --- what is shown ---


def hint(seen: Seen) -> Payload:
    """How long all checks take here."""
    plan = seen.results["plan"]
    text = seen.here["hint"].format(n=len(CHECKS), waiting=plan.waiting, seconds=math.ceil(plan.seconds))
    return {"text": text}


def table(seen: Seen) -> Payload:
    """Return a row a check, and the verdict over all of them."""
    words, facts, checked = seen.here, seen.facts, seen.result
    of = {"model": facts.label, "dtype": facts.dtype, "device": checked.device}
    of |= {"torch": checked.torch, "threads": checked.threads}
    sentences, state = verdict(seen.words, checked.findings)
    return {
        "title": words["title"].format(n=len(CHECKS)),
        "verdict": sentences,
        "state": state,
        "note": words["edited"] if facts.edits else "",
        "rows": [row(seen.words, facts, key, checked.findings.get(key, WAITING)) for key in CHECKS],
        "groups": [[seen.words[f"group.{name}"], list(keys)] for name, keys in GROUPS.items()],
        "of": of,
        "seed": SEED,
        "source": words["run_source"].format(**of, seed=SEED),
        "python": script(facts, repeat(text_of(facts.prompt), None), _IMPORTS),
        "file": "checks",
        "words": words.plain() | {f"state_{key}": text for key, text in seen.words.within("state").plain().items()},
    }


def verdict(words: Words, findings: Mapping[str, Finding]) -> tuple[list[str], str]:
    """Return the sentences above the table, and whether all is well: "agrees", "differs" or "broken"."""
    here, count, names = words.within("table"), summary(findings), {}
    for state in ("differs", "broken"):
        names[state] = ", ".join(words[f"name.{key}"] for key, each in findings.items() if each.state == state)
    checked = count["agrees"] + count["differs"]
    sentences = []
    if count["differs"]:
        key = "differ_one" if count["differs"] == 1 else "differ"
        sentences.append(here[key].format(n=count["differs"], all=checked, names=names["differs"]))
    else:
        sentences.append(here["agree"].format(n=count["agrees"], all=checked))
    if count["broken"]:
        sentences.append(here["broken"].format(n=count["broken"], names=names["broken"]))
    if count["unable"]:
        sentences.append(here["unable"].format(n=count["unable"]))
    if waiting := len(CHECKS) - len(findings):
        sentences.append(here["wait"].format(n=waiting))
    return sentences, "differs" if count["differs"] else "broken" if count["broken"] else "agrees"


def row(words: Words, facts: Facts, key: str, finding: Finding) -> Payload:
    """Return one check as it is shown; its numbers in full for those who take the table away."""
    here, check = words.within("table"), CHECKS[key]
    shown = {
        "key": key,
        "name": words[f"name.{key}"],
        "says": words[f"says.{key}"],
        "formula": FORMULAS[key],
        "state": finding.state,
        "reason": reason(words, finding),
        "kind": words[f"kind.{check.kind}"],
        "kind_help": words[f"kind.{check.kind}_help"],
        "seconds": decimals(finding.seconds, 3) if finding.state != "waiting" else "",
        "seed": here["seed"].format(seed=SEED) if check.random else here["seed_none"],
        "edited": here["plain" if check.plain else "run_of"] if facts.edits else "",
        "random": check.random,
        "python": lines(facts, key),
    }
    return shown | (_numbers(words, facts, finding) if finding.state in ("agrees", "differs") else _NONE)


_NONE = dict.fromkeys(("difference", "unit", "bound", "share", "rule", "where", "compared"), "")
_NONE |= {"place": None, "at": None, "full": []}


def _numbers(words: Words, facts: Facts, finding: Finding) -> Payload:
    """Return the compared quantities, and how far they are apart."""
    here, share = words.within("table"), share_of(finding.difference, finding.bound)
    exact = not finding.bound and not finding.difference
    full = finding.difference if math.isfinite(finding.difference) else "inf"
    place = (finding.layer, finding.head, finding.position)
    return {
        "difference": apart(finding.difference),
        "unit": words[f"unit.{finding.unit}"],
        "bound": apart(finding.bound),
        "share": here["exact"] if exact else share_text(share),
        "place": place_on_scale(share),
        "rule": words[f"rule.{finding.rule}"].format(n=whole(finding.n), scale=number(finding.scale)),
        "where": where(here, facts, finding) if finding.difference else here["nowhere"],
        "at": pick(facts, finding) if finding.difference else None,
        "compared": here["compared"].format(n=whole(finding.compared)),
        "full": [full, finding.bound, finding.unit, *place, finding.compared, finding.seconds],
    }


def lines(facts: Facts, key: str) -> str:
    """Return the Python lines that repeat a check."""
    plain = () if facts.edits and key in EDITED_AWAY else PYTHON.get(key, ())
    text = "\n".join(plain)
    more = [line for name, line in (("torch.", "import torch"), ("np.", "import numpy as np")) if name in text]
    return script(facts, [*plain, *repeat(text_of(facts.prompt), key)], (*_IMPORTS, *more))


def reason(words: Words, finding: Finding) -> str:
    """Why nothing was compared."""
    if finding.state == "broken":
        return words["reason.raised"].format(reason=finding.reason, got=finding.got)
    return words[f"reason.{finding.reason}"].format(got=finding.got) if finding.state == "unable" else ""


def where(words: Words, facts: Facts, finding: Finding) -> str:
    """Return the layer, head and position of the largest difference, as far as it has them."""
    parts = []
    if finding.head is not None and finding.layer is not None:
        parts.append(words["head"].format(layer=finding.layer, head=finding.head))
    elif finding.layer is not None:
        last = finding.layer == facts.config.n_layer
        parts.append(words["final"] if last else words["layer"].format(layer=finding.layer))
    if finding.position is not None:
        parts.append(words["position"].format(position=finding.position))
    return ", ".join(parts) or words["nowhere"]


def pick(facts: Facts, finding: Finding) -> dict | None:
    """Return the selection by a click on the place: its head and its token, as far as it has them."""
    picked = {}
    if finding.head is not None and finding.layer is not None:
        picked["heads"] = [[finding.layer, finding.head]]
    if finding.position is not None and finding.position < len(facts.tokens):
        picked["tokens"] = [finding.position]
    return picked or None


# --- for programs ---


def checks(scene: Scene, names: list[str] = ()) -> dict:
    """Whether the numbers of this run are right: identities of the formulas, and other ways to compute the same.

    Args:
        names: Which checks are made; all where none are given, which takes some passes of the model. They are NAMES.

    Returns:
        checks: for each state (agrees, differs, unable: cannot be checked here, broken: failed to run), the largest
        difference with its bound, unit and rule, where it was (layer, head, position), how many numbers were compared,
        reason where there is none. summary: how many of each state; machine: torch version and threads.
    """
    for name in names:
        if name not in CHECKS:
            raise InputError(
                "There is no such check.", got("names", name), say("Choose one of: {}.", ", ".join(CHECKS))
            )
    findings = _some(scene, tuple(names)) if names else measured(VIEW, "all", scene).findings
    rows = [{"check": key, "kind": CHECKS[key].kind} | vars(each) for key, each in findings.items()]
    return {"checks": rows, "summary": summary(findings), "machine": machine()}


checks.__doc__ = checks.__doc__.replace("NAMES", ", ".join(CHECKS))


def _some(scene: Scene, names: tuple[str, ...]) -> dict[str, Finding]:
    """Return some of the checks, by the names of CHECKS."""
    subject, keys = subject_of(scene), tuple(key for key in CHECKS if key in names)

    def work(progress: Progress) -> dict[str, Finding]:
        return run_checks(subject, keys, progress)

    return done(scene.playground, Work(("endpoint checks", scene.trace.key, scene.prompt, keys), work))


_OF = ("run", "plain", "prompt")
VIEW = View(
    "checks",
    layout=("job", "table"),
    parts={
        "job": Job("all", hint, also=("plan",)),
        "table": Custom("checktable", table, of="shown"),
    },
    measures=(
        Measure("plan", measure_plan, depends=_OF, locks=False),
        Measure("all", measure_all, depends=_OF, slow=True),
        Measure("shown", measure_shown, depends=_OF, uses=("all",)),
    ),
    api=(Endpoint(checks, long=True),),
)
