// A figure: a title that says what is seen, a drawing, what it is of, and its numbers to take away.
import * as Plot from "@observablehq/plot";
import { h } from "./dom";
import { downloads } from "./download";
import { scrolls } from "./scrolling";

export interface Figure {
  title: string;
  note?: string;
  above?: string; // what must be known before the drawing is read
  name: string;
  rows: () => { [column: string]: unknown }[];
  controls?: Node[];
  wide?: boolean; // the whole width of the page, and scrolled where that is not enough
}

/// What every plot looks like.
export function plot(options: Plot.PlotOptions & { label?: string }): SVGSVGElement | HTMLElement {
  const { label, ...rest } = options;
  // Drawn smaller, not scaled down, on a narrow screen: words stay readable.
  if (rest.width && rest.width < 700) rest.width = Math.min(rest.width, Math.max(280, window.innerWidth - 64));
  const drawing = Plot.plot({
    width: 640,
    height: 260,
    marginLeft: 52,
    marginBottom: 36,
    marginTop: 18,
    style: {
      background: "transparent",
      color: "var(--soft)",
      fontSize: "12px",
      fontFamily: "inherit",
      overflow: "visible",
    },
    ariaLabel: label,
    ...rest,
  });
  drawing.setAttribute("role", "img");
  return drawing;
}

/// Relations with their full names take much of the width, or two lines of a narrow screen.
export const is_narrow = () => window.innerWidth < 560;
export const relation_rows = () => (is_narrow() ? { height: 34, margin: 132 } : { height: 20, margin: 262 });
export const relation_axis = () =>
  Plot.axisY({
    label: null,
    tickSize: 0,
    ...(is_narrow() ? { lineWidth: 10 } : { lineWidth: 21, textOverflow: "ellipsis" }),
  });

/// Says so where no interval excludes 0.
export function if_all_include_zero(intervals: { low?: number; high?: number }[], what: string): string | undefined {
  const known = intervals.filter((one) => one.low !== undefined && one.high !== undefined);
  if (known.length === 0 || known.some((one) => one.low! > 0 || one.high! < 0)) return undefined;
  return `Every interval includes 0: these data do not show that ${what}.`;
}

/// `draw` is called again by the function that is returned.
export function figure({ title, note, above, name, rows, controls, wide }: Figure, draw: () => Element) {
  const holder = h("div", { class: wide ? "drawing scroller" : "drawing" });
  const redraw = () => holder.replaceChildren(draw());
  const is_svg = () => holder.querySelector<SVGSVGElement>("svg");
  const bar = downloads(name, { svg: is_svg, rows });
  const element = h(
    "figure",
    { class: wide ? "card wide" : "card" },
    h("div", { class: "card-head" }, h("h3", {}, title), controls ? h("div", { class: "controls" }, controls) : null),
    above ? h("p", { class: "above" }, above) : null,
    wide ? scrolls(holder) : holder,
    h("figcaption", {}, h("p", { class: "note" }, note ?? ""), bar),
  );
  redraw();
  if (!is_svg()) bar.firstElementChild?.remove();
  return { element, redraw };
}
