// Over depth: what layers attend to, know and matter for.
import * as Plot from "@observablehq/plot";
import { kind_title, number_of, type Study } from "./data";
import { h, picker, plural } from "./dom";
import { figure, plot, relation_axis, relation_rows } from "./figure";
import { measures_of, relations_of } from "./measures";
import { relation_words, role_color, role_kinds } from "./roles";
import { select } from "./selection";

interface Point {
  head: string;
  layer: number;
  kind: string;
  value: number;
}

function depth(
  study: Study,
  title: string,
  name: string,
  note: string,
  value: (head: string) => number | undefined,
  top = false,
): HTMLElement | null {
  const points: Point[] = [],
    lines: { layer: number; kind: string; value: number }[] = [];
  for (const attention of study.attentions) {
    const values = attention.heads
      .map((head) => ({
        head: head.name,
        layer: attention.layer,
        kind: kind_title(attention.kind),
        value: value(head.name),
      }))
      .filter((p): p is Point => p.value !== undefined);
    points.push(...values);
    if (values.length)
      lines.push({
        layer: attention.layer,
        kind: kind_title(attention.kind),
        value: top
          ? Math.max(...values.map((p) => p.value))
          : values.reduce((sum, p) => sum + p.value, 0) / values.length,
      });
  }
  if (points.length === 0) return null;
  const many = study.kinds().length > 1;
  return figure({ title, name, note, rows: () => points.map((p) => ({ ...p })) }, () => {
    const drawing = plot({
      label: title,
      width: 515,
      height: 200,
      x: {
        label: "layer",
        tickFormat: "d",
        ticks: [...new Set(points.map((p) => p.layer))].length,
        labelArrow: "none",
      },
      y: { label: null, grid: true, ticks: 4 },
      fx: many ? { label: null, domain: study.kinds().map(kind_title) } : undefined,
      marks: [
        Plot.line(lines, {
          x: "layer",
          y: "value",
          fx: many ? "kind" : undefined,
          stroke: "var(--strong)",
          strokeWidth: 2,
          curve: "monotone-x",
        }),
        Plot.dot(points, {
          x: "layer",
          y: "value",
          fx: many ? "kind" : undefined,
          r: 3,
          fill: "var(--accent)",
          fillOpacity: 0.6,
          channels: { head: "head" },
          tip: { format: { x: false, fx: false } },
        }),
      ],
    });
    drawing.addEventListener("click", () => {
      const point = (drawing as any).value;
      if (point?.head) select(point.head);
    });
    return drawing;
  }).element;
}

function roles_by_layer(study: Study): HTMLElement | null {
  if (!study.has_verdict()) return null;
  const kinds = role_kinds().filter(({ role }) => study.heads.some((head) => study.role(head.name) === role));
  const data = study.attentions
    .flatMap((attention) =>
      kinds.flatMap(({ role }) =>
        [false, true].map((hollow) => ({
          layer: attention.name,
          role,
          hollow,
          heads: attention.heads.filter(
            ({ name }) => study.role(name) === role && study.on_probes_only(name) === hollow,
          ).length,
        })),
      ),
    )
    .filter((d) => d.heads > 0);
  return figure(
    {
      title: "What each layer does",
      name: "roles-by-layer",
      rows: () => data,
      note: "Each head by its first role. Hollow: on probe sentences only.",
    },
    () => {
      const drawing = plot({
        label: "Roles of heads in every layer",
        width: 515,
        height: Math.max(120, 50 + 22 * study.attentions.length),
        marginLeft: 64,
        x: { label: "heads", labelArrow: "none", ticks: 6, tickFormat: "d" },
        y: { label: null, domain: study.attentions.map((attention) => attention.name) },
        marks: [
          Plot.barX(data, {
            y: "layer",
            x: "heads",
            z: (d: { role: string; hollow: boolean }) => `${d.role} ${d.hollow}`,
            fill: (d: { role: string; hollow: boolean }) => (d.hollow ? "var(--paper)" : role_color(d.role)),
            stroke: (d: { role: string }) => role_color(d.role),
            insetTop: 2,
            insetBottom: 2,
            insetLeft: 0.5,
            insetRight: 0.5,
            channels: { role: "role" },
            tip: { format: { fill: false, stroke: false, z: false } },
          }),
        ],
      });
      return drawing;
    },
  ).element;
}

