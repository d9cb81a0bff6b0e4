// One frame: why it is there, and what is stored of it along its lineage, as a film.

import { bounds, Line, Picture, Plane } from "steersman/arrays.js";
import { words } from "steersman/colours.js";
import { amount, choice, el, fill, linked } from "steersman/dom.js";
import { Globe } from "steersman/globe.js";
import { Molecule } from "steersman/molecule.js";

const ORDER = { molecule: 0, globe: 1, contacts: 2, image: 3, plane: 3, line: 4, number: 5 };
const MOST_VIEWS = 8;
const FEW = 3; // values that are numbers, and no line
const PLAY_MS = 110;
const FIRST = ["vorticity", "contacts", "positions"]; // of those that are shown alike

export class FrameView {
  // shown(places): draw the lineage on the map; act: says words to the run, while that is allowed
  constructor(source, { shown, act }) {
    Object.assign(this, { source, shown, act });
    this.node = el(
      "div",
      { id: "frame", "aria-live": "polite" },
      el(
        "p",
        { class: "empty" },
        "Click a point of the map, a bar of the slots or a segment of the lineage: its frame appears here, " +
          "with its lineage and the decision that chose it.",
      ),
    );
    this.turn = 0;
  }

  // While nobody may say a word to the run, as when it has ended, there is no button.
  state() {
    if (this.pin) this.pin.hidden = !this.act.allowed;
  }

  // frames: [{walker, row}, ...] that lie under one click, the nearest first
  async of(frames, number, at = 0) {
    const { walker, row } = frames[at],
      turn = ++this.turn;
    this.stop();
    try {
      const found = await this.source.values("frame", { walker, row });
      if (turn !== this.turn) return;
      this.shown(found.lineage.map((each) => each.place));
      await this._build(found, frames, number, at, turn);
    } catch (error) {
      this.trouble(error.message);
    }
  }

  // What is shown stays.
  trouble(text) {
    this.node.querySelector(".problem")?.remove();
    this.node.prepend(el("p", { class: "problem" }, text));
  }

  stop() {
    clearInterval(this.playing);
    this.playing = null;
    if (this.button) fill(this.button, "Play");
  }

  async _build(found, frames, number, at, turn) {
    const step = (by) => this.of(frames, number, (at + by + frames.length) % frames.length);
    const many =
      number > 1 &&
      el(
        "span",
        { class: "small soft" },
        `${at + 1} of ${amount(number)} frames here `,
        el("button", { onclick: () => step(-1), "aria-label": "previous frame here" }, "‹"),
        " ",
        el("button", { onclick: () => step(1), "aria-label": "next frame here" }, "›"),
      );
    this.pin = el(
      "button",
      { class: "main", hidden: !this.act.allowed, onclick: () => this.act.say(["pin", found.name]) },
      "Start from this frame",
    );
    const deep = found.lineage.length - 1,
      before = new Set(found.lineage.slice(0, -1).map((each) => each.segment)),
      views = found.variables
        .filter((each) => each.view !== "molecule" || found.topology)
        .sort((a, b) => ORDER[a.view] - ORDER[b.view] || FIRST.includes(b.name) - FIRST.includes(a.name));
    const rows = [
      ["segment", `${found.segment}, ${found.ended}${found.frames == null ? "" : ` after ${found.frames} frames`}`],
      ["started from", found.parent ? `frame ${found.parent.name}` : "the prepared start"],
      [
        "chosen by",
        words(found.policy) +
          (found.candidates ? ` among ${amount(found.candidates)} frames` : "") +
          (found.model ? `, with model ${found.model}` : ""),
      ],
      ["because", found.reason],
      ...(found.given ? [["given", found.given]] : []),
      ...found.refused
        .slice(0, 4)
        .map((each) => ["passed over", `${each.frame ? `frame ${each.frame.name}` : "a new member"}: ${each.reason}`]),
      [
        "ancestors",
        deep
          ? `${deep}: ${before.size > 4 ? "… → " : ""}${[...before].slice(-4).join(" → ")} → ${found.segment}`
          : "none",
      ],
      ...(found.stopped_by ? [["stopped by", `${found.stopped_by.by}: ${found.stopped_by.reason}`]] : []),
      ...(found.cause ? [["failed", found.cause]] : []),
    ];
    this.slider = el("input", {
      type: "range",
      min: 0,
      max: 0,
      value: 0,
      "aria-label": "Frame of the lineage",
      oninput: () => {
        this.stop();
        this._frame(+this.slider.value);
      },
    });
    this.button = el("button", { onclick: () => this._play() }, "Play");
    const film = el(
      "div",
      { hidden: true, style: { display: "flex", gap: ".7rem", alignItems: "center", margin: ".5rem 0" } },
      this.button,
      this.slider,
    );
    this.which = el("span", { class: "small soft number" });
    film.append(this.which);
    const kinds = new Set(views.filter((v) => ORDER[v.view] <= 3).map((v) => (v.view === "image" ? v.name : v.view))),
      two = views[0]?.view === "image" ? "repeat(2, minmax(0, 1fr))" : "minmax(0, 3fr) minmax(0, 2fr)";
    const stages = el("div", {
      class: "columns",
      style: {
        gridTemplateColumns: kinds.size > 1 ? two : "1fr",
        alignItems: "center",
      },
    });
    const lesser = el("div", { class: "columns" });
    fill(
      this.node,
      el(
        "div",
        {
          class: "head",
          style: { display: "flex", gap: ".7rem", alignItems: "baseline", flexWrap: "wrap", marginBottom: ".4rem" },
        },
        el("h3", { style: { fontSize: "1rem" }, id: "frame-name" }, `Frame ${found.name}`),
        many,
        el("span", { style: { flex: 1 } }),
        this.pin,
      ),
      stages,
      film,
      lesser,
      el(
        "dl",
        { class: "why" },
        rows.map(([name, text]) => [el("dt", {}, name), el("dd", {}, linked(text))]),
      ),
    );
    this.players = [];
    this.globe = null;
    for (const each of views.slice(0, MOST_VIEWS)) {
      try {
        const columns = await this.source.columns("film", { walker: found.walker, row: found.row, name: each.name });
        if (turn !== this.turn) return;
        this.players.push(await this._player(each, columns, ORDER[each.view] <= 3 ? stages : lesser));
        this.names = columns.meta.names;
        this.slider.max = columns.shapes.values[0] - 1;
        film.hidden = this.names.length < 2;
      } catch (error) {
        if (turn === this.turn) lesser.append(el("p", { class: "small soft" }, `${each.label}: ${error.message}`));
      }
    }
    this.slider.value = this.slider.max;
    this._frame(+this.slider.max);
    this.node.dataset.frame = found.name;
  }

