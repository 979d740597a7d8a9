// How much heads matter: the ablation of each, and rankings against each other.
import * as Plot from "@observablehq/plot";
import { number_of, type Study } from "./data";
import { format, h, picker } from "./dom";
import { figure, if_all_include_zero, plot } from "./figure";
import { title_of } from "./measures";
import { role_color } from "./roles";
import { select } from "./selection";
import { color_of, css, ink_on, on_theme } from "./theme";

/// Heads as dots in the colour of their role; hollow: on probe sentences only.
interface Dot {
  role: string;
  hollow: boolean;
}
const dots = {
  fill: (d: Dot) => (d.hollow ? "var(--paper)" : role_color(d.role)),
  stroke: (d: Dot) => (d.hollow ? role_color(d.role) : "var(--ink)"),
  strokeWidth: (d: Dot) => (d.hollow ? 2 : 0.5),
};

function ablations(study: Study): HTMLElement | null {
  const data = study.heads
    .map((head) => ({
      head: head.name,
      role: study.role(head.name) ?? "",
      hollow: study.on_probes_only(head.name),
      ...(study.record(head.name).ablation_zero ?? {}),
    }))
    .filter((d) => number_of(d) !== undefined)
    .sort((a: any, b: any) => b.value - a.value) as {
    head: string;
    role: string;
    hollow: boolean;
    value: number;
    low: number;
    high: number;
    n: number;
  }[];
  if (data.length === 0) return null;
  const task = study.data.verdict?.loss?.task ?? study.data.evidence?.loss?.task ?? "",
    limit = study.data.verdict?.tolerance;
  const made = figure(
    {
      title: "What ablating each head costs",
      above: if_all_include_zero(data, "any single head matters"),
      name: "ablation",
      wide: true,
      rows: () => data.map((d) => ({ ...d })),
      note: `Rise of the ${task} loss with one head ablated, most important first, with 95 % intervals. ${limit !== undefined ? `Dashed: the tolerance, ${format(limit)}; a head whose whole interval is below it is replaceable.` : ""}`,
    },
    () => {
      const drawing = plot({
        label: "Ablation of every head, most important first",
        width: 1080,
        height: 260,
        x: {
          type: "point",
          domain: data.map((d) => d.head),
          label: null,
          ticks: data.length > 80 ? [] : undefined,
          tickRotate: -60,
          tickSize: 0,
        },
        marginBottom: 52,
        y: { label: null, grid: true, ticks: 5, zero: true },
        marks: [
          limit !== undefined ? Plot.ruleY([limit], { stroke: "var(--soft)", strokeDasharray: "4 3" }) : null,
          Plot.ruleY([0], { stroke: "var(--line)" }),
          Plot.ruleX(data, { x: "head", y1: "low", y2: "high", stroke: "var(--soft)", strokeOpacity: 0.6 }),
          Plot.dot(data, {
            x: "head",
            y: "value",
            r: data.length > 300 ? 2 : 4,
            ...dots,
            channels: { role: "role" },
            tip: { format: { fill: false, stroke: false, strokeWidth: false } },
          }),
        ],
      });
      drawing.addEventListener("click", () => {
        const point = (drawing as any).value;
        if (point?.head) select(point.head);
      });
      return drawing;
    },
  );
  return made.element;
}

function correlations(study: Study): HTMLElement | null {
  const correlation = study.data.verdict?.correlation,
    names = Object.keys(correlation ?? {});
  if (names.length < 2) return null;
  const holder = h("div", { class: "scroller" });
  const draw = () =>
    holder.replaceChildren(
      h(
        "table",
        { class: "matrix-table" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", {}),
            names.map((name) => h("th", {}, title_of(name))),
          ),
        ),
        h(
          "tbody",
          {},
          names.map((a) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, title_of(a)),
              names.map((b) => {
                const value: number | undefined = a === b ? 1 : correlation[a]?.[b],
                  color = value === undefined ? null : color_of(value);
                return h(
                  "td",
                  { style: color && a !== b ? { background: css(color), color: ink_on(color) } : {} },
                  a === b ? "" : value === undefined ? "–" : value.toFixed(2),
                );
              }),
            ),
          ),
        ),
      ),
    );
  draw();
  on_theme(draw);
  return h(
    "div",
    { class: "card" },
    h("h3", {}, "Do rankings agree?"),
    holder,
    h(
      "p",
      { class: "note" },
      "Spearman correlation of two rankings of all heads: 1 the same order, 0 nothing in common, −1 reversed.",
    ),
  );
}

