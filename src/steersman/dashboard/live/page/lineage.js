// Which segment came from which: a tree over time, folded where it is too large to see.

import { colour, ofPolicy, words } from "steersman/colours.js";
import { amount, card, el, fill, fit, ticks, tickText } from "steersman/dom.js";
import { numbers, redrawn } from "steersman/save.js";

const MOST = 320,
  MORE = 120; // segments shown at first, and more with each unfolding
const LEFT = 16,
  RIGHT = 60,
  TOP = 12,
  BOTTOM = 40,
  LANE = 11; // CSS pixels

export class Lineage {
  constructor(segments, { chosen }) {
    Object.assign(this, { segments, chosen });
    this.shown = new Set();
    this.grown = 0;
    this.selected = -1;
    this.canvas = el("canvas", {
      tabindex: 0,
      role: "img",
      id: "lineage-canvas",
      "aria-label":
        "Tree of segments. Arrow keys go to parent, child and sibling; Enter shows the frame; space folds or unfolds.",
    });
    this.tip = el("div", { class: "tip", hidden: true });
    this.stage = el("div", { class: "stage" }, this.canvas, this.tip);
    this.note = el("p", { class: "small soft" });
    this.legend = el("div", { class: "legend" });
    this.node = card(
      "lineage",
      "Which segment came from which?",
      {
        short: "Lineage",
        tools: [
          el(
            "button",
            {
              onclick: () => {
                this.shown.clear();
                this.update();
              },
            },
            "Fold again",
          ),
        ],
      },
      this.note,
      this.stage,
      this.legend,
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

  update() {
    const s = this.segments,
      n = s.length;
    if (!n) return fill(this.note, "No segment has begun yet.");
    this.stage.hidden = this.legend.hidden = !s.parent.subarray(0, n).some((p) => p >= 0);
    if (this.stage.hidden) return fill(this.note, "No segment continues another: each began from the prepared start.");
    this.children = new Map();
    this.below = new Int32Array(n);
    this.depth = new Int32Array(n);
    for (let i = 0; i < n; i++) {
      const p = s.parent[i];
      if (p >= 0) {
        this.depth[i] = this.depth[p] + 1;
        const all = this.children.get(p);
        all ? all.push(i) : this.children.set(p, [i]);
      }
    }
    for (let i = n - 1; i >= 0; i--) if (s.parent[i] >= 0) this.below[s.parent[i]] += 1 + this.below[i];
    if (!this.shown.size || (this.shown.size === this.grown && n <= MOST)) {
      this.shown.clear();
      this._unfold(-1, MOST);
      this.grown = this.shown.size;
    }
    this.draw();
  }

  // Show the deepest lineages below a segment (-1: of all), each with its ancestors.
  _unfold(root, most) {
    const s = this.segments,
      tips = [];
    for (let i = 0; i < s.length; i++) if (!this.children.has(i) && (root < 0 || this._within(i, root))) tips.push(i);
    tips.sort((a, b) => this.depth[b] - this.depth[a]);
    let added = 0;
    for (const tip of tips) {
      const path = [];
      for (let i = tip; i >= 0 && !this.shown.has(i); i = s.parent[i]) path.push(i);
      if (added + path.length > most) {
        if (added) continue;
        path.splice(0, path.length - most);
      }
      path.forEach((i) => this.shown.add(i));
      added += path.length;
      if (added >= most) break;
    }
  }
  _within(i, root) {
    for (; i >= root && i >= 0; i = this.segments.parent[i]) if (i === root) return true;
    return false;
  }
  _fold(root) {
    for (const i of [...this.shown]) if (i !== root && this._within(i, root)) this.shown.delete(i);
  }

  _place() {
    // a height for each segment shown, so that no branches cross
    const s = this.segments,
      kept = [...this.shown].sort((a, b) => a - b),
      roots = [],
      own = new Map();
    this.y = new Map();
    let lane = 0;
    for (const i of kept) {
      const p = s.parent[i];
      if (p >= 0 && this.shown.has(p)) {
        const all = own.get(p);
        all ? all.push(i) : own.set(p, [i]);
      } else roots.push(i);
    }
    const waiting = roots.reverse();
    while (waiting.length) {
      const i = waiting.pop(),
        all = own.get(i);
      if (all) for (let k = all.length - 1; k >= 0; k--) waiting.push(all[k]);
      else this.y.set(i, lane++);
    }
    for (const i of kept.reverse()) {
      const all = own.get(i);
      if (all) this.y.set(i, all.reduce((sum, k) => sum + this.y.get(k), 0) / all.length);
    }
    this.kept = kept.reverse();
    this.lanes = lane;
  }

  draw(g = this.canvas.getContext("2d")) {
    const s = this.segments;
    if (!this.ratio || !this.children || !s.length) return;
    this._place();
    const r = this.ratio,
      wanted = Math.min(560, TOP + BOTTOM + Math.max(60, this.lanes * LANE));
    if (!this.stage.style.height || Math.abs(parseFloat(this.stage.style.height) - wanted) > 1) {
      this.stage.style.height = `${wanted}px`;
      return requestAnimationFrame(() => this.draw());
    }
    const W = this.canvas.width,
      H = this.canvas.height;
    let last = 1e-3;
    for (const i of this.kept) last = Math.max(last, s.began[i]);
    const X = (t) => LEFT * r + (t / last) * (W - (LEFT + RIGHT) * r),
      lane = (H - (TOP + BOTTOM) * r) / Math.max(1, this.lanes),
      Y = (y) => TOP * r + (y + 0.5) * lane,
      dot = Math.max(1.6, Math.min(4, lane / r / 2.6)) * r;
    g.clearRect(0, 0, W, H);
    g.lineWidth = Math.max(1, Math.min(1.6, lane / r / 5)) * r;
    this.places = [];
    for (const i of this.kept) {
      const p = s.parent[i];
      if (!this.y.has(p)) continue;
      g.strokeStyle = ofPolicy(s.policies[s.policy[i]] ?? "?", s.policies);
      g.globalAlpha = 0.75;
      g.beginPath();
      g.moveTo(X(s.began[p]), Y(this.y.get(p)));
      g.lineTo(X(s.began[p]), Y(this.y.get(i)));
      g.lineTo(X(s.began[i]), Y(this.y.get(i)));
      g.stroke();
    }
    g.globalAlpha = 1;
    g.font = `${10.5 * r}px system-ui, "DejaVu Sans", sans-serif`;
    g.textBaseline = "middle";
    let hidden = 0;
    for (const i of this.kept) {
      const x = X(s.began[i]),
        y = Y(this.y.get(i)),
        how = s.how[s.ends[i]];
      this.places.push([x, y, i]);
      g.fillStyle = ofPolicy(s.policies[s.policy[i]] ?? "?", s.policies);
      g.beginPath();
      g.arc(x, y, dot, 0, 7);
      g.fill();
      if (how === "failed" || how === "lost" || how === "stopped") {
        g.strokeStyle = colour(how === "stopped" ? "orange" : "red");
        g.lineWidth = 1.6 * r;
        g.beginPath();
        if (how === "stopped") {
          g.moveTo(x + dot + 2 * r, y - dot);
          g.lineTo(x + dot + 2 * r, y + dot);
        } else {
          g.moveTo(x - dot, y - dot);
          g.lineTo(x + dot, y + dot);
          g.moveTo(x - dot, y + dot);
          g.lineTo(x + dot, y - dot);
        }
        g.stroke();
      }
      const away = (this.children.get(i) ?? [])
        .filter((k) => !this.shown.has(k))
        .reduce((sum, k) => sum + 1 + this.below[k], 0);
      if (away) {
        hidden += away;
        if (lane > 7 * r || away > 40) {
          g.fillStyle = colour("soft");
          g.fillText(`+${amount(away)}`, x + dot + 4 * r, y);
        }
      }
    }
    if (this.y.has(this.selected)) {
      g.strokeStyle = colour("red");
      g.lineWidth = 2 * r;
      g.beginPath();
      g.arc(X(s.began[this.selected]), Y(this.y.get(this.selected)), dot + 3.5 * r, 0, 7);
      g.stroke();
    }
    const apart = s.length - this.kept.length - hidden;
    const unit = last > 7200 ? [3600, "h"] : last > 300 ? [60, "min"] : [1, "s"];
    g.fillStyle = colour("soft");
    g.textAlign = "center";
    g.textBaseline = "top";
    for (const t of ticks(0, last / unit[0], 8)) g.fillText(tickText(t), X(t * unit[0]), H - (BOTTOM - 8) * r);
    g.fillText(`wall time at which a segment began (${unit[1]})`, W / 2, H - 15 * r);
    g.textAlign = "start";
    fill(
      this.note,
      `${amount(this.kept.length)} of ${amount(s.length)} segments are shown` +
        (hidden ? `; ${amount(hidden)} are folded away: click a segment with a + to unfold it` : "") +
        (apart > 0 ? `; ${amount(apart)} belong to trees that are not shown` : "") +
        ". Click a segment to see its last frame. × failed or lost, | stopped.",
    );
    fill(
      this.legend,
      s.policies.map((p) => el("span", {}, el("i", { style: { background: ofPolicy(p, s.policies) } }), words(p))),
    );
    this.canvas.dataset.shown = this.kept.length;
  }

  _select(i) {
    this.selected = i;
    this.draw();
  }
  _toggle(i) {
    const all = this.children.get(i) ?? [];
    if (all.some((k) => !this.shown.has(k))) this._unfold(i, MORE);
    else this._fold(i);
    this.grown = -1;
    this.draw();
  }
  _near(e) {
    let best = -1,
      least = (9 * this.ratio) ** 2;
    for (const [x, y, i] of this.places ?? []) {
      const d = (x - e.offsetX * this.ratio) ** 2 + (y - e.offsetY * this.ratio) ** 2;
      if (d < least) {
        least = d;
        best = i;
      }
    }
    return best;
  }
  _say(i) {
    const s = this.segments;
    const policy = words(s.policies[s.policy[i]] ?? "unknown"),
      around = `${amount(this.depth[i])} ancestors, ${amount(this.below[i])} descendants`;
    return `${s.name(i)}: ${s.how[s.ends[i]]}, ${amount(s.frames[i])} frames\n${policy}, ${around}`;
  }
  _listen() {
    const c = this.canvas;
    c.onpointermove = (e) => {
      const i = this._near(e);
      this.tip.hidden = i < 0;
      if (i >= 0) {
        fill(this.tip, this._say(i));
        this.tip.style.left = `${Math.min(e.offsetX + 12, c.clientWidth - 190)}px`;
        this.tip.style.top = `${e.offsetY + 14}px`;
      }
    };
    c.onpointerleave = () => {
      this.tip.hidden = true;
    };
    c.onclick = (e) => {
      const i = this._near(e);
      if (i < 0) return;
      if ((this.children.get(i) ?? []).some((k) => !this.shown.has(k))) this._toggle(i);
      this._select(i);
      this.chosen(i);
    };
    c.ondblclick = (e) => {
      const i = this._near(e);
      if (i >= 0) this._toggle(i);
    };
    c.onkeydown = (e) => {
      const s = this.segments,
        at = this.selected,
        kin = at >= 0 ? (this.children.get(s.parent[at]) ?? []).filter((k) => this.shown.has(k)) : [];
      if (at < 0 && e.key.startsWith("Arrow")) this._select(this.kept?.[0] ?? -1);
      else if (e.key === "ArrowLeft" && this.shown.has(s.parent[at])) this._select(s.parent[at]);
      else if (e.key === "ArrowRight") {
        const child = (this.children.get(at) ?? []).find((k) => this.shown.has(k));
        if (child != null) this._select(child);
      } else if (e.key === "ArrowDown" || e.key === "ArrowUp") {
        const next = kin[kin.indexOf(at) + (e.key === "ArrowDown" ? 1 : -1)];
        if (next != null) this._select(next);
      } else if (e.key === "Enter" && at >= 0) this.chosen(at);
      else if (e.key === " " && at >= 0) this._toggle(at);
      else return;
      e.preventDefault();
    };
  }
}
