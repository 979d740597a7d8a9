// A figure: a title that says what is seen, a drawing, what it is of, and its numbers to take away.
import * as Plot from "@observablehq/plot";
import { h } from "./dom";
import { downloads } from "./download";

export interface Figure {
  title: string;
  note?: string;
  name: string;
  rows: () => { [column: string]: unknown }[];
  controls?: Node[];
}

/// What every plot looks like.
export function plot(options: Plot.PlotOptions & { label?: string }): SVGSVGElement | HTMLElement {
  const { label, ...rest } = options;
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

/// `draw` is called again by the function that is returned.
export function figure({ title, note, name, rows, controls }: Figure, draw: () => Element) {
  const holder = h("div", { class: "drawing" });
  const redraw = () => holder.replaceChildren(draw());
  const is_svg = () => holder.querySelector<SVGSVGElement>("svg");
  const bar = downloads(name, { svg: is_svg, rows });
  const element = h(
    "figure",
    { class: "card" },
    h("div", { class: "card-head" }, h("h3", {}, title), controls ? h("div", { class: "controls" }, controls) : null),
    holder,
    h("figcaption", {}, h("p", { class: "note" }, note ?? ""), bar),
  );
  redraw();
  if (!is_svg()) bar.firstElementChild?.remove();
  return { element, redraw };
}
