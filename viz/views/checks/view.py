"""Is this right? Checks that anyone can run on the model and the prompt in front of them."""

import math
from collections.abc import Mapping

import gradio as gr

from model.checks.registry import CHECKS, GROUPS, machine, quick, run_checks, seconds_of, summary
from model.checks.result import SEED, Finding, Subject
from model.progress import Progress
from viz.page import background
from viz.page.background import Job, Result, kept
from viz.page.parts import part
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Tab, Values
from viz.views.checks.figures import FORMULAS, place_on_scale, scientific, share_of
from viz.views.checks.python_lines import EDITED_AWAY, PYTHON, repeat
from viz.words import section

PARTS = ("checks_question", "checks_howto", "checks_job", "checks_table")
WAITING = Finding("waiting")
_KINDS = {"checks_question": "question", "checks_howto": "howto", "checks_job": "job", "checks_table": "checktable"}


def build(first: Mapping[str, dict]) -> dict[str, gr.HTML]:
    """The question, how to read it, the button, and the table with its verdict."""
    events = {"checks_job": ("start", "cancel")}
    return {name: part(name, first.get(name), kind=kind, events=events.get(name, ())) for name, kind in _KINDS.items()}


def fixed(words: Mapping[str, str]) -> dict[str, dict]:
    """What depends on the language only."""
    howto = {"title": words["howto.title"], "parts": section(words, "howto_checks")}
    return {"checks_question": {"text": words["tab.checks_question"]}, "checks_howto": howto}


# --- what is found ---


def subject_of(scene: Scene) -> Subject:
    """The run that is shown, with its edits."""
    return Subject(scene.model, scene.trace, scene.unedited, scene.prompt)


def key_of(scene: Scene) -> tuple:
    """What decides the findings of a job."""
    return "checks", scene.trace.key, scene.prompt, SEED


def quick_findings(scene: Scene) -> dict[str, Finding]:
    """The checks that take no longer than a click may, made once."""

    def make() -> dict[str, Finding]:
        subject = subject_of(scene)
        with scene.playground.computing:
            return run_checks(subject, quick(subject))

    return kept(scene.playground, ("quick", *key_of(scene)), make)


def plan(scene: Scene, values: Values) -> Job:
    """All checks."""

    def work(progress: Progress) -> dict[str, Finding]:
        return run_checks(subject_of(scene), progress=progress)

    return Job(key_of(scene), work)


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """The button, and what was found: by the job once it is done, before that by the quick checks."""
    found = scene.playground.results.peek(key_of(scene))
    state = (scene.run, scene.prompt, found is not None)
    return {
        "checks_job": Picture(state, lambda: job_payload(scene, found)),
        "checks_table": Picture(state, lambda: table_payload(scene, found.value if found else quick_findings(scene))),
    }


def job_payload(scene: Scene, found: Result | None) -> dict:
    """The button, and how long all checks take here."""
    subject, said = subject_of(scene), scene.words
    waiting = len(CHECKS) - len(quick(subject))
    hint = said["checks.hint"].format(n=len(CHECKS), waiting=waiting, seconds=math.ceil(seconds_of(subject)))
    return background.button(said["checks.run"], said, found, hint)


# --- what is shown ---


def table_payload(scene: Scene, found: Mapping[str, Finding]) -> dict:
    """A row a check, and the verdict over all of them."""
    said, setup = scene.words, machine()
    of = {"model": scene.model.label, "dtype": scene.model.dtype, "device": scene.model.device}
    rows = [row(scene, key, found.get(key, WAITING)) for key in CHECKS]
    told, state = verdict(said, found)
    return {
        "title": said["checks.title"].format(n=len(CHECKS)),
        "verdict": told,
        "state": state,
        "note": said["checks.edited"] if scene.picked.edits else "",
        "rows": rows,
        "groups": [[said[f"checkgroup.{name}"], list(keys)] for name, keys in GROUPS.items()],
        "of": of | setup,
        "seed": SEED,
        "source": said["checks.source"].format(**of, **setup, seed=SEED),
        "python": python_lines(scene, repeat(scene.prompt, None), _IMPORTS),
        "file": "checks",
        "words": section(said, "checks") | {f"state_{key}": text for key, text in section(said, "checkstate").items()},
        "run": scene.run,
    }


_IMPORTS = ("from model.checks.registry import run_checks", "from model.checks.result import subject_of")