function relation_depth(study: Study): HTMLElement | null {
  const names = new Set<string>();
  for (const head of study.heads)
    for (const [name, ways] of Object.entries(relations_of(study.record(head.name))))
      for (const way of Object.keys(ways as object)) names.add(`${name}/${way}`);
  if (names.size === 0) return null;
  const best = (relation: string) => {
    const [name, way] = relation.split("/");
    return study.heads
      .map((head) => {
        const a = relations_of(study.record(head.name))[name]?.[way];
        return a ? a.accuracy - a.baseline : -1;
      })
      .reduce((a, b) => Math.max(a, b), -1);
  };
  const order = [...names].sort((a, b) => best(b) - best(a)).slice(0, 12);
  const data = study.attentions
    .flatMap((attention) =>
      order.map((relation) => {
        const [name, way] = relation.split("/");
        const all = attention.heads.map((head) => relations_of(study.record(head.name))[name]?.[way]).filter(Boolean);
        return {
          layer: attention.name,
          relation: relation_words(name, way),
          above: Math.max(...all.map((a: any) => a.accuracy - a.baseline)),
          accuracy: Math.max(...all.map((a: any) => a.accuracy)),
        };
      }),
    )
    .filter((d) => Number.isFinite(d.above));
  return figure(
    {
      title: "Which layer knows which relation",
      name: "relations-by-layer",
      rows: () => data,
      note: "The best head of the layer, above the best fixed offset; blank where no head is better.",
    },
    () =>
      plot({
        label: "Relations over layers",
        width: 515,
        height: 60 + relation_rows().height * order.length,
        marginLeft: relation_rows().margin,
        x: { label: null, domain: study.attentions.map((a) => a.name) },
        y: {
          label: null,
          domain: order.map((r) => {
            const [n, w] = r.split("/");
            return relation_words(n, w);
          }),
        },
        marks: [
          relation_axis(),
          Plot.cell(
            data.filter((d) => d.above > 0),
            {
              x: "layer",
              y: "relation",
              fill: "var(--accent)",
              fillOpacity: "above",
              inset: 1,
              tip: { format: { fill: false, fillOpacity: false } },
              channels: { accuracy: "accuracy", "above the offset": "above" },
            },
          ),
        ],
        opacity: { domain: [0, 0.4], range: [0.08, 1], clamp: true },
      }),
  ).element;
}

export function layers(study: Study): HTMLElement {
  const value = (name: string) => (head: string) => number_of(study.record(head)[name]);
  const measures = measures_of(study);
  let chosen = measures.find((one) => one.id === "mass_special") ?? measures[measures.length - 1];
  const any = h("div", {});
  const draw_any = () => {
    const one =
      depth(study, chosen.title, `layers-${chosen.id.replace(/\//g, "-")}`, chosen.about, chosen.value) ??
      h("div", { class: "card" });
    one.querySelector(".card-head")?.append(
      h(
        "div",
        { class: "controls" },
        picker(
          "Measure",
          [...new Set(measures.map((m) => m.group))].map((title) => ({
            title,
            choices: measures.filter((m) => m.group === title).map((m) => ({ value: m.id, text: m.title })),
          })),
          chosen.id,
          (id) => {
            chosen = measures.find((m) => m.id === id)!;
            draw_any();
            any.querySelector("select")?.focus();
          },
        ),
      ),
    );
    any.replaceChildren(one);
  };
  if (chosen) draw_any();
  const thin = (study.data.verdict?.layers ?? [])
    .filter((layer: any) => layer.advice === "thin")
    .map((layer: any) => layer.layer);
  const freeze = (study.data.verdict?.layers ?? [])
    .filter((layer: any) => layer.advice === "freeze")
    .map((layer: any) => layer.layer);
  return h(
    "div",
    {},
    thin.length + freeze.length
      ? h(
          "p",
          {},
          thin.length
            ? `In ${plural(thin.length, "layer")} (${thin.join(", ")}) many heads can be removed alone, or while a redundant head stays. `
            : "",
          freeze.length ? `In ${freeze.join(", ")} most heads only hang on places and marks.` : "",
        )
      : null,
    h(
      "div",
      { class: "cards" },
      roles_by_layer(study),
      depth(
        study,
        "Importance over depth",
        "layers-importance",
        "Rise of the loss when one head is ablated; line: mean of the layer.",
        value("ablation_zero"),
      ) ??
        depth(
          study,
          "Importance over depth",
          "layers-importance",
          "Gradient; line: mean of the layer.",
          value("gradient"),
        ),
      depth(
        study,
        "Distance over depth",
        "layers-distance",
        "How many tokens away heads attend; line: mean of the layer.",
        value("distance"),
      ),
      depth(
        study,
        "Entropy over depth",
        "layers-entropy",
        "1: attends everywhere alike; line: mean of the layer.",
        value("entropy_ratio"),
      ),
      relation_depth(study),
      chosen ? any : null,
    ),
  );
}
