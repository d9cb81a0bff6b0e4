"""The page in a real browser, Debian's Chromium: no request leaves the machine, and no error is reported."""

from __future__ import annotations

import re
import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import pandas
import pytest
import yaml
from msgspec.structs import replace
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

import steersman
from steersman.benchmarks.dashboard import write_run
from steersman.dashboard import figures, report, style
from steersman.dashboard.live import answers, offline
from steersman.dashboard.live.access import Access
from steersman.data.slot_time import OTHER, PAUSED, READING, SIMULATING, STARTING, WAITING
from steersman.engine.people import who
from steersman.journal import file
from steersman.journal.file import Journal
from steersman.journal.records import End, Ended, Note, Session, Tell, Trained
from steersman.journal.run_directory import RunDirectory
from steersman.store import FRAME, Frames, GroupWriter
from tests.dashboard.beside import served_beside
from tests.dashboard.conftest import FRAMES, SLOTS, MadeRun
from tests.dashboard.look import Look
from tests.dashboard.serving import TOKENS, serving
from tests.outside import installed

expect.set_options(timeout=30_000)  # the machine may be busy
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: apt install chromium"),
]
EVIL = "<script>window.evil = 1</script><img src=x onerror='window.evil = 1'>"
PEPTIDE = "".join(
    f"ATOM  {i + 1:5d}  {name:<3s} GLY A{i // 4 + 1:4d}       0.000   0.000   0.000  1.00  0.00           {name[0]}\n"
    for i, name in enumerate(["N", "CA", "C", "O"] * 3)
)
GLOBE = """
import numpy as np
from steersman import Params, Workflow, budget

wf = Workflow("own", Params, stop=budget(frames=1000))

@wf.simulate()
def simulate(p, start, out): pass

@wf.panel("What the network looks at")
def looks(p, results): return np.tile(np.arange(16.0), (8, 1)), "bright to the east"
"""
LIVE = """
import time
from steersman import Params, Workflow, budget

class Live(Params):
    length: int = 10_000

wf = Workflow("live", Live, stop=budget(hours=1))

@wf.simulate()
def walk(p, start, out):
    for i in range(p.length):
        time.sleep(0.1)
        out.append(time=float(i), x=float(i))
        if out.stopped: break
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def look(browser: Browser) -> Iterator[Look]:
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    yield Look(context.new_page())
    context.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """To be read only."""
    made = MadeRun(tmp_path_factory.mktemp("runs") / "fold-0001", segments=12).write()
    made.topology.write_text(PEPTIDE)
    return made


def click_middle(page: Page) -> None:
    page.locator("#map-canvas[data-points]").focus()
    page.keyboard.press("Enter")


def test_a_finished_run_opens_and_a_click_on_the_map_shows_its_frame(look: Look, made: RunDirectory) -> None:
    with serving(made) as served:
        page = look.open(served)
        page.wait_for_url(f"{served.address}/run/fold-0001/")  # no token in the address bar
        expect(page.locator("#status")).to_have_text("reached its goal")
        expect(page.locator("#headline")).to_contain_text("1 accepted of")
        expect(page.locator("#map-canvas")).to_have_attribute("data-points", str(SLOTS * 12 * FRAMES))
        expect(page.locator("#slots-canvas")).to_have_attribute("data-segments", str(SLOTS * 12))
        expect(page.locator("#lineage-canvas")).to_have_attribute("data-shown", str(SLOTS * 12))
        expect(page.locator("#trust [data-versions]")).to_have_attribute("data-versions", "2")
        expect(page.locator("#frame[data-frame]")).to_be_visible()
        first = page.locator("#frame").get_attribute("data-frame")
        canvas = page.locator("#map-canvas")
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        assert box
        canvas.click(position={"x": box["width"] * 0.5, "y": box["height"] * 0.45})
        expect(page.locator("#frame")).not_to_have_attribute("data-frame", first or "")
        expect(page.locator("#frame")).to_contain_text("its cell of z holds <3 frames")
        page.wait_for_url(re.compile(r"#w[01]\.\d+:\d$"))
        picked = page.locator("#frame").get_attribute("data-frame") or ""
        page.reload()
        expect(page.locator("#frame")).to_have_attribute("data-frame", picked)
        expect(page.locator("#molecule canvas")).to_be_visible()
        expect(page.locator("#molecule")).to_have_attribute("data-atoms", "12")
        expect(page.locator("#globe canvas")).to_have_attribute("data-drawn", "8")
        expect(page.locator("#frame canvas[data-drawn='8']").first).to_be_visible()
    look.check()


def test_a_view_that_fails_says_why_in_its_place_and_the_others_are_drawn(look: Look, made: RunDirectory) -> None:
    look.page.route("**/failures", lambda route: route.fulfill(body="null"))  # as a fault in the page's own code would
    with serving(made) as served:
        page = look.open(served)
        expect(page.locator("#failures")).to_have_attribute("data-trouble", re.compile("null"))
        expect(page.locator("#trust [data-versions='2']")).to_be_visible()
        expect(page.locator("[data-trouble]")).to_have_count(1)
        expect(page.locator("#status")).to_have_text("reached its goal")
    assert ["TypeError" in text for text in look.errors] == [True]


def test_a_view_of_another_package_is_drawn_here_and_in_the_report_and_one_that_fails_hinders_nobody(
    browser: Browser, look: Look, finished: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.syspath_prepend(installed(tmp_path))
    monkeypatch.setattr(answers, "views", cache(answers.views.__wrapped__))
    report.write_report(finished)
    context = browser.new_context(offline=True)
    offline = Look(context.new_page())
    offline.page.goto(finished.report.resolve().as_uri())
    with serving(finished) as served:
        for page in look.open(served), offline.page:
            expect(page.locator("#crew")).to_contain_text(f"{SLOTS} walkers")
            expect(page.locator("nav")).to_contain_text("Who walks?")
            expect(page.locator("#trust [data-versions='2']")).to_be_visible()
            expect(page.locator("[data-trouble]")).to_have_count(1)
        expect(look.page.locator("#fails")).to_have_attribute("data-trouble", re.compile("ZeroDivisionError"))
    context.close()
    problems = {"failures": "another", "raises": "RuntimeError", "exits": "SystemExit", "plain": "answer"}
    for name, problem in problems.items():
        (line,) = [line for line in caplog.messages if f"steersman.views: {name}" in line]
        assert problem in line


def test_a_short_run_shows_a_scalar_score_over_seconds_and_a_crystal_in_its_box(
    look: Look, finished: RunDirectory
) -> None:
    salt = "CRYST1    5.640    5.640    5.640  90.00  90.00  90.00 P 1           1\n"
    finished.topology.write_text(salt + PEPTIDE.replace("ATOM  ", "HETATM").replace("GLY", "SOL"))
    stored = Frames(finished.scores)
    kept = {name: stored.read(name, stored.spans()[0]) for name in ("walker", "row", "error")}
    shutil.rmtree(finished.scores / "0001")
    writer = GroupWriter(finished.scores / "0001", attributes={"model": 1})
    writer.extend(FRAME, kept)
    writer.close()
    look.page.add_init_script("""
        CanvasRenderingContext2D.prototype.fillText = text => document.documentElement.dataset.written += ` ${text}`;
    """)
    with serving(finished) as served:
        page = look.open(served)
        expect(page.locator("html")).to_have_attribute("data-written", re.compile(r"wall time of the frame \(s\)"))
        expect(page.locator("#molecule canvas")).to_be_visible()
        expect(page.locator("#molecule")).to_have_attribute("data-box", "drawn")
    look.check()


def test_new_points_are_asked_for_later_if_the_last_came_just_now(look: Look, made: RunDirectory) -> None:
    """Else those that came last before the end of a run would never be drawn."""
    asked = """async () => {
        const { LatentMap } = await import("steersman/map.js");
        const map = Object.create(LatentMap.prototype), loaded = [];
        Object.assign(map, { points: {}, asked: performance.now(), load: async () => loaded.push(map.scored) });
        await map.update(5);
        await map.update(7);
        const at_once = loaded.length;
        while (!loaded.length) await new Promise(requestAnimationFrame);
        return [at_once, ...loaded];
    }"""
    with serving(made) as served:
        page = look.open(served)
        page.wait_for_url("**/run/*/")
        assert page.evaluate(asked) == [0, 7]
    look.check()


def test_a_policy_has_the_same_colour_on_the_page_and_in_the_figures(look: Look, made: RunDirectory) -> None:
    others = ["pin", "continue", "Importance", "Unsure", "Frontier", "MyOwn", "Between", "Diverse"]
    with serving(made) as served:
        look.page.emulate_media(color_scheme="light")
        page = look.open(served)
        page.wait_for_url("**/run/*/")  # the page of one run lies there
        load = "async names => { const page = await import('steersman/colours.js');"
        of = f"{load} return names.map((name) => page.ofPolicy(name, names)); }}"
        for names in ([*style.POLICY_COLOURS, *others], others, ["Edge", "Novelty", "Between"]):
            assert page.evaluate(of, names) == [style.policy_colour(name, names) for name in names]
        spent = page.evaluate("async () => Object.keys((await import('steersman/working.js')).SPENT)")
        assert set(spent) == {SIMULATING, STARTING, WAITING, READING, OTHER, PAUSED}, "each share of the time has one"
        names = ["LocalOutlierFactor", "mean_P", "kT", "RMSD", "storms_percent", "DeepTICA"]
        assert page.evaluate(f"{load} return names.map(page.words); }}", names) == list(map(style.words, names))
    assert list(map(style.words, names))[:3] == ["local outlier factor", "mean P", "kT"], "what a user wrote stays"
    kept = {style.policy_colour(name) for name in others} & {style.ORANGE, style.SKY, style.VERMILION}
    assert not kept, "of starts at random, of plain sampling, and of what failed"
    look.check()


def test_points_stand_at_their_x_in_any_order_on_an_axis_that_can_be_read(look: Look, made: RunDirectory) -> None:
    with serving(made) as served:
        page = look.open(served)
        expect(page.locator("#headline")).to_contain_text("coverage")
        (low, high), points = page.evaluate("""async () => {
            const chart = new (await import("steersman/charts.js")).Curves("simulated time (d)", "storms");
            document.body.append(chart.node);
            chart.set([{ label: "storms", x: [144, 144], y: [0, 1], stroke: "black" }]);
            await new Promise(requestAnimationFrame);
            const axis = [chart.plot.scales.x.min, chart.plot.scales.x.max];
            chart.set([{ label: "storms", x: [3, 1, 2], y: [30, 10, 20], stroke: "black" }]);
            return [axis, chart.plot.data];
        }""")
        assert low < 140
        assert high > 148
        assert points == [[1, 2, 3], [10, 20, 30]]
    look.check()


def test_the_map_moves_zooms_and_holds_a_lasso_by_keyboard_and_mouse(look: Look, made: RunDirectory) -> None:
    with serving(made) as served:
        page = look.open(served)
        canvas = page.locator("#map-canvas[data-points]")
        canvas.focus()
        before = canvas.screenshot()
        page.keyboard.press("+")
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(200)
        assert canvas.screenshot() != before
        page.keyboard.press("0")
        page.keyboard.press("l")
        box = canvas.bounding_box()
        assert box
        corners = [(0.1, 0.05), (0.98, 0.05), (0.98, 0.9), (0.1, 0.9)]
        page.mouse.move(box["x"] + 0.1 * box["width"], box["y"] + 0.05 * box["height"])
        page.mouse.down()
        for x, y in corners:
            page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], steps=5)
        page.mouse.up()
        expect(page.locator("#lasso")).to_contain_text("frames within")
        page.get_by_role("button", name="Look through them").click()
        expect(page.locator("#frame")).to_contain_text("frames here")
        for colour in ("policy", "version", "cluster", "error"):
            page.locator("#map-section select").first.select_option(colour)
            expect(page.locator("#map-legend")).not_to_contain_text("simulated time")
    look.check()


def test_a_lasso_on_a_map_that_a_new_model_replaces_says_so(look: Look, made: RunDirectory) -> None:
    def another(route: Route) -> None:
        route.fulfill(body=route.fetch().body().replace(b'"generation": 1', b'"generation": 2'))

    with serving(made) as served:
        page = look.open(served)
        canvas = page.locator("#map-canvas[data-points]")
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        assert box
        page.get_by_role("button", name="Lasso").click()
        page.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + 0.2 * box["height"])
        page.mouse.down()
        page.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + 0.2 * box["height"], steps=5)
        page.route("**/points?*", another)
        page.locator("#map-section select").first.select_option("walker")
        expect(page.locator("#lasso")).to_contain_text("draw the line again")
        page.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + 0.8 * box["height"], steps=5)
        page.mouse.up()
        expect(page.locator("#lasso")).to_contain_text("draw the line again")
        canvas.click()  # the server has the first
        expect(page.locator("#frame .problem")).to_contain_text("choose again")
        page.unroute_all(behavior="ignoreErrors")  # the page asks all the time
    look.errors = [text for text in look.errors if "409" not in text]
    look.check()


def test_a_run_that_grows_is_followed_and_its_end_is_shown(look: Look, made: RunDirectory, tmp_path: Path) -> None:
    """A replayed journal. A chart that was drawn with the first model goes on with the second."""
    copy = RunDirectory(shutil.copytree(made.path, tmp_path / "fold-0009"))
    records = list(file.read(copy.journal))
    copy.journal.unlink()
    copy.model(2).rename(tmp_path / "later")
    trained = next(i for i, record in enumerate(records) if isinstance(record, Trained)) + 1
    journal = Journal(copy.journal)
    journal.append(*records[:20])
    with serving(copy) as served:
        page = look.open(served)
        loss = page.locator("#trust .chart").first
        expect(page.locator("#status")).to_have_text("it has no driver")
        expect(page.locator("#slots-canvas")).to_have_attribute("data-segments", re.compile("[1-9]"))
        shown = int(page.locator("#slots-canvas").get_attribute("data-segments") or 0)
        for at in range(20, trained, 15):
            journal.append(*records[at : min(at + 15, trained)])
        expect(loss).to_have_attribute("data-points", "5")
        (tmp_path / "later").rename(copy.model(2))
        journal.append(*records[trained:])
        expect(page.locator("#status")).to_have_text("reached its goal")
        expect(page.locator("#slots-canvas")).to_have_attribute("data-segments", str(SLOTS * 12))
        assert shown < SLOTS * 12
        expect(page.locator("#map-canvas")).to_have_attribute("data-points", str(SLOTS * 12 * FRAMES))
        expect(loss).to_have_attribute("data-points", "11")  # one is the gap between two versions
    journal.close()
    look.check()


def test_an_open_page_survives_the_restart_of_its_server(look: Look, finished: RunDirectory) -> None:
    with serving(finished) as served:
        page, port = look.open(served), served.dashboard.port
        expect(page.locator("#status")).to_have_text("reached its goal")
    expect(page.locator("#status")).to_contain_text("connection lost")
    journal = Journal(finished.journal)
    journal.append(Session(host="here", pid=1), End(outcome="finished", reason="it went on"))
    journal.close()
    with serving(finished, port=port):
        expect(page.locator("#headline")).to_contain_text("it went on")
    look.check(away=True)


def test_an_open_page_says_that_its_server_has_new_tokens(look: Look, made: RunDirectory) -> None:
    """The new link is pasted into the same tab."""
    with serving(made) as served:
        page = look.open(served)
        expect(page.locator("#status")).to_have_text("reached its goal")
        port = served.dashboard.port
    with serving(made, port=port, tokens=Access("another", "yet another", port)) as served:
        expect(page.locator("#status")).to_contain_text("started again")
        page.evaluate("location.hash = '#token=another'")
        expect(page.locator("#status")).to_have_text("reached its goal")
        assert page.url == f"{served.address}/run/fold-0001/"
        assert page.context.cookies() == []


def test_a_panel_of_latitude_and_longitude_is_a_sphere(look: Look, finished: RunDirectory) -> None:
    """As `gales` shows what its network looks at; it is drawn when it is opened."""
    finished.workflow.write_text(GLOBE)
    finished.settings_file.write_text(yaml.safe_dump(finished.settings() | {"params": {}}))
    with serving(finished, trusted=True) as served:
        page = look.open(served)
        expect(page.locator("[data-panel=looks] canvas")).to_have_count(0)
        page.locator("[data-panel=looks] summary").click()
        expect(page.locator("[data-panel=looks] #globe canvas")).to_have_attribute("data-drawn", "8")
        expect(page.locator("[data-panel=looks]")).to_contain_text("bright to the east")
    look.check()


def test_an_empty_run_opens(look: Look, empty: RunDirectory) -> None:
    with serving(empty) as served:
        page = look.open(served)
        expect(page.locator("#headline")).to_contain_text("no such letter")
        expect(page.locator("#map-note")).to_contain_text("No frame has been scored yet")
    look.check()


@pytest.mark.parametrize(
    "lost", ["scores.zarr", "frames.zarr", "models", "decisions.jsonl", "run.yaml", "errors", "journal"]
)
def test_a_damaged_run_opens_with_what_is_whole(look: Look, finished: RunDirectory, lost: str) -> None:
    if lost == "journal":
        lines = finished.journal.read_bytes().splitlines(keepends=True)
        lines[40] = lines[40][:-20] + b"\n"
        finished.journal.write_bytes(b"".join(lines))
    else:
        finished.decisions.touch()
        (finished.path / lost).rename(finished.path / "gone")
    with serving(finished) as served:
        page = look.open(served)
        expect(page.locator("#status")).to_have_text("reached its goal")
        expect(page.locator("#slots-canvas")).to_have_attribute("data-segments", re.compile("[1-9]"))
        if lost == "journal":
            expect(page.locator("#working")).to_contain_text("The journal is not whole")
    look.errors = [text for text in look.errors if "404" not in text and "409" not in text]  # what is gone
    look.check()


def test_no_text_of_a_run_becomes_markup(look: Look, tmp_path: Path) -> None:
    """Names, notes, causes, parameters, reasons, words of people, stderr: all are <script>."""
    MadeRun(tmp_path / "fold", segments=6).write().path.rename(tmp_path / "<b>fold")
    made = RunDirectory(tmp_path / "<b>fold")
    records = [record for record in file.read(made.journal) if record.kind != "end"]
    made.journal.unlink()
    journal = Journal(made.journal)
    for record in records:
        given = {"workflow": EVIL} if record.kind == "run" else {}
        given |= {"policy": EVIL[:200], "reason": EVIL} if record.kind == "start" else {}
        given |= {"cause": EVIL} if isinstance(record, Ended) and record.cause else {}
        journal.append(replace(record, **given))
    journal.append(Note(text=EVIL), Tell(id="1", who=EVIL, verb="pause", text=EVIL), End(outcome="failed", reason=EVIL))
    journal.close()
    for error in made.errors.glob("*.txt"):
        error.write_text(EVIL)
    made.settings_file.write_text(yaml.safe_dump(made.settings() | {"params": {EVIL: EVIL}, "site": {"name": EVIL}}))
    made.workflow.write_text(EVIL)
    with serving(made) as served:
        page = look.open(served)
        expect(page.locator("h1")).to_contain_text(EVIL)
        expect(page.locator("#headline")).to_contain_text(EVIL)
        expect(page.locator("#frame[data-frame]")).to_be_visible()
        for summary in page.locator("summary").all():
            with suppress(Exception):
                summary.click(timeout=500)
        page.locator("#failures p button").first.click()
        expect(page.locator("#failures pre")).to_contain_text(EVIL)
        page.goto(served.address)
        expect(page.locator("#frame[data-frame]")).to_be_visible()  # the list of one run has led to its page
        assert page.evaluate("window.evil") is None
        assert page.locator("img[src=x]").count() == 0
    look.check()


def test_a_link_for_looking_only_has_no_buttons_that_act(look: Look, made: RunDirectory) -> None:
    with serving(made, tell=lambda *_: "") as served:
        page = look.open(served, token=TOKENS.look)
        expect(page.locator("#frame[data-frame]")).to_be_visible()
        expect(page.locator("#act button")).to_have_count(0)
        expect(page.get_by_role("button", name="Start from this frame")).to_have_count(0)
    look.check()


def test_a_phone_shows_the_page_without_scrolling_sideways(browser: Browser, made: RunDirectory) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 800}, color_scheme="dark")
    look = Look(context.new_page())
    with serving(made) as served:
        page = look.open(served)
        expect(page.locator("#frame[data-frame]")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    look.check()
    context.close()


def test_runs_stand_side_by_side_with_what_differs(look: Look, tmp_path: Path) -> None:
    for number, latent in ((1, 3), (2, 5)):
        made = MadeRun(tmp_path / f"fold-000{number}", segments=4).write()
        made.settings_file.write_text(yaml.safe_dump(made.settings() | {"params": {"latent": latent, "same": 1}}))
    with serving(folder=tmp_path) as served:
        page = look.open(served)
        expect(page.locator("#runs [data-runs='2']")).to_contain_text("latent")
        expect(page.locator("#runs [data-runs='2']")).not_to_contain_text("same")
        for box in page.locator("#runs input[type=checkbox]").all():
            box.check()
        expect(page.locator("#beside [data-curves='1'] canvas")).to_be_visible()
        expect(page.locator("#beside")).to_contain_text("fold-0002")
        page.get_by_role("link", name="fold-0002").click()
        expect(page.locator("h1")).to_contain_text("fold-0002")
        page.locator("#top select").select_option("fold-0001")
        expect(page.locator("#working .u-legend")).to_contain_text("fold-0001")
    look.check()


def test_the_report_opens_from_disk_with_the_network_off(
    browser: Browser, finished: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds fewer frames than there are, and changes their colour all the same."""
    monkeypatch.setattr(offline, "MOST_POINTS", 60)
    finished.topology.write_text(PEPTIDE)
    report.write_report(finished)
    context = browser.new_context(viewport={"width": 1400, "height": 900}, offline=True, reduced_motion="reduce")
    look = Look(context.new_page())
    page = look.page
    page.goto(finished.report.resolve().as_uri())
    expect(page.locator("#slots-canvas")).to_have_attribute("data-segments", str(SLOTS * 12))
    expect(page.locator("#molecule canvas")).to_be_visible()
    first = page.locator("#frame").get_attribute("data-frame")
    click_middle(page)
    expect(page.locator("#frame h3")).not_to_have_text(f"Frame {first}")
    page.locator("#map-section select").first.select_option("policy")
    expect(page.locator("#map-legend")).to_contain_text("who chose")
    expect(page.locator("[data-trouble]")).to_have_count(0)
    page.locator("#map-canvas").focus()
    page.keyboard.press("l")
    page.evaluate("document.getElementById('map-section').scrollIntoView()")
    box = page.locator("#map-canvas").bounding_box()
    assert box
    corners = (0.05, 0.02), (0.99, 0.02), (0.99, 0.97), (0.05, 0.97)
    for i, (across, down) in enumerate(corners):
        page.mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"])
        if not i:
            page.mouse.down()
    page.mouse.up()
    shown = page.locator("#map-canvas").get_attribute("data-points")
    expect(page.locator("#lasso")).to_contain_text(f"{shown} of the {shown} frames in this page")
    expect(page.locator("#starts tbody tr").first).to_be_visible()
    expect(page.locator("#map-canvas")).to_have_attribute("data-points", re.compile("^[1-6]?[0-9]$"))
    expect(page.locator("#top nav")).to_contain_text("Figures")
    expect(page.locator("#panels img")).to_have_count(len(figures.FIGURES))
    look.check()
    assert {url.partition(":")[0] for url in look.asked} <= {"file", "data", "blob"}
    context.close()


