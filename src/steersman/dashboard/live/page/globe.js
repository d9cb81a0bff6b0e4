// A field on (Gauss latitudes from the north, longitudes), seen from outside: every pixel looks its own value up.

import { diverging, isDark, ramp } from "steersman/colours.js";
import { el, fit } from "steersman/dom.js";

// Zeros of the Legendre polynomial of degree n: sines of the Gauss latitudes, from the north.
export function gaussLatitudes(n) {
  return Float64Array.from({ length: n }, (_, i) => {
    let x = Math.cos((Math.PI * (i + 0.75)) / (n + 0.5));
    for (let turn = 0; turn < 8; turn++) {
      let p = 1,
        q = 0;
      for (let k = 0; k < n; k++) {
        [p, q] = [((2 * k + 1) * x * p - k * q) / (k + 1), p];
      }
      x -= (p * (x * x - 1)) / (n * (x * p - q));
    }
    return Math.asin(x);
  });
}

export class Globe {
  constructor() {
    this.canvas = el("canvas", {
      tabindex: 0,
      role: "img",
      "aria-label": "The field on the sphere: drag or use the arrow keys to turn it",
    });
    this.node = el("div", { class: "stage", id: "globe" }, this.canvas);
    this.lon = 0;
    this.lat = 0.6;
    fit(this.canvas, () => this._size());
    document.addEventListener("theme", () => this.draw());
    let held = null;
    const c = this.canvas;
    c.onpointerdown = (e) => {
      held = [e.clientX, e.clientY, this.lon, this.lat];
      c.setPointerCapture(e.pointerId);
    };
    c.onpointermove = (e) => {
      if (held) this.turn(held[2] - (e.clientX - held[0]) / 150, held[3] + (e.clientY - held[1]) / 150);
    };
    c.onpointerup = c.onpointercancel = () => {
      held = null;
    };
    c.onkeydown = (e) => {
      const by = { ArrowLeft: [-0.15, 0], ArrowRight: [0.15, 0], ArrowUp: [0, 0.15], ArrowDown: [0, -0.15] }[e.key];
      if (by) {
        e.preventDefault();
        this.turn(this.lon + by[0], this.lat + by[1]);
      }
    };
  }

  turn(lon, lat) {
    this.lon = lon;
    this.lat = Math.max(-1.57, Math.min(1.57, lat));
    if (!this.frame)
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.draw();
      });
  }

  _size() {
    const side = Math.max(16, Math.min(this.canvas.width, this.canvas.height));
    this.image = this.canvas.getContext("2d").createImageData(side, side);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.draw();
  }

  // field: Float32Array of rows * columns; bounds: its lowest and highest value to show
  set(field, rows, columns, [low, high]) {
    if (rows !== this.rows) {
      const at = gaussLatitudes(rows);
      this.row = new Float32Array(2049);
      let j = 0;
      for (let i = 0; i <= 2048; i++) {
        const p = Math.asin(1 - i / 1024);
        while (j < rows - 2 && at[j + 1] > p) j++;
        this.row[i] = Math.min(rows - 1, Math.max(0, j + (at[j] - p) / (at[j] - at[j + 1])));
      }
    }
    Object.assign(this, { field, rows, columns, low, high, signed: low < 0 && high > 0 });
    this.draw();
  }

  draw() {
    if (!this.field || !this.pixels) return;
    const S = this.image.width,
      R = S / 2 - 4,
      { field: F, columns: M, rows, row, pixels, lon, low, high } = this,
      colours = this.signed ? diverging() : ramp();
    const sl = Math.sin(this.lat),
      cl = Math.cos(this.lat),
      k = 255 / (high - low || 1),
      dim = isDark() ? 0.45 : 0.62;
    pixels.fill(0);
    for (let y = 0; y < S; y++) {
      const v = (S / 2 - y - 0.5) / R;
      for (let x = 0; x < S; x++) {
        const u = (x + 0.5 - S / 2) / R,
          q = u * u + v * v;
        if (q > 1) continue;
        const w = Math.sqrt(1 - q),
          sz = v * cl + w * sl,
          cz = w * cl - v * sl;
        let l = (Math.atan2(u, cz) + lon) / (2 * Math.PI);
        l -= Math.floor(l);
        const a = row[((1 - sz) * 1024) | 0],
          i = Math.min(rows - 2, a | 0),
          fa = a - i,
          b = l * M,
          j = Math.min(M - 1, b | 0),
          fb = b - j,
          j1 = (j + 1) % M,
          o = i * M;
        const z =
          ((F[o + j] * (1 - fb) + F[o + j1] * fb) * (1 - fa) +
            (F[o + M + j] * (1 - fb) + F[o + M + j1] * fb) * fa -
            low) *
          k;
        const c = colours[z < 0 ? 0 : z > 255 ? 255 : z | 0],
          h = dim + (1 - dim) * w,
          edge = R * (1 - Math.sqrt(q)),
          alpha = edge < 1 ? (edge * 255) | 0 : 255;
        pixels[y * S + x] =
          (alpha << 24) | ((((c >> 16) & 255) * h) << 16) | ((((c >> 8) & 255) * h) << 8) | ((c & 255) * h);
      }
    }
    const g = this.canvas.getContext("2d");
    g.clearRect(0, 0, this.canvas.width, this.canvas.height);
    g.putImageData(this.image, (this.canvas.width - S) / 2, (this.canvas.height - S) / 2);
    this.canvas.dataset.drawn = rows;
  }
}
