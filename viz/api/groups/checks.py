"""The checks: is what this server computes right?"""

from model.checks.registry import CHECKS, machine, run_checks, summary
from model.checks.result import Finding, Subject
from model.errors import InputError, say
from model.progress import Progress
from viz.api.arguments import got
from viz.api.reading import done
from viz.page import background
from viz.page.scene import Scene


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
    keys = tuple(key for key in CHECKS if not names or key in names)
    subject = Subject(scene.model, scene.trace, scene.unedited, scene.prompt)

    def work(progress: Progress) -> dict[str, Finding]:
        return run_checks(subject, keys, progress)

    found = done(scene.playground, background.Job(("endpoint checks", scene.trace.key, scene.prompt, keys), work))
    rows = [{"check": key, "kind": CHECKS[key].kind} | vars(each) for key, each in found.items()]
    return {"checks": rows, "summary": summary(found), "machine": machine()}


checks.__doc__ = checks.__doc__.replace("NAMES", ", ".join(CHECKS))
