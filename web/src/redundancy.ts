// Which heads attend to the same: the clustered matrix of divergences with its dendrogram.
import { cluster, type Tree } from "./cluster";
import { type Head, kind_title, type Matrix, type Study } from "./data";
import { canvas_of, format, h, percent, picker, svg } from "./dom";
import { downloads } from "./download";
import { head_link } from "./head_evidence";
import { select } from "./selection";
import { color_of, css, on_theme } from "./theme";
import { hide_tip, show_tip } from "./tip";

interface Block {
  id: string;
  title: string;
  heads: Head[];
  matrix: Matrix;
}

function blocks_of(study: Study): Block[] {
  const js = study.data.evidence?.pairs?.js ?? {},
    blocks: Block[] = [];
  for (const [id, kind] of [
    ["all", ""],
    ["enc", "enc"],
    ["dec", "dec"],
    ["cross", "cross"],
  ]) {
    const heads = study.heads.filter((head) => id === "all" || head.name.startsWith(`${kind}.`));
    if (js[id] && js[id].length === heads.length)
      blocks.push({
        id,
        title: id === "all" ? "all layers" : `${kind_title(kind)}, all layers`,
        heads,
        matrix: js[id],
      });
  }
  for (const attention of study.attentions) {
    const matrix = js[attention.name];
    if (matrix && attention.heads.length > 1 && matrix.length === attention.heads.length)
      blocks.push({ id: attention.name, title: attention.name, heads: attention.heads, matrix });
  }
  return blocks;
}

function dendrogram(tree: Tree, order: number[], cell: number, width: number): SVGSVGElement {
  const at = new Map(order.map((member, row) => [member, (row + 0.5) * cell])),
    lines: SVGElement[] = [];
  const x = (height: number) => width - 2 - (height / (tree.height || 1)) * (width - 6);
  const draw = (node: Tree): number => {
    if (!node.parts) return at.get(node.members[0])!;
    const [a, b] = node.parts,
      ya = draw(a),
      yb = draw(b);
    lines.push(svg("path", { d: `M${x(a.height)} ${ya}H${x(node.height)}V${yb}H${x(b.height)}` }));
    return (ya + yb) / 2;
  };
  draw(tree);
  return svg(
    "svg",
    {
      class: "dendrogram",
      width,
      height: order.length * cell,
      viewBox: `0 0 ${width} ${order.length * cell}`,
      "aria-hidden": "true",
    },
    lines,
  );
}

const alike = (js: number | null | undefined) =>
  js == null ? "not measured" : `js ${format(js)}, attention alike ${percent(1 - js / Math.LN2)}`;