def test_every_view_is_saved_as_it_is_drawn_and_its_numbers_too(look: Look, made: RunDirectory) -> None:
    """Texts as texts, curves as curves; the numbers are those of the tables in Python."""
    with serving(made, trusted=True) as served:
        page = look.open(served)
        expect(page.locator("#molecule canvas")).to_be_visible()
        expect(page.locator("#trust [data-versions='2']")).to_be_visible()
        saved = page.evaluate("""async () => {
            const { asSvg, asPng, asCsv } = await import("steersman/save.js"), found = {};
            for (const card of document.querySelectorAll("section.card")) {
                if (card.hidden) continue;
                const bitmap = await createImageBitmap(await asPng(card));
                const { width } = card.getBoundingClientRect();
                found[card.id] = [await asSvg(card), asCsv(card), bitmap.width / width];
            }
            return found;
        }""")
        early = page.evaluate("""async () => {
            const { Picture, Plane, Line } = await import("steersman/arrays.js"), card = document.createElement("div");
            document.body.append(card);
            card.append(new Picture("a").node, new Plane("b", [0, 1, 2, 3]).node, new Line("c").node);
            return (await import("steersman/save.js")).asCsv(card);
        }""")
        with page.expect_download() as download:
            page.locator("#slots .save summary").click()
            page.get_by_role("button", name="CSV: segments").click()
        segments = pandas.read_csv(download.value.path(), index_col="segment", keep_default_na=False)
        titles = {name: page.locator(f"#{name} h2").inner_text() for name in saved}
        look.check()
    assert early == [], "what waits for its numbers has none to save"
    drawn = {name: ElementTree.fromstring(svg) for name, (svg, _, _) in saved.items()}
    texts = {name: " ".join(each.itertext()) for name, each in drawn.items()}
    assert {"working", "map-section", "trust", "slots", "lineage", "failures", "starts", "stages"} <= drawn.keys()
    assert all(titles[name] in text for name, text in texts.items())
    assert all(share == pytest.approx(2, abs=0.01) for _, _, share in saved.values())
    assert "training loss" in texts["trust"], "of a canvas of uPlot"
    assert "principal component 1" in texts["map-section"]
    assert len(re.findall("<path", saved["lineage"][0])) > SLOTS * 12
    tables = {name: [title for title, _ in csv] for name, (_, csv, _) in saved.items()}
    assert tables["map-section"][0] == "frames"
    assert {"training loss", "held-out error", "share of starts"} <= {*tables["trust"]}
    own = steersman.open_run(made.path).segments
    for name in ("parent", "policy", "how", "slot", "model", "frames"):
        assert segments[name].tolist() == own[name].tolist()


