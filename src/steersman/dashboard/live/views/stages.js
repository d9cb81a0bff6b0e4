// The workflow as a graph, what its Parsl jobs do, and what made the run.

import { colour } from "steersman/colours.js";
import { card, el, fill, table } from "steersman/dom.js";

const SVG = "http://www.w3.org/2000/svg",
  WIDE = 176,
  HIGH = 104,
  GAP = 58;
const PLACE = {
  prepare: [0, 0],
  simulate: [1, 0],
  store: [2, 0],
  train: [3, 0],
  score: [3, 1],
  steer: [1, 1],
  label: [1, 2],
};
const FLOWS = [
  ["prepare", "simulate", "start"],
  ["simulate", "store", "frames"],
  ["store", "train", "window"],
  ["train", "score", "model"],
  ["store", "score", "frames"],
  ["score", "steer", "scores"],
  ["steer", "simulate", "starts, stops"],
  ["steer", "label", "frames in doubt"],
  ["label", "train", "answers"],
];

const svg = (tag, attributes, ...children) => {
  const node = document.createElementNS(SVG, tag);
  for (const [k, v] of Object.entries(attributes)) node.setAttribute(k, v);
  node.append(...children);
  return node;
};
const STANDING = { failed: "red", begun: "green", waiting: "faint", done: "blue" };

export default class {
  place = 90;
  constructor(source) {
    this.source = source;
    this.graph = el("div", { class: "wide" });
    this.calls = el("div", { class: "wide" });
    this.rest = el("div");
    this.node = card("stages", "The workflow", { short: "Workflow" }, this.graph, this.calls, this.rest);
    document.addEventListener("theme", () => this.found && this._draw());
  }
  key(state) {
    return [state.trained, state.model, state.facts.starts, state.facts.tasks, state.scored_with, state.scored].join();
  }
  async update() {
    this.found = await this.source.values("stages", {});
    this._draw();
    this._settings();
  }

  _draw() {
    this._tasks();
    const stages = Object.fromEntries(this.found.stages.filter((s) => s.name in PLACE).map((s) => [s.name, s])),
      W = 4 * WIDE + 3 * GAP + 20 + (stages.label ? GAP / 2 : 0),
      H = (stages.label ? 3 : 2) * (HIGH + GAP) - GAP + 20,
      at = (name) => {
        const [i, j] = PLACE[name];
        return [10 + i * (WIDE + GAP), 10 + j * (HIGH + GAP)];
      };
    const picture = svg("svg", {
      viewBox: `0 0 ${W} ${H}`,
      role: "img",
      "aria-label": "The stages of the workflow and what flows between them",
      style: `width: 100%; max-width: ${W * 1.15}px; min-width: 640px`,
    });
    picture.append(
      svg(
        "defs",
        {},
        svg(
          "marker",
          {
            id: "tip",
            viewBox: "0 0 8 8",
            refX: 7,
            refY: 4,
            markerWidth: 7,
            markerHeight: 7,
            orient: "auto-start-reverse",
          },
          svg("path", { d: "M0 0L8 4L0 8z", fill: colour("soft") }),
        ),
      ),
    );
    for (const [a, b, text] of FLOWS.filter(([a, b]) => stages[a] && stages[b])) {
      const [x0, y0] = at(a),
        [x1, y1] = at(b),
        same = y0 === y1,
        line = { stroke: colour("soft"), "stroke-width": 1.4, fill: "none", "marker-end": "url(#tip)" };
      let path, tx, ty;
      if (same && x1 > x0) {
        path = `M${x0 + WIDE} ${y0 + HIGH / 2}H${x1 - 2}`;
        tx = (x0 + WIDE + x1) / 2;
        ty = y0 + HIGH / 2 - 6;
      } else if (same) {
        path = `M${x0} ${y0 + HIGH / 2}H${x1 + WIDE + 2}`;
        tx = (x0 + x1 + WIDE) / 2;
        ty = y0 + HIGH / 2 - 6;
      } else if (x0 === x1) {
        path = `M${x0 + WIDE / 2} ${y1 > y0 ? y0 + HIGH : y0}V${y1 > y0 ? y1 - 2 : y1 + HIGH + 2}`;
        tx = x0 + WIDE / 2 + 6;
        ty = (y0 + y1 + HIGH) / 2 + 4;
      } else if (y1 < y0) {
        const x = x1 + WIDE + GAP / 3; // around what lies between
        path = `M${x0 + WIDE} ${y0 + HIGH / 2}H${x}V${y1 + HIGH / 2}H${x1 + WIDE + 2}`;
        tx = (x0 + WIDE + x) / 2;
        ty = y0 + HIGH / 2 - 6;
      } else {
        path = `M${x0 + WIDE / 2} ${y0 + HIGH}V${y1 + HIGH / 3}H${x1 - 2}`;
        tx = (x0 + WIDE / 2 + x1) / 2;
        ty = y1 + HIGH / 3 - 6;
      }
      picture.append(
        svg("path", { d: path, ...line }),
        svg("text", { x: tx, y: ty, "text-anchor": x0 === x1 ? "start" : "middle", style: "font-size: 11px" }, text),
      );
    }
    for (const [name, stage] of Object.entries(stages)) {
      const [x, y] = at(name),
        busy = /^([\d,]+ run|epoch .*|runs)$/.test(stage.now),
        lines = [
          ...Object.entries(stage.counts).map(([k, v]) => `${v} ${k}`),
          ...Object.entries(stage.jobs).map(
            ([k, v]) => `${v} ${name === "simulate" ? "walker" : "job"}${v === 1 ? "" : "s"} ${k}`,
          ),
        ];
      picture.append(
        svg("rect", {
          x,
          y,
          width: WIDE,
          height: HIGH,
          rx: 9,
          fill: colour("sunk"),
          stroke: colour(busy ? "green" : "faint"),
          "stroke-width": busy ? 2.2 : 1.2,
        }),
      );
      picture.append(
        svg("text", { x: x + 12, y: y + 22, style: `font-size: 14px; font-weight: 600; fill: ${colour("ink")}` }, name),
        svg(
          "text",
          { x: x + WIDE - 12, y: y + 22, "text-anchor": "end", style: `fill: ${colour(busy ? "green" : "soft")}` },
          stage.now,
        ),
      );
      lines.slice(0, 4).forEach((text, i) => picture.append(svg("text", { x: x + 12, y: y + 43 + 17 * i }, text)));
    }
    fill(this.graph, picture);
  }

