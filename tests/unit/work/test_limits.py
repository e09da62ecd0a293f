"""The limits of a server that others use, where work begins and while it goes on."""

import dataclasses
import threading

import pytest

from model.errors import InputError
from tests.support.public import GREEDY, PROMPT, TIGHT, cards, scene
from viz.seam.jobs import background
from viz.seam.panels import settings_of
from viz.seam.settings import Settings
from viz.seam.settings import form as form_payload
from viz.seam.tasks import MeasureTask
from viz.views.sampling import strategies
from viz.views.sampling.many_samples import view as many_samples
from viz.views.sampling.side_by_side import run
from viz.views.sampling.speculative import view as speculative
from viz.words import Words, words
from viz.work import limits as allowed
from viz.work.limits import PRIVATE, PUBLIC, Allowed, check_samples, check_time, check_writing, within
from viz.work.prompt import Prompt
from viz.work.queue import Bounds


def test_a_shared_server_allows_no_more_than_a_private_one_in_anything():
    for field in dataclasses.fields(Allowed):
        tight, wide = getattr(PUBLIC, field.name), getattr(PRIVATE, field.name)
        if field.name in ("sessions", "queue", "share"):
            assert tight > wide  # of these a class needs more
        elif field.name in ("bounds", "training"):
            # A class needs more of its questions to wait.
            names = [each.name for each in dataclasses.fields(tight) if each.name not in ("questions", "share")]
            assert all(getattr(tight, name) <= getattr(wide, name) for name in names)
        elif field.name != "models":
            assert tight < wide


def test_the_bounds_by_hand():
    check_writing(TIGHT, 2, 8), check_samples(TIGHT, 8), check_time(TIGHT, 60.0)
    for work, told in (
        (lambda: check_writing(TIGHT, 3, 8), "too many strategies.*2 of them"),
        (lambda: check_writing(TIGHT, 2, 9), "more text than.*8 new tokens"),
        (lambda: check_samples(TIGHT, 9), "too many texts.*8 texts"),
        (lambda: check_time(TIGHT, 60.1), "takes longer.*own machine"),
    ):
        with pytest.raises(InputError, match=told):
            work()


def test_the_prompt_is_bounded_in_tokens_and_characters(shared, playground):
    model = shared.load("tiny")
    with pytest.raises(InputError, match="too long"):
        shared.tokens(model, Prompt("a" * 41))
    for server, most in ((shared, 20_000), (playground, 200_000)):
        with pytest.raises(InputError, match=f"Got: {most + 1} characters"):
            server.tokens(model, Prompt("a" * (most + 1)))


@pytest.mark.parametrize(("sent", "told"), [(cards(3), "too many strategies"), (cards(1, 9), "more text than")])
def test_a_race_is_bounded_where_it_starts(shared, playground, sent, told):
    for server in (shared, playground):
        model = server.load("tiny")
        if server is playground:
            assert run.request_of(server, model, Prompt(PROMPT), sent, {"kind": "start"}).rows
        else:
            with pytest.raises(InputError, match=told):
                run.request_of(server, model, Prompt(PROMPT), sent, {"kind": "start"})


def test_going_on_is_bounded_too(shared):
    model = shared.load("tiny")
    row = {"strategy": GREEDY, "number": 0, "written": []}
    go = {"kind": "go", "model": "tiny", "prompt": [1] * 5, "rows": [row], "settings": {"tokens": 8}}
    assert run.request_of(shared, model, Prompt(PROMPT), cards(), go).tokens == 8
    for change, told in (
        ({"rows": [row] * 3}, "too many strategies"),
        ({"prompt": [1] * 49}, "too long"),
        ({"kind": "branch", "token": 1, "limit": 100}, "more text than"),
    ):
        with pytest.raises(InputError, match=told):
            run.request_of(shared, model, Prompt(PROMPT), cards(), go | change)
    with pytest.raises(InputError, match="more text than"):
        run.request_of(shared, model, Prompt(PROMPT), cards(tokens=9), go)
    assert run.request_of(shared, model, Prompt(PROMPT), cards(), go | {"prompt": [1] * 47}).prompt


