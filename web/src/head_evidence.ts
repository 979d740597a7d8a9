// What is known about one head, piece by piece.
import * as Plot from "@observablehq/plot";
import { type Accuracy, type Interval, number_of, type Study } from "./data";
import { format, h, percent } from "./dom";
import { figure, if_all_include_zero, is_narrow, plot, relation_axis, relation_rows } from "./figure";
import { measures_of, relations_of } from "./measures";
import { badge, detail_words, relation_words, role_color, role_kind } from "./roles";
import { select } from "./selection";

/// A button that leads to a head.
export function head_link(study: Study, head: string): HTMLElement {
  const color = study.has_verdict() ? role_color(study.role(head)) : "var(--accent)";
  return h(
    "button",
    { type: "button", class: "head-link", title: study.words(head), onclick: () => select(head) },
    h("i", {
      style: study.on_probes_only(head) ? { border: `2px solid ${color}` } : { background: color },
    }),
    head,
  );
}

export function roles_table(study: Study, head: string): HTMLElement | null {
  const roles = study.verdict(head)?.roles ?? [];
  if (roles.length === 0) return null;
  const share = roles.filter((role) => !role_kind(role.role).none);
  if (share.length === 0)
    return h(
      "div",
      { class: "card" },
      h("h3", {}, "Roles"),
      h("p", {}, `${roles[0].role}: ${role_kind(roles[0].role).meaning}.`),
    );
  const bar = (score: number, low?: number, high?: number, baseline?: number) =>
    h(
      "div",
      { class: "evidence", "aria-hidden": "true" },
      h("i", { class: "score", style: { width: `${100 * Math.max(0, Math.min(1, score))}%` } }),
      low !== undefined && high !== undefined
        ? h("i", {
            class: "interval",
            style: {
              left: `${100 * Math.max(0, low)}%`,
              width: `${100 * Math.max(0, Math.min(1, high) - Math.max(0, low))}%`,
            },
          })
        : null,
      baseline !== undefined
        ? h("i", { class: "baseline", style: { left: `${100 * Math.max(0, Math.min(1, baseline))}%` } })
        : null,
    );
  return h(
    "div",
    { class: "card" },
    h("h3", {}, "Roles and their evidence"),
    h(
      "table",
      { class: "roles" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", {}, "role"),
          h("th", {}, "score, interval, | baseline"),
          h("th", { class: "number" }, "score"),
          h("th", { class: "number" }, "baseline"),
          h("th", { class: "number" }, "n"),
        ),
      ),
      h(
        "tbody",
        {},
        share.map((role) =>
          h(
            "tr",
            {},
            h(
              "td",
              {},
              badge(role.role, role.source === "probes"),
              " ",
              role.role,
              role.detail ? h("span", { class: "note" }, ` ${detail_words(role)}`) : null,
              role.source === "probes" ? h("span", { class: "note" }, " on probe sentences only") : null,
            ),
            h("td", {}, bar(role.score, role.low, role.high, role.baseline)),
            h("td", { class: "number" }, format(role.score)),
            h("td", { class: "number" }, format(role.baseline)),
            h("td", { class: "number" }, format(role.n)),
          ),
        ),
      ),
    ),
  );
}

export function offsets(study: Study, head: string): HTMLElement | null {
  const shares = study.record(head).offset_share;
  if (!shares) return null;
  const data = Object.entries(shares as { [offset: string]: number })
    .map(([offset, share]) => ({ offset: Number(offset), share }))
    .sort((a, b) => a.offset - b.offset);
  const top = data.reduce((a, b) => (b.share > a.share ? b : a), data[0]);
  return figure(
    {
      title: "Where the largest weight is",
      name: `${head}-offsets`,
      rows: () => data,
      note: "Share of tokens whose largest weight is so many tokens before (−) or after (+).",
    },
    () =>
      plot({
        label: `Offsets of ${head}: most often ${top.offset}, ${percent(top.share)}`,
        height: 180,
        width: 515,
        x: {
          type: "band",
          label: null,
          ticks: is_narrow() ? data.map((d) => d.offset).filter((offset) => offset % 4 === 0) : undefined,
          tickFormat: (d: number) => (d > 0 ? `+${d}` : `${d}`.replace("-", "−")),
        },
        y: { label: null, tickFormat: "%", grid: true, ticks: 4, domain: [0, Math.max(0.1, top.share)] },
        marks: [
          Plot.barY(data, {
            x: "offset",
            y: "share",
            fill: "var(--accent)",
            fillOpacity: (d: { offset: number }) => (d.offset === top.offset ? 1 : 0.55),
            tip: { format: { fill: false, fillOpacity: false } },
          }),
          Plot.ruleY([0], { stroke: "var(--line)" }),
        ],
      }),
  ).element;
}

