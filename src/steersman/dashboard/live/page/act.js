// What a person may say to a run that goes on: the words of `steersman tell`. A link for looking shows none of this.
import { el, fill, menu } from "steersman/dom.js";

export class Act {
  constructor(source) {
    this.source = source;
    this.allowed = false;
    this.node = el("div", {
      class: "line",
      id: "act",
      style: { display: "flex", gap: ".4rem", flexWrap: "wrap", alignItems: "center" },
    });
    this.answer = el("span", { class: "answer", role: "status", id: "answer" });
  }
  state(state) {
    this.allowed = Boolean(state.may_act);
    const shape = JSON.stringify([this.allowed, state.status, Object.keys(state.params)]);
    this._list?.(state.running);
    if (shape === this.shape) return;
    this.shape = shape;
    if (!this.allowed) {
      fill(this.node);
      this._list = null;
      return;
    }
    const button = (text, words, sure) =>
      el(
        "button",
        {
          onclick: () => {
            if (!sure || confirm(sure)) this.say(words);
          },
        },
        text,
      );
    const segment = el("input", {
        type: "text",
        list: "running",
        placeholder: "segment, e.g. w0.7",
        "aria-label": "segment to stop",
        style: { width: "9.5rem" },
      }),
      running = el("datalist", { id: "running" }),
      key = el(
        "select",
        { "aria-label": "parameter" },
        Object.keys(state.params).map((name) => el("option", {}, name)),
      ),
      value = el("input", { type: "text", "aria-label": "new value", style: { width: "7rem" } });
    key.onchange = () => {
      value.placeholder = state.params[key.value] ?? "";
    };
    value.placeholder = Object.values(state.params)[0] ?? "";
    this._list = (names) =>
      fill(
        running,
        names.map((name) => el("option", { value: name })),
      );
    this._list(state.running);
    fill(
      this.node,
      state.status === "paused" ? button("Continue", ["continue"]) : button("Pause", ["pause"]),
      menu(
        { class: "more" },
        "More",
        el(
          "div",
          { class: "menu" },
          el(
            "form",
            {
              onsubmit: (e) => {
                e.preventDefault();
                this.say(["stop", segment.value.trim()]);
              },
            },
            segment,
            running,
            " ",
            el("button", {}, "Stop segment"),
          ),
          Object.keys(state.params).length
            ? el(
                "form",
                {
                  onsubmit: (e) => {
                    e.preventDefault();
                    this.say(["set", `${key.value}=${value.value}`]);
                  },
                },
                key,
                " = ",
                value,
                " ",
                el("button", {}, "Set"),
              )
            : null,
          el(
            "div",
            {},
            button(
              "Finish the run",
              ["finish"],
              "Finish the run? Segments that run now end, and the report is written.",
            ),
          ),
        ),
      ),
      this.answer,
    );
  }
  async say(words) {
    if (!this.allowed) return;
    this.answer.className = "answer";
    fill(this.answer, `${words.join(" ")} ...`);
    try {
      const answer = `journalled: ${await this.source.tell(words)}`;
      fill(this.answer, answer, words[0] === "pin" ? "; the next start that is chosen is this frame" : "");
    } catch (error) {
      this.answer.className = "answer no";
      fill(this.answer, error.message);
    }
  }
}
