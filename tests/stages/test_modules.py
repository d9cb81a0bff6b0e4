"""A workflow file of more than one module, and the processes that its stages start."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from steersman.journal import run_directory
from steersman.stages.modules import FOLDER, imported, keep

FILES = {
    "mine.py": """
        import numpy, first_helper
        from steersman import Workflow, budget
        from whole import part
        wf = Workflow("mine", stop=budget(frames=1))

        def double(x): return first_helper.TWO * x

        @wf.simulate()
        def simulate(p, start, out):
            import lazily
            from multiprocessing import get_context
            for method in ("spawn", "forkserver", "fork"):
                with get_context(method).Pool(1) as pool:
                    print(pool.map(double, [lazily.ONE, part.TWO]))
        """,
    "first_helper.py": "import second_helper\nTWO = second_helper.TWO",
    "second_helper.py": "import first_helper\nTWO = 2",
    "lazily.py": "ONE = 1",
    "whole/__init__.py": "",
    "whole/part.py": "from . import other\nTWO = other.TWO",
    "whole/other.py": "TWO = 2",
    "unused.py": "raise SystemExit('nobody imports it')",
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / "mine" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mine" / name).write_text(textwrap.dedent(text))
    return tmp_path / "mine" / "mine.py"


def test_what_a_file_imports_from_its_folder_is_found_however_it_imports_it(source: Path) -> None:
    found = {str(path.relative_to(source.parent)) for path in imported(source)}
    assert found == FILES.keys() - {"mine.py", "unused.py"}


def test_a_run_needs_its_source_no_more_and_pools_of_a_stage_work(source: Path, tmp_path: Path) -> None:
    """As in a worker: another process, another folder; a Pool that cannot import a function waits for ever."""
    directory = run_directory.create(tmp_path, "mine", tmp_path / "run")
    run_directory.write_settings(directory, {}, source)
    keep(source, directory.path)
    source.parent.rename(tmp_path / "elsewhere")
    code = "from steersman.stages import loading; from pathlib import Path\n"
    code += (
        f"if __name__ == '__main__': loading.load(Path({str(directory.workflow)!r})).simulation.function(*[None] * 3)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd="/")
    assert done.stdout == "[2, 4]\n" * 3, done.stderr
    assert {path.name for path in (directory.path / FOLDER).glob("*.py")} == {
        "steersman_workflow.py", "first_helper.py", "second_helper.py", "lazily.py"
    }  # fmt: skip