export function relations(study: Study, head: string): HTMLElement | null {
  const record = study.record(head),
    data: (Accuracy & { relation: string; above: number })[] = [];
  for (const [relation, ways] of Object.entries(relations_of(record))) {
    for (const [way, accuracy] of Object.entries(ways as { [way: string]: Accuracy })) {
      data.push({
        relation: relation_words(relation, way),
        above: (accuracy.low ?? accuracy.accuracy) - accuracy.baseline, // few items have a wide interval
        ...accuracy,
      });
    }
  }
  if (data.length === 0) return null;
  const best = [...data].sort((a, b) => b.above - a.above).slice(0, 10);
  return figure(
    {
      title: "Syntactic relations",
      name: `${head}-relations`,
      rows: () => data.map((d) => ({ ...d })),
      note: `The ten of ${data.length} that it does best at${record.relation ? "" : ", on the built-in probes"}: share found with 95 % interval; | is what the best fixed offset finds.`,
    },
    () =>
      plot({
        label: `Relations of ${head}`,
        width: 515,
        height: 40 + relation_rows().height * best.length,
        marginLeft: relation_rows().margin,
        x: { domain: [0, 1], tickFormat: "%", label: null, grid: true, ticks: 5 },
        y: { domain: best.map((d) => d.relation), label: null },
        marks: [
          relation_axis(),
          Plot.ruleY(best, {
            y: "relation",
            x1: "low",
            x2: "high",
            stroke: "var(--accent)",
            strokeOpacity: 0.45,
            strokeWidth: 4,
          }),
          Plot.dot(best, {
            y: "relation",
            x: "accuracy",
            r: 4.5,
            fill: (d: { low: number; baseline: number }) => (d.low > d.baseline ? "var(--accent)" : "var(--paper)"),
            stroke: "var(--accent)",
            tip: { format: { fill: false } },
          }),
          Plot.tickX(best, {
            y: "relation",
            x: "baseline",
            stroke: "var(--ink)",
            strokeWidth: 2,
            insetTop: 2,
            insetBottom: 2,
          }),
        ],
      }),
  ).element;
}

export function worth(study: Study, head: string): HTMLElement | null {
  const attention = study.attention(study.head(head)!.attention)!;
  const data = attention.heads
    .map(
      ({ name, index }) =>
        ({ name, index, ...(study.record(name).ablation_zero ?? {}) }) as { name: string; index: number } & Interval,
    )
    .filter((d) => number_of(d) !== undefined);
  const own = data.find((d) => d.name === head);
  if (!own) return null;
  const task = study.data.verdict?.loss?.task ?? study.data.evidence?.loss?.task ?? "";
  const limit = study.data.verdict?.tolerance;
  return figure(
    {
      title: "What ablating it costs",
      above: if_all_include_zero(data, `any single head of ${attention.name} matters`),
      name: `${head}-ablation`,
      rows: () => data.map((d) => ({ ...d })),
      note: `Rise of the ${task} loss with the head ablated, 95 % interval (${format(own.n)} examples), beside the other heads of ${attention.name}.${limit ? " Dashed: the tolerance." : ""}`,
    },
    () =>
      plot({
        label: `Ablating ${head} adds ${format(own.value)}`,
        height: 180,
        width: 515,
        x: {
          type: "point",
          label: null,
          domain: data.map((d) => d.index),
          tickFormat: (d: number) => `H${d}`,
          ticks: data.map((d) => d.index).filter((_, i) => i % Math.ceil(data.length / (is_narrow() ? 6 : 16)) === 0),
        },
        y: { label: null, grid: true, ticks: 4, zero: true },
        marks: [
          limit ? Plot.ruleY([limit], { stroke: "var(--soft)", strokeDasharray: "4 3" }) : null,
          Plot.ruleY([0], { stroke: "var(--line)" }),
          Plot.ruleX(data, {
            x: "index",
            y1: "low",
            y2: "high",
            stroke: (d: { name: string }) => (d.name === head ? "var(--strong)" : "var(--soft)"),
            strokeWidth: 2,
          }),
          Plot.dot(data, {
            x: "index",
            y: "value",
            r: (d: { name: string }) => (d.name === head ? 6 : 3.5),
            fill: (d: { name: string }) => (d.name === head ? "var(--strong)" : "var(--soft)"),
            channels: { head: "name" },
            tip: { format: { fill: false, r: false, x: false } },
          }),
        ],
        r: { type: "identity" },
        color: { type: "identity" },
      }),
  ).element;
}

