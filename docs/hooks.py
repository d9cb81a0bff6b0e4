"""Pages -> the site: where each stands, and the pages that lie elsewhere in the repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
AT_ROOT = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
NOTEBOOK = ROOT / "lab" / "notebook"
FIRST = ("install", "howto", "workflows", "results", "steering", "models", "glossary", "gallery")  # that many look for
SECTIONS = {
    "Tutorials": "tutorials",
    "Results": "results",
    "Reference": "reference",
    "Design": "design",
}


def on_config(config: Any) -> Any:
    """A page that is new is in the site by lying in its folder."""
    docs = ROOT / "docs"
    found = {path.stem: f"{path.stem}.md" for path in sorted(docs.glob("*.md"))}
    guide = [found.pop(name) for name in FIRST] + list(found.values())
    nav: list[Any] = [{"Steersman": "index.md"}, {"Guide": guide}]
    for title, folder in SECTIONS.items():
        nav.append({title: _pages(docs / folder)})
    nav.append({"Notebook": _pages(NOTEBOOK)})
    config.nav = [*nav, {"Project": ["contributing.md", "changelog.md"]}]
    return config


def _pages(folder: Path) -> list[str]:
    return [f"{folder.name}/{path.name}" for path in sorted(folder.glob("*.md"), key=_order)]


def _order(path: Path) -> tuple[bool, str]:
    return path.stem not in ("README", "index"), path.stem


def on_files(files: Files, config: Any) -> Files:
    """README, contributing, changes and the notebook are pages, too, with links as of here."""
    for name, page in AT_ROOT.items():
        files.append(File.generated(config, page, content=_moved((ROOT / name).read_text())))
    for path in NOTEBOOK.glob("*.md"):
        content = path.read_text().replace("](../../docs/", "](../")
        files.append(File.generated(config, f"notebook/{path.name}", content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Pages link to those files as they lie in the repository."""
    up = "../" * page.file.src_uri.count("/")
    for name, to in AT_ROOT.items():
        markdown = re.sub(rf"\]\((?:\.\./)+{name}", f"]({up}{to}", markdown)
    return re.sub(r"\]\((?:\.\./)+lab/notebook/", f"]({up}notebook/", markdown)


def _moved(text: str) -> str:
    """The links of a page that lies one folder lower now; what is no page is only named."""
    for name, page in AT_ROOT.items():
        text = text.replace(f"]({name}", f"]({page}")
    text = text.replace("](docs/design/)", "](docs/design/README.md)").replace("](docs/", "](./")
    text = text.replace("](lab/notebook/", "](./notebook/")
    return re.sub(r"\[([^\]]*)\]\((?!\./|https?:|#|\w+\.md)[^)]*\)", r"\1", text)


class Lazy(griffe.Extension):
    """What a package imports for type checkers (`system/lazy.py`) is what it exports."""

    def on_module_members(self, *, mod: griffe.Module, **_: Any) -> None:
        if "lazy" in mod.imports:
            mod.exports = [name for name in mod.imports if name not in ("TYPE_CHECKING", "lazy")]
