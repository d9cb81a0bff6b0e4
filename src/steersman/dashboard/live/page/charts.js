// Small charts: curves by uPlot, stacked bars as SVG; redrawn when the theme changes.

import { colour } from "steersman/colours.js";
import { amount, el, ticks, tickText } from "steersman/dom.js";
import { numbers, plotted, redrawn } from "steersman/save.js";

const HEIGHT = 200;

// Values at the same x would hide each other.
function rising(x) {
  const least = 1e-9 * Math.abs(x.at(-1) - x[0] || 1),
    found = Float64Array.from(x);
  for (let i = 1; i < found.length; i++) if (found[i] <= found[i - 1]) found[i] = found[i - 1] + least;
  return Array.from(found);
}

// Points may come in any order; the library wants them by x.
function inOrder({ x, y }) {
  const at = Array.from(x.keys()).sort((i, j) => x[i] - x[j]);
  return [rising(at.map((i) => x[i])), at.map((i) => y[i])];
}

// Where all is at one x, an axis would count to a billionth: it begins at 0 then.
const room = (_, low, high) => (high - low > 1e-6 * Math.abs(high) ? [low, high] : [0, 2 * high || 1]);

// series: [{label, x, y, stroke, points, size, width, dash}]; x of each its own. One without a label is not in the legend.
export class Curves {
  constructor(xLabel, yLabel, { height = HEIGHT, log = false, whole = false } = {}) {
    // whole: x counts something
    Object.assign(this, { xLabel, yLabel, height, log, whole });
    this.node = el("div", { class: "chart" });
    this.series = [];
    numbers(this.node, yLabel, () => this._columns());
    new ResizeObserver(() => {
      if (this.plot && Math.abs(this.plot.width - this._width()) > 1)
        this.plot.setSize({ width: this._width(), height });
      if (this.stale) this.draw();
    }).observe(this.node);
    document.addEventListener("theme", () => {
      this.shape = null;
      this.draw();
    });
  }
  _width() {
    return Math.max(80, Math.floor(this.node.clientWidth));
  }
  set(series, marks = [], xLabel = this.xLabel) {
    if (xLabel !== this.xLabel) {
      this.xLabel = xLabel;
      this.shape = null;
    }
    this.series = series;
    this.marks = marks;
    this.draw();
  }
  draw() {
    if (!this.series.length) return;
    this.stale = !this.node.clientWidth; // it is put into the page in a moment, or when its section opens
    if (this.stale) return requestAnimationFrame(() => this.stale && this.node.clientWidth && this.draw());
    // a loss may be below 0
    const log = this.log && this.series.every((each) => each.y.every((v) => v == null || v > 0));
    const data = uPlot.join(this.series.map(inOrder)),
      shape = JSON.stringify([log, this.series.map(({ label, stroke }) => [label, stroke])]);
    this.node.dataset.points = data[0].length;
    if (this.plot && shape === this.shape) return this.plot.setData(data);
    this.shape = shape;
    this.plot?.destroy();
    const axis = (label, size) => ({
      label,
      labelSize: 22,
      labelFont: "12px system-ui",
      font: "11.5px system-ui",
      stroke: colour("soft"),
      grid: { stroke: colour("line"), width: 1 },
      ticks: { stroke: colour("line"), width: 1, size: 4 },
      size,
    });
    const options = {
      width: this._width(),
      height: this.height,
      padding: [null, 16, null, null], // half of the last number below the axis
      legend: { live: true }, // the values under the pointer
      cursor: { drag: { x: true, y: false }, points: { size: 7 } },
      scales: {
        x: { time: false, range: this.whole ? (_, low, high) => [low - 0.5, high + 0.5] : room },
        y: {
          distr: log ? 3 : 1,
          range: log
            ? undefined
            : (_, low, high) =>
                low === high
                  ? [low - (Math.abs(low) / 2 || 1), high + (Math.abs(high) / 2 || 1)]
                  : [low - 0.06 * (high - low), high + 0.08 * (high - low)],
        },
      },
      axes: [
        {
          ...axis(this.xLabel, 40),
          ...(this.whole ? { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 1e4, 1e5, 1e6] } : {}),
          values: (_, all) => all.map((v) => (v == null ? "" : tickText(v))),
        },
        { ...axis(this.yLabel, 58), values: (_, all) => all.map((v) => (v == null ? "" : tickText(v))) },
      ],
      series: [
        { label: this.xLabel },
        ...this.series.map((each) => ({
          label: each.label,
          class: each.label ? undefined : "unnamed",
          stroke: each.stroke,
          width: each.width ?? 2,
          dash: each.dash,
          paths: each.lines === false ? () => null : undefined,
          points: {
            show: each.points ?? false,
            size: each.size ?? 7,
            fill: each.fill ?? each.stroke,
            stroke: each.stroke,
          },
        })),
      ],
      hooks: { draw: [(plot) => this._marks(plot)] },
    };
    this.plot = new uPlot(options, data, this.node);
    redrawn(this.plot.ctx.canvas, (pen) => plotted(pen, { ...options, width: this._width() }, this.plot.data));
  }
  _columns() {
    const found = { series: [], [this.xLabel]: [], [this.yLabel]: [] },
      [names, xs, ys] = Object.values(found);
    for (const { label, x, y } of this.series)
      y.forEach((value, i) => {
        if (value == null) return;
        names.push(label);
        xs.push(x[i]);
        ys.push(value);
      });
    return names.length ? found : null;
  }
  _marks(plot) {
    // a thin line where each model came into use
    const g = plot.ctx,
      { left, top, width, height } = plot.bbox,
      ratio = window.devicePixelRatio || 1;
    g.save();
    g.strokeStyle = colour("faint");
    g.fillStyle = colour("soft");
    g.setLineDash([4 * ratio, 3 * ratio]);
    g.lineWidth = ratio;
    g.font = `${11 * ratio}px system-ui`;
    g.textBaseline = "top";
    let last = -Infinity;
    for (const [x, text] of this.marks ?? []) {
      const at = plot.valToPos(x, "x", true);
      if (!(at >= left && at <= left + width)) continue;
      g.beginPath();
      g.moveTo(at, top);
      g.lineTo(at, top + height);
      g.stroke();
      if (at - last > 22 * ratio) {
        g.fillText(text, at + 3 * ratio, top + 2 * ratio);
        last = at;
      }
    }
    g.restore();
  }
}

