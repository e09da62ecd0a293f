"""The steps from a view's declaration to its drawing: keys, payloads, jobs. This code is the same for all views."""

import contextlib
import hashlib
import time
from collections.abc import Callable
from typing import Any

from model.errors import InputError, PlaygroundError
from model.progress import Progress
from viz.seam.depends import depended
from viz.seam.jobs import background
from viz.seam.jobs.at_once import starts_itself
from viz.seam.jobs.buttons import button_of
from viz.seam.jobs.result_size import nbytes_of
from viz.seam.jobs.stored import PROMPT, stored
from viz.seam.needs import lacking, needs_of, note
from viz.seam.scene import Scene, source
from viz.seam.settings import Settings, form, read_all
from viz.seam.tasks import EDITED, MeasureTask, Measuring, slow_ones, travels
from viz.seam.view import Facts, Part, Payload, Picture, Seen, Values, View
from viz.words import MASKED, Catalogue, Words, plot_words
from viz.work.engine import Done, EngineRequest, Work


def settings_of(view: View, scene: Scene, values: Values) -> Settings:
    """Validate the values of the view's form and of its input parts. An input part may raise InputError."""
    from_form = read_all((*view.tab_settings, *view.settings), values.get(f"{view.key}_form"), scene)
    from_parts = [
        (name, part.read(values.get(view.part_name(name)), scene)) for name, part in view.parts.items() if part.read
    ]
    return Settings(from_form.items_ + tuple(from_parts))


# --- measuring ---------------------------------------------------------------------------------------------


def key_of(question: MeasureTask) -> tuple:
    """Compute the cache key of a measure. It changes when a slow measure that it builds on is computed."""
    measure = question.measure
    return (
        "measure",
        measure.owner or question.view.key,
        measure.name,
        *depended(question.scene, measure.depends),
        question.resolved,
        *map(_state_of, question.used),
    )


def _state_of(question: MeasureTask) -> tuple:
    """Return a measure's key and state: True for a quick one, the completion time of a slow one's result, or False."""
    key = key_of(question)
    if not question.measure.slow:
        return key, True
    result = _slow_result(question.scene, key)
    return key, result.at if result else False


def _slow_result(scene: Scene, key: tuple) -> background.Result | None:
    """Return a slow measure's result: one that came with the scene, one of a finished job, or a stored one."""
    result = scene.measured.get(key) or scene.playground.results.peek(key)
    return result or (stored(key) if scene.playground.options.examples else None)


def _used(question: MeasureTask) -> dict[str, Any]:
    """Return the results that a measure builds on; None for a slow one that has not been started."""
    results = {each.measure.name: answered(each) for each in question.used}
    return {name: result and result.value for name, result in results.items()}


def measured(view: View, name: str, scene: Scene, settings: Settings) -> background.Result | None:
    """Return a measure's result, looked up or computed now; None for a slow one that has not been started."""
    return answered(MeasureTask(view, view.measure(name), scene, settings))


def answered(question: MeasureTask) -> background.Result | None:
    """Return the result of a measure's task, as `measured` does."""
    scene, measure, key = question.scene, question.measure, key_of(question)
    if measure.slow:
        return _slow_result(scene, key)

    def make() -> background.Result:
        return scene.playground.engine.measure(_ask(question, lambda: _measured_here(question)))

    if measure.keep(question.resolved) if callable(measure.keep) else measure.keep:
        return scene.playground.results.get(key, make)
    if key not in scene.measured:
        scene.measured[key] = make()
    return scene.measured[key]


def _measured_here(question: MeasureTask) -> background.Result:
    """Compute the measure now, in this process."""
    prepare(question)
    used = _used(question)
    started = time.perf_counter()
    if question.measure.locks:
        with question.scene.playground.computing:
            value = question.answer(results=used)
    else:
        value = question.answer(results=used)
    return background.Result(value, time.perf_counter() - started, nbytes_of(value))