export function likeness(study: Study, head: string): HTMLElement | null {
  const near = study.nearest(head).slice(0, 5),
    verdict = study.verdict(head);
  if (near.length === 0) return null;
  const redundant = new Set(verdict?.redundant_with ?? []),
    backups = new Set(verdict?.backups ?? []);
  return h(
    "div",
    { class: "card" },
    h("h3", {}, redundant.size ? "Redundant and similar heads" : "Heads most like it"),
    h(
      "table",
      {},
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", {}, "head"),
          h("th", { class: "number", title: "100 %: the same attention weights" }, "attention alike"),
          h("th", { class: "number", title: "centred kernel alignment of head outputs" }, "output alike"),
          h("th", {}, ""),
        ),
      ),
      h(
        "tbody",
        {},
        near.map((pair) =>
          h(
            "tr",
            {},
            h("td", {}, head_link(study, pair.head)),
            h("td", { class: "number" }, percent(1 - pair.js / Math.LN2)),
            h("td", { class: "number" }, pair.cka === undefined ? "–" : percent(pair.cka)),
            h("td", {}, redundant.has(pair.head) ? "redundant" : backups.has(pair.head) ? "backup" : ""),
          ),
        ),
      ),
    ),
    h(
      "p",
      { class: "note" },
      redundant.size
        ? "Redundant: both attention and output are alike."
        : "No other head is alike in both attention and output.",
    ),
  );
}

/// Filled when it is opened: nobody waits for a table that is closed.
export function all_numbers(study: Study, head: string): HTMLElement {
  const details = h(
    "details",
    {
      class: "card",
      ontoggle: () => {
        if (details.open && details.childElementCount === 1) details.append(numbers_table(study, head));
      },
    },
    h("summary", {}, "All numbers of this head"),
  );
  return details;
}

function numbers_table(study: Study, head: string): HTMLElement {
  const rows = measures_of(study)
    .filter((one) => one.value(head) !== undefined && !one.id.startsWith("relation/"))
    .map((one) => {
      const value = one.value(head)!,
        all = study.heads.map((other) => one.value(other.name)).filter((x): x is number => x !== undefined);
      return {
        measure: one.title,
        value,
        about: one.about,
        rank: 1 + all.filter((x) => x > value).length,
        of: all.length,
      };
    });
  return h(
    "div",
    { class: "scroller", tabindex: "0", role: "region", "aria-label": "All numbers" },
    h(
      "table",
      {},
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", {}, "measure"),
          h("th", { class: "number" }, "value"),
          h("th", { class: "number" }, "rank"),
          h("th", {}, "what it is"),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map((row) =>
          h(
            "tr",
            {},
            h("td", {}, row.measure),
            h("td", { class: "number" }, format(row.value)),
            h("td", { class: "number" }, `${row.rank} of ${row.of}`),
            h("td", { class: "note" }, row.about),
          ),
        ),
      ),
    ),
  );
}
