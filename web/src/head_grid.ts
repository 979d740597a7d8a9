// Layers × heads: one cell per head, moved through with arrow keys; rows may have gaps and different lengths.
import { type Attention, kind_title } from "./data";
import { h } from "./dom";

export interface Grid {
  element: HTMLElement;
  cells: Map<string, HTMLElement>;
  mark: (head: string) => void;
}

export interface GridOptions {
  label: string;
  attentions: Attention[];
  cell: (head: string) => HTMLElement; // a button
  pick: (head: string) => void;
  point?: (head: string | null, cell: HTMLElement | null) => void;
}

export function head_grid({ label, attentions, cell, pick, point }: GridOptions): Grid {
  const cells = new Map<string, HTMLElement>(),
    rows: string[][] = [];
  const element = h("div", { class: "head-grid" });
  let active = "";
  const activate = (head: string) => {
    cells.get(active)?.setAttribute("tabindex", "-1");
    active = head;
    cells.get(active)?.setAttribute("tabindex", "0");
  };
  for (const kind of new Set(attentions.map((attention) => attention.kind))) {
    const members = attentions.filter((attention) => attention.kind === kind);
    const columns = Math.max(1, ...members.flatMap((attention) => attention.heads.map((head) => head.index + 1)));
    const title = kind_title(kind);
    const table = h("div", {
      class: "grid-block",
      role: "grid",
      "aria-label": title ? `${label}: ${title}` : label,
      style: { "--columns": columns },
    });
    const header = h("div", { class: "grid-row grid-header", "aria-hidden": "true" }, h("span", {}));
    for (let c = 0; c < columns; ++c) header.append(h("span", {}, c));
    table.append(header);
    for (const attention of members) {
      const row = h(
        "div",
        { class: "grid-row", role: "row" },
        h("span", { class: "row-name", role: "rowheader" }, attention.name),
      );
      for (const head of attention.heads) {
        const one = cell(head.name);
        one.setAttribute("role", "gridcell");
        one.setAttribute("tabindex", "-1");
        one.dataset.head = head.name;
        one.style.gridColumn = String(head.index + 2);
        cells.set(head.name, one);
        row.append(one);
      }
      rows.push(attention.heads.map((head) => head.name));
      table.append(row);
    }
    element.append(title ? h("section", { class: "grid-kind" }, h("h3", {}, title), table) : table);
  }
  const head_at = (event: Event) => (event.target as HTMLElement).closest<HTMLElement>("[data-head]");
  element.addEventListener("click", (event) => {
    const one = head_at(event);
    if (one) {
      activate(one.dataset.head!);
      pick(one.dataset.head!);
    }
  });
  if (point) {
    const pointed = (event: Event) => {
      const one = head_at(event);
      point(one ? one.dataset.head! : null, one);
    };
    element.addEventListener("pointerover", pointed);
    element.addEventListener("pointerleave", () => point(null, null));
    element.addEventListener("focusin", pointed);
    element.addEventListener("focusout", () => point(null, null));
  }
  element.addEventListener("keydown", (event) => {
    const one = head_at(event);
    if (!one) return;
    const r = rows.findIndex((row) => row.includes(one.dataset.head!)),
      c = rows[r].indexOf(one.dataset.head!);
    const nearest = (row: string[] | undefined) => row?.[Math.min(c, row.length - 1)];
    const filled = (from: number, step: number) => {
      let at = from + step;
      while (rows[at]?.length === 0) at += step;
      return rows[at];
    };
    const to: { [key: string]: string | undefined } = {
      ArrowLeft: rows[r][c - 1],
      ArrowRight: rows[r][c + 1],
      ArrowUp: nearest(filled(r, -1)),
      ArrowDown: nearest(filled(r, 1)),
      Home: rows[r][0],
      End: rows[r][rows[r].length - 1],
    };
    if (!(event.key in to)) return;
    event.preventDefault();
    const next = to[event.key];
    if (next) {
      activate(next);
      cells.get(next)!.focus();
    }
  });
  const first = rows.flat()[0];
  if (first) activate(first);
  return {
    element,
    cells,
    mark: (head) => {
      element.querySelector("[aria-selected=true]")?.setAttribute("aria-selected", "false");
      if (!cells.has(head)) return;
      cells.get(head)!.setAttribute("aria-selected", "true");
      activate(head);
    },
  };
}
