// Elements of the page. Text becomes text nodes and nothing else, so that no text of a run is ever markup.

import { saver } from "steersman/save.js";

export const $ = (id) => document.getElementById(id);

export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(node.style, value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(
    ...children
      .flat(Infinity)
      .filter((child) => child != null && child !== false)
      .map((child) => (child instanceof Node ? child : String(child))),
  );
  return node;
}

export function fill(node, ...children) {
  node.replaceChildren(
    ...children
      .flat(Infinity)
      .filter((child) => child != null && child !== false)
      .map((child) => (child instanceof Node ? child : String(child))),
  );
  return node;
}

// A part of the page; `short` is what its link at the top says.
export function card(id, title, { short = title, tools = [] } = {}, ...children) {
  const node = el("section", { id, class: "card", "data-short": short, "aria-labelledby": `${id}-title` }),
    heading = el("h2", { id: `${id}-title` }, title);
  return fill(
    node,
    el("div", { class: "head" }, heading, el("span", { class: "grow" }), ...tools, saver(node)),
    ...children,
  );
}

export function table(header, rows, numbers = []) {
  const cell = (tag, text, i) => el(tag, { class: numbers.includes(i) ? "right" : "text" }, text ?? "");
  return el(
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
          header.map((text, i) => cell("th", text, i)),
        ),
      ),
      el(
        "tbody",
        {},
        rows.map((row) =>
          el(
            "tr",
            {},
            row.map((text, i) => cell("td", text, i)),
          ),
        ),
      ),
    ),
  );
}

// A text in which the names of segments and frames, as w3.17 and w3.17:4, are links that show them.
export const linked = (text) =>
  String(text ?? "")
    .split(/\b(w\d+\.\d+(?::\d+)?)(?![\w.])/)
    .map((part, i) => (i % 2 ? el("a", { href: `#${part}` }, part) : part));

// What opens above the page, and closes when somebody acts elsewhere.
export const menu = (attributes, title, ...children) =>
  el("details", { ...attributes, "data-menu": true }, el("summary", {}, title), ...children);
const close = (unless) =>
  document.querySelectorAll("details[data-menu][open]").forEach((each) => {
    if (!each.contains(unless)) each.open = false;
  });
document.addEventListener("pointerdown", (e) => close(e.target));
document.addEventListener("keydown", (e) => e.key === "Escape" && close(null));

export function choice(label, values, chosen, onchange) {
  const names = (select) =>
    fill(
      select,
      values.map(([value, text]) => el("option", { value, selected: value === chosen }, text)),
    );
  return el("label", {}, label, names(el("select", { onchange: (event) => onchange(event.target.value) })));
}

// A canvas as sharp as the screen, that says when its size changed.
export function fit(canvas, changed) {
  const measure = () => {
    const ratio = Math.min(2, window.devicePixelRatio || 1),
      box = canvas.getBoundingClientRect();
    const width = Math.max(1, Math.round(box.width * ratio)),
      height = Math.max(1, Math.round(box.height * ratio));
    if (canvas.width === width && canvas.height === height) return;
    canvas.width = width;
    canvas.height = height;
    changed(ratio);
  };
  new ResizeObserver(measure).observe(canvas);
  measure();
}

export const amount = (value) =>
  value == null || Number.isNaN(value)
    ? "–"
    : Math.abs(value) >= 1e6 || (value !== 0 && Math.abs(value) < 1e-3)
      ? value.toExponential(2).replace("e+", "e")
      : Number.isInteger(value)
        ? value.toLocaleString("en")
        : value.toLocaleString("en", { maximumSignificantDigits: 4 });

export function duration(seconds) {
  if (seconds == null || !Number.isFinite(seconds)) return "–";
  const s = Math.round(seconds),
    h = Math.floor(s / 3600),
    m = Math.floor((s % 3600) / 60);
  return h >= 48 ? `${(h / 24).toFixed(1)} days` : h ? `${h} h ${m} min` : m ? `${m} min ${s % 60} s` : `${s} s`;
}

// Round steps for an axis: 1, 2 or 5 times a power of ten.
export function ticks(low, high, most) {
  const span = high - low;
  if (!(span > 0)) return [];
  const raw = span / most,
    power = 10 ** Math.floor(Math.log10(raw)),
    step = [1, 2, 5, 10].find((k) => k * power >= raw) * power;
  const found = [];
  for (let v = Math.ceil(low / step) * step; v <= high + step * 1e-9; v += step)
    found.push(Math.abs(v) < step * 1e-9 ? 0 : v);
  return found;
}

export const tickText = (v) =>
  Math.abs(v) >= 1e5 || (v !== 0 && Math.abs(v) < 1e-3)
    ? (+v.toPrecision(6)).toExponential().replace("e+", "e")
    : String(+v.toPrecision(6));

// A unit for wall times of so many hours: [how many of it an hour has, its name].
// Times of one run along the axis of another: sizes are a unit and its multiple; of another unit nothing is drawn.
export const alongAxisOf = (times, [unit, size], [axisUnit, axisSize]) =>
  unit === axisUnit ? times.map((v) => (v * size) / axisSize) : [];
export const timeUnit = (hours) => (hours > 10 ? [1, "h"] : hours > 1 / 6 ? [60, "min"] : [3600, "s"]);
