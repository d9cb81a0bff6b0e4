"""Bad input: one clear message before any job starts, naming what is wrong and what would be right."""

import errno
import json
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from steersman import Params
from steersman.cli.__main__ import main
from steersman.engine import people
from steersman.engine.campaign import plan, resume
from steersman.journal import run_directory
from steersman.journal.errors import BadDirectory
from steersman.journal.run_directory import RunDirectory, create, open_run
from steersman.stages import loading
from steersman.system.errors import BadValue
from tests.engine.conftest import HEAD, WriteWorkflow, completed, steersman

Refused = Callable[..., str]
BEFORE = len(HEAD.splitlines())


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Refused:
    """What `steersman WORDS` says on standard error; it ends with code 2, in one screen, and starts nothing."""

    def run(*words: object) -> str:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["steersman", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert ended.value.code == 2
        assert said.out == ""
        assert len(said.err.splitlines()) <= 8
        assert not (tmp_path / "runs").exists(), "nothing was begun"
        return said.err

    return run


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--set", "sequnce=AYG"], ["no parameter of fold 'sequnce'", "did you mean 'sequence'"]),  # codespell:ignore
        (["--set", "latent=many"], ["latent = 'many'", "integer", ">= 1", "<= 64"]),
        (["--set", "latent=65"], ["latent = 65", "less than or equal to 64", ">= 1"]),
        (["--set", "temperature_K=0"], ["temperature_K = 0", "greater than 0", "<= 1000"]),
        (["--set", "sequence=YYDPETGTWX"], ["'X' at position 10", "A C D E F"]),
        (["--set", "sequence="], ["sequence"]),
        (["--set", "latent"], ["write --set key=value"]),
        (
            ["--set", "sequence=!!timestamp 2021-02-30"],
            ["sequence = !!timestamp 2021-02-30: this is not YAML", "quote"],
        ),
        (["--set", "sequence=@CA"], ["sequence = @CA: this is not YAML", "quote"]),
        (["--params", "none.yaml"], ["none.yaml", "No such file"]),
        (["--site", "labtop"], ["this site does not exist", "did you mean 'laptop'"]),
        (["--set", f"sequence={'[' * 5000}"], ["sequence = [[[", "this is not YAML", "quote"]),
        (["--set", f"latent={'9' * 5000}"], ["latent = 999", "(5,000 characters)", "this is not YAML"]),
        (["--set", f"latent=0x{'f' * 5000}"], ["latent = 0xf", "this is not YAML"]),
        (["--set", f"latent={'9' * 300}"], ["latent = 999", "(300 characters)", "<= 64"]),
        (["--set", f"{'k' * 300}=1"], ["no parameter of fold"]),
        (["--params", "/dev/zero"], ["/dev/zero", "no regular file"]),
        (["--site", f"{'s' * 300}.yaml"], ["File name too long"]),
        (["--seed", "-1"], ["seed = -1", "0 or above"]),
        (["--walltime", "2d"], ["--walltime = 2d", "90s, 30m, 2h"]),
        (["--walltime", "²s"], ["--walltime = ²s", "90s, 30m, 2h"]),
        (["--walltime", f"{'9' * 5000}s"], ["--walltime", "90s, 30m, 2h"]),
        (["--walltime", "2:30"], ["--walltime = 2:30", "02:00:00"]),
        (["--walltime", "02:60:00"], ["--walltime = 02:60:00"]),
        (["--set", "latent=1e400"], ["latent = inf", "integer"]),
        (["--nodes", "2"], ["nodes of a scheduler need `workers`"]),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value[0], str) and value[0].startswith("--") else "",
)
def test_a_parameter_is_refused(words: list[str], told: list[str], refused: Refused) -> None:
    said = refused("run", "fold", *words)
    for words_of_it in told:
        assert words_of_it in said


def test_a_goal_cannot_be_required_where_there_is_none(refused: Refused, write_workflow: WriteWorkflow) -> None:
    path = write_workflow("""
        wf = Workflow("aimless", stop=budget(frames=400))

        @wf.simulate()
        def go(p, start, out): out.append(x=1.0)
        """)
    assert "only a budget" in refused("run", path, "--require-goal")


