"""A server that others use: fixed models, limits where work begins, login, and its command line."""

import dataclasses
import math
import stat
import threading
import time

import pytest

import app
from model.errors import CheckpointError, InputError
from model.store import ByteLRU
from model.training.job import Limits, check, job_of
from tests.support.helpers import apart, serving
from viz.page import background
from viz.page.build import build
from viz.page.job_queue import Bounds
from viz.page.panels import pictures, settings_of
from viz.page.pipeline import Asked, payloads, scene_of
from viz.page.playground import MOST_FAILURES, Options, Playground
from viz.page.settings import Settings
from viz.page.settings import form as form_payload
from viz.page.view import question_of
from viz.server import limits as allowed
from viz.server import login, serve
from viz.server.limits import PRIVATE, PUBLIC, Allowed, check_samples, check_time, check_writing, within
from viz.server.training_process import _paused
from viz.views.sampling import strategies
from viz.views.sampling.many_samples import view as many_samples
from viz.views.sampling.side_by_side import run
from viz.views.sampling.speculative import view as speculative
from viz.views.training.training import view as training
from viz.words import Words, words

PROMPT = "abcab"
TIGHT = dataclasses.replace(PUBLIC, models=("tiny",), new_tokens=8, texts=2, samples=8, drafted=16)
GREEDY = {"name": "", "method": "sample", "options": {}, "steps": []}
TRICKS = (
    "..",
    "../tinygpt",
    "/etc",
    "/",
    "~",
    "~root",
    "file:///etc",
    "model/weights/tinygpt",
    "model\\weights\\tinygpt",
    "tinygpt/",
    "./tinygpt",
    "tinygpt\0",
    "tinygpt\n",
    " tinygpt",
    "%2e%2e%2ftinygpt",
    "..%2f",
    "hub:../../x",
    "hub:a/../b",
    "hub:/etc/passwd",
    "hub:a/b/c",
    "hub:a\\b",
    "hub:a/b\n",
    "hub:a/b\0",
    "hub:",
    "hub:a",
    "hub:~/x",
    "hub:%2e%2e/x",
    "hub:a/..",
    "hub:․․/x",
    "hub:ａ/b",
    "hub:a∕b",
    "tinygpｔ",
    "ｔinygpt",
    "trained:",
    "trained:../x",
    "trained:00000000000000000000000000000000",
    "C:\\",
    "\\\\server\\share",
    "",
    "x" * 5000,
    "local:",
    "TINYGPT",
)


@pytest.fixture
def shared(lm):
    """A shared server with one model."""
    return serving(lm, Options(model="tiny", max_tokens=40, training_minutes=0.0, allowed=TIGHT, public=True))


def scene(playground, values=None):
    return scene_of(playground, Asked("tiny", PROMPT, None, values or {}, {}, "en"))


def cards(texts=1, tokens=8):
    return {"strategies": [GREEDY] * texts, "settings": {"tokens": tokens}}


# --- models ---


@pytest.mark.parametrize("name", TRICKS)
def test_a_name_is_never_a_path(playground, shared, name, monkeypatch):
    def nothing(*_, **__):
        pytest.fail("something was opened or fetched")

    monkeypatch.setattr("huggingface_hub.snapshot_download", nothing)
    for server in (playground, shared):
        monkeypatch.setattr("viz.page.playground.load_resolved", nothing)
        for load in (server.load, server.opened):
            with pytest.raises(InputError) as told:
                load(name)
            assert len(told.value.got) <= 80 and told.value.hint
        assert len(server.models) == 1
        assert all(len(key) <= 200 for key in server.failures)  # what is remembered is small


@pytest.mark.parametrize("name", ["tinygpt", "smollm2-135m", "hub:openai-community/gpt2"])
def test_a_shared_server_has_its_own_models_only(shared, name, monkeypatch):
    monkeypatch.setattr("viz.page.playground.resolve", lambda *_, **__: pytest.fail("looked for"))
    with pytest.raises(InputError, match="does not offer"):
        shared.load(name)
    assert shared.load("tiny") is shared.opened("tiny") and shared.choices() == [("tiny", "tiny")]


def test_the_picker_of_a_shared_server_takes_no_other_text(shared, playground):
    for server, free in ((shared, False), (playground, True)):
        picker = next(b for b in build(server).blocks.values() if getattr(b, "elem_id", "") == "model")
        assert picker.allow_custom_value is free
        assert ("tiny" in [value for _, value in picker.choices]) is not free


