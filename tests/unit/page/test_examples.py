"""What the page's examples say that they show happens, on the model they are offered for."""

import re

import numpy as np
import pytest

from model.api import LanguageModel, load_model
from model.gpt.edits import Edit
from viz.page.examples import ANY, EXAMPLES, PLACES, examples, payload
from viz.page.pipeline import PageRequest, scene_of
from viz.seam.panels import measured, settings_of
from viz.seam.scene import Scene
from viz.seam.settings import Settings
from viz.seam.view import View
from viz.views.tabs import TABS
from viz.words import LANGUAGES, words
from viz.work.playground import Options, Playground

SHOWN = {}  # (model, key) -> what is to be true of it
SEEN = {}  # (model, key) -> what the view shows to which an example leads


@pytest.fixture(scope="module")
def lm(request) -> LanguageModel:
    return load_model(request.param)


def shows(model: str, *keys: str):
    """Mark a function of (model, text) as what these examples show."""

    def note(check):
        SHOWN.update({(model, key): check for key in keys})
        return check

    return note


def share(run, lm: LanguageModel, token: str, at: int = -1) -> float:
    """The probability of a token after a position."""
    logits = run.logits_at(at).astype(np.float64)
    (number,) = lm.tokenizer.encode(token).ids.tolist()
    return float(np.exp(logits[number] - np.logaddexp.reduce(logits)))


def first(run, lm: LanguageModel) -> str:
    return lm.tokenizer.piece(int(run.logits_at(-1).argmax()))


@shows("tinygpt", "coreference")
@shows("smollm2-135m", "coreference")
def looks_back(lm, text):
    run = lm.trace(text)
    pieces = [lm.tokenizer.piece(int(i)) for i in run.tokens.ids]
    it, cat = pieces.index(" it"), pieces.index(" cat")
    assert max(run.pattern(*head)[it, cat] for head in np.ndindex(lm.config.n_layer, lm.config.n_head)) > 0.75


@shows("tinygpt", "repeated")
@shows("smollm2-135m", "repeated")
def has_induction_heads(lm, text):
    assert lm.trace(text).head_metrics()["induction"].max() > 0.85


@shows("tinygpt", "copied")
def expects_the_dog_the_second_time(lm, text):
    run = lm.trace(text)
    before = [lm.tokenizer.piece(int(i)) for i in run.tokens.ids].index(" red")
    assert share(run, lm, " dog", before) < 0.03 and share(run, lm, " dog") > 0.85 and first(run, lm) == " dog"


@shows("tinygpt", "name")
def copies_the_name_by_its_induction_heads(lm, text):
    run = lm.trace(text)
    assert first(run, lm) == " F" and share(run, lm, " F") > 0.6
    without = run.edit(*(Edit("zero", 7, head) for head in (0, 1, 3, 5)))
    assert share(without, lm, " F") < 0.05


@shows("tinygpt", "feeling")
def is_sad(lm, text):
    run = lm.trace(text)
    assert share(run, lm, " sad") > 0.35 and share(run, lm, " sad") > 5 * share(run, lm, " happy")


@shows("tinygpt", "opening")
def expects_a_girl_or_a_boy(lm, text):
    run = lm.trace(text)
    assert share(run, lm, " girl") + share(run, lm, " boy") > 0.85 and share(run, lm, " boy") > 0.2


@shows("smollm2-135m", "indirect_object")
def gives_it_to_mary(lm, text):
    run = lm.trace(text)
    assert first(run, lm) == " Mary" and share(run, lm, " John") < 0.05


@shows("smollm2-135m", "fact")
def knows_paris(lm, text):
    assert first(lm.trace(text), lm) == " Paris" and "Paris" not in text


@shows("smollm2-135m", "few_shot")
def says_the_opposite(lm, text):
    assert share(lm.trace(text), lm, " slow") > 0.5


@shows("smollm2-135m", "code")
def copies_the_argument(lm, text):
    assert share(lm.trace(text), lm, " b") > 0.9


# --- where it is to be seen ---


@pytest.fixture(scope="module")
def playground():
    return Playground(Options(offline=True))


def sees(model: str, key: str):
    """Mark a function of (scene, view, settings) as what is to be seen where this example leads."""
    return lambda check: SEEN.setdefault((model, key), check)


