// Is it working? In words, numbers and the curves of the metrics.

import { Curves } from "steersman/charts.js";
import { colour, words } from "steersman/colours.js";
import { alongAxisOf, amount, card, choice, duration, el, fill, timeUnit } from "steersman/dom.js";

export const SPENT = {
  simulating: "blue",
  "starting a worker": "faint",
  "waiting for a start or the end": "orange",
  "reading the start": "sky",
  "publishing and ending": "grey",
  paused: "yellow",
};

export class Working {
  constructor(source) {
    this.source = source;
    this.axis = null;
    this.charts = new Map();
    this.other = null;
    this.otherName = "";
    this.headline = el("p", { class: "headline", id: "headline", "aria-live": "polite" });
    this.facts = el("dl", { class: "facts" });
    this.budget = el("div");
    this.curves = el("div", { class: "columns" });
    this.tools = el("span");
    this.problem = el("div");
    this.time = el("div");
    this.node = card(
      "working",
      "Is it working?",
      { short: "Overview", tools: [this.tools] },
      this.headline,
      this.problem,
      el("div", { class: "split facts-first" }, el("div", {}, this.facts), el("div", {}, this.budget, this.time)),
      this.curves,
    );
    document.addEventListener("theme", () => this.drawn && this._draw());
  }

  state(state) {
    const f = state.facts,
      [first, ...rest] = state.sentences;
    fill(this.headline, el("span", { class: "first" }, first ?? ""), rest.length ? ` ${rest.join(" ")}` : "");
    fill(
      this.problem,
      state.trouble && el("p", { class: "problem" }, state.trouble),
      state.flaws.map((text) =>
        el("p", { class: "problem" }, `The journal is not whole: ${text}. \`steersman verify\` shows more.`),
      ),
    );
    const facts = [
      ["frames", amount(f.frames)],
      ...(f.simulated ? [["simulated", amount(f.simulated), f.simulated_unit]] : []),
      ["wall time", duration(3600 * f.hours)],
      ...(f.gpu_hours ? [["GPU hours", amount(f.gpu_hours)]] : []),
      ["segments", amount(Object.values(f.segments).reduce((a, b) => a + b, 0))],
      ...(state.trained ? [["model in use", state.model || "none"]] : []),
      ...Object.entries(state.metrics)
        .slice(0, 4)
        .map(([name, value]) => [words(name), amount(value)]),
    ];
    fill(
      this.facts,
      facts.map(([name, value, unit]) =>
        el("div", {}, el("dt", {}, name), el("dd", {}, value, unit ? el("small", {}, ` ${unit}`) : "")),
      ),
    );
    const b = state.budget;
    fill(
      this.budget,
      b.share == null
        ? null
        : [
            el(
              "div",
              { style: { display: "flex", justifyContent: "space-between" }, class: "small" },
              el(
                "span",
                {},
                state.ended
                  ? "ended"
                  : state.paused_by
                    ? "paused"
                    : b.share >= 1
                      ? state.training
                        ? "the last training"
                        : "the run is to end"
                      : b.left_s == null
                        ? "time left: not known yet"
                        : `${b.spends ? "about" : "at most"} ${duration(b.left_s)} left`,
              ),
              el("span", { class: "number" }, `${Math.round(100 * b.share)} %`),
            ),
            el(
              "div",
              {
                class: "bar",
                role: "progressbar",
                "aria-valuenow": Math.round(100 * b.share),
                "aria-valuemin": 0,
                "aria-valuemax": 100,
                "aria-label": "share of the way to the end",
              },
              el("i", { style: { width: `${100 * b.share}%` } }),
            ),
            !state.ended && b.parts.map((part) => el("div", { class: "small soft" }, `${part.met || part.rule}`)),
          ],
      b.share == null && !state.trusted
        ? el(
            "p",
            { class: "small soft" },
            "The budget is defined in the workflow file. This run was made elsewhere, so its file is not executed; " +
              "`--trust` allows it.",
          )
        : null,
    );
    const shares = Object.entries(state.shares).filter(([, share]) => share > 0.0005);
    fill(
      this.time,
      shares.length
        ? [
            el("div", { class: "small", style: { marginTop: ".6rem" } }, "what the slots' time went into"),
            el(
              "div",
              {
                class: "stack",
                role: "img",
                "aria-label": shares.map(([what, share]) => `${what} ${(100 * share).toFixed(1)} %`).join(", "),
              },
              shares.map(([what, share]) =>
                el("i", {
                  title: `${what} ${(100 * share).toFixed(1)} %`,
                  style: {
                    width: `${100 * share}%`,
                    background: colour(SPENT[what]),
                  },
                }),
              ),
            ),
            el(
              "div",
              { class: "legend" },
              shares.map(([what, share]) =>
                el(
                  "span",
                  {},
                  el("i", { style: { background: colour(SPENT[what]) } }),
                  `${what} ${(100 * share).toFixed(1)} %`,
                ),
              ),
            ),
          ]
        : null,
    );
  }

  async update() {
    this.drawn = await this.source.values("metrics", {});
    this._draw();
  }
  compare(name, metrics) {
    this.otherName = name;
    this.other = metrics;
    if (this.drawn) this._draw();
  }

  _draw() {
    const { series, models, simulated_label, gpus } = this.drawn,
      names = Object.keys(series),
      [per, unit] = timeUnit(Math.max(0, ...names.map((name) => series[name].hours.at(-1) ?? 0)));
    const axes = [
      ...(simulated_label ? [["simulated", simulated_label]] : []),
      ["hours", `wall time (${unit})`],
      ...(gpus ? [["gpu_hours", "GPU hours"]] : []),
    ];
    this.axis ??= axes[0][0];
    const along = (values) => (this.axis === "hours" ? values.map((v) => v * per) : values);
    fill(
      this.tools,
      names.length
        ? choice("against", axes, this.axis, (value) => {
            this.axis = value;
            this._draw();
          })
        : null,
    );
    for (const [name, chart] of this.charts)
      if (!names.includes(name)) {
        chart.box.remove();
        this.charts.delete(name);
      }
    for (const name of names.slice(0, 8)) {
      if (!this.charts.has(name)) {
        const chart = new Curves("", words(name), { height: 230 });
        chart.box = el("div", {}, el("h3", {}, words(name)), chart.node);
        this.charts.set(name, chart);
        this.curves.append(chart.box);
      }
      const own = series[name],
        lines = [
          {
            label: this.otherName ? "this run" : name,
            x: along(own[this.axis]),
            y: own.value,
            stroke: colour("blue"),
            points: own.value.length < 60,
          },
        ],
        theirs = this.other?.series[name];
      if (theirs) {
        const { simulated_size } = this.other,
          x =
            this.axis === "simulated"
              ? alongAxisOf(theirs.simulated, simulated_size, this.drawn.simulated_size)
              : along(theirs[this.axis]),
          y = x.length ? theirs.value : [];
        lines.push({ label: this.otherName, x, y, stroke: colour("grey"), dash: [6, 4], width: 1.6 });
      }
      this.charts.get(name).set(
        lines,
        along(models[this.axis]).map((x, i) => [x, `${models.version[i]}`]),
        Object.fromEntries(axes)[this.axis],
      );
    }
    if (!names.length) fill(this.curves, el("p", { class: "empty" }, "No metric has been recorded."));
    else this.curves.querySelector(".empty")?.remove();
  }
}