def _ask(question: MeasureTask, local: Callable[[], Any]) -> EngineRequest:
    """Build the engine's form of a task."""
    scene = question.scene

    def elsewhere() -> Measuring | None:
        if not travels(question):
            return None
        slow = {each.measure.name: _slow_result(scene, key_of(each)) for each in slow_ones(question)}
        prior = tuple((name, result) for name, result in slow.items() if result)
        return Measuring(scene.key, question.view.key, question.measure.name, question.settings, prior)

    return EngineRequest(scene.model.id if scene.model else "", local, elsewhere)


def add_prior(view: View, scene: Scene, task: Measuring) -> None:
    """Store the results that were sent with a task."""
    for name, result in task.prior:
        scene.measured[key_of(MeasureTask(view, view.measure(name), scene, task.settings))] = result


def prepare(question: MeasureTask) -> None:
    """Look up what the measure reads from the playground before it acquires the model."""
    if "plain" in question.measure.depends:
        _ = question.scene.unedited
    if question.beside:
        with contextlib.suppress(PlaygroundError):  # the measure encounters the same error and may handle it
            question.scene.beside(*question.beside)


def job_of(view: View, name: str, scene: Scene, settings: Settings) -> background.BackgroundJob:
    """Build the background job of a slow measure."""
    question = MeasureTask(view, view.measure(name), scene, settings)
    work = scene.playground.engine.job(_ask(question, lambda: _work_here(question)))

    def noted(progress: Progress) -> Any:
        done = work.run(progress)
        if question.measure.pace:
            key, amount = _pace(question)
            background.computed_once(scene.playground, key, lambda: done.seconds / amount)
        return done.value

    return background.BackgroundJob(key_of(question), noted, work.locks)


def _work_here(question: MeasureTask) -> Work:
    """Return a slow measure as work to be run in this process."""
    used = _used(question)

    def run(progress: Progress) -> Done:
        began = time.perf_counter()
        value = question.answer(progress, used)
        return Done(value, time.perf_counter() - began)

    prepare(question)
    return Work(run, question.measure.locks)


def _pace(question: MeasureTask) -> tuple[tuple, float]:
    """Return the key under which a slow measure's seconds per unit of work are stored, and the number of units."""
    measure = question.measure
    assert measure.pace
    what, amount = measure.pace(question.scene, question.resolved)
    return ("pace", question.view.key, measure.name, question.scene.model.id, what), amount


def _paces(needed: list[MeasureTask]) -> dict[str, float]:
    """Return the measured seconds per unit of work, by measure."""
    paces = {}
    for each in needed:
        if each.measure.pace and (known := each.scene.playground.results.peek(_pace(each)[0])):
            paces[each.measure.name] = known.value
    return paces


# --- drawing -----------------------------------------------------------------------------------------------


def facts_of(scene: Scene) -> Facts:
    """Collect the facts of a scene that its pictures need."""
    model, picked = scene.model, scene.picked
    return Facts(
        model.id,
        model.label,
        model.dtype,
        model.config,
        model.n_params,
        model.nbytes,
        scene.prompt,
        scene.tokens,
        scene.head,
        picked.heads,
        scene.position,
        picked.tokens,
        picked.pair,
        picked.edits,
        (picked.target, picked.distractor),
        scene.limit,
        scene.language,
        scene.trace.seconds,
        model.tokenizer.piece,
        source(scene),
        scene.run,
        scene.mask,
        scene.actual,
    )


def pictures(view: View, scene: Scene, values: Values) -> dict[str, Picture]:
    """Build the picture of every part, with its key. Raises InputError if an input part is invalid and no part shows
    the error.
    """
    if lack := lacking(scene.model, view.needs):
        return {name: note(lack, scene) for name in (*names_of(view), *_form_name(view))}
    facts = facts_of(scene)
    try:
        settings = settings_of(view, scene, values)
    except InputError as error:
        if not view.problems:
            raise
        return _refused(view, scene, facts, error)
    result = {
        view.part_name(name): note(lack, scene)
        if (lack := lacking(scene.model, needs_of(view, part)))
        else _picture(view, name, part, scene, settings, facts)
        for name, part in view.parts.items()
    }
    # beside a model that lacks what a view needs, its form may have been replaced by a note
    if view.settings and "form" not in view.parts and (scene.playground.given or not static_form(view)):
        key = (view.key, "form", depended(scene, view.form_depends), scene.language)
        words = Words(scene.words, f"{view.key}.settings")
        result[f"{view.key}_form"] = Picture(key, lambda: form(view.settings, words, scene))
    return result


