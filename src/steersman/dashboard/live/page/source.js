// Where the page's data come from: the server, or what an offline page keeps inside itself.

// Columns as dashboard/live/packing.py lays them out.
export function unpack(buffer) {
  const length = new DataView(buffer).getUint32(0, true),
    header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const kinds = { f4: Float32Array, f8: Float64Array, i4: Int32Array, u2: Uint16Array, u1: Uint8Array },
    found = { meta: header.meta, shapes: {} };
  for (const [name, kind, shape, offset] of header.columns) {
    found[name] = new kinds[kind](
      buffer,
      4 + length + offset,
      shape.reduce((a, b) => a * b, 1),
    );
    found.shapes[name] = shape;
  }
  return found;
}

const address = (view, query) => {
  const text = new URLSearchParams(query).toString();
  return text ? `${view}?${text}` : view;
};

export class Refused extends Error {}
export class Away extends Error {}

// The link carries the token behind #; it stays with this tab, and out of the address bar.
const KEPT = "steersman-token";
const take = () => {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem(KEPT, given);
    history.replaceState(null, "", location.pathname + location.search);
  }
  return given;
};
take();
addEventListener("hashchange", () => {
  if (take()) location.reload();
}); // of a link that is pasted into an open page
export const asked = async (address, options = {}) => {
  const reply = await fetch(address, {
    ...options,
    credentials: "same-origin",
    headers: { ...options.headers, "X-Steersman-Token": sessionStorage.getItem(KEPT) ?? "" },
  }).catch(() => {
    throw new Away("connection lost, trying again");
  });
  if (reply.status === 403 && !options.method)
    throw new Refused(
      "This server was started again, or this tab has no token: open the link that `steersman dashboard` printed.",
    );
  return reply;
};

export class Server {
  constructor(base) {
    this.base = base;
    this.offline = false;
  }

  async _ask(view, query) {
    const reply = await asked(this.base + address(view, query));
    if (!reply.ok) throw new Refused(await reply.text());
    return reply;
  }
  async values(view, query) {
    return (await this._ask(view, query)).json();
  }
  async text(view, query) {
    return (await this._ask(view, query)).text();
  }
  async columns(view, query) {
    return unpack(await (await this._ask(view, query)).arrayBuffer());
  }
  has() {
    return true;
  }

  async tell(words) {
    const headers = { "Content-Type": "application/json" };
    const reply = await asked(`${this.base}tell`, { method: "POST", headers, body: JSON.stringify(words) });
    if (reply.ok) return (await reply.json()).done;
    const text = await reply.text();
    try {
      throw new Refused(JSON.parse(text).refused);
    } catch (error) {
      throw error instanceof Refused ? error : new Refused(text);
    }
  }
}

// An offline page holds answers by their address; those in binary as base64.
export class Kept {
  constructor(answers) {
    this.answers = answers;
    this.offline = true;
  }

  has(view, query) {
    return address(view, query) in this.answers;
  }
  async _find(view, query) {
    const found = this.answers[address(view, query)];
    if (found === undefined)
      throw new Refused("An offline page does not hold this. Open the run with: steersman dashboard RUN");
    if (found.missing) throw new Refused(found.missing);
    return found;
  }
  async values(view, query) {
    return this._find(view, query);
  }
  async text(view, query) {
    return new TextDecoder().decode(await this._bytes(view, query));
  }
  async columns(view, query) {
    const found = unpack(await this._bytes(view, query));
    if (view !== "points" || !("places" in this.answers)) return found;
    const places = unpack(await this._bytes("places", {})); // once for all colours
    return { ...places, ...found, shapes: { ...places.shapes, ...found.shapes } };
  }
  async _bytes(view, query) {
    return Uint8Array.from(atob(await this._find(view, query)), (c) => c.charCodeAt(0)).buffer;
  }
}
