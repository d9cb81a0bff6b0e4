"""Parts of the page that stand alone: a Python file each, and beside it the JavaScript module of its name.

The file has `answer(watched)`, which gives what is shown of a run as values that JSON has; the report keeps them, too.
The module draws it:

    import { card } from "steersman/dom.js";

    export default class {
      place = 65; // on the page: between "What broke?" (60) and "Messages" (70)
      constructor(source) {
        this.source = source;
        this.node = card("drift", "Does it drift?");
      }
      async update() {
        const { drift } = await this.source.values("drift", {}); // what `answer` gives
      }
    }

`update` is called when the run has changed; with a method `key(state)` only when its text is another than before.
"""
