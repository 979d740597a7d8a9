// Light and dark, and the colours of numbers.

type Theme = "auto" | "light" | "dark";
const dark_screen = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();
let chosen: Theme = "auto";

const stored = () => {
  try {
    return localStorage.getItem("headwise-theme");
  } catch {
    return null;
  }
};
const changed = () => listeners.forEach((redraw) => redraw());

export const is_dark = () => (printing ? false : chosen === "auto" ? dark_screen.matches : chosen === "dark");
let printing = false;

/// Calls `redraw` whenever colours change: for what is painted and not styled.
export function on_theme(redraw: () => void) {
  listeners.add(redraw);
}

function apply(theme: Theme) {
  chosen = theme;
  document.documentElement.dataset.theme = is_dark() ? "dark" : "light";
  changed();
}

export function start_theme() {
  const theme = stored();
  apply(theme === "light" || theme === "dark" ? theme : "auto");
  dark_screen.addEventListener("change", () => apply(chosen));
  window.addEventListener("beforeprint", () => {
    printing = true;
    apply(chosen);
  });
  window.addEventListener("afterprint", () => {
    printing = false;
    apply(chosen);
  });
}

export function toggle_theme() {
  const theme = is_dark() ? "light" : "dark";
  try {
    localStorage.setItem("headwise-theme", theme);
  } catch {
    /* a file may have no storage */
  }
  apply(theme);
}

export type Rgb = [number, number, number];
export const rgb = (hex: string): Rgb => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)) as Rgb;
const ramps = {
  // from little to much; light on dark and dark on light
  light: ["#f3f5f8", "#cfdcea", "#9dbbd8", "#5f92bf", "#2f689b", "#163f66"].map(rgb),
  dark: ["#1d232b", "#23405c", "#2c628f", "#4489bd", "#7db6de", "#d4ebfb"].map(rgb),
};
const warm = {
  // below zero
  light: ["#f3f5f8", "#f5dcc3", "#eab98a", "#d68c4c", "#b0622a", "#7a3d12"].map(rgb),
  dark: ["#1d232b", "#4a3320", "#7a4d25", "#ad6f35", "#dc9d5f", "#f8dcbb"].map(rgb),
};

function along(stops: Rgb[], t: number): Rgb {
  const x = Math.min(1, Math.max(0, t)) * (stops.length - 1),
    i = Math.min(stops.length - 2, Math.floor(x));
  return stops[i].map((from, c) => Math.round(from + (x - i) * (stops[i + 1][c] - from))) as Rgb;
}

/// t from 0 to 1, or from -1 where 0 means something.
export function color_of(t: number): Rgb {
  const mode = is_dark() ? "dark" : "light";
  return along(t < 0 ? warm[mode] : ramps[mode], Math.abs(t));
}
/// So far from one colour to another.
export const mix = (from: Rgb, to: Rgb, t: number) =>
  from.map((channel, c) => Math.round(channel + t * (to[c] - channel))) as Rgb;
export const css = ([r, g, b]: Rgb) => `rgb(${r} ${g} ${b})`;
export const ink_on = ([r, g, b]: Rgb) => (0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#14181d" : "#ffffff");
