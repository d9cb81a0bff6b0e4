// What broke: by cause, with what the failures share.
import { amount, card, el, fill, linked, table } from "steersman/dom.js";
import { numbers } from "steersman/save.js";

export default class {
  place = 60;
  constructor(source) {
    this.source = source;
    this.body = el("div");
    this.node = card("failures", "What broke?", { short: "Failures" }, this.body);
    numbers(this.body, "failures", () => this.groups?.length && this._columns());
  }

  key(state) {
    return `${state.failures},${state.notes.length},${state.notes[0]?.t},${Object.keys(state.failing)}`;
  }
  _columns() {
    const each = (of) => this.groups.map(of);
    return { cause: each((g) => g.cause), times: each((g) => g.times), segments: each((g) => g.segments.join(" ")) };
  }
  async update() {
    const found = await this.source.values("failures", {}),
      shares = (list) => list.map(([name, n]) => `${name} (${amount(n)})`).join(", ");
    const nothing =
      !found.groups.length && !found.lost.length && !found.stages.length && !found.noted.length && !found.aside.length;
    if (JSON.stringify(found) === this.last) return;
    this.last = JSON.stringify(found);
    this.groups = found.groups;
    fill(
      this.body,
      nothing && el("p", { class: "empty" }, "Nothing broke."),
      found.stages.map((s) =>
        el("p", { class: "problem" }, `The ${s.stage} stage fails (${amount(s.times)} times): ${s.cause}`),
      ),
      found.groups.map((group) => {
        const tail = el("pre", { hidden: true }),
          facts = [
            ["nodes", shares(group.nodes)],
            ["starts chosen by", shares(group.policies)],
            [
              "parameters that people had set",
              Object.entries(group.parameters)
                .map(([k, v]) => `${k}=${v}`)
                .join(", "),
            ],
            ["started from", shares(group.parents)],
            ["what was done", group.done],
          ].filter(([, text]) => text);
        const read = (name) => async () => {
          try {
            tail.hidden = false;
            fill(tail, (await this.source.values("stderr", { segment: name })).text || "There is no file in errors/.");
          } catch (error) {
            fill(tail, error.message);
          }
        };
        return el(
          "details",
          {},
          el("summary", {}, el("strong", {}, `${amount(group.times)} × `), group.cause || "no cause was given"),
          el(
            "dl",
            { class: "why", style: { margin: ".4rem 0" } },
            facts.map(([k, v]) => [el("dt", {}, k), el("dd", {}, linked(v))]),
          ),
          el(
            "p",
            { class: "small" },
            "stderr of ",
            group.segments
              .slice(-12)
              .reverse()
              .map((name) => [el("button", { onclick: read(name) }, name), " "]),
            group.times > 12 ? `the last 12 of ${amount(group.times)}. ` : "",
            linked(group.segments.at(-1)),
          ),
          tail,
        );
      }),
      found.more > 0 && el("p", { class: "small soft" }, `${amount(found.more)} more causes are in errors/.`),
      found.lost.length > 0 &&
        el(
          "p",
          { class: "small" },
          `Walkers that died: ${found.lost.map((w) => `${w.walker}${w.node ? ` on ${w.node}` : ""}`).join(", ")}.`,
        ),
      found.aside.length > 0 && el("p", { class: "small" }, `Nodes that get no more work: ${found.aside.join(", ")}.`),
      found.noted.length > 0 &&
        el(
          "details",
          {},
          el(
            "summary",
            {},
            `${amount(found.noted.length)} ${found.noted.length === 1 ? "note" : "notes"} of the engine`,
          ),
          table(
            ["times", "noted"],
            found.noted.map(([text, n]) => [amount(n), text]),
            [0],
          ),
        ),
    );
    this.body.dataset.groups = found.groups.length;
  }
}
