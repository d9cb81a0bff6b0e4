// A run on one page: asks for what is new twice a second, and hands it to the views.

import { Act } from "steersman/act.js";
import { beginTheme, switchTheme, words } from "steersman/colours.js";
import { $, amount, card, choice, el, fill, linked } from "steersman/dom.js";
import { FrameView } from "steersman/frame.js";
import { Lineage } from "steersman/lineage.js";
import { LatentMap } from "steersman/map.js";
import { Messages } from "steersman/messages.js";
import { Panels } from "steersman/panels.js";
import { Segments } from "steersman/segments.js";
import { Slots } from "steersman/slots.js";
import { Away, Kept, Refused, Server } from "steersman/source.js";
import { Working } from "steersman/working.js";

const POLL_MS = 500,
  OPENING_MS = 100,
  VIEW_MS = 2000;
const GONE = "The map was drawn again, of the scores of a newer model: draw the line again.";
const STATUS = {
  running: "running",
  paused: "paused",
  "not driven": "it has no driver",
  goal: "reached its goal",
  budget: "budget spent",
  failed: "failed",
  interrupted: "interrupted",
  finished: "finished",
};

const report = (error) => {
  if (!(error instanceof Away || error instanceof Refused)) console.error(error);
};

// A view that cannot be drawn says why in its own place; the others go on.
async function shown(view, update = () => view.update()) {
  try {
    await update();
    delete view.node.dataset.trouble;
  } catch (error) {
    if (error instanceof Away) throw error;
    report(error);
    view.node.dataset.trouble = error.message;
  }
}

class Page {
  constructor(source) {
    this.source = source;
    this.change = -1;
    this.segments = new Segments(source);
    this.act = new Act(source);
    this.working = new Working(source);
    this.messages = new Messages(source);
    this.panels = new Panels(source);
    this.frame = new FrameView(source, {
      shown: (places) => this.map.show(places),
      act: this.act,
    });
    this.map = new LatentMap(source, {
      chosen: (place) => this._picked(place),
      lassoed: (corners, generation) => this._lassoed(corners, generation),
    });
    const ofSegment = (i) => {
      const hash = `#${this.segments.name(i)}`;
      if (location.hash === hash) this._go();
      else location.hash = hash; // "back" returns
    };
    addEventListener("hashchange", () => this._go());
    this.slots = new Slots(source, this.segments, { chosen: ofSegment });
    this.lineage = new Lineage(this.segments, { chosen: ofSegment });
    this.held = el("div", { id: "lasso" });
    const goTo = el("input", {
      type: "text",
      placeholder: "w3.17:4",
      "aria-label": "go to a segment or a frame",
      size: 8,
      onchange: () => {
        const name = goTo.value.trim(),
          known = this.segments.find(name.split(":")[0]) >= 0;
        goTo.setCustomValidity(known ? "" : "this run has no such segment");
        if (goTo.reportValidity()) location.hash = name;
      },
    });
    const map = card(
      "map-section",
      "Where has it been?",
      { short: "Map", tools: [goTo, ...this.map.tools] },
      el(
        "div",
        { class: "split" },
        el("div", {}, this.map.stage, this.map.legend, this.map.note, this.held),
        this.frame.node,
      ),
    );
    this.own = [
      [10, this.working.node],
      [20, this.panels.node],
      [30, map],
      [50, this.slots.node],
      [70, this.messages.node],
      [80, this.lineage.node],
    ]; // what the run is for comes before how it went
    this._header();
    this._arrange([]);
  }

