// What equilibrium would be, as `steersman analyse` found it.
import { card, el, fill, table } from "steersman/dom.js";
import { picture } from "steersman/save.js";

export default class {
  place = 25;
  constructor(source) {
    this.source = source;
    this.body = el("div");
    this.node = card("equilibrium", "What would equilibrium be?", { short: "Equilibrium" }, this.body);
    this.node.hidden = true;
  }

  async update() {
    const found = await this.source.values("equilibrium", {}),
      text = JSON.stringify(found);
    this.node.hidden = !found.rows;
    if (!found.rows || text === this.last) return;
    this.last = text;
    fill(
      this.body,
      found.problems.map((each) => el("p", { class: "problem" }, each)),
      found.notes.map((each) => el("p", {}, each)),
      table(["", ""], found.rows),
      el("figure", {}, picture("Time scales and free energy", found.svg), el("figcaption", {}, found.caption)),
    );
  }
}
