// What does the expensive code say?
import { Curves, panel } from "steersman/charts.js";
import { colour } from "steersman/colours.js";
import { card, el, fill, timeUnit } from "steersman/dom.js";

const dots = { points: true, lines: false, size: 5 };

export default class {
  place = 38; // before "Can I trust the model?"
  constructor(source) {
    this.source = source;
    this.come = new Curves("", "labels", { whole: true });
    this.errors = new Curves("label", "error of the model", { log: true, whole: true });
    this.doubt = new Curves("doubt", "error of the model", { log: true });
    this.words = el("p");
    this.body = el("div", { class: "columns" });
    this.node = card("labels", "What does the expensive code say?", { short: "Labels" }, this.words, this.body);
    this.node.hidden = true;
    document.addEventListener("theme", () => this.found && this._draw());
  }
  key(state) {
    return [state.frames, state.scored, state.trained, state.facts.labels].join();
  }
  async update() {
    this.found = await this.source.values("labels", {});
    this.node.hidden = !this.found.asked;
    if (this.found.asked) this._draw();
  }

  _draw() {
    const { asked, answered, said, labels, errors, drawn, doubt, bound, covered } = this.found,
      [per, unit] = timeUnit(asked.at(-1) ?? 0),
      parts = [panel("Labels", this.come.node)];
    this.words.textContent = [said, ...covered].join("; ");
    if (labels.length) parts.push(panel("How wrong the model was", this.errors.node));
    if (doubt) parts.push(panel("Does doubt tell it?", this.doubt.node));
    fill(this.body, ...parts);
    const count = (label, hours, shade) => ({
      label,
      x: hours.map((h) => h * per),
      y: hours.map((_, i) => i + 1),
      stroke: colour(shade),
    });
    this.come.set(
      [count("asked for", asked, "grey"), count("answered", answered, "blue")].filter((each) => each.x.length),
      [],
      `wall time (${unit})`,
    );
    if (!labels.length) return;
    const kinds = [
        ["in doubt", "blue", false],
        ["drawn at random", "orange", true],
      ],
      of = (x) =>
        kinds
          .map(([label, shade, random]) => {
            const at = labels.map((_, i) => i).filter((i) => drawn[i] === random && x[i] != null);
            return { label, x: at.map((i) => x[i]), y: at.map((i) => errors[i]), stroke: colour(shade), ...dots };
          })
          .filter((each) => each.x.length);
    const line = { label: "95 % are below", x: [labels[0], labels.at(-1)], y: [bound, bound], stroke: colour("red") };
    this.errors.set(bound == null ? of(labels) : [...of(labels), line]);
    if (doubt) this.doubt.set(of(doubt.values), [[doubt.above, "asked"]], doubt.name);
  }
}
