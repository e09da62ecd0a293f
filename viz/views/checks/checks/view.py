"""Is this right? Checks of the current model and prompt, which any visitor can run."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from model.checks.registry import CHECKS, GROUPS, machine, quick, run_checks, seconds_of, summary
from model.checks.result import SEED, Finding, Subject
from model.errors import InputError, say
from model.progress import Progress, silent
from viz.numbers import decimals, number, whole
from viz.seam.jobs.background import BackgroundJob as Work
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
    """The findings, and the machine and software on which their last digits depend."""

    findings: dict[str, Finding]  # by key of CHECKS, without those that wait for the button
    device: str
    torch: str  # version of PyTorch
    threads: int


@dataclass(frozen=True)
class CheckPlan:
    """The number of checks that wait for the button, and the estimated duration of all."""

    waiting: int  # number of checks that only the button starts
    seconds: float  # estimated duration of all checks


def subject_of(scene: Scene) -> Subject:
    """Return the current run, with its edits, as the subject of the checks."""
    return Subject(scene.model, scene.trace, scene.unedited, text_of(scene.prompt))


def text_of(prompt: Prompt) -> str | None:
    """Return the text that was tokenized; None for a conversation and for a text with parsed special tokens."""
    return None if prompt.turns or prompt.special else prompt.text


def measure_plan(scene: Scene, settings: Settings) -> CheckPlan:
    """Determine how many checks wait for the button, and estimate the duration of all from the sizes alone."""
    subject = subject_of(scene)
    return CheckPlan(len(CHECKS) - len(quick(subject)), seconds_of(subject))


def measure_all(scene: Scene, settings: Settings, progress: Progress = silent) -> Checked:
    """Run all checks."""
    return Checked(run_checks(subject_of(scene), progress=progress), scene.model.device, **machine())


def measure_shown(scene: Scene, settings: Settings, results: Mapping[str, Checked | None]) -> Checked:
    """Return the findings of all checks if the button has run them; otherwise run only the quick ones."""
    if results["all"]:
        return results["all"]
    subject = subject_of(scene)
    return Checked(run_checks(subject, quick(subject)), scene.model.device, **machine())


# --- drawing ---


def hint(seen: Seen) -> Payload:
    """Describe how long all checks take on this run."""
    plan = seen.results["plan"]
    text = seen.here["hint"].format(n=len(CHECKS), waiting=plan.waiting, seconds=math.ceil(plan.seconds))
    return {"text": text}


def table(seen: Seen) -> Payload:
    """Build the table with one row per check, and the verdict above it."""
    words, facts, checked = seen.here, seen.facts, seen.result
    run = {"model": facts.label, "dtype": facts.dtype, "device": checked.device}
    run |= {"torch": checked.torch, "threads": checked.threads}
    sentences, state = verdict(seen.words, checked.findings)
    return {
        "title": words["title"].format(n=len(CHECKS)),
        "verdict": sentences,
        "state": state,
        "note": words["edited"] if facts.edits else "",
        "rows": [row(seen.words, facts, key, checked.findings.get(key, WAITING)) for key in CHECKS],
        "groups": [[seen.words[f"group.{name}"], list(keys)] for name, keys in GROUPS.items()],
        "of": run,
        "seed": SEED,
        "source": words["run_source"].format(**run, seed=SEED),
        "python": script(facts, repeat(text_of(facts.prompt), None), _IMPORTS),
        "file": "checks",
        "words": words.plain() | {f"state_{key}": text for key, text in seen.words.within("state").plain().items()},
    }


def verdict(words: Words, findings: Mapping[str, Finding]) -> tuple[list[str], str]:
    """Return the sentences above the table and the overall state: `agrees`, `differs` or `broken`."""
    texts, count, names = words.within("table"), summary(findings), {}
    for state in ("differs", "broken"):
        names[state] = ", ".join(words[f"name.{key}"] for key, each in findings.items() if each.state == state)
    checked = count["agrees"] + count["differs"]
    sentences = []
    if count["differs"]:
        key = "differ_one" if count["differs"] == 1 else "differ"
        sentences.append(texts[key].format(n=count["differs"], all=checked, names=names["differs"]))
    else:
        sentences.append(texts["agree"].format(n=count["agrees"], all=checked))
    if count["broken"]:
        sentences.append(texts["broken"].format(n=count["broken"], names=names["broken"]))
    if count["unable"]:
        sentences.append(texts["unable"].format(n=count["unable"]))
    if waiting := len(CHECKS) - len(findings):
        sentences.append(texts["wait"].format(n=waiting))
    return sentences, "differs" if count["differs"] else "broken" if count["broken"] else "agrees"


def row(words: Words, facts: Facts, key: str, finding: Finding) -> Payload:
    """Build the table row of one check: formatted texts, and unrounded numbers for export."""
    texts, check = words.within("table"), CHECKS[key]
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
        "seed": texts["seed"].format(seed=SEED) if check.random else texts["seed_none"],
        "edited": texts["plain" if check.plain else "run_of"] if facts.edits else "",
        "random": check.random,
        "python": lines(facts, key),
    }
    return shown | (_numbers(words, facts, finding) if finding.state in ("agrees", "differs") else _NONE)


_NONE = dict.fromkeys(("difference", "unit", "bound", "share", "rule", "where", "compared"), "")
_NONE |= {"place": None, "at": None, "full": []}


def _numbers(words: Words, facts: Facts, finding: Finding) -> Payload:
    """Build the cells of a check that compared numbers: the largest difference, its bound and its location."""
    texts, share = words.within("table"), share_of(finding.difference, finding.bound)
    exact = not finding.bound and not finding.difference
    full = finding.difference if math.isfinite(finding.difference) else "inf"
    place = (finding.layer, finding.head, finding.position)
    return {
        "difference": apart(finding.difference),
        "unit": words[f"unit.{finding.unit}"],
        "bound": apart(finding.bound),
        "share": texts["exact"] if exact else share_text(share),
        "place": place_on_scale(share),
        "rule": words[f"rule.{finding.rule}"].format(n=whole(finding.n), scale=number(finding.scale)),
        "where": where(texts, facts, finding) if finding.difference else texts["nowhere"],
        "at": pick(facts, finding) if finding.difference else None,
        "compared": texts["compared"].format(n=whole(finding.compared)),
        "full": [full, finding.bound, finding.unit, *place, finding.compared, finding.seconds],
    }


def lines(facts: Facts, key: str) -> str:
    """Build the Python lines that repeat a check."""
    plain = () if facts.edits and key in EDITED_AWAY else PYTHON.get(key, ())
    text = "\n".join(plain)
    more = [line for name, line in (("torch.", "import torch"), ("np.", "import numpy as np")) if name in text]
    return script(facts, [*plain, *repeat(text_of(facts.prompt), key)], (*_IMPORTS, *more))


def reason(words: Words, finding: Finding) -> str:
    """Explain why a check compared nothing; "" if it compared numbers or is waiting."""
    if finding.state == "broken":
        return words["reason.raised"].format(reason=finding.reason, got=finding.got)
    return words[f"reason.{finding.reason}"].format(got=finding.got) if finding.state == "unable" else ""


def where(words: Words, facts: Facts, finding: Finding) -> str:
    """Format the layer, head and position of the largest difference, insofar as they apply."""
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
    """Return the selection made by a click on the largest difference: its head and its token, insofar as they apply."""
    picked = {}
    if finding.head is not None and finding.layer is not None:
        picked["heads"] = [[finding.layer, finding.head]]
    if finding.position is not None and finding.position < len(facts.tokens):
        picked["tokens"] = [finding.position]
    return picked or None


# --- for programs ---


def checks(scene: Scene, names: list[str] = ()) -> dict:
    """Check the numbers of this run against mathematical identities and against alternative computations.

    Args:
        names: Checks to run; all by default, which takes several forward passes. They are NAMES.

    Returns:
        checks: one record per check with its state (agrees, differs, unable: cannot be checked here, broken: failed to
        run), the largest difference with its bound, unit, rule and location (layer, head, position), the number of
        comparisons, and the reason if nothing was compared. summary: number of checks in each state; machine: torch
        version and number of threads.
    """
    for name in names:
        if name not in CHECKS:
            raise InputError(
                "No check has this name.", got("names", name), say("Choose one of: {}.", ", ".join(CHECKS))
            )
    findings = _run_some(scene, tuple(names)) if names else measured(VIEW, "all", scene).findings
    rows = [{"check": key, "kind": CHECKS[key].kind} | vars(each) for key, each in findings.items()]
    return {"checks": rows, "summary": summary(findings), "machine": machine()}


checks.__doc__ = checks.__doc__.replace("NAMES", ", ".join(CHECKS))


def _run_some(scene: Scene, names: tuple[str, ...]) -> dict[str, Finding]:
    """Run the named checks, in the order of CHECKS."""
    subject, keys = subject_of(scene), tuple(key for key in CHECKS if key in names)

    def work(progress: Progress) -> dict[str, Finding]:
        return run_checks(subject, keys, progress)

    return done(scene.playground, Work(("endpoint checks", scene.trace.key, scene.prompt, keys), work))


_OF = ("run", "plain", "prompt")
VIEW = View(
    "checks",
    needs=("layers",),
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
    api=(Endpoint(checks, views=("checks.checks",), long=True),),
)