  // Parts that stand alone, of a module each: they have their places among the others.
  async _begin(names) {
    const view = async (name) => {
      try {
        const { default: View } = await import(`steersman/${name}.js`);
        return new View(this.source);
      } catch (error) {
        console.error(error);
        return { node: card(name, name, {}, el("p", { class: "problem" }, error.message)), key: () => "", update() {} };
      }
    };
    this._arrange(await Promise.all(names.map(view)));
  }
  _arrange(views) {
    this.views = views;
    this.drawn = new Map(); // view -> of what it was drawn, and when
    const placed = [...this.own, ...views.map((view) => [view.place ?? 100, view.node])];
    this.sections = placed.sort(([a], [b]) => a - b).map(([, node]) => node);
    this.links = this.sections.map((section) => el("a", { href: `#${section.id}` }, section.dataset.short));
    fill($("page"), this.sections);
    fill(this.parts, this.links);
    this.sections.forEach((section) => this.seen.observe(section));
  }

  _header() {
    this.name = el("h1", {}, "Steersman");
    this.pill = el("span", { class: "pill", id: "status", role: "status" }, "opening");
    this.about = el("span", { class: "small soft" });
    this.compare = el("span");
    this.parts = el("nav", { "aria-label": "parts of the page" });
    fill(
      $("top"),
      el(
        "div",
        { class: "line" },
        this.name,
        this.pill,
        this.about,
        el("span", { class: "grow" }),
        this.act.node,
        this.compare,
        el("button", { onclick: switchTheme, "aria-label": "light or dark", title: "light or dark" }, "◐"),
      ),
      this.parts,
    );
    this.near = new Set();
    this.seen = new IntersectionObserver(
      (entries) => {
        for (const e of entries) e.isIntersecting ? this.near.add(e.target) : this.near.delete(e.target);
        const here = this.sections.findIndex((section) => this.near.has(section));
        this.links.forEach((link, i) => {
          link.classList.toggle("here", i === here);
        });
        if (here >= 0) this.parts.scrollLeft = this.links[here].offsetLeft - this.parts.offsetLeft - 40;
      },
      { rootMargin: "-20% 0px -60% 0px" },
    );
  }
  // The frame that the address names: #w3.17:4, or the last one of #w3.17. Whether it names one.
  _go() {
    const [, name, frame] = /^#(w\d+\.\d+)(?::(\d+))?$/.exec(location.hash) ?? [],
      s = this.segments,
      at = name ? s.find(name) : -1;
    if (at < 0) return false;
    const row = s.first[at] + Number(frame ?? Math.max(0, s.frames[at] - 1));
    this._show(at, row);
    if (!this._near(this.frame.node)) $("map-section").scrollIntoView({ block: "start" });
    return true;
  }
  _near(node) {
    const box = node.getBoundingClientRect();
    return box.bottom > 80 && box.top < innerHeight - 80;
  }
  _pill(kind, text) {
    this.pill.className = `pill ${kind}`;
    if (this.pill.textContent !== text) fill(this.pill, text); // a reader of the screen says it once
  }

  async follow() {
    for (;;) {
      try {
        await this._look();
      } catch (error) {
        this._pill("away", error.message.slice(0, 110));
        report(error);
      }
      if (this.source.offline) return;
      await new Promise((done) =>
        setTimeout(done, document.hidden ? 4 * POLL_MS : this.change < 0 ? OPENING_MS : POLL_MS),
      );
    }
  }