@sees("tinygpt", "coreference")
@sees("smollm2-135m", "coreference")
def one_head_and_one_token_that_looks_at_the_cat(scene: Scene, view: View, settings: Settings):
    (token,) = scene.picked.tokens
    pieces = [scene.model.tokenizer.piece(int(i)) for i in scene.trace.tokens.ids]
    assert pieces[token] == " it"
    (pattern,) = measured(view, "main", scene, settings).value.z
    assert pieces[int(np.nanargmax(pattern[token]))] == " cat" and np.nanmax(pattern[token]) > 0.75


@sees("tinygpt", "repeated")
@sees("smollm2-135m", "repeated")
def the_head_that_comes_first_in_the_order(scene: Scene, view: View, settings: Settings):
    (order,) = PLACES[scene.model.id]["repeated"]["values"]["overview_heads"].values()
    assert scene.trace.head_metrics()[order].idxmax() == scene.head
    assert scene.model.tokenizer.piece(scene.picked.target) == " behind"


@sees("tinygpt", "copied")
def the_dog_becomes_likely_the_second_time(scene: Scene, view: View, settings: Settings):
    found = measured(view, "main", scene, settings).value
    assert [scene.model.tokenizer.piece(token) for token in found.tokens] == [" dog"]
    red = [at for at, i in enumerate(scene.trace.tokens.ids) if scene.model.tokenizer.piece(int(i)) == " red"]
    first, second = found.followed[0].probability[red]
    assert settings.measure == "probability" and first < 0.03 and second > 0.85


@sees("tinygpt", "name")
def the_name_before_and_after(scene: Scene, view: View, settings: Settings):
    found = measured(view, "main", scene, settings).value
    (name,) = scene.model.tokenizer.encode(" F").ids.tolist()
    before, after = (float(np.exp(z[name] - np.logaddexp.reduce(z))) for z in (found.before, found.after))
    assert found.before.argmax() == name and before > 0.6 and found.after.argmax() != name and after < 0.05


@sees("tinygpt", "feeling")
def the_fitting_word_leads(scene: Scene, view: View, settings: Settings):
    following = measured(view, "next", scene, settings).value.following
    assert [scene.model.tokenizer.piece(int(following.ids[0]))] == [" sad"]


@sees("tinygpt", "opening")
def temperature_moves_two_words(scene: Scene, view: View, settings: Settings):
    assert settings.pipeline == ()  # nothing but temperature
    heated = measured(view, "main", scene, settings).value
    two = heated.probabilities[:2]
    cold, usual, hot = (int(np.abs(heated.temperatures - T).argmin()) for T in (0.3, 1, 2))
    assert 0.8 < two[:, usual].sum() < 0.92
    assert two[0, cold] > 10 * two[1, cold] and two[0, usual] > 2 * two[1, usual] and two[0, hot] < 1.6 * two[1, hot]


@sees("smollm2-135m", "indirect_object")
def some_heads_speak_for_mary_and_not_for_john(scene: Scene, view: View, settings: Settings):
    watched = measured(view, "target", scene, settings).value
    assert [scene.model.tokenizer.piece(i) for i in (watched.token, watched.distractor)] == [" Mary", " John"]
    parts = measured(view, "main", scene, settings).value
    assert parts.logit > 3 and np.sort(parts.heads.ravel())[-3:].min() > 0.5


@sees("smollm2-135m", "fact")
def the_city_comes_late(scene: Scene, view: View, settings: Settings):
    curves = measured(view, "curves", scene, settings).value
    assert curves.settled >= 28 and scene.model.config.n_layer == 30


@sees("smollm2-135m", "few_shot")
def the_arrow_looks_at_the_word_to_turn(scene: Scene, view: View, settings: Settings):
    pieces = [scene.model.tokenizer.piece(int(i)) for i in scene.trace.tokens.ids]
    (token,) = scene.picked.tokens
    (pattern,) = measured(view, "main", scene, settings).value.z
    assert token == len(pieces) - 1 and pieces[int(np.nanargmax(pattern[token]))] == "fast"
    assert np.nanmax(pattern[token]) > 0.9


@sees("smollm2-135m", "code")
def the_name_is_likely_where_it_stood_before(scene: Scene, view: View, settings: Settings):
    found = measured(view, "main", scene, settings).value
    assert [scene.model.tokenizer.piece(token) for token in found.tokens] == [" b"]
    pieces = [scene.model.tokenizer.piece(int(i)) for i in scene.trace.tokens.ids]
    chances = found.followed[0].probability
    assert chances[pieces.index(" -")] > 0.9 and np.median(chances) < 0.1