def test_a_model_of_the_command_line_does_not_tell_its_path(tmp_path):
    folder = tmp_path / "ours"
    folder.mkdir()
    given = app.parse(["--public", "--model", str(folder)], {})
    told = serve.options_of(given)
    assert told.local.path == folder and told.model == told.local.model_id == "ours"
    assert told.allowed.models == ("ours",)
    assert Playground(told).choices() == [("ours", "ours")]
    private = serve.options_of(app.parse(["--model", str(folder)], {}))
    assert private.model == str(folder) and private.allowed == PRIVATE
    clash = tmp_path / "tinygpt"
    clash.mkdir()
    assert serve.options_of(app.parse(["--public", "--model", str(clash)], {})).model == "local-tinygpt"


def test_all_models_of_a_shared_server_are_loaded_before_anybody_comes(monkeypatch):
    loaded = []
    monkeypatch.setattr(Playground, "load", lambda self, name, progress: loaded.append(name))
    serve.prepare(app.parse(["--public", "--models", "smollm2-135m, hub:a/b,tinygpt"], {}), None)
    assert loaded == ["tinygpt", "smollm2-135m", "hub:a/b"]
    loaded.clear()
    serve.prepare(app.parse(["--models", "smollm2-135m"], {}), None)
    assert loaded == ["tinygpt"]


def test_failed_models_are_remembered_but_not_without_end(monkeypatch):
    server = Playground(Options())

    def fail(*_, **__):
        raise CheckpointError("The weights do not fit the config.")

    monkeypatch.setattr("viz.page.playground.resolve", fail)
    for n in range(3 * MOST_FAILURES):
        with pytest.raises(CheckpointError):
            server.load(f"hub:a/m{n}")
    assert len(server.failures) == MOST_FAILURES and f"hub:a/m{3 * MOST_FAILURES - 1}" in server.failures


def test_what_a_visitor_trained_goes_with_the_visitor(playground, lm):
    kept = ("tiny", "trained:1", ("trained:1", "int8"), ("tiny", "int8"))
    for name in kept:
        playground.models.get(name, lambda: lm)
    playground.leave("me")
    assert [playground.models.peek(name) is None for name in kept] == [False, True, True, False]


# --- limits ---


def test_a_shared_server_allows_no_more_than_a_private_one_in_anything():
    for field in dataclasses.fields(Allowed):
        tight, wide = getattr(PUBLIC, field.name), getattr(PRIVATE, field.name)
        if field.name in ("sessions", "queue"):
            assert tight > wide  # of these a class needs more
        elif field.name in ("desk", "training"):
            names = [each.name for each in dataclasses.fields(tight)]
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
        shared.tokens(model, "a" * 41)
    for server, most in ((shared, 20_000), (playground, 200_000)):
        with pytest.raises(InputError, match=f"Got: {most + 1} characters"):
            server.tokens(model, "a" * (most + 1))


@pytest.mark.parametrize(("sent", "told"), [(cards(3), "too many strategies"), (cards(1, 9), "more text than")])
def test_a_race_is_bounded_where_it_starts(shared, playground, sent, told):
    for server in (shared, playground):
        model = server.load("tiny")
        if server is playground:
            assert run.request_of(server, model, PROMPT, sent, {"kind": "start"}).rows
        else:
            with pytest.raises(InputError, match=told):
                run.request_of(server, model, PROMPT, sent, {"kind": "start"})


def test_going_on_is_bounded_too(shared):
    model = shared.load("tiny")
    row = {"strategy": GREEDY, "number": 0, "written": []}
    go = {"kind": "go", "model": "tiny", "prompt": [1] * 5, "rows": [row], "settings": {"tokens": 8}}
    assert run.request_of(shared, model, PROMPT, cards(), go).tokens == 8
    for change, told in (
        ({"rows": [row] * 3}, "too many strategies"),
        ({"prompt": [1] * 49}, "too long"),
        ({"kind": "branch", "token": 1, "limit": 100}, "more text than"),
    ):
        with pytest.raises(InputError, match=told):
            run.request_of(shared, model, PROMPT, cards(), go | change)
    with pytest.raises(InputError, match="more text than"):
        run.request_of(shared, model, PROMPT, cards(tokens=9), go)
    assert run.request_of(shared, model, PROMPT, cards(), go | {"prompt": [1] * 47}).prompt


def test_a_text_that_takes_too_long_ends_with_a_sentence(shared):
    slow = dataclasses.replace(shared.options, allowed=dataclasses.replace(TIGHT, job_seconds=0.0))
    ours = dataclasses.replace(shared, options=slow)
    request = run.request_of(ours, shared.load("tiny"), PROMPT, cards(), {"kind": "start"})
    with pytest.raises(InputError, match="takes longer"):
        list(run.rounds(ours, request, threading.Event()))


