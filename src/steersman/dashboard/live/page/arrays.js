// Stored arrays as images and lines.

import { colour, diverging, packed, ramp } from "steersman/colours.js";
import { el, fit, ticks, tickText } from "steersman/dom.js";
import { numbers, redrawn } from "steersman/save.js";

const FEW = 8; // values of an array that are dots, and no line
const HIGHEST_REM = 30; // a picture

// Bounds of many values that a few wild ones do not set; even around zero where there are both signs.
export function bounds(values) {
  const step = Math.max(1, Math.floor(values.length / 20000)),
    some = [];
  for (let i = 0; i < values.length; i += step) if (Number.isFinite(values[i])) some.push(values[i]);
  some.sort((a, b) => a - b);
  if (!some.length) return [0, 1];
  const low = some[Math.floor(0.002 * (some.length - 1))],
    high = some[Math.ceil(0.998 * (some.length - 1))],
    most = Math.max(-low, high);
  return low < 0 && high > 0 ? [-most, most] : low === high ? [low, low + 1] : [low, high];
}

// The least and the largest of all finite numbers.
function extent(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const v of values) {
    if (!Number.isFinite(v)) continue;
    if (v < low) low = v;
    if (v > high) high = v;
  }
  return low <= high ? [low, high] : [0, 1];
}

// An image of (rows, columns); a map of contacts has residue 1 at the lower left.
export class Picture {
  constructor(label, { upward = false, axes = ["column", "row"] } = {}) {
    this.canvas = el("canvas", {
      role: "img",
      "aria-label": label,
      style: { width: "100%", aspectRatio: "1", imageRendering: "pixelated", borderRadius: "6px" },
    });
    this.node = el(
      "figure",
      { style: { maxWidth: `${HIGHEST_REM}rem` } },
      this.canvas,
      el("figcaption", {}, label, upward ? ` (${axes[0]}s, from the lower left)` : ""),
    );
    this.upward = upward;
    numbers(this.node, label, () => this.last && this._columns());
    document.addEventListener("theme", () => this.last && this.set(...this.last));
  }
  _columns() {
    const [values, , columns] = this.last,
      each = (of) => Array.from(values, (_, i) => of(i));
    return { row: each((i) => Math.floor(i / columns)), column: each((i) => i % columns), value: values };
  }
  set(values, rows, columns, [low, high]) {
    this.last = [values, rows, columns, [low, high]];
    this.canvas.width = columns;
    this.canvas.height = rows;
    this.canvas.style.aspectRatio = `${columns} / ${rows}`;
    this.canvas.style.maxWidth = `${(HIGHEST_REM * columns) / rows}rem`;
    const g = this.canvas.getContext("2d"),
      image = g.createImageData(columns, rows),
      pixels = new Uint32Array(image.data.buffer);
    const colours =
        values instanceof Uint8Array
          ? ramp([colour("sunk"), colour("blue")])
          : low < 0 && high > 0
            ? diverging()
            : ramp(),
      k = 255 / (high - low || 1);
    for (let i = 0; i < rows; i++)
      for (let j = 0; j < columns; j++) {
        const v = (values[i * columns + j] - low) * k;
        pixels[(this.upward ? rows - 1 - i : i) * columns + j] = Number.isNaN(v)
          ? packed(colour("grey"))
          : colours[v < 0 ? 0 : v > 255 ? 255 : v | 0];
      }
    g.putImageData(image, 0, 0);
    this.canvas.dataset.drawn = rows;
  }
}

// Its context, to draw axes on an empty canvas.
function cleared(canvas, r, g) {
  g.clearRect(0, 0, canvas.width, canvas.height);
  g.font = `${11 * r}px system-ui, "DejaVu Sans", sans-serif`;
  g.fillStyle = colour("soft");
  g.strokeStyle = colour("line");
  g.lineWidth = r;
  return g;
}

