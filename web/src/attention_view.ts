// What a head attends to in one sentence: lines between tokens, and the matrix of the same weights.
import { type HeadMap, type Tokens, weights_of } from "./data";
import { canvas_of, h, percent, plural, shown_token, svg } from "./dom";
import { color_of, css } from "./theme";
import { hide_tip, show_tip } from "./tip";

const line_height = 24,
  most_shown = 128,
  least_left = 0.02; // of a token's weight, to be scaled

export interface Seen {
  map: HeadMap;
  from: Tokens;
  to: Tokens;
}

/// Chosen once for all heads and sentences.
let without_special = false;

/// The weights that are shown: all, or those between ordinary tokens, scaled to sum to 1 for each token.
interface Weights {
  rows: string[];
  columns: string[];
  at: (row: number, column: number) => number;
  note: string;
}

function all_weights({ map, from, to }: Seen): Weights {
  const weights = weights_of(map);
  return {
    rows: from.tokens.slice(0, Math.min(map.rows, most_shown)),
    columns: to.tokens.slice(0, map.columns),
    at: (i, j) => weights[i * map.columns + j] / 255,
    note: "",
  };
}

const ordinary = ({ special }: Tokens, count: number) =>
  [...Array(count).keys()].filter((place) => !special.includes(place));

function ordinary_weights(seen: Seen): Weights {
  const all = all_weights(seen),
    rows = ordinary(seen.from, all.rows.length),
    columns = ordinary(seen.to, all.columns.length);
  const left = rows.map((i) => columns.reduce((sum, j) => sum + all.at(i, j), 0)),
    whole = rows.map((i) => all.columns.reduce((sum, _, j) => sum + all.at(i, j), 0)),
    empty = rows.filter((_, i) => left[i] < least_left).length;
  const share =
    1 -
    left.reduce((a, b) => a + b, 0) /
      Math.max(
        1e-9,
        whole.reduce((a, b) => a + b, 0),
      );
  return {
    rows: rows.map((i) => all.rows[i]),
    columns: columns.map((j) => all.columns[j]),
    at: (i, j) => (left[i] < least_left ? 0 : all.at(rows[i], columns[j]) / left[i]),
    note: `Shown: the weights on ordinary tokens, scaled to sum to 1 for each token. ${percent(share)} of the weight is on special tokens.${empty ? ` Less than ${percent(least_left)} is left of ${plural(empty, "token")}, without lines here.` : ""}`,
  };
}

export function attention_view(seen: Seen): HTMLElement {
  // What is painted does not follow the colours of the page by itself.
  const element = h("div", { class: "attention", onrepaint: () => repaint() });
  let repaint = () => {};
  const any_special =
    seen.to.special.length > 0 &&
    seen.from.special.length < seen.from.tokens.length &&
    seen.to.special.length < seen.to.tokens.length;
  const draw = () => {
    const shown = any_special && without_special ? ordinary_weights(seen) : all_weights(seen);
    const drawn = drawing(shown);
    repaint = drawn.repaint;
    const toggle = any_special
      ? h(
          "div",
          { class: "special-toggle" },
          h(
            "label",
            { class: "picker" },
            h("input", {
              type: "checkbox",
              checked: without_special,
              onchange: (event: Event) => {
                without_special = (event.target as HTMLInputElement).checked;
                draw();
                element.querySelector<HTMLElement>(".special-toggle input")?.focus();
              },
            }),
            h("span", {}, "without special tokens"),
          ),
          h("p", { class: "note" }, shown.note),
        )
      : "";
    element.replaceChildren(toggle, ...drawn.parts);
  };
  draw();
  return element;
}

/// Says what a token attends to most, for those who do not see the lines.
function in_words({ rows, columns, at }: Weights, row: number): string {
  const order = columns
    .map((_, j) => j)
    .sort((a, b) => at(row, b) - at(row, a))
    .slice(0, 3);
  return `${shown_token(rows[row])} attends to ${order.map((j) => `${shown_token(columns[j])} ${percent(at(row, j))}`).join(", ")}`;
}

function drawing(shown: Weights) {
  const { rows, columns, at: weight } = shown,
    n = rows.length,
    m = columns.length;
  const said = h(
    "p",
    { class: "note", role: "status" },
    "Point at a token, or move to it with the keyboard, to see what it attends to.",
  );

  // Lines.
  const width = 230,
    height = Math.max(n, m) * line_height;
  const lines = svg("svg", {
    class: "lines",
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

  // Matrix: as large as fits beside its labels on a narrow screen.
  const room = Math.min(400, window.innerWidth - 150);
  const cell = Math.max(4, Math.min(22, Math.floor(room / Math.max(n, m))));
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
    if (from !== null) said.textContent = in_words(shown, from);
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
  return {
    repaint: () => show(null, null),
    parts: [
      h("div", { class: "bipartite scroller", style: { "--line": `${line_height}px` } }, left, lines, right),
      h("div", { class: "scroller" }, matrix),
      said,
    ],
  };
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