def test_many_samples_are_bounded_and_the_form_says_so(shared, playground):
    def ask(server, form, sent, **forced):
        """What the button would start."""
        view, at = many_samples.VIEW, scene(server)
        settings = settings_of(view, at, {"many_samples_form": form, "strategies": sent})
        many_samples.take(at, question_of(view.measure("main"), at, settings.but(**forced)), lambda *_: None)
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

    told = list(background.perform_in_turn(ours, "me", background.Job(("x",), work), "en", threading.Event()))
    last = told[-1][0]
    assert "takes longer than this server allows" in last["text"] and last["state"] == "failed"
    assert not ours.desk.working


def test_jobs_at_once_are_those_of_the_server(shared):
    assert shared.desk.bounds == TIGHT.desk == Bounds(each=2)
    shared.desk.join("me"), shared.desk.join("me")
    with pytest.raises(Exception, match="still busy"):
        shared.desk.join("me")


# --- training ---


def lab(server):
    """What the training tab shows."""
    return pictures(training.VIEW, scene(server), {})["training_lab"].make()


def test_training_is_off_unless_minutes_are_given(shared):
    with pytest.raises(InputError, match="switched off"):
        shared.workshop.start("me", job_of({}, shared.workshop.limits))
    assert lab(shared)["empty"]["text"].startswith("Training is switched off")


def test_training_on_a_shared_server_is_smaller_and_the_form_says_so(shared, playground):
    ours = Playground(dataclasses.replace(shared.options, training_minutes=2.0))
    ours.models.get("tiny", lambda: shared.load("tiny"))
    limits = ours.workshop.limits
    assert limits == dataclasses.replace(PUBLIC.training, minutes=2.0) and limits.pause_minutes == 1.0
    form = lab(ours)
    assert form["limits"]["steps"] == [1, 6000] and form["limits"]["bytes"] == [0, 200_000]
    for task in form["tasks"]:  # what the form begins with can be trained
        if task["key"] != "text":
            job = job_of(form["defaults"] | task["settings"] | {"task": task["key"]}, limits)
            assert check(job, limits).n_layer == 2 and job.minutes == 2.0
    with pytest.raises(InputError, match="out of bounds"):
        ours.workshop.start("me", job_of({"steps": 6001}, limits))
    first = training.first_lab(Words(words("en"), "training"))
    assert lab(playground) == first  # the form that is there says the truth


class Wire:
    """A connection on which a wish comes after so many looks."""

    def __init__(self, wishes, after=0.0):
        self.wishes, self.after = list(wishes), after

    def poll(self, seconds):
        if self.wishes and seconds >= self.after:
            return True
        time.sleep(seconds)
        return False

    def recv(self):
        return self.wishes.pop(0)


def test_a_run_cannot_be_paused_for_ever():
    assert _paused(Wire(["pause", "resume"]), math.inf) == "resume"
    assert _paused(Wire(["pause", "stop"]), 5.0) == "stop"
    assert _paused(Wire([]), 0.02) == "late" and _paused(Wire(["pause"]), 0.02) == "late"
    assert _paused(Wire(["resume"]), -1.0) == "resume"  # a wish that is there counts
    assert Limits().pause_minutes == math.inf


# --- memory ---


def test_the_memory_of_the_command_line_is_for_traces_and_results_together():
    ours = Playground(Options(memory_mb=160))
    assert (ours.traces.limit, ours.results.limit) == (150 << 20, 10 << 20)
    usual = Playground(Options())
    assert usual.results.limit == 64 << 20 and usual.traces.limit + usual.results.limit == 1024 << 20
    assert isinstance(usual.traces, ByteLRU)


# --- login ---


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people"
    path.write_text(f"# staff\nann:{login.hashed('a:b c')}\n\nbob:plain pass: word\n", encoding="utf-8")
    path.chmod(stat.S_IRUSR)
    return login.read(path)


@pytest.mark.parametrize(
    ("name", "password", "right"),
    [
        ("ann", "a:b c", True),
        ("bob", "plain pass: word", True),
        ("ann", "a:b", False),
        ("bob", "plain pass", False),
        ("bob", "", False),
        ("eve", "a:b c", False),
        ("", "", False),
        ("ann", "x" * 2000, False),
        ("# staff", "", False),
    ],
)
def test_who_may_come_in(people, name, password, right):
    assert apart(login.checker(people)(name, password)) is right


def test_a_hash_is_no_password(people):
    assert apart(login.checker(people)("ann", people["ann"])) is False


