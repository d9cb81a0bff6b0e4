// Any card of the page as SVG or PNG, as it stands there, and its numbers as CSV: texts stay texts, curves stay curves.

import { colour } from "steersman/colours.js";
import { el, fill, menu } from "steersman/dom.js";

const drawn = new WeakMap(), // canvas -> draws it again with a Pen, or gives its picture
  given = new WeakMap(); // element -> [title, its numbers as columns]
const LEAST = 0.5, // pixels of a shape
  SHARP = 2, // pixels of a PNG for one of the page
  LEFT_OUT = "button, select, input, datalist, script, .save, .tip, .u-over, .u-under, .u-value, label:has(select)";

// draw(pen) draws what the canvas shows; one of WebGL forgets it, and gives picture() instead.
export const redrawn = (canvas, draw) => drawn.set(canvas, { draw });
export const pictured = (canvas, picture) => drawn.set(canvas, { picture });
// columns() gives {name: values}: columns of one table, or null.
export const numbers = (node, title, columns) => given.set(node, [title, columns]);

const clean = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const tag = (name, attributes, inside = "") =>
  `<${name} ${Object.entries(attributes)
    .filter(([, value]) => value != null && value !== "")
    .map(([key, value]) => `${key}="${clean(typeof value === "number" ? +value.toFixed(3) : value)}"`)
    .join(" ")}>${inside}</${name}>`;

// A path that knows its own description: real, too, for whoever else draws meanwhile.
class Path extends Path2D {
  constructor(other) {
    super(other);
    this.d = other?.d ?? "";
  }
  moveTo(x, y) {
    super.moveTo(x, y);
    this.d += `M${+x.toFixed(2)} ${+y.toFixed(2)}`;
  }
  lineTo(x, y) {
    super.lineTo(x, y);
    this.d += `${this.d ? "L" : "M"}${+x.toFixed(2)} ${+y.toFixed(2)}`;
  }
  closePath() {
    super.closePath();
    this.d += "Z";
  }
  rect(x, y, w, h) {
    super.rect(x, y, w, h);
    this.d += `M${x} ${y}h${w}v${h}h${-w}Z`;
  }
  arc(x, y, r, from, to) {
    super.arc(x, y, r, from, to);
    if (r > 0) this.d += `M${x + r} ${y}A${r} ${r} 0 1 1 ${x - r} ${y}A${r} ${r} 0 1 1 ${x + r} ${y}Z`; // whole circles
  }
  addPath(other) {
    super.addPath(other);
    this.d += other.d;
  }
}

// Takes what is drawn on a canvas and writes SVG: as much of its context as this page and uPlot use.
class Pen {
  constructor(canvas) {
    Object.assign(this, { canvas, out: "", kept: [], at: new DOMMatrix(), path: new Path(), dash: [], inside: "" });
    Object.assign(this, {
      fillStyle: "#000",
      strokeStyle: "#000",
      lineWidth: 1,
      globalAlpha: 1,
      font: "10px sans-serif",
    });
    Object.assign(this, { textAlign: "start", textBaseline: "alphabetic", lineJoin: "miter", lineCap: "butt" });
  }
  save() {
    const { out, kept, canvas, ...state } = this;
    this.kept.push({ ...state, at: DOMMatrix.fromMatrix(this.at) });
  }
  restore() {
    Object.assign(this, this.kept.pop());
  }
  translate(x, y) {
    this.at = this.at.translate(x, y);
  }
  rotate(angle) {
    this.at = this.at.rotate((180 * angle) / Math.PI);
  }
  setLineDash(dash) {
    this.dash = dash;
  }
  beginPath() {
    this.path = new Path();
  }
  moveTo(...to) {
    this.path.moveTo(...to);
  }
  lineTo(...to) {
    this.path.lineTo(...to);
  }
  rect(...box) {
    this.path.rect(...box);
  }
  arc(...of) {
    this.path.arc(...of);
  }
  closePath() {
    this.path.closePath();
  }
  clearRect() {}
  fill(path) {
    this._shape(path instanceof Path2D ? path : this.path, { fill: this.fillStyle });
  }
  stroke(path) {
    const line = { "stroke-width": this.lineWidth, "stroke-linejoin": this.lineJoin, "stroke-linecap": this.lineCap };
    const dash = { "stroke-dasharray": this.dash.join(" ") };
    this._shape(path ?? this.path, { fill: "none", stroke: this.strokeStyle, ...line, ...dash });
  }
  fillRect(...box) {
    const path = new Path();
    path.rect(...box);
    this.fill(path);
  }
  strokeRect(...box) {
    const path = new Path();
    path.rect(...box);
    this.stroke(path);
  }
  clip(path) {
    const id = `clip${Pen.clips++}`;
    const shape = tag("path", { d: (path ?? this.path).d, transform: this._transform() });
    this.out += tag("clipPath", { id, "clip-path": this.inside }, shape);
    this.inside = `url(#${id})`;
  }
  fillText(text, x, y) {
    const size = parseFloat(/[\d.]+px/.exec(this.font)?.[0] ?? 10),
      below = { top: 0.82, middle: 0.35, bottom: -0.2 }[this.textBaseline] ?? 0,
      anchor = { center: "middle", right: "end", end: "end" }[this.textAlign];
    const look = {
      x,
      y: y + below * size,
      "text-anchor": anchor,
      style: `font: ${this.font}; fill: ${this.fillStyle}`,
    };
    this._add("text", look, clean(text));
  }
  createImageData(w, h) {
    return new ImageData(w, h);
  }
  putImageData(image, x, y) {
    const canvas = el("canvas", { width: image.width, height: image.height });
    canvas.getContext("2d").putImageData(image, 0, 0);
    const { width, height } = image;
    this._add("image", { x, y, width, height, href: canvas.toDataURL(), style: "image-rendering: pixelated" });
  }
  _shape({ d }, look) {
    if (d) this._add("path", { d, ...look });
  }
  _add(name, look, inside) {
    const opacity = this.globalAlpha === 1 ? null : this.globalAlpha,
      shape = tag(name, { ...look, opacity, transform: this._transform() }, inside);
    this.out += this.inside ? tag("g", { "clip-path": this.inside }, shape) : shape;
  }
  _transform() {
    const { a, b, c, d, e, f } = this.at;
    return this.at.isIdentity ? "" : `matrix(${[a, b, c, d, e, f].map((v) => +v.toFixed(4)).join(" ")})`;
  }
}
Pen.clips = 0;

