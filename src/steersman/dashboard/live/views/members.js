// Which members go on, and how rare is the event?
import { Curves, panel } from "steersman/charts.js";
import { colour } from "steersman/colours.js";
import { card, el, fill } from "steersman/dom.js";

// Members by the forecast probability of the event: below, and the shade.
const CHANCES = [
  [1e-3, "grey"],
  [0.03, "sky"],
  [0.3, "blue"],
  [Infinity, "red"],
];

const dots = { points: true, lines: false, size: 5 };

export default class {
  place = 22; // before "What would equilibrium be?"
  constructor(source) {
    this.source = source;
    this.weights = new Curves("segment", "weight of a member", { log: true, whole: true });
    this.first = new Curves("segment", "members", { whole: true });
    this.times = new Curves("outcome", "probability", { log: true });
    this.body = el("div", { class: "columns" });
    this.words = el("p");
    this.node = card("members", "Which members go on?", { short: "Members" }, this.words, this.body);
    this.node.hidden = true;
    document.addEventListener("theme", () => this.found && this._draw());
  }
  key(state) {
    return [state.facts.segments, state.scored, state.scored_with].join();
  }
  async update() {
    this.found = await this.source.values("members", {});
    this.node.hidden = !this.found.round;
    if (this.found.round) this._draw();
  }

  _draw() {
    const { round, weight, chance, rounds, members, first, said, levels } = this.found;
    this.words.textContent = said ? `Probability of the event: ${said}.` : "";
    const parts = [
      panel(chance ? "Weights, by the forecast of each" : "Weights", this.weights.node),
      panel("First members that are left", this.first.node),
    ];
    if (levels?.length > 1) parts.push(panel("How rare it is", this.times.node));
    fill(this.body, ...parts);
    const of = (test) => round.map((_, i) => i).filter(test),
      pick = (label, shade, at) => ({
        label,
        x: at.map((i) => round[i]),
        y: at.map((i) => weight[i]),
        stroke: colour(shade),
        ...dots,
      });
    let low = 0;
    const classes = CHANCES.map(([high, shade]) => {
      const from = low,
        label = high < 1 ? (from ? `${from} to ${high}` : `below ${high}`) : `above ${from}`;
      low = high;
      return pick(`event ${label}`, shade, chance ? of((i) => chance[i] >= from && chance[i] < high) : []);
    });
    this.weights.set(
      chance
        ? classes.filter((each) => each.x.length)
        : [
            pick(
              "members",
              "blue",
              of(() => true),
            ),
          ],
    );
    this.first.set([
      { label: "members", x: rounds, y: members, stroke: colour("grey") },
      { label: "first members that are left", x: rounds, y: first, stroke: colour("blue") },
    ]);
    if (!(levels?.length > 1)) return;
    const line = (label, y, more) => ({ label, x: levels, y, stroke: colour("blue"), ...more });
    this.times.set(
      [
        line("probability", this.found.p, { width: 2 }),
        line("95 %, low", this.found.low, { dash: [4, 4] }),
        line("95 %, high", this.found.high, { dash: [4, 4] }),
      ],
      [[this.found.above, "event"]],
      this.found.outcome,
    );
  }
}