def verdict(said: Mapping[str, str], found: Mapping[str, Finding]) -> tuple[list[str], str]:
    """The sentences above the table, and whether all is well: "agrees", "differs" or "broken"."""
    count, names = summary(found), {}
    for state in ("differs", "broken"):
        names[state] = ", ".join(said[f"checkname.{key}"] for key, each in found.items() if each.state == state)
    checked = count["agrees"] + count["differs"]
    told = []
    if count["differs"]:
        key = "checks.differ_one" if count["differs"] == 1 else "checks.differ"
        told.append(said[key].format(n=count["differs"], all=checked, names=names["differs"]))
    else:
        told.append(said["checks.agree"].format(n=count["agrees"], all=checked))
    if count["broken"]:
        told.append(said["checks.broken"].format(n=count["broken"], names=names["broken"]))
    if count["unable"]:
        told.append(said["checks.unable"].format(n=count["unable"]))
    if waiting := len(CHECKS) - len(found):
        told.append(said["checks.wait"].format(n=waiting))
    return told, "differs" if count["differs"] else "broken" if count["broken"] else "agrees"


def row(scene: Scene, key: str, found: Finding) -> dict:
    """One check as it is shown; its numbers in full for those who take the table away."""
    said, check = scene.words, CHECKS[key]
    done = found.state in ("agrees", "differs")
    share = share_of(found.difference, found.bound) if done else None
    edited = scene.words["checks.plain" if check.plain else "checks.run_of"] if scene.picked.edits else ""
    return {
        "key": key,
        "name": said[f"checkname.{key}"],
        "says": said[f"checksays.{key}"],
        "formula": FORMULAS[key],
        "state": found.state,
        "difference": scientific(found.difference) if done else "",
        "unit": said[f"checkunit.{found.unit}"] if done else "",
        "bound": scientific(found.bound) if done else "",
        "share": share_text(said, found, share) if done else "",
        "place": place_on_scale(share) if done else None,
        "rule": rule(said, found) if done else "",
        "reason": reason(said, found),
        "where": where(scene, found) if found.difference else said["checks.nowhere"] if done else "",
        "at": place(scene, found) if found.difference else None,
        "kind": said[f"checkkind.{check.kind}"],
        "kind_help": said[f"checkkind.{check.kind}_help"],
        "seconds": f"{found.seconds:.3f}" if found.state != "waiting" else "",
        "seed": said["checks.seed"].format(seed=SEED) if check.random else said["checks.seed_none"],
        "edited": edited,
        "compared": said["checks.compared"].format(n=f"{found.compared:,}") if done else "",
        "full": [
            _plain(found.difference),
            found.bound,
            found.unit,
            found.layer,
            found.head,
            found.position,
            found.compared,
            found.seconds,
        ]
        if done
        else [],
        "random": check.random,
        "python": _lines(scene, key),
    }


def _lines(scene: Scene, key: str) -> str:
    """The lines that repeat a check."""
    plain = () if scene.picked.edits and key in EDITED_AWAY else PYTHON.get(key, ())
    text = "\n".join(plain)
    more = [line for name, line in (("torch.", "import torch"), ("np.", "import numpy as np")) if name in text]
    return python_lines(scene, [*plain, *repeat(scene.prompt, key)], (*_IMPORTS, *more))


def _plain(value: float) -> float | str:
    return value if math.isfinite(value) else "inf"


def share_text(said: Mapping[str, str], found: Finding, share: float | None) -> str:
    """A difference as a share of its bound, or that both are 0."""
    return said["checks.exact"] if not found.bound and not found.difference else percent(share)


def percent(share: float | None) -> str:
    """A share of the bound with two digits."""
    if share is None:
        return "∞"
    return "0 %" if share == 0 else f"{100 * share:.2g} %" if 1e-4 <= share < 10 else f"{scientific(100 * share)} %"


def rule(said: Mapping[str, str], found: Finding) -> str:
    """Why the bound is what it is."""
    return said[f"checkrule.{found.rule}"].format(n=f"{found.n:,}", scale=f"{found.scale:.3g}")


def reason(said: Mapping[str, str], found: Finding) -> str:
    """Why nothing was compared."""
    if found.state == "broken":
        return said["checkreason.raised"].format(reason=found.reason, got=found.got)
    return said[f"checkreason.{found.reason}"].format(got=found.got) if found.state == "unable" else ""


def where(scene: Scene, found: Finding) -> str:
    """The layer, head and position of the largest difference, as far as it has them."""
    said, told = scene.words, []
    if found.head is not None and found.layer is not None:
        told.append(said["checks.head"].format(layer=found.layer, head=found.head))
    elif found.layer is not None:
        last = found.layer == scene.model.config.n_layer
        told.append(said["checks.final"] if last else said["checks.layer"].format(layer=found.layer))
    if found.position is not None:
        told.append(said["checks.position"].format(position=found.position))
    return ", ".join(told) or said["checks.nowhere"]


def place(scene: Scene, found: Finding) -> dict | None:
    """What a click on the place picks: its head and its token, as far as it has them."""
    picked = {}
    if found.head is not None and found.layer is not None:
        picked["heads"] = [[found.layer, found.head]]
    if found.position is not None and found.position < len(scene.trace.tokens):
        picked["tokens"] = [found.position]
    return picked or None


TAB = Tab("checks", build, fixed, draw, parts=PARTS, jobs={"checks_job": plan})
