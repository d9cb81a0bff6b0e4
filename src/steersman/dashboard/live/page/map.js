// The latent map: points counted into pixels here, without a GPU. No function is called in the loops over points.

import { colour, ofNumber, ofPolicy, packed, ramp, rampStops, words } from "steersman/colours.js";
import { amount, choice, el, fill, fit, ticks, tickText, timeUnit } from "steersman/dom.js";
import { numbers, redrawn } from "steersman/save.js";

const LEFT = 58,
  BOTTOM = 42,
  TOP = 10,
  RIGHT = 12; // of the axes, in CSS pixels
const FEW = 4000,
  SOME = 60000; // points that are drawn as discs of 3 and of 1.5 pixels
const MOST_PLACES = 2500; // that are drawn one by one
const REACH = 6; // of a click, in CSS pixels
const SETTLE_MS = 220; // after a move, before what lies there is asked for
const NEW_MS = 1500; // between two looks for new points

export class LatentMap {
  // chosen(place): a person clicked; lassoed(corners, generation): drew around points; null: on a map that is gone.
  constructor(source, { chosen, lassoed }) {
    Object.assign(this, { source, chosen, lassoed });
    this.colour = "time";
    this.points = null;
    this.view = null;
    this.path = [];
    this.corners = null;
    this.busy = false;
    this.again = false;
    this.mode = "pan";
    this.scored = "";
    this.below = el("canvas", {
      tabindex: 0,
      role: "img",
      id: "map-canvas",
      "aria-label":
        "Latent map: every scored frame. Arrow keys move, plus and minus zoom, 0 shows all, " +
        "Enter picks the frame in the middle.",
    });
    this.above = el("canvas", { "aria-hidden": "true", style: { pointerEvents: "none" } });
    this.tip = el("div", { class: "tip", hidden: true });
    this.stage = el("div", { class: "stage", id: "map" }, this.below, this.above, this.tip);
    this.legend = el("div", { class: "legend", id: "map-legend" });
    this.note = el("p", { class: "small soft", id: "map-note", "aria-live": "polite" });
    this.colours = el("span");
    this.lassoButton = el(
      "button",
      {
        "aria-pressed": "false",
        title: "Draw around points (L)",
        onclick: () => this.setMode(this.mode === "lasso" ? "pan" : "lasso"),
      },
      "Lasso",
    );
    this.pathButton = el(
      "button",
      { "aria-pressed": "true", title: "The lineage of the frame", onclick: () => this._togglePath() },
      "Lineage",
    );
    this.tools = [
      this.colours,
      this.pathButton,
      this.lassoButton,
      el("button", { onclick: () => this.all(), title: "Show all (0)" }, "Show all"),
    ];
    fit(this.below, (ratio) => {
      this.ratio = ratio;
      this._size();
    });
    fit(this.above, () => this._overlay());
    redrawn(this.above, (pen) => this._overlay(pen));
    numbers(this.stage, "frames", () => this.points && this._columns());
    this._listen();
    document.addEventListener("theme", () => {
      this._names();
      this.draw();
    });
  }

  // New scores: look again, never twice at once, for the older answer may come last; soon after the last time, later.
  async update(scored) {
    if (scored === this.scored) return;
    const left = this.points ? NEW_MS - (performance.now() - (this.asked ?? -1e9)) : 0;
    clearTimeout(this.later);
    if (left > 0) {
      this.later = setTimeout(() => this.update(scored), left);
      return;
    }
    this.scored = scored;
    await this.load();
  }

  async load() {
    if (this.busy) {
      this.again = true;
      return;
    }
    this.busy = true;
    this.asked = performance.now();
    try {
      const query = { colour: this.colour };
      if (
        this.view &&
        !this.source.offline &&
        this.points?.meta.inside > 0 &&
        this.points.meta.total > this.points.x.length &&
        !this.points.meta.flat
      )
        Object.assign(query, this._box());
      const found = await this.source.columns("points", query);
      if (!found.meta.total) {
        this.points = null;
        fill(this.note, "No frame has been scored yet. The map appears with the first scores.");
        return;
      }
      if (found.meta.generation !== this.points?.meta.generation) {
        this.view = null;
        this.path = [];
        if (this.corners) this.lassoed(null);
        this.corners = null;
      } // other coordinates
      this.points = found;
      this.places = this._places();
      if (!this.view || this.whole) this._fitAll();
      this._names();
      this.draw();
      // the server reads on, part after part
      if (found.meta.behind && !this.source.offline) setTimeout(() => this.load(), 50);
    } catch (error) {
      fill(this.note, error.message);
    } finally {
      this.busy = false;
      if (this.again) {
        this.again = false;
        this.load();
      }
    }
  }

