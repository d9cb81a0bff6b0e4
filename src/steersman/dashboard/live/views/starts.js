// From which starts most segments descend.
import { words } from "steersman/colours.js";
import { amount, card, el, fill, linked, table } from "steersman/dom.js";

export default class {
  place = 81;
  constructor(source) {
    this.source = source;
    this.body = el("div");
    this.node = card("starts", "Which starts mattered most?", { short: "Starts" }, this.body);
  }

  key(state) {
    return `${state.ended},${Math.round(20 * Math.log(state.facts.starts))}`; // they change slowly
  }
  async update() {
    const { rows } = await this.source.values("starts", {});
    this.node.hidden = !rows.length;
    fill(
      this.body,
      table(
        ["segment", "descendants", "started from", "chosen by", "because", "model"],
        rows.map(([name, below, parent, policy, reason, model]) => [
          linked(name),
          amount(below),
          parent ? linked(parent) : "prepared start",
          words(policy),
          reason,
          model,
        ]),
        [1, 5],
      ),
    );
  }
}
