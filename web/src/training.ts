// Trainings and sweeps: loss and statistics of heads over steps, and what other settings gave.
import * as Plot from "@observablehq/plot";
import { parse_head } from "./data";
import { format, h, picker } from "./dom";
import { figure, plot } from "./figure";
import { title_of } from "./measures";

type Row = { [column: string]: any };

function losses(training: Row): HTMLElement | null {
  const steps: Row[] = training.steps ?? [],
    evaluations: Row[] = training.evaluations ?? [];
  const points = [
    ...steps.map((d) => ({ step: d.step, loss: d.loss, of: "training" })),
    ...evaluations.map((d) => ({ step: d.step, loss: d.loss, of: d.evaluation ?? "validation" })),
  ].filter((d) => typeof d.loss === "number");
  if (points.length === 0) return null;
  return figure(
    {
      title: "Loss over steps",
      name: "training-loss",
      rows: () => points,
      note: "Training: mean over neighbouring steps. Validation: at every evaluation.",
    },
    () =>
      plot({
        label: "Loss over steps",
        width: 515,
        height: 280,
        x: { label: "step", labelArrow: "none" },
        y: { label: "loss", grid: true, labelArrow: "none" },
        color: {
          legend: true,
          domain: [...new Set(points.map((p) => p.of))],
          range: ["var(--accent)", "var(--strong)", "var(--second)"],
        },
        marks: [
          Plot.line(points, { x: "step", y: "loss", stroke: "of", strokeWidth: 2, tip: true }),
          Plot.dot(
            points.filter((p) => p.of !== "training"),
            { x: "step", y: "loss", fill: "of", r: 3 },
          ),
        ],
      }),
  ).element;
}

function head_curves(training: Row): HTMLElement | null {
  const records: { step: number; heads: { [head: string]: Row } }[] = training.heads ?? [];
  if (records.length < 2) return null;
  const names = [
    ...new Set(records.flatMap((record) => Object.values(record.heads).flatMap((head) => Object.keys(head)))),
  ].filter((name) => name !== "rows");
  let measure = names.includes("entropy_ratio") ? "entropy_ratio" : names[0];
  const points = () =>
    records
      .flatMap((record) =>
        Object.entries(record.heads).map(([head, values]) => ({
          step: record.step,
          head,
          layer: head.slice(0, head.lastIndexOf(".H")),
          value: values[measure],
        })),
      )
      .filter((d) => typeof d.value === "number");
  const layers = [...new Set(records.flatMap((record) => Object.keys(record.heads)))]
    .map((head) => head.slice(0, head.lastIndexOf(".H")))
    .filter((name, i, all) => all.indexOf(name) === i);
  const color = (layer: string) => {
    const depth = parse_head(`${layer}.H0`)?.layer ?? 0;
    return depth / Math.max(1, ...layers.map((name) => parse_head(`${name}.H0`)?.layer ?? 0));
  };
  const made = figure(
    {
      title: "Heads over steps",
      name: "training-heads",
      rows: points,
      note: "A line per head; from the first layer (faint) to the last (strong).",
      controls: [
        picker(
          "Measure",
          [{ choices: names.map((name) => ({ value: name, text: title_of(name) })) }],
          measure,
          (value) => {
            measure = value;
            made.redraw();
          },
        ),
      ],
    },
    () =>
      plot({
        label: `${title_of(measure)} of every head over steps`,
        width: 515,
        height: 300,
        x: { label: "step", labelArrow: "none" },
        y: { grid: true, label: null },
        marks: [
          Plot.line(points(), {
            x: "step",
            y: "value",
            z: "head",
            stroke: "var(--accent)",
            strokeOpacity: (d: { layer: string }) => 0.3 + 0.7 * color(d.layer),
            channels: { head: "head" },
            tip: { format: { z: false, strokeOpacity: false } },
          }),
        ],
        opacity: { type: "identity" },
      }),
  );
  return made.element;
}

function open_heads(training: Row): HTMLElement | null {
  const steps: Row[] = (training.steps ?? []).filter((d: Row) => d.open_heads);
  if (steps.length === 0) return null;
  const points = steps.flatMap((d) =>
    Object.entries(d.open_heads as { [layer: string]: number }).map(([layer, open]) => ({ step: d.step, layer, open })),
  );
  return figure(
    {
      title: "Heads that are open",
      name: "training-open",
      rows: () => points,
      note: "How many gates of each layer are above 0.",
    },
    () =>
      plot({
        label: "Open heads over steps",
        width: 515,
        height: 280,
        x: { label: "step", labelArrow: "none" },
        y: { grid: true, label: "heads", labelArrow: "none" },
        marks: [
          Plot.line(points, {
            x: "step",
            y: "open",
            z: "layer",
            stroke: "var(--accent)",
            strokeOpacity: 0.7,
            tip: true,
          }),
        ],
      }),
  ).element;
}