  _tasks() {
    // calls before and after the loop: a column behind what they need
    const { nodes, edges } = this.found.tasks ?? { nodes: [] };
    if (!nodes.length) return fill(this.calls);
    const W = 132,
      H = 34,
      rows = [],
      place = nodes.map((n) => {
        const row = (rows[n.column] ?? -1) + 1;
        rows[n.column] = row;
        return [8 + n.column * (W + 26), 8 + row * (H + 8)];
      });
    const wide = 16 + rows.length * (W + 26),
      high = 16 + (1 + Math.max(...rows.map((r) => r ?? 0))) * (H + 8),
      picture = svg("svg", {
        viewBox: `0 0 ${wide} ${high}`,
        width: wide,
        height: high,
        role: "img",
        "aria-label": "The calls of tasks before and after the loop",
      });
    for (const [a, b] of edges) {
      const [x0, y0] = place[a],
        [x1, y1] = place[b],
        x = x0 + W;
      picture.append(
        svg("path", {
          d: `M${x} ${y0 + H / 2}C${x + 18} ${y0 + H / 2} ${x1 - 18} ${y1 + H / 2} ${x1} ${y1 + H / 2}`,
          fill: "none",
          stroke: colour("faint"),
        }),
      );
    }
    nodes.forEach((n, i) => {
      const [x, y] = place[i],
        counts = Object.entries(n.counts),
        standing = Object.keys(STANDING).find((s) => n.counts[s]),
        said =
          counts.length === 1 && counts[0][1] === 1
            ? standing
            : counts.map(([s, number]) => `${number.toLocaleString("en")} ${s}`).join(", ");
      picture.append(
        svg(
          "g",
          { class: "task" },
          svg("title", {}, `${n.name}(${n.words}): ${said}`),
          svg("rect", {
            x,
            y,
            width: W,
            height: H,
            rx: 6,
            fill: colour("sunk"),
            stroke: colour(STANDING[standing]),
            "stroke-width": 1.8,
          }),
          svg(
            "text",
            { x: x + 7, y: y + 14, style: `font-weight: 600; fill: ${colour("ink")}` },
            `${n.name}${n.words ? `(${n.words})` : ""}`.slice(0, 19),
          ),
          svg("text", { x: x + 7, y: y + 28, style: "font-size: 11px" }, said.slice(0, 24)),
        ),
      );
    });
    fill(this.calls, el("h3", {}, "Before and after the loop"), picture);
  }

  _settings() {
    const s = this.found.settings,
      rows = (values) => Object.entries(values),
      part = (title, values) =>
        rows(values).length ? el("details", {}, el("summary", {}, title), table(["", ""], rows(values))) : null;
    const text = JSON.stringify(s);
    if (text === this.last) return;
    this.last = text;
    fill(
      this.rest,
      el("details", { open: true }, el("summary", {}, "Parameters"), table(["name", "value"], rows(s.params))),
      part("Site", s.site),
      s.code ? el("details", {}, el("summary", {}, "Code: workflow.py"), el("pre", {}, s.code)) : null,
      part("Made with", s.made_with),
      part("Go on from here", s.commands),
      part("Files of the beginning, by SHA-256", s.files),
    );
  }
}
