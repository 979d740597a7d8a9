// Who reads whom: the strongest composition between heads of different layers.
import { kind_title, type Study } from "./data";
import { format, h, picker, plural, svg } from "./dom";
import { figure } from "./figure";
import { role_color } from "./roles";
import { on_select, select } from "./selection";

interface Edge {
  from: string;
  to: string;
  value: number;
}
const ways: { [way: string]: string } = { q: "queries", k: "keys", v: "values" };

/// From the whole matrix, or from the list of the strongest that reports of large models have.
function edges_of(study: Study, way: string): Edge[] {
  const composition = study.data.evidence?.pairs?.composition?.[way];
  const names: string[] = (study.data.evidence?.heads ?? []).map((record: any) => record.head);
  const edges: Edge[] = [];
  if (composition?.strongest)
    for (const [a, b, value] of composition.strongest) edges.push({ from: names[a], to: names[b], value });
  (composition?.all ?? []).forEach((row: (number | null)[], a: number) =>
    row.forEach((value, b) => {
      if (typeof value === "number" && value > 0) edges.push({ from: names[a], to: names[b], value });
    }),
  );
  return edges.sort((a, b) => b.value - a.value);
}

export function composition(study: Study): HTMLElement | null {
  const available = Object.keys(ways).filter((way) => study.data.evidence?.pairs?.composition?.[way]);
  if (available.length === 0) return null;
  let way = available.includes("v") ? "v" : available[0],
    most = 60,
    edges = edges_of(study, way);
  const tallest = Math.max(...study.attentions.map((attention) => attention.heads.length));
  const step = Math.max(46, Math.min(180, 1055 / study.attentions.length)),
    gap = tallest > 16 ? 14 : 24,
    radius = tallest > 16 ? 4.5 : 8;
  const width = step * study.attentions.length + 20,
    height = gap * tallest + 40;
  const place = new Map<string, [number, number]>();
  study.attentions.forEach((attention, column) =>
    attention.heads.forEach((head, row) => place.set(head.name, [step * (column + 0.5) + 10, 34 + gap * (row + 0.5)])),
  );

  let chosen: string | null = null;
  const described = h("p", { class: "note", role: "status" });
  const line = (edge: Edge, of: string, width: number, opacity: number) => {
    const [x1, y1] = place.get(edge.from)!,
      [x2, y2] = place.get(edge.to)!,
      middle = (x1 + x2) / 2;
    return svg("path", {
      class: of,
      d: `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`,
      "stroke-width": width.toFixed(2),
      "stroke-opacity": opacity.toFixed(2),
    });
  };
  const own = svg("g", {});
  /// The strongest lines of one head, in front of the others.
  const light = (head: string | null) => {
    own.replaceChildren();
    own.parentElement?.classList.toggle("lit", head !== null);
    if (head === null) {
      described.textContent = "";
      return;
    }
    const read_by = edges.filter((edge) => edge.from === head).slice(0, 4),
      reads = edges.filter((edge) => edge.to === head).slice(0, 4);
    own.append(
      ...[...reads, ...read_by]
        .filter((edge) => place.has(edge.from) && place.has(edge.to))
        .map((edge) => line(edge, "own", 2, 0.9)),
    );
    const list = (found: Edge[], end: "from" | "to") =>
      found.map((edge) => `${edge[end]} (${format(edge.value)})`).join(", ") || "nobody here";
    described.textContent = `${head} reads ${list(reads, "from")}; it is read by ${list(read_by, "to")}.`;
  };
  const draw = () => {
    const shown = edges.slice(0, most),
      strongest = shown[0]?.value ?? 1;
    const paths = shown
      .filter((edge) => place.has(edge.from) && place.has(edge.to))
      .map((edge) => {
        const share = (edge.value / strongest) ** 2;
        return line(edge, "edge", 0.7 + 3 * share, 0.25 + 0.65 * share);
      });
    const nodes = study.heads.map((head) => {
      const [x, y] = place.get(head.name)!;
      const node = svg(
        "circle",
        {
          cx: x,
          cy: y,
          r: radius,
          class: study.on_probes_only(head.name) ? "node hollow" : "node",
          style: { "--node": study.has_verdict() ? role_color(study.role(head.name)) : "var(--accent)" },
          "data-head": head.name,
          onpointerenter: () => light(head.name),
          onpointerleave: () => light(chosen),
          onclick: () => select(head.name),
        },
        svg("title", {}, study.words(head.name)),
      );
      return node;
    });
    const names = study.attentions.map((attention, column) =>
      svg(
        "text",
        { class: "column-name", x: step * (column + 0.5) + 10, y: 18, "text-anchor": "middle" },
        attention.name,
      ),
    );
    return svg(
      "svg",
      {
        class: "composition",
        viewBox: `0 0 ${width} ${height}`,
        width,
        height,
        role: "img",
        "aria-label": `The ${shown.length} strongest of ${edges.length} compositions through ${ways[way]}`,
      },
      names,
      svg("g", {}, paths),
      own,
      nodes,
    );
  };
  const kinds = study.kinds();
  const made = figure(
    {
      title: "Who reads whom",
      name: "composition",
      wide: true,
      rows: () => edges.slice(0, 2000).map((edge) => ({ ...edge, through: way })),
      note: `Lines from a head to the later heads that read what it writes, the strongest first; thickness: how much, above random weights.${kinds.length > 1 ? ` Columns: ${kinds.map(kind_title).join(", ")}.` : ""} From weights alone: it shows what can be read, not that it is.`,
      controls: [
        picker("Through", [{ choices: available.map((one) => ({ value: one, text: ways[one] })) }], way, (value) => {
          way = value;
          edges = edges_of(study, way);
          made.redraw();
        }),
        h(
          "label",
          { class: "picker" },
          h("span", {}, "Lines"),
          h("input", {
            type: "range",
            min: 10,
            max: 300,
            step: 10,
            value: most,
            "aria-label": "How many lines",
            oninput: (event: Event) => {
              most = Number((event.target as HTMLInputElement).value);
              made.redraw();
            },
          }),
        ),
      ],
    },
    draw,
  );
  made.element.querySelector("figcaption")!.prepend(described);
  on_select((head, by_user) => {
    if (by_user) light((chosen = head));
  });
  made.element.setAttribute("aria-description", plural(edges.length, "pair"));
  return made.element;
}
