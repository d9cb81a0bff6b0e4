// The bus of a run that goes on: the only view that asks it, and only reads.
import { amount, card, el, fill, table } from "steersman/dom.js";

const EVERY_MS = 2000;

export class Messages {
  constructor(source) {
    this.source = source;
    this.body = el("div");
    this.node = card("messages", "Messages", {}, this.body);
    this.asked = 0;
    this.near = false;
    new IntersectionObserver(([e]) => {
      this.near = e.isIntersecting;
    }).observe(this.node);
  }
  async state(state) {
    const live = !this.source.offline && !state.copy && ["running", "paused"].includes(state.status);
    this.node.hidden = !live;
    if (!live || !this.near || this.busy || performance.now() - this.asked < EVERY_MS) return;
    this.asked = performance.now();
    this.busy = true;
    try {
      const { rows, trouble } = await this.source.values("messages", {});
      fill(
        this.body,
        trouble
          ? el("p", { class: "small soft" }, trouble)
          : table(
              [
                "name",
                "ready",
                "leased",
                "blocked takers",
                "puts /s",
                "done /s",
                "put in all",
                "oldest unread (s)",
                "dead letters",
              ],
              rows.map((r) => [
                r.name,
                amount(r.ready),
                amount(r.leases),
                amount(r.blocked),
                r.put_per_s.toFixed(1),
                r.done_per_s.toFixed(1),
                amount(r.put),
                r.oldest_s.toFixed(1),
                amount(r.dead),
              ]),
              [1, 2, 3, 4, 5, 6, 7, 8],
            ),
      );
      this.body.dataset.rows = rows.length;
    } catch (error) {
      fill(this.body, el("p", { class: "small soft" }, error.message));
    } finally {
      this.busy = false;
    }
  }
}
