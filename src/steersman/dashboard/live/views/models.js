// Can I trust the model?

import { Curves, panel, stacked } from "steersman/charts.js";
import { colour, ofPolicy, words } from "steersman/colours.js";
import { amount, card, el, fill, table, timeUnit } from "steersman/dom.js";

const PROFILE = { IpUpdateTime: "sky", FwdTime: "blue", BwdTime: "green", WtUpdateTime: "orange", SyncTime: "red" };

const ofVersion = (v) => colour(v ? ["blue", "orange", "green", "purple", "sky", "yellow"][(v - 1) % 6] : "grey");
const percent = (share) => (100 * share).toFixed(1);

export default class {
  place = 40;
  constructor(source) {
    this.source = source;
    this.loss = new Curves("epoch, versions one after another", "training loss", { log: true, whole: true });
    this.held = new Curves("model version", "held-out error", { whole: true });
    this.inside = new Curves("", "inside so far (%)");
    this.errors = new Curves("", "error");
    this.body = el("div", { class: "columns" });
    this.rows = el("div");
    this.node = card("trust", "Can I trust the model?", { short: "Models" }, this.body, this.rows);
    document.addEventListener("theme", () => this.found && this._draw());
  }
  key(state) {
    return [state.trained, state.model, state.facts.starts, state.facts.tasks, state.scored_with, state.scored].join();
  }
  async update() {
    this.found = await this.source.values("models", {});
    this._draw();
  }

  _draw() {
    const { versions, chosen, calibration, inside, audits } = this.found,
      parts = [],
      [per, unit] = timeUnit(chosen.hours.at(-1) ?? 0),
      edges = chosen.hours.map((h) => h * per),
      wall = `wall time (${unit})`;
    if (audits?.versions.length) parts.push(...this._audits(audits, per, unit));
    if (!versions.length)
      parts.push(
        el(
          "p",
          { class: "empty" },
          chosen.versions.some((v) => v)
            ? "This directory lacks the cards of its models."
            : "No model has been trained.",
        ),
      );
    if (versions.some((v) => v.loss.some((x) => x != null))) {
      const x = [],
        used = [],
        refused = [],
        marks = [];
      let at = 0;
      for (const v of versions) {
        marks.push([at + 1, `${v.version}`]);
        if (at) {
          x.push(at + 0.5); // no line joins two versions
          used.push(null);
          refused.push(null);
        }
        for (const loss of v.loss) {
          at += 1;
          x.push(at);
          used.push(v.accepted ? loss : null);
          refused.push(v.accepted ? null : loss);
        }
      }
      const series = [{ label: "used", x, y: used, stroke: colour("blue"), points: x.length < 80 }];
      if (refused.some((v) => v != null))
        series.push({ label: "not used", x, y: refused, stroke: colour("red"), points: x.length < 80 });
      parts.push(panel("Loss of every version", this.loss.node));
      this.loss.set(series, marks);
    }
    const judged = versions.filter((v) => v.held_out != null);
    if (judged.length) {
      const pick = (test, value) => ({
          x: judged.filter(test).map((v) => v.version),
          y: judged.filter(test).map(value),
        }),
        named = judged.at(-1).gate || "error";
      const series = [
        {
          label: "used",
          ...pick(
            () => true,
            (v) => (v.accepted ? v.held_out : null),
          ),
          stroke: colour("blue"),
          points: true,
          width: 1,
        },
        {
          label: "not used",
          ...pick(
            (v) => !v.accepted,
            (v) => v.held_out,
          ),
          stroke: colour("red"),
          points: true,
          lines: false,
        },
        {
          label: "its predecessor on the same frames",
          ...pick(
            (v) => v.predecessor != null,
            (v) => v.predecessor,
          ),
          stroke: colour("grey"),
          fill: colour("card"),
          points: true,
          lines: false,
        },
      ].filter((each) => each.y.some((v) => v != null));
      this.held.yLabel = `held-out ${words(named)}`;
      parts.push(panel("Held-out error against the predecessor", this.held.node));
      this.held.set(series);
    }
    if (chosen.versions.some((version) => version))
      parts.push(
        panel(
          "Which version chose the starts",
          stacked(
            wall,
            "starts",
            edges,
            chosen.versions.map((v, i) => ({
              label: v ? `model ${v}` : "no model",
              values: chosen.by_version[i],
              shade: ofVersion(v),
            })),
          ),
        ),
      );
    if (chosen.by_policy.length)
      parts.push(
        panel(
          "Who chose the starts",
          stacked(
            wall,
            "share of starts",
            edges,
            chosen.policies.map((p, i) => ({
              label: words(p),
              values: chosen.by_policy[i],
              shade: ofPolicy(p, chosen.policies),
            })),
            { share: true },
          ),
        ),
      );
    const profiled = versions.filter((v) => Object.keys(v.profile).length);
    if (profiled.length) {
      const epochs = profiled.reduce((sum, v) => sum + v.loss.length, 0),
        marks = [];
      let at = 0;
      for (const v of profiled) {
        marks.push([at, `${v.version}`]);
        at += v.loss.length;
      }
      parts.push(
        panel(
          "How the training time was spent (DeepEx's labels)",
          stacked(
            "epoch, versions one after another",
            "seconds an epoch",
            Array.from({ length: epochs + 1 }, (_, i) => i),
            Object.entries(PROFILE).map(([label, shade]) => ({
              label,
              values: profiled.flatMap((v) => v.profile[label] ?? v.loss.map(() => 0)),
              shade: colour(shade),
            })),
            { marks: marks.length <= 30 ? marks : [] },
          ),
        ),
      );
    }
    if (calibration) {
      const plot = new Curves(`${words(calibration.names[0])} of a frame`, `mean ${words(calibration.names[1])}`);
      const most = Math.max(...calibration.spread, ...calibration.error);
      const predicted = calibration.alike
        ? [{ label: "as predicted", x: [0, most], y: [0, most], stroke: colour("grey"), dash: [5, 4] }]
        : [];
      parts.push(
        panel(
          calibration.alike
            ? "Calibration: is the error as large as predicted?"
            : "Calibration: is the error larger where the members disagree?",
          plot.node,
        ),
      );
      requestAnimationFrame(() =>
        plot.set([
          { label: "measured", x: calibration.spread, y: calibration.error, stroke: colour("blue"), points: true },
          ...predicted,
        ]),
      );
    }
    if (inside) {
      const plot = new Curves("share of the run (%)", "share of frames");
      parts.push(panel(`Frames in the model's domain (${inside.name}): ${(100 * inside.all).toFixed(1)} %`, plot.node));
      requestAnimationFrame(() =>
        plot.set([
          {
            label: inside.name,
            x: inside.share.map((_, i) => (100 * (i + 0.5)) / inside.share.length),
            y: inside.share,
            stroke: colour("green"),
            points: true,
          },
        ]),
      );
    }
    fill(this.body, parts);
    this.body.dataset.versions = versions.length;
    const of = this.found.table,
      columns = ["model", "frames", "epochs", "ranks", "seconds", "loss", "held_out", "predecessor"],
      rows = of.model.map((_, i) => [
        ...columns.map((name) => amount(of[name][i])),
        { true: "used", false: "not used" }[of.accepted[i]] ?? "not finished",
        of.reason[i],
      ]);
    const header = [...columns.map(words), "verdict", "because"];
    const all = el(
      "details",
      {},
      el("summary", {}, "All versions in a table"),
      table(header, rows, [0, 1, 2, 3, 4, 5, 6, 7]),
    );
    fill(this.rows, rows.length ? all : null);
  }