// Points (n, 2) of a plane, both axes to one scale, which holds all frames of a film.
export class Plane {
  constructor(label, film) {
    this.canvas = el("canvas", { role: "img", "aria-label": label, style: { width: "100%", height: "16rem" } });
    this.node = el("figure", {}, this.canvas, el("figcaption", {}, label));
    const ends = [0, 1].map((axis) => extent(film.filter((_, i) => i % 2 === axis)));
    this.centre = ends.map(([low, high]) => (low + high) / 2);
    this.spans = ends.map(([low, high]) => 1.1 * (high - low) || 1);
    const along = (axis) => this.points.filter((_, i) => i % 2 === axis);
    numbers(this.node, label, () => this.points && { x: along(0), y: along(1) });
    redrawn(this.canvas, (pen) => this.draw(pen));
    fit(this.canvas, (ratio) => {
      this.ratio = ratio;
      this.draw();
    });
    document.addEventListener("theme", () => this.draw());
  }
  set(points) {
    this.points = points;
    this.draw();
  }
  draw(pen = this.canvas.getContext("2d")) {
    if (!this.points || !this.ratio) return;
    const r = this.ratio,
      g = cleared(this.canvas, r, pen),
      [left, bottom] = [52 * r, 22 * r],
      [W, H] = [this.canvas.width - left, this.canvas.height - bottom],
      scale = Math.min(W / this.spans[0], H / this.spans[1]),
      X = (x) => left + W / 2 + (x - this.centre[0]) * scale,
      Y = (y) => H / 2 - (y - this.centre[1]) * scale,
      across = [W, H].map((size, axis) => [this.centre[axis] - size / 2 / scale, this.centre[axis] + size / 2 / scale]);
    g.strokeRect(left, 0, W, H);
    g.textAlign = "center";
    g.textBaseline = "top";
    for (const t of ticks(...across[0], 5)) g.fillText(tickText(t), X(t), H + 5 * r);
    g.textAlign = "right";
    g.textBaseline = "middle";
    for (const t of ticks(...across[1], 5)) g.fillText(tickText(t), left - 5 * r, Y(t));
    g.fillStyle = colour("blue");
    for (let i = 0; i < this.points.length; i += 2) {
      g.beginPath();
      g.arc(X(this.points[i]), Y(this.points[i + 1]), 4 * r, 0, 7);
      g.fill();
    }
    this.canvas.dataset.drawn = this.points.length / 2;
  }
}

// A line through (n,) values, or a number along a film with the shown frame marked.
export class Line {
  // film: of all its frames, so that the axis stays as they change
  constructor(label, { across = "index", film = null } = {}) {
    this.canvas = el("canvas", { role: "img", "aria-label": label, style: { width: "100%", height: "10rem" } });
    this.node = el("figure", {}, this.canvas, el("figcaption", {}, label));
    this.across = across;
    this.range = film && extent(film);
    this.kinds = Boolean(film?.every(Number.isInteger)); // of sites, say: no line joins them
    const index = () => Array.from(this.values, (_, i) => i);
    numbers(this.node, label, () => this.values && { [across]: index(), value: this.values });
    redrawn(this.canvas, (pen) => this.draw(pen));
    this.marked = -1;
    fit(this.canvas, (ratio) => {
      this.ratio = ratio;
      this.draw();
    });
    document.addEventListener("theme", () => this.draw());
  }
  set(values, marked = -1) {
    this.values = values;
    this.marked = marked;
    this.draw();
  }
  draw(pen = this.canvas.getContext("2d")) {
    if (!this.values || !this.ratio) return;
    const r = this.ratio,
      g = cleared(this.canvas, r, pen),
      W = this.canvas.width,
      H = this.canvas.height,
      n = this.values.length,
      [low0, high0] = this.range ?? extent(this.values);
    const pad = (high0 - low0 || 1) * 0.08,
      low = low0 - pad,
      high = high0 + pad,
      left = 52 * r,
      bottom = 36 * r,
      top = 6 * r;
    const X = (i) => left + (n > 1 ? i / (n - 1) : 0.5) * (W - left - 8 * r),
      Y = (v) => top + ((high - v) / (high - low)) * (H - top - bottom);
    g.textAlign = "right";
    g.textBaseline = "middle";
    for (const t of ticks(low, high, 4)) {
      g.beginPath();
      g.moveTo(left, Y(t));
      g.lineTo(W, Y(t));
      g.stroke();
      g.fillText(tickText(t), left - 5 * r, Y(t));
    }
    g.textAlign = "center";
    g.textBaseline = "top";
    for (const t of ticks(0, n - 1, 8)) if (t % 1 === 0) g.fillText(tickText(t), X(t), H - bottom + 4 * r);
    g.textBaseline = "bottom";
    g.fillText(this.across, (left + W) / 2, H - 2 * r);
    g.strokeStyle = colour("blue");
    g.lineWidth = 1.8 * r;
    g.beginPath();
    this.values.forEach((v, i) => {
      if (!Number.isFinite(v)) return;
      const dots = n <= FEW || this.kinds,
        goesOn = !dots && Number.isFinite(this.values[i - 1]);
      g[goesOn ? "lineTo" : "moveTo"](X(i), Y(v));
      if (dots) g.arc(X(i), Y(v), 2 * r, 0, 7);
    });
    g.stroke();
    if (this.marked >= 0) {
      g.fillStyle = colour("red");
      g.beginPath();
      g.arc(X(this.marked), Y(this.values[this.marked]), 4.5 * r, 0, 7);
      g.fill();
    }
  }
}
