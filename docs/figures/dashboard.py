"""Runs -> the pictures of the dashboard in README and docs/dashboard.md, taken in Chromium.

python docs/figures/dashboard.py RUN_OF_A_PEPTIDE RUN_OF_SHALLOW_WATER RUN_OF_GALES
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from steersman.benchmarks.dashboard import chromium

HERE = Path(__file__).parent
SETTLED_MS = 1500


def main(peptide: str, flows: str, gales: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        for run, shots in ((peptide, (overview, dark)), (flows, (sphere,)), (gales, (panel,))):
            command = [sys.executable, "-m", "steersman.cli", "dashboard", run, "--read-only", "--trust"]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
                assert server.stdout is not None
                link = server.stdout.readline().split()[-1]
                for shot in shots:
                    shot(browser, link)
                server.terminate()
        browser.close()


def opened(browser: Any, link: str, height: int, theme: str = "light") -> Any:
    page = browser.new_page(viewport={"width": 1440, "height": height}, color_scheme=theme)
    page.goto(link)
    page.wait_for_selector("#molecule canvas, #globe canvas")
    page.wait_for_timeout(SETTLED_MS)
    return page


def overview(browser: Any, link: str) -> None:
    """Overview, map, frame."""
    page = opened(browser, link, 1540)
    page.locator("#map-section select").first.select_option("policy")
    page.wait_for_timeout(SETTLED_MS)
    page.screenshot(path=HERE / "dashboard.png")


def dark(browser: Any, link: str) -> None:
    """Models, slots and lineage."""
    page = opened(browser, link, 1250, "dark")
    page.evaluate("document.getElementById('trust').scrollIntoView()")
    page.wait_for_timeout(SETTLED_MS)
    page.screenshot(path=HERE / "dashboard_models.png")


def sphere(browser: Any, link: str) -> None:
    """A flow on the sphere."""
    opened(browser, link, 1150).locator("#frame").screenshot(path=HERE / "dashboard_sphere.png")


def panel(browser: Any, link: str) -> None:
    """What the workflow's own panel says the network looks at."""
    page = opened(browser, link, 1150)
    page.locator("[data-panel=looks] summary").click()
    page.wait_for_selector("#panels #globe canvas[data-drawn]", timeout=120_000)
    page.wait_for_timeout(SETTLED_MS)
    page.locator("[data-panel=looks]").screenshot(path=HERE / "dashboard_panel.png")


if __name__ == "__main__":
    main(*sys.argv[1:])