  // What the audits of a surrogate say: first, for it is what an answer rests on.
  _audits({ versions, saved, error }, per, unit) {
    const wall = `wall time (${unit})`,
      hours = (each) => each.hours.map((h) => h * per),
      judged = versions.filter((v) => v.share.hours.length),
      parts = [];
    if (judged.length) {
      const newest = judged.at(-1),
        x = hours(newest.share),
        ends = [
          Math.min(...judged.map((v) => hours(v.share)[0])),
          Math.max(...judged.map((v) => hours(v.share).at(-1))),
        ];
      const share = `${percent(newest.inside / newest.judged)} %`;
      parts.push(panel(`${share} of model ${newest.version}'s audits inside (promised: 95 %)`, this.inside.node));
      const series = [
        ...judged.map((v) => ({
          label: `model ${v.version}`,
          x: hours(v.share),
          y: v.share.inside.map((s) => 100 * s),
          stroke: ofVersion(v.version),
        })),
        ...["low", "high"].map((side) => ({
          label: side === "low" ? `95 % interval of model ${newest.version}` : "",
          x,
          y: newest.share[side].map((s) => 100 * s),
          stroke: ofVersion(newest.version),
          width: 1,
          dash: [2, 3],
        })),
        { label: "promised", x: ends, y: [95, 95], stroke: colour("grey"), dash: [5, 4] },
      ];
      this.inside.set(series, [], wall);
      const marks = versions.filter((v) => v.hours.length).map((v) => [v.hours[0] * per, `${v.version}`]);
      const dots = (label, stroke, test) => {
        const [x, y] = [[], []];
        for (const v of versions)
          v.errors.forEach((e, i) => {
            if (test(e, v.bounds[i])) [x.push(v.hours[i] * per), y.push(e)];
          });
        return { label, x, y, stroke: colour(stroke), points: true, lines: false, size: 4 };
      };
      this.errors.yLabel = error;
      parts.push(panel("Errors of audits against the bound (above: model)", this.errors.node));
      this.errors.set(
        [
          dots("inside", "blue", (e, bound) => e <= bound),
          dots("outside", "red", (e, bound) => e > bound),
          ...versions.map((v, i) => ({
            label: i ? "" : "bound of 95 %, known before",
            x: hours(v),
            y: v.bounds,
            stroke: colour("ink"),
          })),
        ].filter((each) => each.x.length),
        marks,
        wall,
      );
    }
    const columns = ["model", "audits judged", "inside (%)", "95 % interval", `bound${error.slice(5)}`, ""];
    const rows = versions.map((v) => [
      v.version,
      v.judged,
      v.judged ? percent(v.inside / v.judged) : "-",
      v.judged ? `${percent(v.low)} to ${percent(v.high)}` : "-",
      amount(v.bound),
      v.spoiled ? `changed by audit ${v.spoiled}` : "",
    ]);
    parts.push(panel(saved, table(columns, rows, [0, 1, 2, 3, 4])));
    return parts;
  }
}
