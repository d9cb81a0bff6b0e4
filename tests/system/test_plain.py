"""What a person writes in YAML is what a program gets: the words of YAML 1.2, in UTF-8 whatever the locale."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import TypeAdapter

from steersman.system.plain import parse, read

TEXTS = ["010", "08", "1:30", "2:00:00", "0b1", "2024-01-02", "yes", "no", "on", "off", "1.2.3", "w0.7"]
NUMBERS: dict[str, Any] = {
    "10": 10, "-10": -10, "0": 0, "0o10": 8, "0x10": 16, "1_000": 1000, "1e4": 1e4, "1E-4": 1e-4, "1.5": 1.5, ".5": 0.5,
    "1.": 1.0, "-.inf": -float("inf"), "true": True, "False": False, "~": None, "null": None, "09.5": 9.5,
}  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_no_number_in_other_languages_stays_as_it_was_written(text: str) -> None:
    assert parse(text) == text
    assert parse(f"key: [{text}]") == {"key": [text]}


@pytest.mark.parametrize("text", NUMBERS)
def test_numbers_and_words_are_those_of_yaml_1_2(text: str) -> None:
    assert (parse(text), type(parse(text))) == (NUMBERS[text], type(NUMBERS[text]))


@pytest.mark.parametrize(("text", "number"), [("010", 10), ("0100", 100), ("-08", -8)])
def test_a_field_for_a_number_takes_one_with_zeros_in_front(text: str, number: int) -> None:
    assert TypeAdapter(int).validate_python(parse(text)) == number
    with pytest.raises(ValueError, match="1:30"):
        TypeAdapter(float).validate_python(parse("1:30"))


@pytest.mark.parametrize("text", ["a: 1\nb: 2\na: 3", "{a: 1, a: 1}", "site: {a: 1,\n 'a': 2}", "- 1: a\n  1: b"])
@pytest.mark.parametrize("dumped", [True, False])
def test_a_key_that_is_written_twice_has_no_value(text: str, dumped: bool) -> None:
    with pytest.raises(yaml.YAMLError, match="once"):
        parse(text, dumped=dumped)
    assert parse("a: {a: 1}\nb: &b {c: 1}\nd: {<<: *b, c: 2, 1: 3, '1': 4}") == {
        "a": {"a": 1}, "b": {"c": 1}, "d": {"c": 2, 1: 3, "1": 4},
    }  # fmt: skip


SCRIPT = """
import sys
from pathlib import Path
from steersman.journal.run_directory import RunDirectory, write_settings
from steersman.system.plain import read
folder = Path(sys.argv[1])
assert read(folder / "p.yaml") == {"place": "Z\\u00fcrich"}
(folder / "run").mkdir()
write_settings(RunDirectory(folder / "run"), {"place": "Z\\u00fcrich"}, folder / "my.py")
assert RunDirectory(folder / "run").settings() == {"place": "Z\\u00fcrich"}
"""


def test_a_file_is_what_was_written_whatever_the_locale(tmp_path: Path) -> None:
    """In one in which nothing but ASCII can be read; the workflow file has an encoding and ends of lines of its own."""
    (tmp_path / "p.yaml").write_bytes("place: Zürich".encode())
    (tmp_path / "my.py").write_bytes("# coding: latin-1\r\nplace = 'Ångström'\n".encode("latin-1"))
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run([sys.executable, "-c", SCRIPT, tmp_path], check=True, env={**os.environ, **plain})
    assert (tmp_path / "run" / "workflow.py").read_bytes() == (tmp_path / "my.py").read_bytes()
    assert read(tmp_path / "p.yaml") == {"place": "Zürich"}
