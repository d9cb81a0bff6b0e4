// What every slot does, against time; thousands of slots as one picture.

import { colour, ofPolicy, packed, words } from "steersman/colours.js";
import { amount, card, choice, duration, el, fill, fit, ticks, tickText } from "steersman/dom.js";
import { numbers, redrawn } from "steersman/save.js";

const LEFT = 66,
  BOTTOM = 40,
  TOP = 6,
  RIGHT = 16,
  USED = 44; // CSS pixels; USED: height of the utilisation above
const ENDS = { finished: "blue", stopped: "orange", failed: "red", lost: "ink", running: "green" };
const WAITS = { start: "soft", idle: "faint", paused: "yellow" };

export class Slots {
  constructor(source, segments, { chosen }) {
    Object.assign(this, { source, segments, chosen });
    this.by = "policy";
    this.span = null;
    this.walkers = null;
    this.now = 0;
    this.canvas = el("canvas", {
      tabindex: 0,
      role: "img",
      id: "slots-canvas",
      "aria-label": "Slots against time. Left and right move, plus and minus zoom, 0 shows all.",
    });
    this.tip = el("div", { class: "tip", hidden: true });
    this.stage = el("div", { class: "stage" }, this.canvas, this.tip);
    this.legend = el("div", { class: "legend" });
    this.nodes = el("div");
    this.doing = el("p", { class: "small soft" });
    const kinds = [
      ["policy", "who chose the start"],
      ["ends", "how it ended"],
      ["model", "model version"],
      ["bias", "version of the bias"],
    ];
    this.node = card(
      "slots",
      "What is every slot doing?",
      {
        short: "Slots",
        tools: [
          choice("colour", kinds, this.by, (value) => {
            this.by = value;
            this.draw();
          }),
          el(
            "button",
            {
              onclick: () => {
                this.span = null;
                this.draw();
              },
            },
            "Show all",
          ),
        ],
      },
      this.doing,
      this.stage,
      this.legend,
      this.nodes,
    );
    fit(this.canvas, (ratio) => {
      this.ratio = ratio;
      this.draw();
    });
    document.addEventListener("theme", () => this.draw());
    redrawn(this.canvas, (pen) => this.draw(pen));
    numbers(this.stage, "segments", () => segments.columns());
    this._listen();
  }

  state(state) {
    const doing = Object.entries(state.doing);
    fill(
      this.doing,
      doing.length
        ? doing
            .map(
              ([what, n]) => `${amount(n)} ${n === 1 ? what : what.replace(/^(\w+)s\b/, "$1").replace(/^i\b/, "are")}`,
            )
            .join(" · ")
        : "No slot is at work now.",
    );
    fill(
      this.nodes,
      state.nodes.length > 1
        ? el(
            "details",
            {
              open: this.opened,
              ontoggle: (e) => {
                this.opened = e.target.open;
              },
            },
            el("summary", {}, `${state.nodes.length} nodes`),
            el(
              "div",
              { class: "wide" },
              el(
                "table",
                {},
                el(
                  "thead",
                  {},
                  el(
                    "tr",
                    {},
                    ["node", "walkers", "simulate", "block ends in"].map((text) => el("th", {}, text)),
                  ),
                ),
                el(
                  "tbody",
                  {},
                  state.nodes
                    .slice(0, 300)
                    .map((n) =>
                      el(
                        "tr",
                        {},
                        el("td", {}, n.node, n.aside ? " (set aside)" : ""),
                        el("td", { class: "right" }, n.walkers),
                        el("td", { class: "right" }, n.busy),
                        el("td", {}, n.ends ? duration(n.ends - state.now) : "–"),
                      ),
                    ),
                ),
              ),
            ),
          )
        : null,
    );
    this.now = 3600 * state.hours; // as the segments' times: without the time between sessions
  }

  async update() {
    this.walkers = await this.source.columns("walkers", {});
    this.draw();
  }

  _rows() {
    let most = 0;
    const { slot } = this.walkers;
    for (let i = 0; i < slot.length; i++) if (slot[i] > most) most = slot[i];
    return most + 1;
  }

