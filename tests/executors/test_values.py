"""Values of a site file in scripts: refused, or one word, or one line, whatever they are."""

from __future__ import annotations

import functools
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from steersman.executors.parsl_config import submit_scripts
from steersman.executors.schedulers.registry import SCHEDULERS
from steersman.executors.site import Site

NODES = {"nodes": 2, "workers": 1, "walltime_s": 600}
WORDS = [
    (name, key)
    for name, scheduler in SCHEDULERS.items()
    for key, field in scheduler.model_fields.items()
    if field.annotation is str
]
HOSTILE = "a-= \t\n\r\v\x00\x1c\x85\u2028'\"\\$`#;&|<>(){}[]*?!~"
values = st.text(min_size=1) | st.text(HOSTILE, min_size=1) | st.from_regex(r"[-\w.=&|]+\n?", fullmatch=True)


def site(name: str, asked: dict[str, Any], **more: Any) -> Site:
    plain = {key: "plain" for each, key in WORDS if each == name}
    return Site.model_validate({"name": "m", "simulation": NODES, name: plain | asked} | more)


def shape(of: Site) -> tuple[int, list[int], int]:
    """How many lines a script has, how many words each directive, how many words the command that submits it."""
    (script,) = submit_scripts(of).values()
    assert of.scheduler is not None
    directives = [line for line in script.splitlines() if line.startswith(of.scheduler.PREFIX)]
    words = [len(shlex.split(line.removeprefix(of.scheduler.PREFIX))) for line in directives]
    return len(script.splitlines()), words, len(shlex.split(of.scheduler.submit(Path("script"))))


@functools.cache
def plain_shape(name: str) -> tuple[int, list[int], int]:
    return shape(site(name, {"options": ["x"]}))


@pytest.mark.parametrize(("name", "key"), WORDS)
@settings(max_examples=30, deadline=None)
@given(value=values)
def test_a_word_of_a_scheduler_stays_one_word_or_is_refused(name: str, key: str, value: str) -> None:
    try:
        made = site(name, {"options": ["x"], key: value})
    except ValidationError:
        return
    assert shape(made) == plain_shape(name)
    assert not value.startswith("-"), "it would be an option"


@pytest.mark.parametrize("name", SCHEDULERS)
@settings(max_examples=30, deadline=None)
@given(value=values)
def test_options_and_a_launcher_stay_one_line_or_are_refused(name: str, value: str) -> None:
    for asked, more in (({"options": [value]}, {}), ({"options": ["x"]}, {"launcher": f"start {{first}} {value}"})):
        try:
            made = site(name, asked, **more)
        except ValidationError:
            continue
        (script,) = submit_scripts(made).values()
        assert len(script.splitlines()) == plain_shape(name)[0]


@settings(max_examples=30, deadline=None)
@given(value=values)
def test_what_parsl_writes_into_a_command_has_no_meaning_for_a_shell(value: str) -> None:
    for simulation in ({"gpus": [value], "workers": 1}, {"affinity": value, "workers": 1}):
        try:
            walkers = Site.model_validate({"name": "m", "simulation": simulation}).simulation
        except ValidationError:
            continue
        for word in (*walkers.gpu_names, walkers.affinity):
            assert shlex.quote(word) == word


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("slurm", "constraint", "[rack1*2&rack2*4]"), ("slurm", "constraint", "gpu&hbm"), ("slurm", "account", "m1_g"),
        ("pbs", "select", "ngpus=4:system=polaris"), ("pbs", "queue", "R1234@server"), ("sge", "queue", "all.q@@gpus"),
    ],
)  # fmt: skip
def test_words_of_schedulers_are_taken_as_they_are(name: str, key: str, value: str) -> None:
    assert value in next(iter(submit_scripts(site(name, {key: value})).values())) or name == "pbs"