export function redundancy(study: Study): HTMLElement | null {
  const blocks = blocks_of(study);
  if (blocks.length === 0) return null;
  const closest = study.heads
    .flatMap((head) =>
      study.nearest(head.name).map((pair) => ({ a: head.name, b: pair.head, js: pair.js, cka: pair.cka })),
    )
    .filter((pair) => study.head(pair.a)!.order < study.head(pair.b)!.order)
    .sort((a, b) => a.js - b.js);
  let block =
    blocks.find((one) => one.id === "all") ??
    blocks.find((one) => closest[0] && one.id === study.head(closest[0].a)!.attention) ??
    blocks[0];
  const holder = h("div", { class: "clustered scroller" });
  const draw = () => {
    const n = block.heads.length,
      js = (a: number, b: number) => (a === b ? 0 : block.matrix[a]?.[b]),
      distance = (a: number, b: number) => js(a, b) ?? Math.LN2; // unknown: as if they had nothing in common
    const tree = cluster(distance, n),
      order = tree.members;
    const cell = Math.max(3, Math.min(30, Math.floor((n > 40 ? 395 : 340) / n))),
      labels = cell >= 12;
    const { canvas, context } = canvas_of(n * cell, n * cell, {
      role: "img",
      "aria-label": `Divergence of the ${n} heads of ${block.title}, similar ones side by side`,
    });
    let most = 1e-9; // one by one: there may be too many for arguments
    for (let a = 0; a < n; ++a) for (let b = 0; b < n; ++b) most = Math.max(most, js(a, b) ?? 0);
    order.forEach((a, row) =>
      order.forEach((b, column) => {
        context.fillStyle = js(a, b) == null ? "transparent" : css(color_of(1 - distance(a, b) / most));
        context.fillRect(column * cell, row * cell, cell - (cell > 6 ? 1 : 0), cell - (cell > 6 ? 1 : 0));
      }),
    );
    const pointed = (event: MouseEvent) => {
      const box = canvas.getBoundingClientRect();
      const a = order[Math.floor(((event.clientY - box.top) / box.height) * n)],
        b = order[Math.floor(((event.clientX - box.left) / box.width) * n)];
      return a === undefined || b === undefined ? null : ([a, b] as const);
    };
    canvas.addEventListener("pointermove", (event) => {
      const pair = pointed(event);
      if (pair)
        show_tip(
          { left: event.clientX, right: event.clientX, top: event.clientY - 4, bottom: event.clientY + 12 },
          h("span", {}, `${block.heads[pair[0]].name} and ${block.heads[pair[1]].name}: ${alike(js(...pair))}`),
        );
    });
    canvas.addEventListener("pointerleave", hide_tip);
    canvas.addEventListener("click", (event) => {
      const pair = pointed(event);
      if (pair) select(block.heads[pair[0]].name);
    });
    holder.replaceChildren(
      h(
        "div",
        { class: "clustered-inner", style: { "--cell": `${cell}px` } },
        dendrogram(tree, order, cell, 110),
        labels
          ? h(
              "div",
              { class: "clustered-names" },
              order.map((i) => h("span", {}, block.heads[i].name)),
            )
          : null,
        canvas,
      ),
    );
  };
  draw();
  on_theme(draw);
  const clusters: string[][] = study.data.verdict?.clusters ?? [];
  return h(
    "div",
    {},
    h(
      "p",
      {},
      clusters.length === 0
        ? study.has_verdict()
          ? "No two heads of a layer are redundant: none are alike in both attention and output."
          : ""
        : [
            "These can stand in for each other: ",
            clusters
              .slice(0, 12)
              .map((members, i) => [i > 0 ? "; " : "", members.map((name) => [head_link(study, name), " "])]),
            clusters.length > 12 ? `and ${clusters.length - 12} more.` : "",
          ],
    ),
    h(
      "div",
      { class: "cards" },
      h(
        "figure",
        { class: "card" },
        h(
          "div",
          { class: "card-head" },
          h("h3", {}, "Heads that attend to the same"),
          h(
            "div",
            { class: "controls" },
            picker("Of", [{ choices: blocks.map(({ id, title }) => ({ value: id, text: title })) }], block.id, (id) => {
              block = blocks.find((one) => one.id === id)!;
              draw();
            }),
          ),
        ),
        holder,
        h(
          "figcaption",
          {},
          h(
            "p",
            { class: "note" },
            "Strong: they attend to the same (Jensen-Shannon divergence of their weights, average linkage).",
          ),
          downloads("js", { svg: () => holder.querySelector("svg"), rows: () => closest.map((pair) => ({ ...pair })) }),
        ),
      ),
      h(
        "div",
        { class: "card" },
        h("h3", {}, "The most alike of all"),
        h(
          "table",
          {},
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              h("th", {}, "heads"),
              h("th", { class: "number" }, "attention alike"),
              h("th", { class: "number" }, "output alike"),
            ),
          ),
          h(
            "tbody",
            {},
            closest
              .slice(0, 10)
              .map((pair) =>
                h(
                  "tr",
                  {},
                  h("td", {}, head_link(study, pair.a), " ", head_link(study, pair.b)),
                  h("td", { class: "number" }, percent(1 - pair.js / Math.LN2)),
                  h("td", { class: "number" }, pair.cka === undefined ? "–" : percent(pair.cka)),
                ),
              ),
          ),
        ),
      ),
    ),
  );
}