// What uPlot draws with these options, by a plot of its own that is in no page.
export async function plotted(pen, options, data) {
  const { getContext } = HTMLCanvasElement.prototype,
    { Path2D } = window;
  HTMLCanvasElement.prototype.getContext = () => pen;
  window.Path2D = Path;
  let plot;
  try {
    plot = new uPlot(options, data);
    HTMLCanvasElement.prototype.getContext = getContext;
    for (let turn = 0; turn < 4; turn++) await null; // it draws in a microtask
  } finally {
    Object.assign(window, { Path2D });
    Object.assign(HTMLCanvasElement.prototype, { getContext });
    plot?.destroy();
  }
}

async function ofCanvas(canvas, place) {
  const { draw, picture } = drawn.get(canvas) ?? {};
  const style = `image-rendering: ${getComputedStyle(canvas).imageRendering}`;
  if (!draw) return tag("image", { ...place, style, href: picture ? picture() : canvas.toDataURL() });
  const pen = new Pen(canvas);
  await draw(pen);
  return tag(
    "svg",
    { ...place, viewBox: `0 0 ${canvas.width} ${canvas.height}`, preserveAspectRatio: "none" },
    pen.out,
  );
}

function ofSvg(svg, place) {
  const copy = svg.cloneNode(true),
    texts = copy.querySelectorAll("text");
  svg.querySelectorAll("text").forEach((text, i) => {
    const { fill, fontSize, fontWeight, fontFamily } = getComputedStyle(text);
    Object.assign(texts[i].style, { fill, fontSize, fontWeight, fontFamily });
  });
  copy.removeAttribute("style");
  for (const [key, value] of Object.entries(place)) copy.setAttribute(key, value);
  return new XMLSerializer().serializeToString(copy);
}

// An SVG of others as an image: nothing in it is executed, and nothing is loaded.
export function picture(alt, content) {
  const blob = new Blob([content], { type: "image/svg+xml" }),
    image = el("img", { alt, src: URL.createObjectURL(blob) });
  drawn.set(image, { blob });
  return image;
}

function ofImage(image, place) {
  const reader = new FileReader();
  reader.readAsDataURL(drawn.get(image).blob);
  return new Promise((done) => {
    reader.onload = () => done(tag("image", { ...place, href: reader.result }));
  });
}

// The words of a text node, line by line as they stand on the page.
function ofText(node, origin) {
  const range = document.createRange(),
    lines = [],
    style = getComputedStyle(node.parentNode),
    size = parseFloat(style.fontSize);
  for (const word of node.data.matchAll(/\S+/g)) {
    range.setStart(node, word.index);
    range.setEnd(node, word.index + word[0].length);
    const box = range.getClientRects()[0];
    if (!box?.width) continue;
    if (lines.at(-1)?.top === box.top) lines.at(-1).text += ` ${word[0]}`;
    else
      lines.push({
        top: box.top,
        x: box.left - origin.left,
        y: (box.top + box.bottom) / 2 - origin.top,
        text: word[0],
      });
  }
  const look = `font: ${style.fontWeight} ${style.fontSize} ${style.fontFamily}; fill: ${style.color}`;
  return lines.map(({ x, y, text }) => tag("text", { x, y: y + 0.35 * size, style: look }, clean(text))).join("");
}