  async _look() {
    const state = await this.source.values("state", {});
    document.title = `${state.name} · Steersman`;
    const workflow = state.workflow && state.workflow !== state.name ? `${state.workflow} · ` : "";
    fill(this.name, workflow + state.name);
    if (!state.change) {
      this._pill(
        state.trouble ? "failed" : "",
        state.trouble ? "cannot be read" : `reading the journal: ${Math.round(100 * (state.read ?? 0))} %`,
      );
      if (state.trouble) fill(this.working.problem, el("p", { class: "problem" }, state.trouble));
      return;
    }
    if (!this.views.length) await this._begin(state.views);
    this._pill(state.status, STATUS[state.status] ?? state.status);
    fill(
      this.about,
      (state.copy ? `${state.copy}; ` : "") +
        (state.guided ? "guided by a known reference; " : "") +
        (this.source.offline ? "as it was when this page was written" : ""),
    );
    this.about.title = state.path;
    this.began = state.began;
    this.act.state(state);
    this.frame.state();
    this.working.state(state);
    this.slots.state(state);
    this.messages.state(state);
    this._others(state);
    this._links();
    if (state.change === this.change && !this.late) {
      if (state.status === "running") this.slots.draw();
      return;
    }
    const before = this.change,
      work = [];
    this.change = state.change;
    const segments = async () => {
      await this.segments.update();
      this.lineage.update();
      if (!this.frame.turn) this._first();
      await this.slots.update();
    };
    work.push(shown(this.working), shown(this.slots, segments));
    work.push(this.map.update(`${state.scored_with},${state.scored}`));
    this.late = false;
    for (const view of this.views) {
      const key = view.key?.(state) ?? state.change,
        [known, at] = this.drawn.get(view) ?? [null, -1e9];
      if (key === known) continue;
      if (performance.now() - at <= VIEW_MS) {
        this.late = true; // it is shown at a later look
        continue;
      }
      this.drawn.set(view, [key, performance.now()]);
      work.push(shown(view));
    }
    if (before < 0) work.push(shown(this.panels));
    const outcomes = await Promise.allSettled(work),
      away = outcomes.find((each) => each.status === "rejected");
    if (away) {
      this.change = before;
      this.drawn.clear();
      throw away.reason;
    } // the server went away between: all of it again
    this._links();
    document.body.dataset.change = state.change;
  }
  _links() {
    this.links.forEach((link, i) => {
      link.hidden = this.sections[i].hidden;
    });
  }

  _first() {
    // something to see before the first click
    if (this._go()) return;
    const kept = this.source.offline && Object.keys(this.source.answers).find((name) => name.startsWith("frame?"));
    if (kept) return this.frame.of([Object.fromEntries(new URLSearchParams(kept.slice(6)))], 1);
    const s = this.segments;
    if (this.source.offline) return;
    const ended = (how) => {
      for (let i = s.length - 1; i >= 0; i--) if (s.frames[i] > 0 && how(s.how[s.ends[i]])) return i;
      return -1;
    };
    const finished = ended((how) => how === "finished"),
      i = finished >= 0 ? finished : ended((how) => how !== "running");
    if (i >= 0) return this.frame.of([{ walker: s.walker[i], row: s.first[i] + s.frames[i] - 1 }], 1);
  }

  _others(state) {
    const shape = JSON.stringify(state.others);
    if (this.source.offline || shape === this.othersShape) return;
    this.othersShape = shape;
    const back = state.others.length ? el("a", { href: "../../", class: "small" }, "all runs ") : null;
    fill(
      this.compare,
      back,
      state.others.length
        ? choice("beside", [["", "no other run"], ...state.others.map((key) => [key, key])], state.baseline, (key) =>
            this._beside(key),
          )
        : null,
    );
    if (state.baseline) this._beside(state.baseline);
  }
  async _beside(key) {
    if (!key) return this.working.compare("", null);
    const other = new Server(`../${encodeURIComponent(key)}/`);
    try {
      this.working.compare(key, await other.values("metrics", {}));
    } catch (error) {
      this._pill("away", error.message.slice(0, 80));
    }
  }