def test_a_text_that_takes_too_long_ends_with_a_sentence(shared):
    slow = dataclasses.replace(shared.options, allowed=dataclasses.replace(TIGHT, job_seconds=0.0))
    ours = dataclasses.replace(shared, options=slow)
    request = run.request_of(ours, shared.load("tiny"), Prompt(PROMPT), cards(), {"kind": "start"})
    with pytest.raises(InputError, match="takes longer"):
        list(run.rounds(ours, request, threading.Event()))


def test_many_samples_are_bounded_and_the_form_says_so(shared, playground):
    def ask(server, form, sent, **forced):
        """What the button would start."""
        view, at = many_samples.VIEW, scene(server)
        settings = settings_of(view, at, {"many_samples_form": form, "strategies": sent})
        many_samples.take(
            at, MeasureTask(view, view.measure("main"), at, settings.but(**forced)).resolved, lambda *_: None
        )
        return settings

    assert ask(shared, {"count": "8"}, cards()).count == "8"
    assert ask(shared, {"count": "16"}, cards()).count == "8"  # the page does not offer it
    for form, sent, forced, told in (
        ({"count": "8"}, cards(), {"count": "16"}, "too many texts"),
        ({"count": "8"}, cards(3), {}, "strategies"),
        ({"count": "8"}, cards(1, 9), {}, "more text"),
    ):
        with pytest.raises(InputError, match=told):
            ask(shared, form, sent, **forced)
        assert ask(playground, form, sent, **forced)
    (control,) = form_payload(many_samples.VIEW.settings, Words(words("en"), "many_samples.settings"), scene(shared))[
        "controls"
    ]
    assert [value for value, _ in control["options"]] == ["8"]


def test_the_cards_say_the_limits(shared, playground):
    for server, limits in ((shared, (8, 2)), (playground, (512, 8))):
        bounds = strategies.payload(words("en"), strategies.measure_offer(scene(server), Settings()))["bounds"]
        assert (bounds["tokens"], bounds["strategies"]) == limits


def test_drafting_is_kept_within_the_limit(shared):
    view, at = speculative.VIEW, scene(shared)
    assert settings_of(view, at, {"speculative_form": {"tokens": 128}}).tokens == 16
    assert settings_of(view, at, {}).tokens == 16
    shown = form_payload(view.settings, Words(words("en"), "speculative.settings"), at)
    sliders = {each["name"]: each for each in shown["controls"]}
    assert sliders["tokens"]["max"] == sliders["tokens"]["value"] == 16


def test_work_that_computes_too_long_is_ended_and_waiting_does_not_count():
    clock = iter([0.0, 1.0, 50.0, 51.5, 90.0, 90.6])  # begin; end and begin of each step
    ticks = []

    def work(progress):
        for n in range(5):
            progress(n, 5, "")

    bounded = dataclasses.replace(TIGHT, job_seconds=3.0)
    old, allowed.time.perf_counter = allowed.time.perf_counter, lambda: next(clock)
    try:
        with pytest.raises(InputError, match="takes longer"):  # 1.0 + 1.5 + 0.6 s
            within(work, bounded)(lambda done, total, what: ticks.append(done))
    finally:
        allowed.time.perf_counter = old
    assert ticks == [0, 1]


def test_a_job_of_a_page_is_bounded(shared):
    ours = dataclasses.replace(
        shared, options=dataclasses.replace(shared.options, allowed=dataclasses.replace(TIGHT, job_seconds=0.0))
    )

    def work(progress):
        progress(1, 2, "")

    told = list(background.perform_in_turn(ours, "me", background.BackgroundJob(("x",), work), "en"))
    last = told[-1][0]
    assert "takes longer than this server allows" in last["text"] and last["state"] == "failed"
    assert not ours.queue.working


def test_jobs_at_once_are_those_of_the_server(shared):
    assert shared.queue.bounds == TIGHT.bounds == Bounds(each=2, questions=256, share=128)
    shared.queue.join("me"), shared.queue.join("me")
    with pytest.raises(Exception, match="still busy"):
        shared.queue.join("me")