function against(study: Study): HTMLElement | null {
  const names = Object.keys(study.data.verdict?.rankings ?? {}).filter((name) =>
    study.heads.some(
      (head) => number_of(study.record(head.name)[name] ?? study.verdict(head.name)?.importance?.[name]) !== undefined,
    ),
  );
  if (names.length < 2) return null;
  let x = names.includes("gradient") ? "gradient" : names[0],
    y = names.includes("ablation_zero") && x !== "ablation_zero" ? "ablation_zero" : names[1];
  const rank = (name: string) =>
    new Map((study.data.verdict!.rankings[name] as string[]).map((head, i) => [head, i + 1]));
  const points = () => {
    const rx = rank(x),
      ry = rank(y);
    return study.heads
      .filter((head) => rx.has(head.name) && ry.has(head.name))
      .map((head) => ({
        head: head.name,
        x: rx.get(head.name)!,
        y: ry.get(head.name)!,
        role: study.role(head.name) ?? "",
        hollow: study.on_probes_only(head.name),
      }));
  };
  const choices = [{ choices: names.map((name) => ({ value: name, text: title_of(name) })) }];
  const made = figure(
    {
      title: "One ranking against another",
      name: "rankings",
      rows: () =>
        study.heads.map((head) => ({
          head: head.name,
          ...Object.fromEntries(names.map((name) => [name, rank(name).get(head.name)])),
        })),
      note: "Ranks, 1: matters most. On the diagonal both agree.",
      controls: [
        picker("Across", choices, x, (value) => {
          x = value;
          made.redraw();
        }),
        picker("Up", choices, y, (value) => {
          y = value;
          made.redraw();
        }),
      ],
    },
    () => {
      const drawing = plot({
        label: `Ranks by ${title_of(x)} and ${title_of(y)}`,
        width: 515,
        height: 340,
        marginTop: 24,
        x: { label: `rank by ${title_of(x)}`, reverse: true, labelArrow: "none" },
        y: { label: `rank by ${title_of(y)}`, reverse: true, labelArrow: "none" },
        marks: [
          Plot.line(
            [
              [1, 1],
              [study.heads.length, study.heads.length],
            ],
            { stroke: "var(--line)" },
          ),
          Plot.dot(points(), {
            x: "x",
            y: "y",
            r: 4.5,
            ...dots,
            channels: { head: "head", role: "role" },
            tip: { format: { fill: false, stroke: false, strokeWidth: false } },
          }),
        ],
      });
      drawing.addEventListener("click", () => {
        const point = (drawing as any).value;
        if (point?.head) select(point.head);
      });
      return drawing;
    },
  );
  return made.element;
}

function categories(study: Study): HTMLElement | null {
  const data = (study.data.verdict?.categories ?? [])
    .filter((one: any) => one.measured?.ablation_zero && one.measured?.ablation_zero_random)
    .map((one: any) => ({
      role: `${one.role} (${one.heads.length})`,
      heads: one.heads.length as number,
      ablated: one.measured.ablation_zero.value as number,
      low: one.measured.ablation_zero.low as number,
      high: one.measured.ablation_zero.high as number,
      random: one.measured.ablation_zero_random.value as number,
    }));
  if (data.length === 0) return null;
  data.sort((a: any, b: any) => b.ablated - a.ablated);
  return figure(
    {
      title: "Ablating all heads of a role",
      above: if_all_include_zero(data, "any role matters"),
      name: "roles-ablated",
      rows: () => data,
      note: "Rise of the loss with all heads of the role ablated (dot, 95 % interval), and with as many heads at random (|). Right of the mark: the role matters more than its number of heads.",
    },
    () =>
      plot({
        label: "Ablating all heads of a role, against as many at random",
        width: 515,
        height: 50 + 22 * data.length,
        marginLeft: 120,
        x: { label: null, grid: true, ticks: 5 },
        y: { domain: data.map((d: any) => d.role), label: null },
        marks: [
          Plot.ruleY(data, {
            y: "role",
            x1: "low",
            x2: "high",
            stroke: "var(--accent)",
            strokeOpacity: 0.45,
            strokeWidth: 4,
          }),
          Plot.dot(data, {
            y: "role",
            x: "ablated",
            r: 4.5,
            fill: "var(--accent)",
            tip: true,
            channels: { "at random": "random" },
          }),
          Plot.tickX(data, {
            y: "role",
            x: "random",
            stroke: "var(--ink)",
            strokeWidth: 2,
            insetTop: 3,
            insetBottom: 3,
          }),
        ],
      }),
  ).element;
}

export function importance(study: Study): HTMLElement | null {
  const parts = [ablations(study), against(study), categories(study), correlations(study)].filter(
    (part): part is HTMLElement => part !== null,
  );
  return parts.length ? h("div", { class: "cards" }, parts) : null;
}
