"""Bundler that joins the page's modules into one script, so that a browser requests one file instead of a hundred and
thirty.

In the folder, each module is a separate file. In the bundle, each becomes a function that returns the module's
exports, in the order in which a browser would run them; imports are read from the modules that ran before. That is
equivalent as long as there are no circular imports and no export is reassigned; `join` rejects syntax that it does not
know. The file of a bundled module re-exports from the bundle, so that each module runs once, regardless of how it is
imported.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from viz.server.assets import MAIN, VIEWER_STYLE, Assets, asset, read
from viz.server.headers import WORKER

LEARN = "learn/learn.js"  # includes everything that only lessons need
FINDER = "page/search/finder.js"  # includes everything that only the open search needs
VIEWER = "viewer/overlay.js"  # includes everything that only the viewer of attention arrays needs
ALONE = "viewer/alone.js"  # the viewer in a file of its own; a page does not request it
ALONE_STYLES = ("base", "parts/icons", "parts/switcher", "parts/table", "views/attention/lines")
_IMPORT = re.compile(r'^import (?:(\{[^}]*\}|\* as \w+) from )?"(\.[^"]+)";(?= *(?://.*)?$)', re.MULTILINE)
_TAKEN = re.compile(r"[{,]\s*(\w+)")  # names between braces, before "as"
_EXPORT = re.compile(r"^export (?=(?:const|function|async function) (\w+))", re.MULTILINE)
_OTHER = re.compile(r"^(?:import|export)\b.*|^(?:const .* = )?await\b.*", re.MULTILINE)
_LATER = re.compile(r"\bimport\(")  # a dynamic import
_WHERE = re.compile(r"\bimport\.meta\.url\b")
_HELP = "const $later = (where, address) => import(new URL(address, where));\n"


@dataclass(frozen=True)
class Module:
    """One module of the page: its name, its text, its static imports, and its exports."""

    name: str
    text: str
    imports: tuple[str, ...]
    exports: tuple[str, ...]

    @property
    def variable(self) -> str:
        """The name of the variable that holds the module's exports in a bundle."""
        return "$" + re.sub(r"\W", "_", self.name.removesuffix(".js"))


def module(name: str, text: str) -> Module:
    """Parse the text of a module."""
    imports = [posixpath.normpath(posixpath.join(posixpath.dirname(name), at)) for _, at in _IMPORT.findall(text)]
    return Module(name, text, tuple(imports), tuple(_EXPORT.findall(text)))


def joined(assets: Assets) -> Assets:
    """Bundle the files into four scripts: one for the page's start, one for its lessons, one for its search, and one
    for the viewer of attention arrays.

    The worker is not bundled: it runs beside the pages and imports its own modules.
    """
    names = [name for name in assets.files if name.endswith(".js")]
    modules = {name: module(name, assets.files[name].body.decode()) for name in names}
    sent: dict[str, str] = {}
    where: dict[str, str] = {}  # module -> script that contains it
    for script in (each for each in (MAIN, LEARN, FINDER, VIEWER) if each in modules):
        sent[script] = join(modules, script, where)
        where |= {name: script for name in order(modules, script) if name not in where}
    sent |= {name: hand_on(modules[name], script) for name, script in where.items() if name not in sent}
    sent |= {name: join(modules, name) for name in modules if name == WORKER}
    return Assets(assets.digest, assets.files | {name: asset(name, text.encode()) for name, text in sent.items()})


@dataclass(frozen=True)
class Alone:
    """The script and the styles of the viewer in a file of its own."""

    script: str
    style: str


def alone(static: Path) -> Alone:
    """Bundle the viewer for a file of its own: it imports nothing. The file holds the document as JSON in the element
    #attention, an element #viewer within .gradio-container, and Plotly's script before this one.
    """
    assets = read(static)
    modules = {name: module(name, file.body.decode()) for name, file in assets.files.items() if name.endswith(".js")}
    styles = [(static / "style" / f"{name}.css").read_text(encoding="utf-8") for name in ALONE_STYLES]
    return Alone(join(modules, ALONE), "\n".join((*styles, assets.files[VIEWER_STYLE].body.decode())))


def order(modules: Mapping[str, Module], entry: str) -> list[str]:
    """Return a module and all modules that it imports, in execution order. Raises ValueError for circular imports."""
    done: dict[str, bool] = {}

    def visit(name: str) -> Iterator[str]:
        if name in done:
            if not done[name]:
                raise ValueError(f"{name} imports itself by way of others")
            return
        done[name] = False
        for other in modules[name].imports:
            yield from visit(other)
        done[name] = True
        yield name

    return list(visit(entry))


def join(modules: Mapping[str, Module], entry: str, before: Mapping[str, str] | None = None) -> str:
    """Bundle a module and everything that it imports into one script. `before` maps modules to the other bundles that
    contain them.

    Raises ValueError for syntax that cannot be joined.
    """
    before = before or {}
    own = [modules[name] for name in order(modules, entry) if name not in before]
    taken = [modules[name] for name in sorted({other for each in own for other in each.imports} & before.keys())]
    parts = []
    for n, script in enumerate(sorted({before[each.name] for each in taken})):
        parts.append(f'import {{ modules as $from_{n} }} from "{_address(script, entry)}";\n')
        parts += [
            f'const {each.variable} = $from_{n}["{each.name}"];\n' for each in taken if before[each.name] == script
        ]
    parts += [_HELP, *(_function(modules, each, entry) for each in own)]
    listed = "".join(f'  "{each.name}": {each.variable},\n' for each in own)
    return (
        f"{''.join(parts)}export const modules = {{\n{listed}}};\n{_exports(modules[entry], modules[entry].variable)}"
    )


def hand_on(module: Module, script: str) -> str:
    """Build a module that re-exports from the bundle that contains it."""
    taken = f'import {{ modules }} from "{_address(script, module.name)}";\n'
    return taken + _exports(module, f'modules["{module.name}"]')


def _function(modules: Mapping[str, Module], module: Module, script: str) -> str:
    """Convert a module to a function that is called immediately and returns the module's exports."""
    where = f'new URL("{_address(module.name, script)}", import.meta.url).href'
    others = iter(module.imports)

    def take(match: re.Match) -> str:
        other, names = modules[next(others)], match[1] or ""
        if unknown := set(_TAKEN.findall(names)) - set(other.exports):
            raise ValueError(f"{module.name} imports what {other.name} does not export: {', '.join(sorted(unknown))}")
        names = names.removeprefix("* as ").replace(" as ", ": ")
        return f"const {names} = {other.variable};" if names else ""

    body = _EXPORT.sub("", _IMPORT.sub(take, module.text))
    if unknown := _OTHER.search(body):
        raise ValueError(f"{module.name} cannot be joined with others: {unknown[0]}")
    if "import" in body:
        body = _LATER.sub(lambda _: f"$later({where}, ", _WHERE.sub(lambda _: where, body))
    exports = ", ".join(module.exports)
    return f"// {module.name}\nconst {module.variable} = (() => {{\n{body}\nreturn {{ {exports} }};\n}})();\n"


def _exports(module: Module, value: str) -> str:
    return f"export const {{ {', '.join(module.exports)} }} = {value};\n" if module.exports else ""


def _address(name: str, script: str) -> str:
    """Return the address of a file relative to a script."""
    path = posixpath.relpath(name, posixpath.dirname(script) or ".")
    return path if path.startswith(".") else f"./{path}"