  async _player(each, film, parent) {
    const [frames, ...shape] = film.shapes.values,
      size = shape.reduce((a, b) => a * b, 1),
      of = (f) => film.values.subarray(f * size, (f + 1) * size);
    if (each.view === "molecule") {
      this.molecule ??= new Molecule(this.source);
      parent.prepend(this.molecule.node);
      await this.molecule.load(film);
      return (f) => this.molecule.show(f);
    }
    if (each.view === "globe") {
      // one globe for all fields, and a choice of them
      const field = { name: each.name, label: each.label, of, shape, range: bounds(film.values) };
      if (this.globe) {
        this.globe.fields.push(field);
        this._fields();
        return () => {};
      }
      this.globe = { globe: new Globe(), fields: [field], shown: each.name, names: el("figcaption"), at: frames - 1 };
      parent.prepend(el("figure", {}, this.globe.globe.node, this.globe.names));
      this._fields();
      return (f) => {
        this.globe.at = f;
        this._turn();
      };
    }
    if (["contacts", "image"].includes(each.view)) {
      const range = each.view === "contacts" ? [0, 1] : bounds(film.values),
        label =
          each.view === "contacts"
            ? "contact map: residue against residue"
            : `${each.label}, colours from ${amount(range[0])} to ${amount(range[1])}`,
        picture = new Picture(label, { upward: each.view === "contacts", axes: ["residue", "residue"] });
      parent.append(picture.node);
      return (f) => picture.set(of(f), shape[0], shape[1], range);
    }
    if (each.view === "plane") {
      const plane = new Plane(each.label, film.values);
      parent.append(plane.node);
      return (f) => plane.set(of(f));
    }
    if (each.view === "line" && size <= FEW) {
      const text = el("p", { class: "small number" });
      parent.append(text);
      return (f) => fill(text, `${each.label}: ${Array.from(of(f), amount).join(", ")}`);
    }
    if (each.view === "line") {
      const line = new Line(each.label, { across: each.across, film: film.values });
      parent.append(line.node);
      return (f) => line.set(of(f));
    }
    if (frames < 3 || film.values.every((v) => v === film.values[0])) {
      const text = el("p", { class: "small" });
      parent.append(text);
      return (f) => fill(text, `${each.label}: ${amount(film.values[f])}`);
    }
    const which = film.meta.frames > frames ? `${frames} of the ${amount(film.meta.frames)}` : "the";
    const line = new Line(`${each.label} at ${which} frames of the lineage`, { across: "shown frame of the lineage" });
    parent.append(line.node);
    return (f) => line.set(film.values, f);
  }

  _turn() {
    const { globe, fields, shown, at } = this.globe,
      field = fields.find((each) => each.name === shown);
    globe.set(field.of(at), field.shape[0], field.shape[1], field.range);
  }
  _fields() {
    const { fields, shown, names } = this.globe,
      { label, range } = fields.find((each) => each.name === shown);
    fill(
      names,
      fields.length > 1
        ? choice(
            "field",
            fields.map((each) => [each.name, each.label]),
            shown,
            (name) => {
              this.globe.shown = name;
              this._fields();
              this._turn();
            },
          )
        : label,
      ` from ${amount(range[0])} to ${amount(range[1])}. Drag to turn.`,
    );
  }
  _frame(f) {
    for (const show of this.players ?? []) show(f);
    fill(this.which, this.names ? `${this.names[f]} (${f + 1} of the ${this.names.length} shown)` : "");
  }
  _play() {
    if (this.playing) return this.stop();
    fill(this.button, "Stop");
    let f = +this.slider.value >= +this.slider.max ? -1 : +this.slider.value;
    this.playing = setInterval(() => {
      f += 1;
      if (f > +this.slider.max) return this.stop();
      this.slider.value = f;
      this._frame(f);
    }, PLAY_MS);
  }
}
