"""The docs are true as far as a machine can see: links, commands, options; and the site fetches nothing."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import steersman
from steersman.cli.__main__ import app
from steersman.cli.verbs import VERBS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "lab").rglob("*.md"))]
CALL = re.compile(r"(?:^|[`$ ])steersman (\w+)((?: +?[^`\n|#(]*?)?)(?= +steersman |[`\n|#(]|$)", re.MULTILINE)
FETCHED = re.compile(
    r'(?:<script[^>]* src|<link[^>]*rel="(?:stylesheet|icon|preconnect)"[^>]* href|<img[^>]* src)="(https?:)?//'
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_exists_with_its_options(page: Path) -> None:
    for verb, rest in CALL.findall(page.read_text()):
        if verb in ("bench", "VERB") or (verb not in VERBS and "--" not in rest):
            continue  # a benchmark has options of its own; "steersman does not judge" is no command
        known = options(verb)
        for option in re.findall(r"(?<!\S)(--[a-z][a-z-]*)", rest):
            assert option in known, f"{page.name}: steersman {verb}{rest}"


def test_every_command_is_on_a_page() -> None:
    assert {*VERBS} <= {verb for page in PAGES for verb, _ in CALL.findall(page.read_text())}


def test_the_readme_can_be_read_at_a_sitting() -> None:
    """What does not fit is on a page of docs/."""
    assert len((ROOT / "README.md").read_text().split()) <= 700


def options(verb: str) -> set[str]:
    group = typer.main.get_command(app)
    context = typer.Context(group)
    _, command, _ = group.resolve_command(context, [verb])  # type: ignore[attr-defined]
    parts = [command, *getattr(command, "commands", {}).values()]
    return {name for part in parts for each in part.params for name in each.opts} | {"--help"}


def test_the_reference_has_all_that_is_imported_from_steersman_itself() -> None:
    pages = "".join(page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md"))
    names = {name for name in dir(steersman) if not inspect.ismodule(getattr(steersman, name))}
    assert names - set(re.findall(r"^::: [\w.]+\.(\w+)$", pages, re.MULTILINE)) == set(), "no page of docs/reference"


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_fetches_nothing(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="pip install 'steersman[docs]'")
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pages = {path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("*.html")}
    assert [name for name, text in pages.items() if FETCHED.search(text)] == []
    assert [name for name, text in pages.items() if "<p>```" in text] == [], "a fence that was not understood"
    for name, page in {
        "stages.workflow.Workflow": "workflow",
        "steering.Novelty": "policies",
        "models.CVAE": "networks",
    }.items():
        assert f'id="steersman.{name}"' in pages[f"reference/{page}.html"]
    assert pages["howto.html"].count(". ... ") == 21