  draw(g = this.canvas.getContext("2d")) {
    if (!this.walkers || !this.ratio || !this.canvas.width) return;
    const rows = this.walkers.slot.length ? this._rows() : 1,
      r = this.ratio,
      trained = this.walkers.meta.trainings.length > 0,
      wanted =
        TOP +
        USED +
        BOTTOM +
        Math.min(440, Math.max(60, rows * Math.max(3, Math.min(26, 260 / rows)))) +
        (trained ? 24 : 0);
    if (Math.abs(parseFloat(this.stage.style.height) - wanted) > 1 || !this.stage.style.height) {
      this.stage.style.height = `${wanted}px`;
      return requestAnimationFrame(() => this.draw());
    }
    const W = this.canvas.width,
      H = this.canvas.height,
      left = LEFT * r,
      top = (TOP + USED) * r,
      width = W - left - RIGHT * r,
      height = H - top - BOTTOM * r - (trained ? 24 * r : 0);
    const end = Math.max(1e-3, this.now),
      [t0, t1] = this.span ?? [0, end],
      kx = width / (t1 - t0),
      row = height / rows,
      image = g.createImageData(Math.max(1, Math.round(width)), Math.max(1, Math.round(height))),
      pixels = new Uint32Array(image.data.buffer),
      iw = image.width,
      ih = image.height;
    const paint = (slot, from, to, shade, least) => {
      const a = Math.max(0, (from - t0) * kx),
        b = Math.min(iw, (to - t0) * kx);
      if (!(b > a)) return;
      let x0 = Math.round(a),
        x1 = Math.max(x0 + least, Math.round(b) - (row > 6 && b - a > 4 ? 1 : 0));
      if (x1 > iw) x1 = iw;
      const gap = row > 6 ? Math.max(1, row * 0.1) : row > 3 ? 0.5 : 0;
      let y0 = Math.round(slot * row + gap),
        y1 = Math.max(y0 + 1, Math.round((slot + 1) * row - gap));
      if (y1 > ih) y1 = ih;
      for (let y = y0; y < y1; y++) pixels.fill(shade, y * iw + x0, y * iw + x1);
    };
    const { slot, hired, came, gone } = this.walkers,
      waits = packed(colour(WAITS.idle)),
      queue = packed(colour(WAITS.start)),
      paused = packed(colour(WAITS.paused)),
      { pauses } = this.walkers.meta;
    for (let i = 0; i < slot.length; i++) {
      const last = gone[i] || end,
        first = came[i] || last;
      paint(slot[i], hired[i], first, queue, 0);
      paint(slot[i], first, last, waits, 0);
      for (const [from, to] of pauses) paint(slot[i], Math.max(first, from), Math.min(last, to ?? end), paused, 0);
    }
    const s = this.segments,
      n = s.length,
      shades = this._shades(),
      used = new Float64Array(iw + 2);
    for (let i = 0; i < n; i++) {
      const from = s.began[i],
        to = s.ends[i] === 4 ? end : s.ended[i];
      if (to < t0 || from > t1) continue;
      paint(s.slot[i], from, to, shades(i), 1);
      const a = Math.max(0, Math.min(iw, (from - t0) * kx)),
        b = Math.max(0, Math.min(iw, (to - t0) * kx)),
        ia = a | 0,
        ib = b | 0; // each pixel's share that is used
      used[ia] += ia + 1 - a;
      used[ia + 1] += a - ia;
      used[ib] -= ib + 1 - b;
      used[ib + 1] -= b - ib;
    }
    g.clearRect(0, 0, W, H);
    g.putImageData(image, Math.round(left), Math.round(top));
    let sum = 0;
    g.fillStyle = `${colour("blue")}55`;
    g.beginPath();
    g.moveTo(left, top - 8 * r);
    for (let x = 0; x < iw; x++) {
      sum += used[x];
      g.lineTo(left + x, top - 8 * r - Math.min(1, sum / rows) * (USED - 12) * r);
    }
    g.lineTo(left + iw, top - 8 * r);
    g.fill();
    g.font = `${11.5 * r}px system-ui, "DejaVu Sans", sans-serif`;
    g.fillStyle = colour("soft");
    g.textAlign = "right";
    g.textBaseline = "middle";
    g.fillText("busy", left - 7 * r, top - 24 * r);
    for (const share of [0, 1]) g.fillText(share ? "100 %" : "", left - 7 * r, top - 8 * r - share * (USED - 12) * r);
    const each = Math.max(1, Math.ceil((13 * r) / row)),
      step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000].find((k) => k >= each) ?? each;
    for (let k = 0; k < rows; k += step) g.fillText(`slot ${k}`, left - 7 * r, top + (k + 0.5) * row);
    if (trained) {
      const y = top + height + 4 * r;
      g.fillText("training", left - 7 * r, y + 8 * r);
      for (const [version, from, to, accepted] of this.walkers.meta.trainings) {
        const a = Math.max(0, (from - t0) * kx),
          b = Math.min(width, ((to ?? end) - t0) * kx);
        if (!(b > 0) || a > width) continue;
        g.fillStyle = colour(accepted ? "purple" : accepted == null ? "green" : "faint");
        g.fillRect(left + a, y, Math.max(2 * r, b - a), 15 * r);
        if (b - a > 14 * r) {
          g.fillStyle = colour("ink");
          g.textAlign = "left";
          g.fillText(`${version}`, left + a + 3 * r, y + 8 * r);
          g.textAlign = "right";
        }
      }
    }
    const unit = t1 - t0 > 7200 ? [3600, "h"] : t1 - t0 > 300 ? [60, "min"] : [1, "s"];
    g.fillStyle = colour("soft");
    g.textAlign = "center";
    g.textBaseline = "top";
    g.strokeStyle = colour("line");
    for (const t of ticks(t0 / unit[0], t1 / unit[0], Math.max(2, width / r / 90))) {
      const x = left + (t * unit[0] - t0) * kx;
      g.beginPath();
      g.moveTo(x, H - BOTTOM * r);
      g.lineTo(x, H - BOTTOM * r + 4 * r);
      g.stroke();
      g.fillText(tickText(t), x, H - BOTTOM * r + 6 * r);
    }
    g.fillText(`wall time (${unit[1]})`, left + width / 2, H - 15 * r);
    this.shown = { left, top, width, height, t0, t1, kx, row, rows };
    this.canvas.dataset.segments = n;
    this._legend();
  }

  _shades() {
    const s = this.segments;
    if (this.by === "ends") {
      const all = s.how.map((how) => packed(colour(ENDS[how] ?? "grey")));
      return (i) => all[s.ends[i]];
    }
    if (this.by === "model" || this.by === "bias") {
      const versions = s[this.by];
      const all = ["blue", "orange", "green", "purple", "sky", "yellow"].map((name) => packed(colour(name))),
        none = packed(colour("grey"));
      return (i) => (versions[i] ? all[(versions[i] - 1) % all.length] : none);
    }
    const all = Array.from({ length: 256 }, (_, p) =>
        packed(p < s.policies.length ? ofPolicy(s.policies[p], s.policies) : colour("grey")),
      ),
      failed = packed(colour("red")),
      lost = packed(colour("ink"));
    return (i) => (s.ends[i] === 2 ? failed : s.ends[i] === 3 ? lost : all[s.policy[i]]);
  }
  _legend() {
    const mark = (shade, text) => el("span", {}, el("i", { style: { background: shade } }), text),
      s = this.segments;
    const own =
      this.by === "ends"
        ? s.how.map((how) => mark(colour(ENDS[how] ?? "grey"), how))
        : this.by !== "policy"
          ? [mark(colour("grey"), `no ${this.by}`), "then one colour a version"]
          : [
              ...s.policies.map((p) => mark(ofPolicy(p, s.policies), words(p))),
              mark(colour("red"), "failed"),
              mark(colour("ink"), "lost"),
            ];
    fill(
      this.legend,
      own,
      mark(colour(WAITS.idle), "waits for a start"),
      this.walkers.meta.pauses.length ? mark(colour(WAITS.paused), "paused") : null,
      mark(colour(WAITS.start), "its worker starts, or its block waits in the queue"),
    );
  }

  _hit(x, y) {
    const v = this.shown,
      r = this.ratio;
    if (!v) return -1;
    const t = v.t0 + (x * r - v.left) / v.kx,
      slot = Math.floor((y * r - v.top) / v.row),
      s = this.segments;
    if (t < v.t0 || t > v.t1 || slot < 0 || slot >= v.rows) return -1;
    for (let i = s.length - 1; i >= 0; i--)
      if (s.slot[i] === slot && s.began[i] <= t && (s.ends[i] === 4 || s.ended[i] >= t)) return i;
    return -1;
  }
  _zoom(by, x) {
    const [t0, t1] = this.span ?? [0, this.now],
      at = x == null ? (t0 + t1) / 2 : this.shown.t0 + (x * this.ratio - this.shown.left) / this.shown.kx;
    this._to(at + (t0 - at) * by, at + (t1 - at) * by);
  }
  _to(t0, t1) {
    if (t1 - t0 < 0.05) return;
    this.span = t0 <= 0 && t1 >= this.now ? null : [t0, t1];
    if (!this.frame)
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.draw();
      });
  }
  _listen() {
    const c = this.canvas;
    let held = null;
    c.onpointerdown = (e) => {
      held = { x: e.offsetX, span: this.span ?? [0, this.now], moved: 0 };
      c.setPointerCapture(e.pointerId);
    };
    c.onpointermove = (e) => {
      if (held) {
        const by = ((e.offsetX - held.x) * this.ratio) / this.shown.kx;
        held.moved = Math.max(held.moved, Math.abs(e.offsetX - held.x));
        if (held.moved > 3) this._to(held.span[0] - by, held.span[1] - by);
        this.tip.hidden = true;
        return;
      }
      const i = this._hit(e.offsetX, e.offsetY),
        s = this.segments;
      this.tip.hidden = i < 0;
      if (i < 0) return;
      fill(
        this.tip,
        `${s.name(i)}: ${s.how[s.ends[i]]}, ${amount(s.frames[i])} frames\n${s.policies[s.policy[i]] ?? "unknown"}` +
          (s.model[i] ? `, model ${s.model[i]}` : "") +
          (s.bias[i] ? `, pushed by bias ${s.bias[i]}` : "") +
          `, ${duration((s.ends[i] === 4 ? this.now : s.ended[i]) - s.began[i])}`,
      );
      this.tip.style.left = `${Math.min(e.offsetX + 12, c.clientWidth - 190)}px`;
      this.tip.style.top = `${e.offsetY + 14}px`;
    };
    c.onpointerleave = () => {
      this.tip.hidden = true;
    };
    c.onpointerup = (e) => {
      const was = held;
      held = null;
      if (was && was.moved < 4) {
        const i = this._hit(e.offsetX, e.offsetY);
        if (i >= 0) this.chosen(i);
      }
    };
    c.addEventListener(
      "wheel",
      (e) => {
        if (!e.ctrlKey && !e.shiftKey && !this.span && e.deltaY > 0) return;
        e.preventDefault();
        this._zoom(Math.exp(e.deltaY / 400), e.offsetX);
      },
      { passive: false },
    );
    c.onkeydown = (e) => {
      const [t0, t1] = this.span ?? [0, this.now],
        by = (t1 - t0) / 8;
      if (e.key === "ArrowLeft") this._to(t0 - by, t1 - by);
      else if (e.key === "ArrowRight") this._to(t0 + by, t1 + by);
      else if (e.key === "+" || e.key === "=") this._zoom(1 / 1.4);
      else if (e.key === "-") this._zoom(1.4);
      else if (e.key === "0") {
        this.span = null;
        this.draw();
      } else return;
      e.preventDefault();
    };
  }
}