def _refused(view: View, scene: Scene, facts: Facts, error: InputError) -> dict[str, Picture]:
    """Build the pictures when an input part is invalid: one shows the error, input parts are drawn, the others
    remain.
    """

    def say() -> Payload:
        raise error

    none = Settings()
    asking = {name: part for name, part in view.parts.items() if part.read and part.settings == () and not part.of}
    result = {view.part_name(name): _picture(view, name, part, scene, none, facts) for name, part in asking.items()}
    return result | {view.part_name(view.problems): Picture((view.key, str(error), scene.language), say)}


def _form_name(view: View) -> tuple[str, ...]:
    """Return the name of a form whose options depend on the scene, if the view has one."""
    return (f"{view.key}_form",) if "form" in view.parts or (view.settings and not static_form(view)) else ()


def static_form(view: View) -> bool:
    """Return whether the form is the same in every scene."""
    return not view.form_depends


def _picture(view: View, name: str, part: Part, scene: Scene, settings: Settings, facts: Facts) -> Picture:
    questions = {
        each: MeasureTask(view, view.measure(each), scene, settings) for each in dict.fromkeys((*part.of, *part.also))
    }
    needed = list(questions.values())
    states = list(map(_state_of, needed))
    drawn = settings if part.settings is None else settings.only(part.settings)
    # every figure names its model and any edits, regardless of what was measured
    origin = () if part.steady else (scene.model.id, bool(scene.picked.edits))
    owner = "" if part.shared else view.key
    key = (owner, name, *states, depended(scene, part.depends), drawn, origin, scene.language)
    unmeasured = {each for each, (_, known) in zip(questions, states, strict=True) if not known}
    missing = unmeasured & set(part.of)
    example = _example(view, name, part, scene, unmeasured)
    if example and missing:
        return example

    def make() -> Payload:
        results = {each: answered(question) for each, question in questions.items()}
        words = Words(scene.words, view.key, MASKED if scene.masks else "")
        starts = bool(unmeasured) and all(starts_itself(questions[each]) for each in unmeasured)
        if missing:
            return _soon(scene) if starts else _waiting(words, name)
        values = {each: result.value if result else None for each, result in results.items()}
        seconds = {each: result.seconds for each, result in results.items() if result}
        first = values[part.of[0]] if part.of else None
        paces = _paces(needed)
        seen = Seen(view.key, name, first, values, seconds, paces, settings, words, facts)
        if part.job:
            known = results[part.job]
            if known and not known.threads:
                return button_of(part, seen, known)
            auto = starts_itself(questions[part.job])
            return button_of(part, seen, known, auto, not known and _has_example(view, {part.job}, scene))
        payload = part.draw(seen) if part.draw else {}
        if "empty" in payload and example and "empty" not in (shown := example.make()):
            return shown
        if "empty" in payload and first is None and starts:
            return _soon(scene)
        if not payload.pop("unstored", False) and any(each and each.threads for each in results.values()):
            payload |= {"source": _stored_source(scene, needed)}
        # a part without measures shows the run itself
        edited = not needed or not EDITED.isdisjoint(part.depends) or any(each.sees_edits for each in needed)
        return payload if part.steady else finished(payload, seen, scene, key, edited)

    return Picture(key, make, _layers(needed))


def _soon(scene: Scene) -> Payload:
    """Build the note of a part whose slow measure starts by itself."""
    return {"empty": {"text": scene.words["job.soon"], "hint": "", "starts": True}}


