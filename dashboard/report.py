"""Run directory -> report.html and figures."""

from __future__ import annotations

from steersman.engine.run_directory import RunDirectory


def write_report(directory: RunDirectory) -> None:
    directory.report.write_text("")