def test_hours_of_gpus_that_nobody_holds_are_no_budget(refused: Refused, write_workflow: WriteWorkflow) -> None:
    path = write_workflow("""
        wf = Workflow("endless", stop=budget(gpu_hours=1))

        @wf.simulate()
        def go(p, start, out): out.append(x=1.0)
        """)
    assert "holds no GPU" in refused("check", path)
    path.write_text(path.read_text().replace("gpu_hours=1)", "gpu_hours=1, frames=10)"))
    assert plan(str(path)).params, "another limit ends it"
    path.write_text(path.read_text().replace("gpu_hours=1, frames=10)", "gpu_hours=1) & budget(frames=10)"))
    with pytest.raises(BadValue):
        plan(str(path))


@pytest.mark.parametrize(("field", "default"), [("Annotated[float, AfterValidator(lambda x: x / 2)]", 8.0),
                                                ("Any", "(1, 2)"), ("SecretStr", "SecretStr('word')")])  # fmt: skip
def test_parameters_that_are_others_when_they_are_read_again_are_refused(
    field: str, default: object, tmp_path: Path
) -> None:
    """The run would have others than the file says: it reads them from run.yaml."""
    path = tmp_path / "params.py"
    path.write_text(
        f"""
from typing import Annotated, Any
from pydantic import AfterValidator, ConfigDict, SecretStr
from steersman import Params, Workflow, budget
class Mine(Params):
    model_config = ConfigDict(validate_default=True)
    x: {field} = {default}
wf = Workflow("params", Mine, stop=budget(frames=1))
@wf.simulate
def segment(p, start, out): out.append(x=1.0)
"""
    )
    with pytest.raises(BadValue):
        plan(str(path))