  async _picked({ x, y, rx, ry, generation }) {
    try {
      if (this.source.offline) return this._pickedHere(x, y, rx, ry);
      const { frames, number } = await this.source.values("pick", { x, y, rx, ry, generation });
      if (!frames.length) return;
      await this.frame.of(frames, number);
      history.replaceState(null, "", `#${this.frame.node.dataset.frame}`); // kept when the page is loaded again
    } catch (error) {
      this.frame.trouble(error.message);
      this.map.load();
    }
  }
  async _pickedHere(x, y, rx, ry) {
    // an offline page knows which frame each point is
    const p = this.map.points;
    if (!p?.segment) return;
    let best = -1,
      least = Infinity;
    for (let i = 0; i < p.x.length; i++) {
      const d = ((p.x[i] - x) / rx) ** 2 + ((p.y[i] - y) / ry) ** 2;
      if (d < least) {
        least = d;
        best = i;
      }
    }
    return this._show(p.segment[best], p.row[best]);
  }
  async _show(at, row) {
    const s = this.segments,
      walker = s.walker[at];
    if (this.source.has("frame", { walker, row })) return this.frame.of([{ walker, row }], 1);
    this.frame.turn += 1;
    const chain = [];
    for (let i = at; i >= 0; i = s.parent[i]) chain.push(s.name(i));
    fill(
      this.frame.node,
      el("h3", {}, `Frame ${s.name(at)}:${row - s.first[at]}`),
      el(
        "p",
        {},
        `Chosen by ${s.policies[s.policy[at]] ?? "unknown"}${s.model[at] ? `, with model ${s.model[at]}` : ""}. ` +
          `Lineage: ${chain.length > 8 ? "… → " : ""}`,
        linked(chain.slice(0, 8).reverse().join(" → ")),
        ".",
      ),
      el(
        "p",
        { class: "small soft" },
        "This page holds the frames themselves of a few only: those at the end of the longest lineages. " +
          "To see this one, open the run: steersman dashboard RUN",
      ),
    );
  }
  // Of the frames that an offline page holds, those within a polygon.
  _heldHere(corners) {
    const { x, y, segment } = this.map.points,
      within = Array.from(x.keys()).filter((i) => {
        let inside = false;
        corners.forEach(([ax, ay], k) => {
          const [bx, by] = corners.at(k - 1);
          if (ay > y[i] !== by > y[i] && x[i] < ax + ((bx - ax) * (y[i] - ay)) / (by - ay)) inside = !inside;
        });
        return inside;
      }),
      s = this.segments,
      policies = new Map();
    for (const i of within) {
      const policy = s.policies[s.policy[segment[i]]] ?? "unknown";
      policies.set(policy, (policies.get(policy) ?? 0) + 1);
    }
    const of = new Set(within.map((i) => segment[i])),
      chosen = [...policies].map(([name, n]) => `${words(name)} ${amount(n)}`).join(", ");
    return (
      `${amount(within.length)} of the ${amount(x.length)} frames in this page lie within` +
      (within.length ? `, from ${amount(of.size)} segments, chosen by ${chosen}.` : ".")
    );
  }
  async _lassoed(corners, generation) {
    if (!corners) return fill(this.held, el("p", { class: "small soft" }, GONE));
    if (this.source.offline) return fill(this.held, el("p", { class: "small" }, this._heldHere(corners)));
    try {
      const found = await this.source.values("lasso", {
        generation,
        corners: corners
          .flat()
          .map((v) => v.toPrecision(6))
          .join(),
      });
      if (!found.number) return fill(this.held, el("p", { class: "small soft" }, "No frame lies within."));
      const policies = found.policies.map(([name, n]) => `${name} ${n.toLocaleString("en")}`);
      fill(
        this.held,
        el(
          "p",
          { class: "small" },
          el("strong", {}, `${found.number.toLocaleString("en")} frames within`),
          ` (${(100 * found.share).toFixed(1)} % of all, from ${found.segments.toLocaleString("en")} segments), `,
          `made at ${found.made[0].toPrecision(4)} to ${found.made[1].toPrecision(4)} ${found.made[2]}. `,
          `Chosen by ${policies.join(", ")}. `,
          Object.entries(found.scores)
            .map(
              ([name, [mean, low, high]]) =>
                `${name} ${mean.toPrecision(3)} (${low.toPrecision(3)} to ${high.toPrecision(3)})`,
            )
            .join("; "),
          " ",
          el("button", { onclick: () => this.frame.of(found.frames, found.number) }, "Look through them"),
        ),
      );
    } catch (error) {
      fill(this.held, el("p", { class: "small soft" }, error.message));
      this.map.load();
    }
  }
}

beginTheme();
const kept = $("kept");
new Page(kept ? new Kept(JSON.parse(kept.textContent)) : new Server(location.pathname.replace(/[^/]*$/, ""))).follow();