// Bars side by side, each a stack of parts. parts: [{label, values, shade}]; edges: of the bars along x, one more.
export function stacked(xLabel, yLabel, edges, parts, { height = HEIGHT, share = false, marks = [] } = {}) {
  const W = 400,
    H = height + 12,
    left = 54,
    bottom = 40,
    top = 10,
    right = 16,
    n = edges.length - 1;
  const totals = Array.from({ length: n }, (_, i) => parts.reduce((sum, part) => sum + (part.values[i] ?? 0), 0)),
    most = share ? 1 : Math.max(1e-12, ...totals);
  const X = (v) => left + ((v - edges[0]) / (edges[n] - edges[0] || 1)) * (W - left - right),
    Y = (v) => top + (1 - v / most) * (H - top - bottom);
  const svg = (tag, attributes, ...children) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [k, v] of Object.entries(attributes)) node.setAttribute(k, v);
    node.append(...children);
    return node;
  };
  const picture = svg("svg", {
    viewBox: `0 0 ${W} ${H}`,
    role: "img",
    width: "100%",
    "aria-label": `${yLabel} against ${xLabel}`,
  });
  for (const t of ticks(0, most, 4))
    picture.append(
      svg("line", { x1: left, x2: W - right, y1: Y(t), y2: Y(t), stroke: colour("line") }),
      svg("text", { x: left - 6, y: Y(t) + 4, "text-anchor": "end" }, share ? `${Math.round(100 * t)} %` : tickText(t)),
    );
  const below = new Float64Array(n);
  for (const part of parts)
    part.values.forEach((value, i) => {
      const v = share ? (totals[i] ? value / totals[i] : 0) : value;
      if (!(v > 0)) return;
      const bar = svg("rect", {
        x: X(edges[i]),
        width: Math.max(0.6, X(edges[i + 1]) - X(edges[i]) - (n < 80 ? 0.6 : 0)),
        y: Y(below[i] + v),
        height: Math.max(0, Y(below[i]) - Y(below[i] + v)),
        fill: part.shade,
      });
      bar.append(svg("title", {}, `${part.label}: ${share ? `${(100 * v).toFixed(1)} %` : amount(value)}`));
      picture.append(bar);
      below[i] += v;
    });
  for (const t of ticks(edges[0], edges[n], 6))
    picture.append(svg("text", { x: X(t), y: H - bottom + 15, "text-anchor": "middle" }, tickText(t)));
  for (const [x, text] of marks)
    picture.append(
      svg("line", {
        x1: X(x),
        x2: X(x),
        y1: top,
        y2: H - bottom,
        stroke: colour("ink"),
        "stroke-width": 0.7,
        opacity: 0.5,
      }),
      svg("text", { x: X(x) + 2, y: top + 9 }, text),
    );
  picture.append(
    svg("text", { x: (left + W - right) / 2, y: H - 4, "text-anchor": "middle" }, xLabel),
    svg(
      "text",
      {
        x: 12,
        y: (top + H - bottom) / 2,
        "text-anchor": "middle",
        transform: `rotate(-90 12 ${(top + H - bottom) / 2})`,
      },
      yLabel,
    ),
  );
  const node = el(
    "div",
    {},
    picture,
    el(
      "div",
      { class: "legend" },
      parts.map((part) => el("span", {}, el("i", { style: { background: part.shade } }), part.label)),
    ),
  );
  numbers(node, yLabel, () => ({
    [`${xLabel} from`]: edges.slice(0, -1),
    to: edges.slice(1),
    ...Object.fromEntries(parts.map((part) => [part.label, part.values])),
  }));
  return node;
}

export const panel = (title, ...children) => el("div", {}, el("h3", {}, title), ...children);
