// A molecule and its lineage as a short film, by 3Dmol; it is loaded when the first one is shown.

import { colour } from "steersman/colours.js";
import { el } from "steersman/dom.js";
import { pictured } from "steersman/save.js";

let loading = null;

function library() {
  if (window.$3Dmol) return Promise.resolve();
  loading ??= new Promise((done, failed) => {
    const script = el("script", { src: new URL("3Dmol-min.js", import.meta.url).href });
    script.onload = done;
    script.onerror = () => failed(new Error("3Dmol could not be loaded"));
    document.head.append(script);
  });
  return loading;
}

export class Molecule {
  constructor(source) {
    this.source = source;
    this.node = el("div", {
      class: "stage",
      id: "molecule",
      role: "img",
      "aria-label": "The frame in three dimensions: drag to turn it",
    });
  }

  // film: positions (F, N, 3) in angstrom, all turned onto the last one, or as they lie in their box
  async load(film) {
    await library();
    if (!this.topology) {
      const lines = (await this.source.text("topology", {})).split("\n");
      this.topology = lines.filter((line) => /^(ATOM|HETATM)/.test(line));
      // those that residues' names do not tell
      this.bonds = lines.filter((line) => line.startsWith("CONECT")).join("\n");
    }
    const [frames, atoms] = film.shapes.values,
      xyz = film.values,
      { box, single } = film.meta;
    if (this.topology.length !== atoms)
      throw new Error(`the topology has ${this.topology.length} atoms, the frame ${atoms}`);
    const model = (f) =>
      this.topology
        .map(
          (line, a) =>
            line.slice(0, 30).padEnd(30) +
            [0, 1, 2].map((k) => xyz[(f * atoms + a) * 3 + k].toFixed(3).padStart(8)).join("") +
            line.slice(54),
        )
        .join("\n");
    const text = Array.from({ length: frames }, (_, f) => `MODEL ${f + 1}\n${model(f)}\n${this.bonds}\nENDMDL\n`).join(
      "",
    );
    if (!this.viewer) {
      this.viewer = window.$3Dmol.createViewer(this.node, { backgroundColor: colour("sunk"), antialias: true });
      pictured(this.node.querySelector("canvas"), () => this.viewer.pngURI());
      document.addEventListener("theme", () => {
        this.viewer.setBackgroundColor(colour("sunk"));
        this.viewer.render();
      });
      new ResizeObserver(() => {
        this.viewer.resize();
        this.viewer.zoomTo();
        this.viewer.render();
      }).observe(this.node);
    }
    this.viewer.removeAllModels();
    this.viewer.addModelsAsFrames(text, "pdb");
    const polymer = !box && this.topology.some((line) => line.slice(12, 16).trim() === "CA");
    this.viewer.setStyle(
      {},
      polymer
        ? { cartoon: { color: "spectrum", thickness: 0.35 }, stick: { radius: 0.13 } }
        : single
          ? { sphere: { scale: 0.45 } }
          : { stick: { radius: 0.14 }, sphere: { scale: 0.22 } },
    );
    this._edges(box);
    if (polymer) this.viewer.setStyle({ elem: "H" }, {});
    await this.show(frames - 1);
    this.viewer.resize();
    this.viewer.zoomTo();
    this.viewer.render();
    this.node.dataset.atoms = atoms;
  }

  // The twelve edges of a box of three vectors
  _edges(box) {
    this.viewer.removeAllShapes();
    const at = (...n) =>
      Object.fromEntries(
        ["x", "y", "z"].map((name, k) => [name, n.reduce((sum, times, i) => sum + times * box[i][k], 0)]),
      );
    for (const [i, j, k] of box
      ? [
          [0, 1, 2],
          [1, 0, 2],
          [2, 0, 1],
        ]
      : [])
      for (const u of [0, 1])
        for (const v of [0, 1]) {
          const corner = [0, 0, 0];
          corner[j] = u;
          corner[k] = v;
          const end = [...corner];
          end[i] = 1;
          this.viewer.addLine({ start: at(...corner), end: at(...end), color: colour("soft") });
        }
    this.node.dataset.box = box ? "drawn" : "none";
  }

  async show(frame) {
    await this.viewer.setFrame(frame);
    this.viewer.render();
    this.node.dataset.frame = frame;
  }
}