  // Frames that share few places, as contact maps of a short peptide do: each place once, as large as its share.
  // Else null.
  _places() {
    const { x, y, c } = this.points,
      n = x.length,
      found = new Map();
    if (n > SOME) return null;
    for (let i = 0; i < n; i++) {
      const key = `${x[i]},${y[i]}`,
        place = found.get(key);
      if (place) {
        place.n++;
        place.sum += c[i];
        place.last = c[i];
      } else {
        found.set(key, { x: x[i], y: y[i], n: 1, sum: c[i], last: c[i] });
        if (found.size > MOST_PLACES || (i > 300 && found.size > 0.5 * i)) return null;
      }
    }
    return [...found.values()].sort((a, b) => b.n - a.n);
  }

  _box() {
    const { x0, x1, y0, y1 } = this.view,
      w = (x1 - x0) * 0.3,
      h = (y1 - y0) * 0.3;
    return { x0: x0 - w, x1: x1 + w, y0: y0 - h, y1: y1 + h };
  }

  _fitAll() {
    const { x, y } = this.points;
    let a = Infinity,
      b = -Infinity,
      c = Infinity,
      d = -Infinity;
    for (let i = 0; i < x.length; i++) {
      const u = x[i],
        v = y[i];
      if (u < a) a = u;
      if (u > b) b = u;
      if (v < c) c = v;
      if (v > d) d = v;
    }
    if (!(b >= a)) [a, b, c, d] = [0, 1, 0, 1];
    const w = (b - a || 1) * 0.04,
      h = (d - c || 1) * 0.04;
    this.view = { x0: a - w, x1: b + w, y0: c - h, y1: d + h };
    this.whole = true;
  }

  all() {
    if (!this.points) return;
    this._fitAll();
    this.draw();
    if (this.points.meta.every > 1) this.load();
  }
  setMode(mode) {
    this.mode = mode;
    this.lassoButton.setAttribute("aria-pressed", String(mode === "lasso"));
    this.below.style.cursor = mode === "lasso" ? "crosshair" : "grab";
    this.below.style.touchAction = mode === "lasso" ? "none" : "";
  }
  _togglePath() {
    this.hidden = !this.hidden;
    this.pathButton.setAttribute("aria-pressed", String(!this.hidden));
    this._overlay();
  }
  show(path) {
    this.path = path.filter(Boolean);
    this._overlay();
  }

  // Data -> pixels: px = (x - x0) * kx + ox
  _scale() {
    const r = this.ratio,
      W = this.below.width,
      H = this.below.height,
      v = this.view;
    const left = LEFT * r,
      top = TOP * r,
      width = W - left - RIGHT * r,
      height = H - top - BOTTOM * r;
    return { left, top, width, height, kx: width / (v.x1 - v.x0), ky: height / (v.y1 - v.y0), W, H };
  }
  _at(x, y) {
    const s = this._scale();
    return [s.left + (x - this.view.x0) * s.kx, s.top + s.height - (y - this.view.y0) * s.ky];
  }
  _data(px, py) {
    const s = this._scale(),
      r = this.ratio;
    return [this.view.x0 + (px * r - s.left) / s.kx, this.view.y0 + (s.top + s.height - py * r) / s.ky];
  }

