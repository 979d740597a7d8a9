// What a head looks at in one sentence: lines between tokens, and the matrix of the same weights.
import { type HeadMap, weights_of } from "./data";
import { canvas_of, h, percent, shown_token, svg } from "./dom";
import { color_of, css } from "./theme";
import { hide_tip, show_tip } from "./tip";

const line_height = 24,
  most_shown = 128;

export interface Seen {
  map: HeadMap;
  rows: string[];
  columns: string[];
}

/// Says what a token looks at most, for those who do not see the lines.
function in_words(rows: string[], columns: string[], weights: Uint8Array, row: number): string {
  const m = columns.length;
  const order = columns
    .map((_, j) => j)
    .sort((a, b) => weights[row * m + b] - weights[row * m + a])
    .slice(0, 3);
  return `${shown_token(rows[row])} looks at ${order.map((j) => `${shown_token(columns[j])} ${percent(weights[row * m + j] / 255)}`).join(", ")}`;
}

export function attention_view({ map, rows: all_rows, columns: all_columns }: Seen): HTMLElement {
  const weights = weights_of(map),
    n = Math.min(map.rows, most_shown),
    m = map.columns;
  const rows = all_rows.slice(0, n),
    columns = all_columns.slice(0, m);
  const weight = (i: number, j: number) => weights[i * m + j] / 255;
  const said = h(
    "p",
    { class: "note", role: "status" },
    "Point at a token, or move to it with the keyboard, to see where it looks.",
  );

  // Lines.
  const width = 230,
    height = Math.max(n, m) * line_height;
  const lines = svg("svg", {
    class: "lines",
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    "aria-hidden": "true",
    preserveAspectRatio: "none",
  });
  const draw_lines = (from: number | null, to: number | null) => {
    const parts: SVGElement[] = [];
    for (let i = 0; i < n; ++i) {
      if (from !== null && i !== from) continue;
      for (let j = 0; j < m; ++j) {
        const w = weight(i, j);
        if (w < 0.04 || (to !== null && j !== to)) continue;
        const y1 = (i + 0.5) * line_height,
          y2 = (j + 0.5) * line_height;
        parts.push(
          svg("path", {
            d: `M0 ${y1}C${width / 2} ${y1} ${width / 2} ${y2} ${width} ${y2}`,
            "stroke-opacity": Math.min(1, w * 1.05).toFixed(3),
            "stroke-width": (0.8 + 3.2 * w).toFixed(2),
          }),
        );
      }
    }
    lines.replaceChildren(...parts);
  };
  const token = (text: string, side: "from" | "to", at: number) =>
    h(
      "button",
      {
        type: "button",
        class: `token ${side}`,
        title: shown_token(text, 200),
        "data-at": at,
        tabindex: at === 0 ? "0" : "-1",
      },
      h("bdi", {}, shown_token(text)),
    );
  const left = h(
    "div",
    { class: "tokens left", "aria-label": "from" },
    rows.map((text, i) => token(text, "from", i)),
  );
  const right = h(
    "div",
    { class: "tokens right", "aria-label": "to" },
    columns.map((text, j) => token(text, "to", j)),
  );

  // Matrix.
  const cell = Math.max(4, Math.min(22, Math.floor(400 / Math.max(n, m))));
  const { canvas, context } = canvas_of(m * cell, n * cell, {
    class: "matrix",
    role: "img",
    "aria-label": `Weights of ${n} tokens on ${m} tokens; the lists beside say them in words`,
  });
  const draw_matrix = (row: number | null, column: number | null) => {
    const dim = row !== null || column !== null;
    for (let i = 0; i < n; ++i) {
      for (let j = 0; j < m; ++j) {
        context.globalAlpha = dim && i !== row && j !== column ? 0.35 : 1;
        context.fillStyle = css(color_of(Math.sqrt(weight(i, j))));
        context.fillRect(j * cell, i * cell, cell - (cell > 6 ? 1 : 0), cell - (cell > 6 ? 1 : 0));
      }
    }
    context.globalAlpha = 1;
  };

  const show = (from: number | null, to: number | null) => {
    draw_lines(from, to);
    draw_matrix(from, to);
    left.querySelectorAll<HTMLElement>(".token").forEach((one, i) => {
      one.classList.toggle("on", i === from);
      one.style.setProperty("--weight", to !== null && from === null ? weight(i, to).toFixed(3) : "0");
    });
    right.querySelectorAll<HTMLElement>(".token").forEach((one, j) => {
      one.classList.toggle("on", j === to);
      one.style.setProperty("--weight", from !== null ? weight(from, j).toFixed(3) : "0");
    });
    if (from !== null) said.textContent = in_words(rows, columns, weights, from);
  };
  for (const [list, side] of [
    [left, "from"],
    [right, "to"],
  ] as const) {
    const at = (event: Event) => (event.target as HTMLElement).closest<HTMLElement>(".token");
    const look = (event: Event) => {
      const one = at(event);
      if (one) show(side === "from" ? +one.dataset.at! : null, side === "to" ? +one.dataset.at! : null);
    };
    list.addEventListener("pointerover", look);
    list.addEventListener("focusin", look);
    list.addEventListener("pointerleave", () => show(null, null));
    list.addEventListener("focusout", () => show(null, null));
    list.addEventListener("keydown", (event) => {
      const one = at(event),
        step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
      const next = one && step ? (list.children[+one.dataset.at! + step] as HTMLElement) : null;
      if (!next) return;
      event.preventDefault();
      one!.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
  }
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const j = Math.floor(((event.clientX - box.left) / box.width) * m),
      i = Math.floor(((event.clientY - box.top) / box.height) * n);
    if (i < 0 || j < 0 || i >= n || j >= m) return;
    show(i, null);
    show_tip(
      { left: event.clientX, right: event.clientX, top: event.clientY - 4, bottom: event.clientY + 12 },
      h(
        "span",
        {},
        h("bdi", {}, shown_token(rows[i])),
        " → ",
        h("bdi", {}, shown_token(columns[j])),
        ` ${percent(weight(i, j), 1)}`,
      ),
    );
  });
  canvas.addEventListener("pointerleave", () => {
    hide_tip();
    show(null, null);
  });
  show(null, null);

  const labels = cell >= 13;
  const matrix = h(
    "div",
    { class: "matrix-box", style: { "--cell": `${cell}px`, "grid-template-columns": labels ? "auto auto" : "auto" } },
    labels
      ? [
          h("span", {}),
          h(
            "div",
            { class: "matrix-top", "aria-hidden": "true" },
            columns.map((text) => h("span", {}, h("bdi", {}, shown_token(text, 12)))),
          ),
        ]
      : null,
    labels
      ? h(
          "div",
          { class: "matrix-left", "aria-hidden": "true" },
          rows.map((text) => h("span", {}, h("bdi", {}, shown_token(text, 12)))),
        )
      : null,
    canvas,
  );
  // What is painted does not follow the colours of the page by itself.
  return h(
    "div",
    { class: "attention", onrepaint: () => show(null, null) },
    h("div", { class: "bipartite scroller", style: { "--line": `${line_height}px` } }, left, lines, right),
    h("div", { class: "scroller" }, matrix),
    said,
  );
}

export function paint_map(canvas: HTMLCanvasElement, map: HeadMap) {
  if (map.rows === 0 || map.columns === 0) return;
  canvas.width = map.columns;
  canvas.height = map.rows;
  const context = canvas.getContext("2d")!,
    image = context.createImageData(map.columns, map.rows),
    weights = weights_of(map);
  const colors = Array.from({ length: 256 }, (_, w) => color_of(Math.sqrt(w / 255)));
  for (let k = 0; k < weights.length; ++k) {
    const [r, g, b] = colors[weights[k]];
    image.data.set([r, g, b, 255], 4 * k);
  }
  context.putImageData(image, 0, 0);
}