def _waiting(words: Words, name: str) -> Payload:
    """Build the note of a part whose slow measure waits for its button. `words` are those of the view."""
    hint = words.get(f"{name}.empty_hint") or words.get("empty_hint") or ""
    return {"empty": {"text": words[f"{name}.empty"], "hint": hint}}


def _example(view: View, name: str, part: Part, scene: Scene, unmeasured: set[str]) -> Picture | None:
    """Build a part's picture in the example scene, where the `unmeasured` results are known; else None.

    A button and an input part that draws no result have no example.
    """
    has_none = not unmeasured or part.job or (part.read and not part.of)
    other = None if has_none else scene.example
    if other is None or not _has_example(view, unmeasured, scene):
        return None
    picture = _picture(view, name, part, other, settings_of(view, other, {}), facts_of(other))
    words = scene.words
    about = " · ".join([other.model.label, words["job.example_source"].format(prompt=PROMPT)])

    def make() -> Payload:
        return picture.make() | {"source": about, "stored_example": words["job.example"]}

    return Picture(("example", picture.key), make)


def _has_example(view: View, measures: set[str], scene: Scene) -> bool:
    """Return whether the results of slow measures are known in the example scene, with the default settings."""
    if (other := scene.example) is None:
        return False
    settings = settings_of(view, other, {})
    return all(measured(view, each, other, settings) for each in measures)


def _stored_source(scene: Scene, needed: list[MeasureTask]) -> str:
    """Return the source line of a stored result, with the model if the measures depend on it."""
    about_model = any({"run", "plain", "model"} & set(each.measure.depends) for each in needed)
    model = [scene.model.label, scene.model.dtype] if about_model else []
    return " · ".join([*model, scene.words["job.stored_source"]])


def _layers(needed: list[MeasureTask]) -> int | None:
    """Return the number of layers of a run that the measures need; None if they need the complete run."""
    last = [each.measure.reads(each.scene, each.resolved) if each.measure.reads else None for each in needed]
    return None if not last or None in last else 1 + max(each for each in last if each is not None)


def finished(payload: Payload, seen: Seen, scene: Scene, key: tuple, edited: bool) -> Payload:
    """Add the fields that every picture has to a payload: its source, a file name, and its own name."""
    if "empty" in payload or "problem" in payload:
        return payload
    named = seen.words.get(f"{seen.part}.source", "").format(model=scene.model.label, dtype=scene.model.dtype)
    usual: Payload = {
        "run": f"{scene.run} {hashlib.sha256(repr(key).encode()).hexdigest()[:10]}",
        "source": named or source(scene, edited),
        "file": f"{seen.view}-{seen.part}".replace("_", "-"),
    }
    if "figure" in payload:
        usual["words"] = plot_words(scene.words)
    return usual | payload


def fixed(view: View, words: Catalogue) -> dict[str, Payload]:
    """Build the payloads that depend only on the language: forms that are the same in every scene, and static parts."""
    local_words = Words(words, view.key)
    payloads = {view.part_name(name): part.first(local_words) for name, part in view.parts.items() if part.first}
    if view.settings and "form" not in view.parts and static_form(view):
        payloads[f"{view.key}_form"] = form(view.settings, local_words.within("settings"), None)
    return payloads


def names_of(view: View) -> tuple[str, ...]:
    """Return the names of all parts of the view on the page, in layout order."""
    names: list[str] = []

    def walk(layout: tuple | str) -> None:
        for each in (layout,) if isinstance(layout, str) else layout:
            if isinstance(each, str):
                names.append(view.part_name(each))
            else:
                walk(each)

    walk(view.layout)
    return tuple(names)


def asks_of(view: View) -> tuple[str, ...]:
    """Return the names of the form and the input parts on the page."""
    form = (f"{view.key}_form",) if view.settings else ()
    return (*form, *(view.part_name(name) for name, part in view.parts.items() if part.read))


def kind_of(view: View, part: str) -> Part:
    """Return the part with the given short name; the form exists even if it is not declared."""
    return view.parts[part] if part in view.parts else Part("controls", settings=())