const figures = [
  "bleu",
  "accuracy",
  "perplexity",
  "training_tokens_per_second",
  "inference_tokens_per_second",
  "qk_rank",
];
function sweep(training: Row): HTMLElement[] {
  const rows: Row[] = training.sweep?.rows ?? [];
  if (rows.length === 0) return [];
  const settings = Object.keys(rows[0].settings ?? {}),
    measured = figures.filter((name) => rows.some((row) => row[name]));
  let across = settings.find((name) => rows.every((row) => typeof row.settings[name] === "number")) ?? settings[0],
    up = measured[0];
  const others = () => settings.filter((name) => name !== across);
  const shown = (value: any) => (typeof value === "object" ? JSON.stringify(value) : String(value));
  const points = () =>
    rows
      .filter((row) => row[up])
      .map((row) => ({
        x: typeof row.settings[across] === "number" ? row.settings[across] : shown(row.settings[across]),
        mean: row[up].mean as number,
        half: row[up].half_interval as number | null,
        n: row[up].n,
        of: others()
          .map((name) => `${name} ${shown(row.settings[name])}`)
          .join(", "),
        ...row.settings,
      }));
  const numeric = () => rows.every((row) => typeof row.settings[across] === "number");
  const made = figure(
    {
      title: "How many? What other settings gave",
      name: "sweep",
      rows: () =>
        rows.map((row) => ({
          ...row.settings,
          head_dim: row.head_dim,
          parameters: row.parameters,
          ...Object.fromEntries(
            measured.flatMap((name) => [
              [name, row[name]?.mean],
              [`${name}_half`, row[name]?.half_interval],
            ]),
          ),
        })),
      note: "Means over seeds; bars are 95 % intervals where there are several seeds.",
      controls: [
        picker("Across", [{ choices: settings.map((name) => ({ value: name, text: name })) }], across, (value) => {
          across = value;
          made.redraw();
        }),
        picker(
          "Up",
          [{ choices: measured.map((name) => ({ value: name, text: name.replace(/_/g, " ") })) }],
          up,
          (value) => {
            up = value;
            made.redraw();
          },
        ),
      ],
    },
    () =>
      plot({
        label: `${up} over ${across}`,
        width: 515,
        height: 300,
        x: { label: across, type: numeric() ? "point" : "band", labelArrow: "none" },
        y: { label: up.replace(/_/g, " "), grid: true, labelArrow: "none" },
        color: { legend: others().length > 0, scheme: "Tableau10" },
        marks: [
          Plot.line(points(), {
            x: "x",
            y: "mean",
            stroke: others().length ? "of" : "var(--accent)",
            strokeWidth: 1.5,
          }),
          Plot.ruleX(
            points().filter((p) => p.half !== null),
            {
              x: "x",
              y1: (d: any) => d.mean - d.half,
              y2: (d: any) => d.mean + d.half,
              stroke: "var(--soft)",
              strokeWidth: 2,
            },
          ),
          Plot.dot(points(), { x: "x", y: "mean", r: 5, fill: others().length ? "of" : "var(--accent)", tip: true }),
        ],
      }),
  );
  const table = h(
    "div",
    { class: "card wide" },
    h("h3", {}, "The table"),
    h(
      "div",
      { class: "scroller", tabindex: "0", role: "region", "aria-label": "The table of the sweep" },
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            [...settings, "head width", "parameters", ...measured.map((name) => name.replace(/_/g, " "))].map((name) =>
              h("th", { class: "number" }, name),
            ),
          ),
        ),
        h(
          "tbody",
          {},
          rows.map((row) =>
            h(
              "tr",
              {},
              settings.map((name) => h("td", { class: "number" }, shown(row.settings[name]))),
              h("td", { class: "number" }, row.head_dim),
              h("td", { class: "number" }, format(row.parameters)),
              measured.map((name) =>
                h(
                  "td",
                  { class: "number" },
                  row[name]
                    ? `${format(row[name].mean)}${row[name].half_interval ? ` ± ${format(row[name].half_interval)}` : ""}`
                    : "–",
                ),
              ),
            ),
          ),
        ),
      ),
    ),
  );
  return [made.element, table];
}

function trials(training: Row): HTMLElement | null {
  const points = (training.trials ?? []).flatMap((trial: Row) =>
    (trial.evaluations ?? []).map((d: Row) => ({ trial: trial.name, step: d.step, loss: d.loss })),
  );
  if (points.length === 0) return null;
  return figure(
    { title: "Validation loss of every trial", name: "trials", rows: () => points, note: "At every evaluation." },
    () =>
      plot({
        label: "Validation loss of every trial",
        width: 515,
        height: 300,
        x: { label: "step", labelArrow: "none" },
        y: { label: "loss", grid: true, labelArrow: "none" },
        color: { scheme: "Tableau10" },
        marks: [Plot.line(points, { x: "step", y: "loss", stroke: "trial", tip: true })],
      }),
  ).element;
}

export function training(data: Row | undefined): HTMLElement | null {
  if (!data) return null;
  const parts = [losses(data), head_curves(data), open_heads(data), trials(data), ...sweep(data)].filter(
    (part): part is HTMLElement => part !== null,
  );
  return parts.length ? h("div", { class: "cards" }, parts) : null;
}
