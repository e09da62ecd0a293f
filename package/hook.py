"""Build hook of the wheel: `model`, `viz`, `static` and app.py become the package `attention_playground`.

In a clone the packages have short names, which would hide or be hidden by other modules of those names in an
environment. The wheel contains copies whose imports begin with `attention_playground`. An editable install has none of
them: package/editable stands for the package there.
"""

import runpy
import tempfile
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGED = ("model", "viz", "static", "app.py", "docs/mini_gpt.py")
_names = runpy.run_path(str(Path(__file__).with_name("names.py")))
NAME, renamed = _names["NAME"], _names["renamed"]


class PackageHook(BuildHookInterface):
    """Adds the files of the package to the wheel."""

    def initialize(self, version: str, build_data: dict) -> None:
        """Write the renamed files to a temporary folder, which `finalize` removes, and list all files."""
        self.folder = tempfile.TemporaryDirectory()
        if version == "editable":
            return
        root = Path(self.root)
        files = {path: path.relative_to(root / "package/installed") for path in (root / "package/installed").iterdir()}
        for name in PACKAGED:
            place = root / name
            found = (path for path in place.rglob("*") if path.is_file()) if place.is_dir() else [place]
            files |= {path: path.relative_to(root) for path in found if "__pycache__" not in path.parts}
        for path, inside in files.items():
            if path.suffix in (".py", ".toml"):
                text = renamed(path.read_text(encoding="utf-8"))
                path = Path(self.folder.name, inside)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            build_data["force_include"][str(path)] = f"{NAME}/{inside.as_posix()}"

    def finalize(self, version: str, build_data: dict, artifact_path: str) -> None:
        """Remove the temporary folder."""
        self.folder.cleanup()