def test_the_same_password_is_kept_differently_each_time():
    first, second = login.hashed("x"), login.hashed("x")
    assert first != second and login.matches(first, "x") and login.matches(second, "x")
    assert first.startswith("scrypt:") and "x" not in first.removeprefix("scrypt:")


@pytest.mark.parametrize("text", ["", "# none", "ann", ":secret", "ann:", "ann:scrypt:12:34", "ann:scrypt:zz:"])
def test_a_file_that_is_none_is_told_at_the_start(tmp_path, text):
    path = tmp_path / "people"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as told:
        serve.options_of(app.parse(["--login", str(path)], {}))
    assert "secret" not in str(told.value)
    with pytest.raises(InputError, match="cannot be read"):
        login.read(tmp_path / "nowhere")


def test_login_reaches_gradio(shared, tmp_path):
    static = app.ROOT / "static"
    assert serve.launch_options(static, shared)["auth"] is None
    path = tmp_path / "people"
    path.write_text("ann:secret", encoding="utf-8")
    ours = dataclasses.replace(shared, options=dataclasses.replace(shared.options, login=path))
    options = serve.launch_options(static, ours)
    assert apart(options["auth"]("ann", "secret")) and "secret" not in repr(options["app_kwargs"]["middleware"][-1])
    assert options["state_session_capacity"] == PUBLIC.sessions


def test_the_line_for_the_file_is_printed(monkeypatch, capsys, people):
    monkeypatch.setattr("builtins.input", lambda _: "cy")
    monkeypatch.setattr(app.getpass, "getpass", lambda: "s3cret")
    app.hash_password()
    name, _, kept = capsys.readouterr().out.strip().partition(":")
    assert name == "cy" and login.matches(kept, "s3cret")
    monkeypatch.setattr("builtins.input", lambda _: "c:y")
    with pytest.raises(SystemExit):
        app.hash_password()


# --- the command line ---


def test_the_command_line_of_a_shared_server():
    own, shared = app.parse([], {}), app.parse(["--public"], {})
    assert (own.max_tokens, own.training_minutes, own.host, own.port) == (1024, 20.0, "127.0.0.1", None)
    assert (shared.max_tokens, shared.training_minutes, shared.host) == (512, 0.0, "127.0.0.1")
    told = app.parse(["--public", "--max-tokens", "99", "--training-minutes", "3"], {})
    assert (told.max_tokens, told.training_minutes) == (99, 3.0)
    assert serve.options_of(shared).allowed == dataclasses.replace(PUBLIC, models=("tinygpt",))
    assert serve.options_of(own).allowed == PRIVATE and not serve.options_of(own).public
    fixed = serve.options_of(app.parse(["--models", "smollm2-135m"], {})).allowed
    assert fixed == dataclasses.replace(PRIVATE, models=("tinygpt", "smollm2-135m"))
    proxied = [app.parse(line, {}).behind_proxy for line in ([], ["--behind-proxy"], ["--behind-proxy", "2"])]
    assert proxied == [0, 1, 2]


def test_a_space_needs_no_command_line():
    told = app.parse([], {"SPACE_ID": "me/it"})
    assert told.public and (told.host, told.port, told.behind_proxy) == ("0.0.0.0", 7860, 1)
    assert told.embed == ["https://huggingface.co", "https://*.hf.space"]
    assert app.parse(["--no-public"], {"SPACE_ID": "me/it"}).public is False
    named = app.parse([], {"GRADIO_SERVER_NAME": "0.0.0.0", "GRADIO_SERVER_PORT": "9999"})
    assert (named.host, named.port, named.public) == ("0.0.0.0", 9999, False)
    assert app.parse(["--host", "::1", "--port", "1"], {"GRADIO_SERVER_NAME": "0.0.0.0"}).host == "::1"


@pytest.mark.parametrize(
    "line",
    [
        ["--embed", "huggingface.co"],
        ["--embed", "https://a; script-src *"],
        ["--embed", "https://a b"],
        ["--memory", "0"],
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused(line, capsys):
    with pytest.raises(SystemExit):
        app.parse(line, {})
    assert capsys.readouterr().err


def test_the_page_of_a_shared_server_is_drawn(shared):
    parts, _ = payloads(shared, Asked("tiny", PROMPT, None, {}, {}, "zh"))
    assert parts["tokens"]["tokens"] and not parts["notice"]
    told, _ = payloads(shared, Asked("tinygpt", PROMPT, None, {}, {}, "zh"))
    assert told["notice"]["text"].startswith("此服务器不提供该模型")
