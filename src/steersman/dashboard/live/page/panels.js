// Figures that may stand in a paper, those of the workflow's own file first. A picture is an image, so no script in it runs.

import { bounds, Line, Picture } from "steersman/arrays.js";
import { card, el, fill } from "steersman/dom.js";
import { Globe } from "steersman/globe.js";
import { picture } from "steersman/save.js";

export class Panels {
  constructor(source) {
    this.source = source;
    this.body = el("div", {
      class: "columns",
      style: { gridTemplateColumns: "repeat(auto-fit, minmax(min(100%, 30rem), 1fr))" },
    });
    this.note = el("p", { class: "small soft" });
    this.node = card("panels", "What was sampled?", { short: "Figures" }, this.note, this.body);
    this.node.hidden = true;
  }

  async update() {
    const { panels, trouble } = await this.source.values("panels", {});
    fill(this.note, trouble);
    this.node.hidden = !panels.length && !trouble;
    const text = JSON.stringify(panels);
    if (text === this.last) return;
    this.last = text;
    fill(
      this.body,
      panels.map(({ name, title, open = false }) => {
        const place = el("div"),
          draw = async () => {
            fill(place, el("p", { class: "small soft" }, "It is being drawn ..."));
            try {
              await this._show(place, name);
            } catch (error) {
              fill(place, el("p", { class: "small soft" }, error.message));
            }
          };
        const box = el(
          "details",
          {
            open,
            ontoggle: (e) => {
              if (e.target.open) draw();
            },
          },
          el("summary", {}, title),
          place,
          this.source.offline ? null : el("button", { onclick: draw, class: "small" }, "Draw again"),
        );
        box.dataset.panel = name;
        return box;
      }),
    );
  }

  async _show(place, name) {
    const found = await this.source.columns("panel", { name }),
      caption = el("figcaption", {}, found.meta.caption);
    if (found.svg) return fill(place, el("figure", {}, picture(found.meta.title, found.svg), caption));
    const [rows, columns] = found.shapes.values,
      range = bounds(found.values);
    if (found.meta.globe) {
      const globe = new Globe();
      fill(place, el("figure", {}, globe.node, caption));
      globe.set(found.values, rows, columns, range);
    } else if (columns) {
      const image = new Picture(found.meta.title);
      fill(place, image.node, caption);
      image.set(found.values, rows, columns, range);
    } else {
      const line = new Line(found.meta.title);
      fill(place, line.node, caption);
      line.set(found.values);
    }
  }
}
