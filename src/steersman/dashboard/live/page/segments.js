// Every segment of the run as columns that grow; the slots and the lineage are drawn from them.

const NAMES = {
  walker: Int32Array,
  number: Int32Array,
  slot: Int32Array,
  began: Float32Array,
  ended: Float32Array,
  how: Uint8Array,
  policy: Uint8Array,
  model: Uint16Array,
  bias: Uint16Array,
  parent: Int32Array,
  first: Int32Array,
  frames: Int32Array,
};

export class Segments {
  constructor(source) {
    this.source = source;
    this.reset();
  }
  reset() {
    this.length = 0;
    this.change = 0;
    this.policies = [];
    this.how = [];
    for (const [name, kind] of Object.entries(NAMES)) this[name === "how" ? "ends" : name] = new kind(256);
  }

  // Ask for what changed since the last time.
  async update() {
    const found = await this.source.columns("segments", this.source.offline ? {} : { change: this.change }),
      { at } = found;
    if (found.meta.change < this.change) {
      this.reset();
      return this.update();
    } // another journal lies there now
    const longest = at.reduce((most, i) => Math.max(most, i), -1) + 1;
    for (const [name, kind] of Object.entries(NAMES)) {
      const own = name === "how" ? "ends" : name;
      if (longest > this[own].length) {
        const more = new kind(Math.max(longest, Math.ceil(this[own].length * 1.5)));
        more.set(this[own].subarray(0, this.length));
        this[own] = more;
      }
      const column = this[own],
        fresh = found[name];
      for (let k = 0; k < at.length; k++) column[at[k]] = fresh[k];
    }
    this.length = Math.max(this.length, longest);
    this.change = found.meta.change;
    this.policies = found.meta.policies;
    this.how = found.meta.how;
    return at.length;
  }
  // As they are saved; times in seconds of the run, without those between sessions.
  columns() {
    const each = (of) => Array.from({ length: this.length }, (_, i) => of(i));
    return {
      segment: each((i) => this.name(i)),
      parent: each((i) => (this.parent[i] < 0 ? "" : this.name(this.parent[i]))),
      policy: each((i) => this.policies[this.policy[i]] ?? ""),
      how: each((i) => this.how[this.ends[i]]),
      "began (s)": each((i) => this.began[i]),
      "ended (s)": each((i) => (this.how[this.ends[i]] === "running" ? null : this.ended[i])),
      ...Object.fromEntries(["slot", "model", "bias", "frames"].map((name) => [name, each((i) => this[name][i])])),
    };
  }
  name(i) {
    return `w${this.walker[i]}.${this.number[i]}`;
  }
  find(name) {
    const [walker, number] = name.slice(1).split(".").map(Number);
    for (let i = 0; i < this.length; i++) if (this.walker[i] === walker && this.number[i] === number) return i;
    return -1;
  }
}