def test_a_running_campaign_is_seen_and_obeys(look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real run, its real bus, its page beside it: every word of `tell` is said by clicks, and journalled with who.

    Segments are too long to end by themselves: that others follow shows that one was stopped, and the parameter set.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "live.py").write_text(LIVE)
    run, page = RunDirectory(tmp_path / "run"), look.page
    with served_beside(run.path, "live.py", "--workers", 2) as (driver, link):
        page.goto(link)
        page.set_default_timeout(90_000)
        expect(page.locator("#status")).to_have_text("running", timeout=60_000)
        expect(page.locator("#slots-canvas")).to_have_attribute("data-segments", re.compile("[1-9]"), timeout=60_000)
        page.locator("#act summary").click()
        page.get_by_label("new value").fill("5")
        page.get_by_role("button", name="Set", exact=True).click()
        expect(page.locator("#answer")).to_contain_text("length=5")
        page.get_by_label("segment to stop").fill("w0.0")
        page.get_by_role("button", name="Stop segment").click()
        expect(page.locator("#answer")).to_contain_text("w0.0")
        expect(page.locator("#slots-canvas")).to_have_attribute("data-segments", re.compile(r"^([4-9]|\d\d+)$"))
        expect(page.locator("#frame[data-frame]")).to_be_visible()
        page.locator("#act summary").click()
        page.get_by_role("button", name="Pause").click()
        expect(page.locator("#status")).to_have_text("paused")
        expect(page.locator("#answer")).to_contain_text("pause")
        page.locator("#messages").scroll_into_view_if_needed()
        expect(page.locator("#messages [data-rows]")).to_be_visible()
        page.get_by_role("button", name="Continue").click()
        expect(page.locator("#status")).to_have_text("running")
        before = int(page.locator("#slots-canvas").get_attribute("data-segments") or 0)
        expect(page.locator("#slots-canvas")).to_have_attribute("data-segments", re.compile(f"^(?!{before}$)"))
        page.get_by_role("button", name="Start from this frame").click()
        expect(page.locator("#answer")).to_contain_text("pin w")
        page.once("dialog", lambda dialog: dialog.accept())
        page.locator("#act summary").click()
        page.get_by_role("button", name="Finish the run").click()
        expect(page.locator("#status")).to_have_text("finished", timeout=60_000)
        expect(page.get_by_role("button", name="Start from this frame")).to_have_count(0)
        assert driver.wait(timeout=200) == 0
    said = list(file.read(run.journal, Tell))
    assert [record.verb for record in said] == ["set", "stop", "pause", "continue", "pin", "finish"]
    assert (said[0].settings, said[1].segment) == ({"length": 5}, "w0.0")
    assert said[4].frame is not None
    assert {record.who for record in said} == {who()}
    look.check()


def test_a_run_of_many_events_opens(look: Look, tmp_path: Path) -> None:
    """How fast a run of 10^6 opens and how smoothly it moves is measured by `steersman bench dashboard`."""
    run = tmp_path / "large-0001"
    write_run(run, events=40_000, frames=40_000, walkers=200)
    with serving(RunDirectory(run)) as served:
        page = look.open(served)
        expect(page.locator("#map-canvas")).to_have_attribute("data-total", "40000", timeout=90_000)
        expect(page.locator("#slots-canvas")).to_have_attribute("data-segments", "10000")
    look.check()