  _size() {
    const n = this.below.width * this.below.height;
    this.count = new Uint32Array(n);
    this.sum = new Float32Array(n);
    this.image = this.below.getContext("2d").createImageData(this.below.width, this.below.height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.draw();
  }

  _kind() {
    const { meta } = this.points;
    return meta.names.length || ["walker", "slot", "version", "cluster", "bias"].includes(meta.colour)
      ? "names"
      : "amounts";
  }
  _palette() {
    // 256 colours: of a name by its number, of an amount by its share
    const { meta } = this.points;
    if (this._kind() === "amounts") return ramp();
    return Uint32Array.from({ length: 256 }, (_, i) =>
      packed(meta.names.length ? ofPolicy(meta.names[i] ?? "?", meta.names) : ofNumber(i)),
    );
  }

  draw() {
    if (!this.points || !this.view || !this.pixels) return;
    const { x, y, c, meta } = this.points,
      n = x.length,
      { count, sum, pixels } = this,
      named = this._kind() === "names";
    const { left, top, width, height, kx, ky, W } = this._scale(),
      r = this.ratio;
    const size = n < FEW ? 2.6 * r : n < SOME ? 1.4 * r : n < 4 * SOME && r > 1 ? 1 : 0,
      reach = Math.round(size);
    const ox = left - this.view.x0 * kx,
      oy = top + height + this.view.y0 * ky,
      right = left + width,
      low = top + height;
    count.fill(0);
    sum.fill(0);
    if (this.places) return this._drawPlaces();
    const disc = [];
    for (let u = -reach; u <= reach; u++)
      for (let v = -reach; v <= reach; v++) if (u * u + v * v <= size * size + 0.5) disc.push(v * W + u);
    const m = disc.length,
      x0 = left + reach,
      x1 = right - reach,
      y0 = top + reach,
      y1 = low - reach;
    for (let i = 0; i < n; i++) {
      const a = x[i] * kx + ox,
        b = oy - y[i] * ky;
      if (!(a >= x0 && a < x1 && b >= y0 && b < y1)) continue;
      const j = (b | 0) * W + (a | 0),
        value = c[i];
      if (named)
        for (let k = 0; k < m; k++) {
          const p = j + disc[k];
          count[p]++;
          sum[p] = value;
        }
      else if (m === 1) {
        count[j]++;
        sum[j] += value;
      } else
        for (let k = 0; k < m; k++) {
          const p = j + disc[k];
          count[p]++;
          sum[p] += value;
        }
    }
    const colours = this._palette(),
      scale = 255 / (meta.high - meta.low || 1),
      base = meta.low,
      none = packed(colour("grey"));
    // where frames crowd it is denser
    const alpha = Uint8Array.from({ length: 64 }, (_, k) => Math.min(255, 150 + (105 * Math.log2(k + 1)) / 4));
    for (let j = 0; j < count.length; j++) {
      const times = count[j];
      if (!times) {
        pixels[j] = 0;
        continue;
      }
      const value = named ? sum[j] : (sum[j] / times - base) * scale;
      const shade = Number.isNaN(value)
        ? none
        : colours[named ? value & 255 : value < 0 ? 0 : value > 255 ? 255 : value | 0];
      pixels[j] = (shade & 0xffffff) | (alpha[Math.min(times, 63)] << 24);
    }
    this.below.getContext("2d").putImageData(this.image, 0, 0);
    this._drawn();
  }

  _drawn() {
    const { meta, x } = this.points,
      data = this.below.dataset;
    data.points = x.length;
    data.total = meta.total;
    data.generation = meta.generation;
    this._overlay();
  }

  _drawPlaces() {
    const g = this.below.getContext("2d"),
      { meta, x } = this.points,
      named = this._kind() === "names",
      colours = this._palette(),
      r = this.ratio,
      { left, top, width, height } = this._scale();
    g.clearRect(0, 0, this.below.width, this.below.height);
    g.save();
    g.beginPath();
    g.rect(left, top, width, height);
    g.clip();
    g.lineWidth = 0.8 * r;
    g.strokeStyle = colour("card");
    for (const place of this.places) {
      const value = named ? place.last : ((place.sum / place.n - meta.low) / (meta.high - meta.low || 1)) * 255,
        shade = Number.isNaN(value)
          ? packed(colour("grey"))
          : colours[named ? value & 255 : Math.max(0, Math.min(255, value | 0))],
        [px, py] = this._at(place.x, place.y);
      g.fillStyle = `rgb(${shade & 255} ${(shade >> 8) & 255} ${(shade >> 16) & 255} / .88)`;
      g.beginPath();
      g.arc(px, py, (2.6 + 26 * Math.sqrt(place.n / x.length)) * r, 0, 7);
      g.fill();
      g.stroke();
    }
    g.restore();
    this._drawn();
  }

  _columns() {
    const { x, y, c, meta } = this.points,
      [across, up] = meta.labels;
    return { [across]: x, [up]: y, [meta.title]: meta.names.length ? Array.from(c, (v) => meta.names[v]) : c };
  }

  // Axes, the lineage and the lasso.
  _overlay(g = this.above.getContext("2d")) {
    const r = this.ratio;
    g.clearRect(0, 0, this.above.width, this.above.height);
    if (!this.points || !this.view || !r) return;
    const { left, top, width, height } = this._scale(),
      v = this.view,
      { meta } = this.points;
    g.font = `${11.5 * r}px system-ui, "DejaVu Sans", sans-serif`;
    g.fillStyle = colour("soft");
    g.strokeStyle = colour("line");
    g.lineWidth = r;
    g.textAlign = "center";
    g.textBaseline = "top";
    const [per, unit] = meta.flat ? timeUnit(v.x1) : [1];
    for (const t of ticks(v.x0 * per, v.x1 * per, Math.max(2, width / r / 90))) {
      const [px] = this._at(t / per, 0);
      g.beginPath();
      g.moveTo(px, top + height);
      g.lineTo(px, top + height + 4 * r);
      g.stroke();
      g.fillText(tickText(t), px, top + height + 6 * r);
    }
    g.textAlign = "right";
    g.textBaseline = "middle";
    for (const t of ticks(v.y0, v.y1, Math.max(2, height / r / 60))) {
      const [, py] = this._at(0, t);
      g.beginPath();
      g.moveTo(left - 4 * r, py);
      g.lineTo(left, py);
      g.stroke();
      g.fillText(tickText(t), left - 7 * r, py);
    }
    g.strokeRect(left, top, width, height);
    g.textAlign = "center";
    g.textBaseline = "bottom";
    g.fillText(meta.flat ? `${meta.labels[0]} (${unit})` : meta.labels[0], left + width / 2, this.above.height - 3 * r);
    g.save();
    g.translate(11 * r, top + height / 2);
    g.rotate(-Math.PI / 2);
    g.textBaseline = "middle";
    g.fillText(meta.labels[1], 0, 0);
    g.restore();
    g.save();
    g.beginPath();
    g.rect(left, top, width, height);
    g.clip();
    if (this.path.length) {
      const places = (this.hidden ? this.path.slice(-1) : this.path).map(([x, y]) => this._at(x, y));
      const many = places.length > 25;
      g.globalAlpha = many ? 0.7 : 1;
      for (const [width, shade] of [
        [many ? 2.5 : 4.5, colour("card")],
        [many ? 1.1 : 2, colour("ink")],
      ]) {
        g.lineWidth = width * r;
        g.strokeStyle = shade;
        g.lineJoin = "round";
        g.beginPath();
        places.forEach(([px, py]) => g.lineTo(px, py));
        g.stroke();
      }
      g.globalAlpha = 1;
      for (const [px, py] of places.slice(0, -1)) {
        g.fillStyle = colour("card");
        g.strokeStyle = colour("ink");
        g.lineWidth = 1.4 * r;
        g.beginPath();
        g.arc(px, py, 2.6 * r, 0, 7);
        g.fill();
        g.stroke();
      }
      const [px, py] = places.at(-1);
      g.fillStyle = colour("red");
      g.strokeStyle = colour("card");
      g.lineWidth = 2 * r;
      g.beginPath();
      g.arc(px, py, 6 * r, 0, 7);
      g.fill();
      g.stroke();
    }
    if (this.corners?.length) {
      g.strokeStyle = colour("red");
      g.fillStyle = `${colour("red")}22`;
      g.lineWidth = 1.8 * r;
      g.beginPath();
      this.corners.forEach(([x, y]) => g.lineTo(...this._at(x, y)));
      g.closePath();
      g.fill();
      g.stroke();
    }
    g.restore();
  }

  _names() {
    const { meta } = this.points ?? {};
    if (!meta) return;
    const names = {
      time: "time",
      policy: "who chose the start",
      walker: "walker",
      slot: "slot",
      version: "model version",
      bias: "version of the bias",
      cluster: "cluster",
    };
    fill(
      this.colours,
      choice(
        "colour",
        meta.colours.map((name) => [name, names[name] ?? words(name)]),
        this.colour,
        (value) => {
          this.colour = value;
          this.load();
        },
      ),
    );
    if (this._kind() === "names") {
      const seen = new Set(this.points.c),
        shown = [...seen]
          .filter((v) => !Number.isNaN(v))
          .sort((a, b) => a - b)
          .slice(0, 16);
      fill(
        this.legend,
        meta.title,
        shown.map((v) =>
          el(
            "span",
            {},
            el("i", { style: { background: meta.names.length ? ofPolicy(meta.names[v], meta.names) : ofNumber(v) } }),
            meta.names.length ? words(meta.names[v]) : String(v),
          ),
        ),
        seen.size > 16 ? "…" : "",
      );
    } else
      fill(
        this.legend,
        meta.title,
        el("span", { class: "number" }, (meta.beyond[0] ? "≤ " : "") + amount(meta.low)),
        el("span", { class: "ramp", style: { background: `linear-gradient(to right, ${rampStops().join(",")})` } }),
        el("span", { class: "number" }, (meta.beyond[1] ? "≥ " : "") + amount(meta.high)),
      );
    const part =
      meta.every > 1
        ? `; one of ${meta.every} is ${this.source.offline ? "in this page" : "drawn, more where you zoom in"}`
        : "";
    fill(
      this.note,
      (meta.behind ? `Reading: ${amount(meta.behind)} frames to go. ` : "") +
        `${amount(meta.total)} frames under ${meta.model ? `model ${meta.model}` : "no model"}${part}. ` +
        (this.places ? "They share few places: the area of one is its share of the frames. " : "") +
        "Drag to move, wheel to zoom, click a point to see its frame.",
    );
  }

  _listen() {
    const c = this.below;
    let held = null;
    c.style.cursor = "grab";
    c.onpointerdown = (e) => {
      if (!this.points) return;
      c.setPointerCapture(e.pointerId);
      held = { x: e.offsetX, y: e.offsetY, view: { ...this.view }, moved: 0 };
      if (this.mode === "lasso") this.corners = [this._data(e.offsetX, e.offsetY)];
    };
    c.onpointermove = (e) => {
      if (!held) return;
      held.moved = Math.max(held.moved, Math.hypot(e.offsetX - held.x, e.offsetY - held.y));
      if (this.mode === "lasso") {
        this.corners?.push(this._data(e.offsetX, e.offsetY));
        this._overlay();
        return;
      }
      if (held.moved < 4) return;
      const s = this._scale(),
        dx = ((e.offsetX - held.x) * this.ratio) / s.kx,
        dy = ((e.offsetY - held.y) * this.ratio) / s.ky,
        v = held.view;
      this._moveTo({ x0: v.x0 - dx, x1: v.x1 - dx, y0: v.y0 + dy, y1: v.y1 + dy });
    };
    c.onpointerup = (e) => {
      const was = held;
      held = null;
      if (!was) return;
      if (this.mode === "lasso") return this._endLasso();
      if (was.moved < 4) this._pick(e.offsetX, e.offsetY);
    };
    c.onpointercancel = () => {
      held = null;
    };
    c.addEventListener(
      "wheel",
      (e) => {
        if (!this.points) return;
        e.preventDefault();
        this._zoom(Math.exp(e.deltaY / 400), ...this._data(e.offsetX, e.offsetY));
      },
      { passive: false },
    );
    c.onkeydown = (e) => {
      if (!this.points) return;
      const v = this.view,
        w = (v.x1 - v.x0) / 10,
        h = (v.y1 - v.y0) / 10,
        middle = [(v.x0 + v.x1) / 2, (v.y0 + v.y1) / 2];
      const moves = { ArrowLeft: [-w, 0], ArrowRight: [w, 0], ArrowUp: [0, h], ArrowDown: [0, -h] },
        by = moves[e.key];
      if (by) this._moveTo({ x0: v.x0 + by[0], x1: v.x1 + by[0], y0: v.y0 + by[1], y1: v.y1 + by[1] });
      else if (e.key === "+" || e.key === "=") this._zoom(1 / 1.3, ...middle);
      else if (e.key === "-") this._zoom(1.3, ...middle);
      else if (e.key === "0") this.all();
      else if (e.key === "l" || e.key === "L") this.setMode(this.mode === "lasso" ? "pan" : "lasso");
      else if (e.key === "Enter") {
        const box = c.getBoundingClientRect();
        this._pick(LEFT + (box.width - LEFT - RIGHT) / 2, TOP + (box.height - TOP - BOTTOM) / 2);
      } else return;
      e.preventDefault();
    };
  }

  _zoom(by, x, y) {
    const v = this.view;
    this._moveTo({
      x0: x + (v.x0 - x) * by,
      x1: x + (v.x1 - x) * by,
      y0: y + (v.y0 - y) * by,
      y1: y + (v.y1 - y) * by,
    });
  }
  _moveTo(view) {
    if (!(view.x1 - view.x0 > 1e-12) || !(view.y1 - view.y0 > 1e-12)) return;
    this.view = view;
    this.whole = false;
    if (!this.frame)
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.draw();
      });
    clearTimeout(this.settling);
    if (this.points.meta.total > this.points.x.length && !this.source.offline)
      this.settling = setTimeout(() => this.load(), SETTLE_MS);
  }

  _pick(px, py) {
    const [x, y] = this._data(px, py),
      s = this._scale();
    const { generation } = this.points.meta;
    this.chosen({ x, y, rx: (REACH * this.ratio) / s.kx, ry: (REACH * this.ratio) / s.ky, generation });
  }
  _endLasso() {
    this.setMode("pan");
    const all = this.corners ?? [];
    if (all.length < 3) {
      this.corners = null;
      return this._overlay();
    }
    this.corners = all.filter((_, i) => i % Math.ceil(all.length / 100) === 0);
    this._overlay();
    this.lassoed(this.corners, this.points.meta.generation);
  }
}
