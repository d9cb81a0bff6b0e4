// Several runs: a table with what differs in their parameters, and their metrics side by side.

import { Curves } from "steersman/charts.js";
import { beginTheme, ofNumber, switchTheme, words } from "steersman/colours.js";
import { $, alongAxisOf, amount, card, choice, duration, el, fill } from "steersman/dom.js";
import { asked, Server } from "steersman/source.js";

const POLL_MS = 2000,
  MOST_CURVES = 8,
  SHORT = 16, // characters of a parameter that stay on one line
  PILLS = { running: "running", paused: "paused", "not driven": "driven", failed: "failed" };

class Runs {
  constructor() {
    this.chosen = new Set();
    this.sort = "began";
    this.curves = new Map();
    this.kept = new Map();
    this.table = el("div", { class: "wide" });
    this.plots = el("div", {
      class: "columns",
      style: { gridTemplateColumns: "repeat(auto-fit, minmax(min(100%, 30rem), 1fr))" },
    });
    this.axis = "hours";
    this.tools = el("span");
    this.note = el("p", { class: "small soft" });
    this.list = card("runs", "Runs", {}, this.note, this.table);
    this.side = card("beside", "Side by side", { tools: [this.tools] }, this.plots);
    fill($("page"), this.list, this.side);
    this.side.hidden = true;
    fill(
      $("top"),
      el(
        "div",
        { class: "line" },
        el("h1", {}, "Steersman"),
        el("span", { class: "grow" }),
        el("button", { onclick: switchTheme, "aria-label": "light or dark" }, "◐"),
      ),
    );
    document.addEventListener("theme", () => this._compare());
    const axes = [
      ["hours", "wall time (h)"],
      ["simulated", "simulated time"],
      ["gpu_hours", "GPU hours"],
    ];
    fill(
      this.tools,
      choice("against", axes, this.axis, (value) => {
        this.axis = value;
        this._compare();
      }),
    );
  }

  async follow() {
    for (;;) {
      try {
        const { runs, single } = await (await asked("runs")).json();
        if (single) return location.replace(`run/${encodeURIComponent(single)}/`);
        this._show(runs);
        fill(
          this.note,
          runs.length
            ? `${runs.length} runs. Tick some to see their metrics side by side.`
            : "There is no run in this folder yet.",
        );
      } catch (error) {
        fill(this.note, error.message);
      }
      await new Promise((done) => setTimeout(done, POLL_MS));
    }
  }

  _show(runs) {
    const text = JSON.stringify(runs);
    if (text === this.last) return;
    this.last = text;
    this.runs = runs;
    const read = runs.filter((run) => run.status),
      names = [...new Set(read.flatMap((run) => Object.keys(run.params)))],
      differ = names
        .filter((name) => new Set(read.filter((run) => run.workflow).map((run) => run.params[name])).size > 1)
        .slice(0, 8),
      metrics = [...new Set(read.flatMap((run) => Object.keys(run.metrics ?? {})))].slice(0, 4);
    runs.sort((a, b) => (b.began ?? 0) - (a.began ?? 0));
    const row = (run) => {
      const box = el("input", {
        type: "checkbox",
        "aria-label": `compare ${run.name}`,
        onchange: (e) => {
          e.target.checked ? this.chosen.add(run.key) : this.chosen.delete(run.key);
          this._compare(true);
        },
      });
      box.checked = this.chosen.has(run.key);
      return el(
        "tr",
        {},
        el("td", {}, box),
        el("td", {}, el("a", { href: `run/${encodeURIComponent(run.key)}/` }, run.name)),
        el("td", {}, run.workflow ?? "…"),
        el(
          "td",
          {},
          el("span", { class: `pill ${PILLS[run.status] ?? ""}`, title: run.trouble ?? "" }, run.status ?? "…"),
        ),
        ...[
          amount(run.frames),
          +run.simulated === 0 ? "–" : (run.simulated ?? "–"),
          duration(3600 * run.hours),
          amount(run.models),
          amount(run.failed),
          ...metrics.map((name) => amount(run.metrics?.[name])),
        ].map((value) => el("td", { class: "right" }, value)),
        ...differ.map((name) => {
          const value = run.params?.[name] ?? "";
          return el("td", value.length > SHORT ? { class: "text" } : {}, value);
        }),
      );
    };
    fill(
      this.table,
      el(
        "table",
        {},
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            [
              "",
              "run",
              "workflow",
              "state",
              "frames",
              "simulated",
              "wall time",
              "models",
              "failed",
              ...metrics.map(words),
              ...differ,
            ].map((name) => el("th", {}, name)),
          ),
        ),
        el("tbody", {}, runs.map(row)),
      ),
    );
    this.table.dataset.runs = runs.length;
    this._compare(true);
  }

  async _compare(fresh = false) {
    const keys = [...this.chosen].slice(0, MOST_CURVES);
    this.side.hidden = !keys.length;
    if (!keys.length) return;
    for (const key of keys)
      if (fresh || !this.kept.has(key))
        try {
          this.kept.set(key, await new Server(`run/${encodeURIComponent(key)}/`).values("metrics", {}));
        } catch {
          this.kept.delete(key);
        }
    const found = keys.filter((key) => this.kept.has(key)),
      names = [...new Set(found.flatMap((key) => Object.keys(this.kept.get(key).series)))];
    for (const [name, curve] of this.curves)
      if (!names.includes(name)) {
        curve.box.remove();
        this.curves.delete(name);
      }
    for (const name of names) {
      if (!this.curves.has(name)) {
        const curve = new Curves("", words(name), { height: 260, named: true });
        curve.box = el("div", {}, el("h3", {}, words(name)), curve.node);
        this.plots.append(curve.box);
        this.curves.set(name, curve);
      }
      const own = found.filter((key) => this.kept.get(key).series[name]);
      this.curves.get(name).set(
        own.map((key) => {
          const { series, simulated_size } = this.kept.get(key),
            s = series[name],
            size = this.kept.get(own[0]).simulated_size,
            x = this.axis === "simulated" ? alongAxisOf(s.simulated, simulated_size, size) : s[this.axis];
          return { label: key, x, y: x.length ? s.value : [], stroke: ofNumber(keys.indexOf(key)) };
        }),
        [],
        this.axis === "simulated"
          ? this.kept.get(own[0]).simulated_label || "simulated time"
          : this.axis === "hours"
            ? "wall time (h)"
            : "GPU hours",
      );
    }
    this.plots.dataset.curves = names.length;
  }
}

beginTheme();
new Runs().follow();