def led(playground: Playground, model: str, key: str) -> tuple[Scene, View, Settings]:
    """The scene, view and settings to which an example leads; each setting that it names is taken as it says."""
    place = {"values": {}} | PLACES[model][key]
    values, tab = place["values"], next(tab for tab in TABS if tab.key == place["tab"])
    assert set(values) <= set(tab.asks)
    chosen = values.get(tab.chooser, {}).get("view", tab.key)
    view = next(view for view in tab.views if view.key == chosen)
    scene = scene_of(playground, PageRequest(model, EXAMPLES[model][key], place, values, {}, "en", tab=tab.key))
    for name in {"heads", "tokens", "edits"} & set(place):
        assert len(getattr(scene.picked, name)) == len(place[name])
    settings = settings_of(view, scene, values)
    form = values.get(f"{view.key}_form", {})
    assert {name: settings[name] for name in form} == form
    return scene, view, settings


def test_every_example_leads_somewhere():
    assert {model: places.keys() for model, places in PLACES.items()} == {
        model: given.keys() for model, given in EXAMPLES.items()
    }
    assert set(SEEN) == {(model, key) for model, places in PLACES.items() for key in places}
    items = payload(words("en"), "tinygpt")["items"]
    assert [item["place"] for item in items] == list(PLACES["tinygpt"].values())
    assert all(item["place"] is None for item in payload(words("en"), "x")["items"])


@pytest.mark.parametrize("key", EXAMPLES["tinygpt"])
def test_where_an_example_leads_one_sees_what_it_says(playground, key):
    SEEN["tinygpt", key](*led(playground, "tinygpt", key))


@pytest.mark.long
@pytest.mark.parametrize("key", EXAMPLES["smollm2-135m"])
def test_where_an_example_of_the_larger_model_leads_one_sees_what_it_says(playground, key):
    SEEN["smollm2-135m", key](*led(playground, "smollm2-135m", key))


def of(model: str) -> list:
    return [pytest.param(model, key, id=f"{model}-{key}") for key in EXAMPLES[model]]


@pytest.mark.parametrize(("lm", "key"), of("tinygpt"), indirect=["lm"])
def test_an_example_shows_what_it_says(lm, key):
    SHOWN[lm.id, key](lm, EXAMPLES[lm.id][key])


@pytest.mark.long
@pytest.mark.parametrize(("lm", "key"), of("smollm2-135m"), indirect=["lm"])
def test_an_example_of_the_larger_model_shows_what_it_says(lm, key):
    SHOWN[lm.id, key](lm, EXAMPLES[lm.id][key])


def test_of_a_model_that_nobody_tried_nothing_is_promised():
    assert examples("hub:somebody/model") is ANY
    for language in LANGUAGES:
        catalogue = words(language)
        items = payload(catalogue, "hub:somebody/model")["items"]
        assert [item["shows"] for item in items] == [catalogue[f"examples.{key}.asks"] for key in ANY]
        tried = payload(catalogue, "tinygpt")
        assert [item["text"] for item in tried["items"]] == list(EXAMPLES["tinygpt"].values())
        assert tried["title"] != payload(catalogue, "x")["title"]


# How a text that says what to try names an example, and how it speaks of one at all.
NAMED = {"en": (r"the example “([^”]+)”", r"\bexamples?\b"), "zh": (r"“([^”]+)”示例", "示例")}


def named(language: str) -> dict[str, list[str]]:
    """The examples that each text asks for, by the keys of both."""
    catalogue, (name, mention) = words(language), NAMED[language]
    keys = {catalogue[f"examples.{key}.name"]: key for each in EXAMPLES.values() for key in each}
    asked = {}
    for key, text in catalogue.items():
        if key.endswith("howto.try") and re.search(mention, text):
            found = re.findall(name, text)
            assert len(found) == len(re.findall(mention, text)), f"{language} {key} does not name its example"
            asked[key] = [keys[each] for each in found]
    return asked


def test_a_text_that_asks_for_an_example_calls_it_by_its_name():
    asked = named("en")
    assert len(asked) >= 8 and all(named(language) == asked for language in NAMED)
    for key, examples_ in asked.items():
        for example in examples_:  # one that an untouched page does not offer is said to be another model's
            assert example in EXAMPLES["tinygpt"] or "SmolLM2" in words("en")[key], key
