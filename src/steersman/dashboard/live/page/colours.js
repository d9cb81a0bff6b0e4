// Colours that people with any colour vision can tell apart, on light and on dark paper.

const LIGHT = {
  blue: "#0072b2",
  orange: "#e69f00",
  green: "#009e73",
  red: "#d55e00",
  purple: "#cc79a7",
  sky: "#56b4e9",
  grey: "#8a929c",
  ink: "#1b2027",
  soft: "#5a6472",
  line: "#e1e5ea",
  card: "#ffffff",
  sunk: "#f7f8fa",
  yellow: "#d8c400",
  faint: "#c9ced6",
};
const DARK = {
  blue: "#4ba3dc",
  orange: "#f0b429",
  green: "#2fc397",
  red: "#f07d2e",
  purple: "#dd9abf",
  sky: "#7cc8f2",
  grey: "#8a94a3",
  ink: "#e8ebf0",
  soft: "#a4aebc",
  line: "#2c333d",
  card: "#191d24",
  sunk: "#13161b",
  yellow: "#eadc4a",
  faint: "#3d4652",
};
const POLICIES = {
  prepared: "grey",
  explore: "orange",
  Random: "purple",
  LocalOutlierFactor: "blue",
  Novelty: "green",
  LeastCounts: "yellow",
  Target: "red",
  Unsteered: "sky",
  pin: "purple",
  continue: "grey",
}; // as in style.py
const OTHERS = ["blue", "green", "purple", "yellow"];
const SEQUENCE = ["blue", "orange", "green", "purple", "sky", "red", "yellow", "grey"];
const RAMPS = {
  // viridis, and the same without its darkest part where the paper is dark
  light: ["#440154", "#3b528b", "#21918c", "#5ec962", "#e8d41c"],
  dark: ["#6a3fa0", "#4a7fc1", "#2fb3a6", "#7ddc6f", "#fde725"],
};

export const isDark = () => document.documentElement.dataset.theme === "dark";
export const colour = (name) => (isDark() ? DARK : LIGHT)[name];
// a user's own policy has a colour that no other of its run has, while there are some; as in style.py
export const ofPolicy = (name, of = []) => {
  if (POLICIES[name]) return colour(POLICIES[name]);
  const taken = of.map((each) => POLICIES[each]);
  const free = OTHERS.filter((each) => !taken.includes(each));
  const own = [...new Set([name, ...of])].filter((each) => !POLICIES[each]).sort();
  const among = free.length ? free : OTHERS;
  return colour(among[own.indexOf(name) % among.length]);
};
export const ofNumber = (i) => colour(SEQUENCE[((i % SEQUENCE.length) + SEQUENCE.length) % SEQUENCE.length]);
export const rampStops = () => RAMPS[isDark() ? "dark" : "light"];
export const words = (name) =>
  name
    .replace(/(?<=[a-z0-9])(?=[A-Z][a-z])/g, " ")
    .replaceAll("_", " ")
    .replace(/\b[A-Z][a-z]+\b/g, (word) => word.toLowerCase());

const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
export const packed = (hex, alpha = 255) => {
  const [r, g, b] = channels(hex);
  return ((alpha << 24) | (b << 16) | (g << 8) | r) >>> 0;
};

// 256 colours along some stops, as pixels.
export function ramp(stops = rampStops()) {
  const colours = stops.map(channels),
    last = colours.length - 1;
  return Uint32Array.from({ length: 256 }, (_, i) => {
    const at = Math.min(last - 1, Math.floor((i / 255) * last)),
      f = (i / 255) * last - at;
    const [r, g, b] = [0, 1, 2].map((k) => Math.round(colours[at][k] * (1 - f) + colours[at + 1][k] * f));
    return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  });
}

// Blue, paper, red: for fields with a sign.
export function diverging() {
  const stops = isDark()
    ? ["#5fb3f5", "#2a5f96", "#1b2027", "#9c3b24", "#ff8a5c"]
    : ["#2166ac", "#92c5de", "#f7f7f7", "#f4a582", "#b2182b"];
  return ramp(stops);
}

export function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  document.dispatchEvent(new Event("theme"));
}

export function beginTheme() {
  const wanted = matchMedia("(prefers-color-scheme: dark)");
  let kept = null;
  try {
    kept = localStorage.getItem("steersman-theme");
  } catch {
    /* a page from disk may have no storage */
  }
  setTheme(kept ?? (wanted.matches ? "dark" : "light"));
  wanted.addEventListener("change", () => setTheme(wanted.matches ? "dark" : "light"));
}

export function switchTheme() {
  setTheme(isDark() ? "light" : "dark");
  try {
    localStorage.setItem("steersman-theme", document.documentElement.dataset.theme);
  } catch {
    /* see above */
  }
}