def test_an_unknown_workflow_is_refused_with_the_nearest(refused: Refused) -> None:
    said = refused("run", "double_wel")
    assert "'double_well'" in said
    assert ", ".join(sorted(loading.shipped())) in said


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("simulaton: {workers: 2}", ["no key 'simulaton'", "did you mean 'simulation'"]),
        ("simulation: {workrs: 2}", ["no key 'simulation.workrs'", "did you mean 'workers'"]),
        ("simulation: {workers: 0}", ["simulation.workers = 0", "greater than or equal to 1"]),
        ("simulation: {workers: two}", ["simulation.workers = 'two'", "integer"]),
        ("simulation: {nodes: 2}", ["simulation: nodes of a scheduler need `workers`"]),
        ("slurm: {}\nsimulation: {nodes: 2, workers: 1}", ["simulation: nodes of a scheduler need `walltime_s`"]),
        ("simulation: {nodes: 2, workers: 1, walltime_s: 60}", ["no scheduler is named", "slurm: {partition"]),
        ("slurm: {partion: debug}", ["no key 'slurm.partion'", "did you mean 'partition'"]),  # codespell:ignore
        (
            "slurm: {}\ninterface: nowhere0\ntraining: {nodes: 1, workers: 1, walltime_s: 60}",
            ["interface = nowhere0: this machine has", "lo"],
        ),
        ("simulation: {walltime_s: 30}", ["simulation: walltime_s = 30 is too short", "margin_s = 30"]),
        ("simulation: [", ["this is not YAML"]),
        ("- simulation", ["this is not YAML of the form `key: value`"]),
    ],
)
def test_a_site_file_is_refused(text: str, told: list[str], refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    said = refused("run", "double_well", "--site", "mine.yaml")
    assert "site mine" in said
    for words in told:
        assert words in said


SIMULATE = """
@wf.simulate()
def go(p, start, out): pass
"""


@pytest.mark.parametrize(
    ("body", "line", "told"),
    [
        ("wf = None", 0, "it defines 0 workflows; it must hold one"),
        ("a, b = Workflow('a', P, stop=budget(frames=1)), Workflow('b', P, stop=budget(frames=1))", 0, "2 workflows"),
        ("wf = Workflow('a', P, stop=budget(frames=1))", 0, "decorate a function with @wf.simulate()"),
        ("x = 1\nraise RuntimeError('no such thing')", 2, "RuntimeError: no such thing"),
        ("import sys\nsys.exit(3)", 2, "SystemExit: 3"),
        ("def broken(:\n    pass", 1, "SyntaxError"),
        ("from os import nothing_like_it", 1, "ImportError"),
        ("wf = Workflow('a', P, stop=budget(frames=1))\n@wf.simulate()\ndef go(p): pass", 2, "called as simulate("),
        ("wf = Workflow('a b', P, stop=budget(frames=1))", 1, "use letters, digits"),
        ("wf = Workflow('a', P, stop=budget(frames=1))" + SIMULATE + "wf.steer(Novelty('z'))", 0, "needs scores z"),
        (
            "wf = Workflow('a', P, stop=budget(frames=1))" + SIMULATE + "wf.steer(Random(), prune=Hopeless('d'))",
            0,
            "scores d",
        ),
        ("wf = Workflow('a', P, stop=reached('d', 1))" + SIMULATE, 0, "no metric 'd'; Valid: none; decorate"),
        ("wf = Workflow('a', P, stop=budget())" + SIMULATE, 1, "budget"),
        ("wf = Workflow('a', P, stop=lambda p: budget(frames=-p.frames))" + SIMULATE, 0, "frames"),
        ("wf = Workflow('a', P, stop=1000)", 1, "stop=1000"),
        ("wf = Workflow('a', P, stop=budget(frames=1))\n@wf.scoring\ndef s(p, m, f): pass", 2, "mean `score`?"),
        ("wf = Workflow('a', P)", 1, "stop=budget(frames="),
        ("wf = Workflow('a', P, stop=budget(frames=1))\n@wf.metrics\ndef s(scores): pass", 2, "mean `metric`?"),
        ("wf = Workflow('a', P, stop=budget(frames=1))\n@wf.training(when=1)\ndef s(p): pass", 2, "mean `train`?"),
        ("wf = Workflow('a', P, stop=budget(frames=1))\nwf.steering(Novelty('z'))", 2, "did you mean `steer`?"),
        ("from steersman.steering import Novelti", 1, "did you mean 'Novelty'?"),
        ("from .other import x", 1, "write `import other`"),
        ("wf = Workflow('a', P, stop=budget(frames=1))\n@wf.simulation()\ndef s(p): pass", 2, "mean `simulate`?"),
        ("wf = Workflow('a', P, stop=budget(frames=1))\n@wf.preparation\ndef s(p): pass", 2, "mean `prepare`?"),
        ("wf = Workflow('a', P, stop=budget(frames=1))\n@wf.train(when=400)\ndef fit(p, f, last): pass", 2, "when=400"),
        ("wf = Workflow('a', P, stop=budget(frames=1))\nwf.steer(Novelty)", 2, "(policy)"),
        ("wf = Workflow('a', P, stop=budget(frames=1))\nwf.steer('Novelty')", 2, "(policy)"),
        ("wf = Workflow('a', P, stop=budget(frames=1))\nwf.steer(Random(), fallback=0.1)", 2, "(fallback)"),
        ("wf = Workflow('a', P, stop=budget(frames=1))\nwf.steer(Random(), prune=Hopeless)", 2, "(prune)"),
    ],
)
def test_a_workflow_file_is_refused_with_file_and_line(
    body: str, line: int, told: str, write_workflow: WriteWorkflow, refused: Refused
) -> None:
    path = write_workflow(body)
    said = refused("run", path)
    assert told in said
    if line:
        assert f"{path}, line {BEFORE + line}:" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{a: " * 5000, "x: &x [1]\n" + "y: *x\n" * 50, f"x: {'9' * 5000}", "? []"]
)
def test_a_file_that_a_reader_could_not_bear_is_refused(text: str, refused: Refused, tmp_path: Path) -> None:
    """Nested too deep, doubled again and again, a number of thousands of digits, a list as a key."""
    (tmp_path / "odd.yaml").write_text(text)
    for option in ("--params", "--site"):
        assert "not YAML" in refused("run", "double_well", option, "odd.yaml")


def test_a_file_too_large_for_its_kind_is_refused_unread(refused: Refused, tmp_path: Path) -> None:
    with (tmp_path / "odd.yaml").open("wb") as file:
        file.truncate(2**40)
    for option in ("--params", "--site"):
        assert "1,099,511,627,776 bytes" in refused("run", "double_well", option, "odd.yaml")


def test_a_word_of_thousands_of_letters_fills_no_screen(refused: Refused) -> None:
    word = "9" * 50_000
    for words in (["journal", ".", "--sim", word], ["run", word], ["run", "double_well", "--set", word]):
        assert len(refused(*words)) < 2500


def test_names_that_the_system_refuses_are_refused_in_a_line(refused: Refused) -> None:
    for words in (["run", "x" * 300 + ".py"], ["new", "x" * 300], ["status", "x" * 300]):
        assert "name too long;" in refused(*words)


def test_a_folder_of_somebody_else_is_refused_in_a_line(
    refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root may write anywhere, the system's answer is given here by its call."""

    def denied(self: Path, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    monkeypatch.setattr(Path, "open", denied)
    assert "mine.py: Permission denied" in refused("new", "mine")


def test_a_workflow_file_without_its_ending_is_recognised(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "clock.py").touch()
    assert "'clock.py'" in refused("run", "clock")


def test_a_workflow_file_that_is_not_there(refused: Refused) -> None:
    assert "nowhere.py: there " in refused("run", "nowhere.py")


def test_a_run_directory_that_exists_keeps_what_it_holds(refused: Refused, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    assert "exists" in refused("run", "double_well", "--run-dir", "mine")
    assert [path.name for path in mine.iterdir()] == ["thesis.txt"]


def test_a_path_that_scripts_do_not_bear_is_refused(refused: Refused, tmp_path: Path) -> None:
    for name in ("my runs", "runs(1)", "it's", "a$b"):
        assert "choose another folder" in refused("run", "double_well", "--run-dir", f"{name}/one")
    run = create(tmp_path, "x", tmp_path / "größe-1.5_a+b").path
    run.rename(tmp_path / "moved here")
    with pytest.raises(BadDirectory, match="' '"):
        resume(RunDirectory(tmp_path / "moved here"))


@pytest.mark.parametrize(("text", "told"), [("{name: here, scorng: {}}", "did you mean 'scoring'"), ("{", "not YAML")])
def test_what_a_person_wrote_into_the_settings_of_a_run_is_refused(
    text: str, told: str, refused: Refused, tmp_path: Path
) -> None:
    """The run itself says when that is the cure."""
    source = loading.find("double_well")
    directory = create(tmp_path, "x")
    run_directory.write_settings(directory, {"params": {}}, source)
    directory.settings_file.write_text(f"params: {{}}\nsite: {text}\n")
    directory.journal.touch()
    said = refused("resume", directory.path)
    assert "run.yaml" in said
    assert told in said


def test_runs_that_begin_at_the_same_moment_have_folders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = iter(["x-0001", "x-0001", "x-0002"])
    monkeypatch.setattr(run_directory, "_next", lambda root, name: root / next(seen))
    assert [create(tmp_path, "x").path.name for _ in range(2)] == ["x-0001", "x-0002"]


def test_who_has_no_name_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr("getpass.getuser", unknown)
    assert run_directory.environment()["user"] == str(os.getuid())


def test_a_place_where_nobody_can_write(refused: Refused) -> None:
    said = refused("run", "double_well", "--run-dir", "/proc/run")
    assert "cannot be made" in said
    assert "a writable --run-dir" in said


def test_asking_about_a_run_that_is_not_there(refused: Refused) -> None:
    for verb in (["status", "runs/fold-0001"], ["watch", "nowhere"], ["why", "nowhere", "w0.1"]):
        assert "no such folder" in refused(*verb)


def test_new_never_overwrites(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("precious")
    assert "mine.py exists" in refused("new", "mine")
    assert "the name" in refused("new", "../mine")
    assert (tmp_path / "mine.py").read_text() == "precious"


def test_an_unknown_benchmark_names_the_nearest(refused: Refused) -> None:
    assert "'loop'" in refused("bench", "lop")


@pytest.mark.slow
def test_check_says_all_that_a_run_would_need(refused: Refused, tmp_path: Path) -> None:
    done = steersman("check", "fold", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    checks = json.loads(done.stdout)["checks"]
    assert all(each["ok"] for each in checks)
    assert {"workflow", "parameters", "site", "bus server", "run directory", "disk"} <= {
        each["what"] for each in checks
    }
    assert not (tmp_path / "runs").exists()
    assert "Traceback" not in refused("check", "fold", "--set", "latent=-1")


@pytest.mark.slow
def test_check_refuses_where_nobody_can_write() -> None:
    done = steersman("check", "double_well", "--json", cwd=Path("/proc"))
    assert done.returncode == 2
    assert "run directory" in [each["what"] for each in json.loads(done.stdout)["checks"] if not each["ok"]]


@pytest.mark.slow
def test_a_start_that_cannot_be_prepared_ends_the_run_with_its_cause(
    write_workflow: WriteWorkflow, tmp_path: Path
) -> None:
    """A PDB file without the atoms needed is only read when the run prepares its start."""
    (tmp_path / "half.pdb").write_text(
        "ATOM      1  N   ALA A   1       0.000   0.000   0.000  1.00  0.00           N\nEND\n"
    )
    path = write_workflow(f"""
        from steersman.apps import molecular_dynamics as md
        wf = Workflow("half", P, stop=lambda p: budget(frames=p.frames))

        @wf.prepare
        def build(p): return md.read_pdb({str(tmp_path / "half.pdb")!r})

        @wf.simulate()
        def go(p, start, out): out.append(x=1.0)
        """)
    run, state, summary = completed(path, cwd=tmp_path, code=5)
    assert "BadInput" in summary["reason"]
    assert "(see errors/prepare.txt)" in summary["reason"]
    assert "in build" in run.traceback("prepare").read_text()
    assert "half.pdb" in summary["reason"]
    assert "ALA" in summary["reason"]
    assert state.frames == 0


def test_where_there_is_no_run_the_newest_is_named_and_not_the_last_of_the_alphabet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, changed in (("a", 2), ("z", 1)):
        journal = tmp_path / "runs" / name / "journal.jsonl"
        journal.parent.mkdir(parents=True)
        journal.touch()
        os.utime(journal, (changed, changed))
    with pytest.raises(BadDirectory) as told:
        open_run(Path("nothing"))
    assert str(Path("runs", "a")) in told.value.problem


class Anything(Params):
    x: Any


class Parts(BaseModel):
    step: float = 1.0
    name: str = ""


class Nested(Params):
    inner: Parts


def test_a_parameter_with_parts_is_recorded_whole() -> None:
    """Else nobody would see that those which were not named have their defaults again."""
    said = people.changes(["inner={name: q}"], {}, lambda settings: Nested(**settings))
    assert said == {"inner": {"step": 1.0, "name": "q"}}


@pytest.mark.parametrize("value", [".inf", ".nan", "[1, -.inf]", "{a: .nan}"])
def test_a_value_that_the_journal_could_not_give_back_is_refused(value: str) -> None:
    """It would be null when the run is resumed."""
    with pytest.raises(BadValue, match="cannot be recorded"):
        people.changes([f"x={value}"], {}, lambda settings: Anything(**settings))


@pytest.mark.parametrize("value", ["1e300", "2024-01-01", "{1: 2}", "[1, x]", "null"])
def test_a_value_that_the_journal_gives_back_is_taken(value: str) -> None:
    assert people.changes([f"x={value}"], {}, lambda settings: Anything(**settings)) == loading.assigned([f"x={value}"])


def test_errors_survive_pickle() -> None:
    error = BadValue("latent", "0", "too small")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_shell_completion_is_offered(tmp_path: Path) -> None:
    done = steersman("--help", cwd=tmp_path)
    assert "--install-completion" in done.stdout
