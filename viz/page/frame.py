"""The frame around the views: the page's name, its groups of tabs, and the words of its search, by language."""

from model.loading.families import FAMILIES, MODEL_TYPE
from model.loading.sources import BUILT_IN, BuiltIn, available
from viz.numbers import count, size, whole
from viz.seam.tab import Tab
from viz.views.tabs import GROUPS
from viz.words import LANGUAGES, Catalogue, file_texts, section, some
from viz.work.playground import Playground


def payload(playground: Playground, catalogue: Catalogue, language: str) -> dict:
    """Build the payload of the page's navigation, with the words of the search."""
    return {
        "models": _models(playground, catalogue),
        "title": catalogue["page.title"],
        "groups": groups(catalogue),
        "languages": [
            {"code": code, "text": file_texts(code, "page")["page.language"]} for code in LANGUAGES if code != language
        ],
        "words": section(catalogue, "header"),
        "labels": some(catalogue, "page", "model", "prompt", "placeholder"),
        "search": section(catalogue, "search"),
    }


def groups(catalogue: Catalogue) -> list[dict]:
    """Build the groups of tabs with their words, in order."""
    return [
        {"key": key, "label": catalogue[f"group.{key}"], "tabs": [_tab(catalogue, tab) for tab in tabs]}
        for key, tabs in GROUPS
    ]


def _tab(catalogue: Catalogue, tab: Tab) -> dict:
    return {
        "key": tab.key,
        "label": catalogue[f"tab.{tab.key}"],
        "question": catalogue[f"tab.{tab.key}_question"],
    }


def _models(playground: Playground, catalogue: Catalogue) -> dict:
    """Describe the built-in models that this server offers, and how to add another one."""
    only = playground.options.allowed.models
    downloaded = available()

    def had(each: BuiltIn) -> str:
        ready = each.id in downloaded
        return catalogue["models.here" if ready else "models.download"].format(size=size(each.download_bytes))

    items = [
        {
            "id": each.id,
            "label": each.label,
            "line": catalogue[f"models.{each.id}"],
            "facts": [
                catalogue["models.params"].format(n=count(each.n_params)),
                catalogue["models.context"].format(n=whole(each.n_ctx)),
                catalogue["models.chat" if each.chat else "models.base"],
                *(catalogue[f"models.read_{code}"] for code in each.languages),
                catalogue["models.here" if each.id in downloaded else "models.download"].format(
                    size=size(each.download_bytes)
                ),
            ],
        }
        for each in BUILT_IN
        if not only or each.id in only
    ]
    words = some(catalogue, "models", "label", "title", *(() if only else ("add",)))
    labels = list(dict.fromkeys(family.label for name, family in FAMILIES.items() if name != MODEL_TYPE))
    families = "" if only else catalogue["models.families"].format(names=", ".join(labels))
    return {"add": "", "families": families} | words | {"items": items}