function ofBox({ backgroundColor, backgroundImage, borderRadius, borderTopWidth, borderTopColor }, place) {
  const rx = Math.min(parseFloat(borderRadius) || 0, place.height / 2),
    colours = backgroundImage.startsWith("linear-gradient") ? backgroundImage.match(/rgba?\([^)]*\)/g) : null;
  if (colours) {
    const id = `ramp${Pen.clips++}`,
      stops = colours.map((c, i) => tag("stop", { offset: i / (colours.length - 1), "stop-color": c })).join("");
    return tag("linearGradient", { id }, stops) + tag("rect", { ...place, rx, fill: `url(#${id})` });
  }
  const wide = parseFloat(borderTopWidth),
    edge = wide > 1 ? { stroke: borderTopColor, "stroke-width": wide } : {}; // of a mark in a legend
  const bare = /^rgba\(.*, 0\)$/.test(backgroundColor);
  return bare && wide <= 1 ? "" : tag("rect", { ...place, rx, fill: bare ? "none" : backgroundColor, ...edge });
}

async function ofElement(node, origin) {
  if (node.matches(LEFT_OUT)) return "";
  const box = node.getBoundingClientRect(),
    style = getComputedStyle(node),
    place = { x: box.left - origin.left, y: box.top - origin.top, width: box.width, height: box.height };
  if (style.visibility === "hidden" || style.display === "none") return "";
  const visible = box.width > LEAST && box.height > LEAST;
  if (node.tagName === "CANVAS") return visible ? ofCanvas(node, place) : "";
  if (node.tagName === "svg") return visible ? ofSvg(node, place) : "";
  if (node.tagName === "IMG") return visible && drawn.has(node) ? ofImage(node, place) : "";
  let out = visible ? ofBox(style, place) : "";
  const children = node.tagName === "DETAILS" && !node.open ? [node.querySelector("summary")] : node.childNodes;
  for (const child of children)
    if (child.nodeType === Node.TEXT_NODE) out += ofText(child, origin);
    else if (child.nodeType === Node.ELEMENT_NODE) out += await ofElement(child, origin);
  return out;
}

export async function asSvg(node) {
  const box = node.getBoundingClientRect(),
    { width, height } = box,
    paper = tag("rect", { width, height, fill: colour("card") });
  const look = { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}` };
  return tag("svg", look, paper + (await ofElement(node, box)));
}

export async function asPng(node) {
  const image = new Image(),
    { width, height } = node.getBoundingClientRect(),
    canvas = el("canvas", { width: Math.round(SHARP * width), height: Math.round(SHARP * height) });
  image.src = URL.createObjectURL(new Blob([await asSvg(node)], { type: "image/svg+xml" }));
  await image.decode();
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(image.src);
  return new Promise((done) => canvas.toBlob(done));
}

// [title, csv] of everything in a card that has numbers, its tables among them.
export function asCsv(card) {
  const found = [];
  for (const node of [card, ...card.querySelectorAll("*")]) {
    const [title, columns] = given.get(node) ?? [],
      values = columns?.();
    if (values && node.isConnected) found.push([title, csv(Object.keys(values), across(Object.values(values)))]);
    if (node.tagName !== "TABLE" || node.closest(".u-legend")) continue;
    const [head, ...rows] = [...node.rows].map((row) => [...row.cells].map((cell) => cell.textContent));
    found.push([node.closest("details")?.querySelector("summary").textContent ?? "table", csv(head, rows)]);
  }
  return found;
}
const across = (columns) =>
  Array.from({ length: Math.max(0, ...columns.map((c) => c.length)) }, (_, i) => columns.map((c) => c[i]));
const cell = (value) => {
  const text = value == null || Number.isNaN(value) ? "" : String(value);
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};
const csv = (head, rows) => [head, ...rows].map((row) => `${row.map(cell).join()}\n`).join("");

function download(content, type, name) {
  const href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  el("a", { href, download: name.replace(/[^\w.-]+/g, "-") }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}

// The control of a card: what it can be saved as is looked up when it is opened.
export function saver(card) {
  const choices = el("div", { class: "menu" }),
    name = `${document.title.split(" · ")[0]}-${card.id}`;
  const button = (text, make) => {
    const save = async () => {
      node.open = false;
      try {
        await make();
      } catch (error) {
        card.dataset.trouble = `it could not be saved: ${error.message}`;
      }
    };
    return el("button", { onclick: save }, text);
  };
  const node = menu(
    {
      class: "save",
      ontoggle: () => {
        const tables = node.open ? asCsv(card) : [];
        fill(
          choices,
          button("SVG", async () => download(await asSvg(card), "image/svg+xml", `${name}.svg`)),
          button("PNG", async () => download(await asPng(card), "", `${name}.png`)),
          tables.map(([title, text]) =>
            button(`CSV: ${title}`, () => download(text, "text/csv", `${name}-${title}.csv`)),
          ),
        );
      },
    },
    "Save",
    choices,
  );
  return node;
}
