// What equilibrium would be, as `steersman analyse` found it. Its picture is an image: nothing in it is executed.
import { card, el, fill, table } from "steersman/dom.js";

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
    const picture = new Blob([found.svg], { type: "image/svg+xml" });
    fill(
      this.body,
      found.problems.map((each) => el("p", { class: "problem" }, each)),
      found.notes.map((each) => el("p", {}, each)),
      table(["", ""], found.rows),
      el(
        "figure",
        {},
        el("img", { alt: "Time scales and free energy", src: URL.createObjectURL(picture) }),
        el("figcaption", {}, found.caption),
      ),
    );
  }
}
