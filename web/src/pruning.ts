// What can go: quality over heads removed, and what came of it.
import * as Plot from "@observablehq/plot";
import { type Study } from "./data";
import { format, h, plural } from "./dom";
import { figure, if_all_include_zero, plot } from "./figure";

export interface Change {
  what: string;
  before: number;
  after: number;
}

/// What the plan costs on examples that did not choose the heads; none were held out in studies of few texts.
export function held_out_of(study: Study) {
  const held_out = study.data.summary?.held_out;
  return held_out && held_out.examples > 0 && typeof held_out.change === "number" ? held_out : null;
}

/// Before and after, from the study's summary, else from the pruned model, else from what the plan expects.
function changes(study: Study): Change[] {
  const prune = study.data.summary?.prune,
    savings = study.data.summary?.savings,
    held_out = held_out_of(study),
    expected = study.data.plan?.expected ?? {},
    rows: Change[] = [];
  if (savings) {
    const add = (what: string, pair: any, scale = 1) => {
      if (typeof pair?.before === "number" && typeof pair?.after === "number")
        rows.push({ what, before: scale * pair.before, after: scale * pair.after });
    };
    add("heads", savings.heads);
    add("parameters", savings.parameters);
    add("bytes of weights", savings.bytes);
    add("multiply-adds of the layers", savings.multiply_adds);
    add(`ms for ${savings.seconds?.texts} × ${savings.seconds?.tokens} tokens`, savings.seconds, 1000);
    if (held_out) add(`${held_out.task} loss, held-out examples`, held_out);
    add("perplexity", held_out?.perplexity);
    add(held_out?.score?.name ?? "score", held_out?.score);
    return rows;
  }
  if (prune?.before && prune?.after) {
    const { before, after } = prune;
    for (const [name, what] of [
      ["heads", "heads"],
      ["parameters", "parameters"],
      ["attention_parameters", "parameters in attention"],
      ["bytes", "bytes of weights"],
    ]) {
      if (before[name] !== undefined && after[name] !== undefined)
        rows.push({ what, before: before[name], after: after[name] });
    }
    if (before.loss && after.loss)
      rows.push({ what: `${before.loss.task} loss`, before: before.loss.value, after: after.loss.value });
    for (const [score, value] of Object.entries(before.loss ?? {})) {
      if (
        !["task", "value", "examples", "tokens"].includes(score) &&
        typeof value === "number" &&
        typeof after.loss?.[score] === "number"
      )
        rows.push({ what: score, before: value, after: after.loss[score] });
    }
    (before.speed ?? []).forEach((speed: any, i: number) => {
      if (after.speed?.[i])
        rows.push({
          what: `ms for ${speed.texts} × ${speed.tokens} tokens`,
          before: 1000 * speed.seconds,
          after: 1000 * after.speed[i].seconds,
        });
    });
    return rows;
  }
  for (const name of Object.keys(expected)) {
    if (expected[`${name}_before`] !== undefined)
      rows.push({ what: name.replace(/_/g, " "), before: expected[`${name}_before`], after: expected[name] });
  }
  return rows;
}

function before_after(study: Study): HTMLElement | null {
  const rows = changes(study),
    prune = study.data.summary?.prune;
  if (rows.length === 0) return null;
  return h(
    "div",
    { class: "card" },
    h("h3", {}, prune || study.data.summary?.savings ? "Before and after" : "What the plan expects"),
    h(
      "table",
      {},
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", {}, ""),
          h("th", { class: "number" }, "before"),
          h("th", { class: "number" }, "after"),
          h("th", { class: "number" }, "ratio"),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map((row) =>
          h(
            "tr",
            {},
            h("th", { scope: "row" }, row.what),
            h("td", { class: "number" }, format(row.before)),
            h("td", { class: "number" }, format(row.after)),
            h("td", { class: "number" }, row.before ? (row.after / row.before).toFixed(3) : ""),
          ),
        ),
      ),
    ),
    prune?.after?.loss && !held_out_of(study)
      ? h("p", { class: "note" }, "The loss is of the texts that chose the heads: on others it may rise more.")
      : null,
    prune?.proof
      ? h(
          "p",
          { class: "note" },
          `Checked: the pruned model equals the original with these heads ablated; largest difference ${prune.proof.max_difference === 0 ? "0" : prune.proof.max_difference.toExponential(1)} of the largest hidden state, on ${format(prune.proof.texts)} texts.`,
        )
      : null,
  );
}

/// The plan beside as many heads removed at random, on held-out examples.
function held_out_cost(study: Study): HTMLElement | null {
  const held_out = held_out_of(study);
  if (!held_out) return null;
  const plan = { what: "this plan", change: held_out.change, low: held_out.low, high: held_out.high },
    random = held_out.random?.draws > 0 ? held_out.random : null;
  const rows = [plan, ...(random ? [{ what: "random heads", change: random.median ?? random.change }] : [])];
  return figure(
    {
      title: "The cost on held-out examples",
      above: if_all_include_zero([plan], "the plan changes the loss"),
      name: "held-out",
      rows: () => rows,
      note: `Change of the ${held_out.task ?? ""} loss on ${plural(held_out.examples, "example")} that did not choose the heads, with 95 % interval${random ? `; | the median of ${plural(random.draws, "draw")} of as many heads at random` : ""}.`,
    },
    () =>
      plot({
        label: `The plan changes the loss by ${format(held_out.change)} on held-out examples`,
        width: 515,
        height: 110,
        marginLeft: 110,
        x: { label: null, grid: true, ticks: 5, zero: true },
        y: { domain: rows.map((row) => row.what), label: null, tickSize: 0 },
        marks: [
          Plot.ruleX([0], { stroke: "var(--line)" }),
          Plot.ruleY([plan], {
            y: "what",
            x1: "low",
            x2: "high",
            stroke: "var(--accent)",
            strokeOpacity: 0.45,
            strokeWidth: 4,
          }),
          Plot.dot([plan], { y: "what", x: "change", r: 4.5, fill: "var(--accent)" }),
          Plot.tickX(rows.slice(1), { y: "what", x: "change", stroke: "var(--ink)", strokeWidth: 2 }),
        ],
      }),
  ).element;
}

function curves(study: Study): HTMLElement | null {
  const all = study.data.plan?.curves ?? {};
  const points = Object.entries(
    all as { [order: string]: { removed: number; loss: number; score?: number }[] },
  ).flatMap(([order, curve]) => curve.map((point) => ({ order, ...point })));
  if (points.length === 0) return null;
  const orders = Object.keys(all),
    task = study.data.plan?.task ?? study.data.verdict?.loss?.task ?? "";
  const removed = study.dropped.size,
    loss = study.data.plan?.expected?.loss;
  const ends = orders.map((order) => points.filter((p) => p.order === order).at(-1)!);
  const made = figure(
    {
      title: "Quality over heads removed",
      name: "pruning",
      rows: () => points,
      note: `The ${task} loss without the first heads of each order; lower is better.${loss !== undefined ? " The ring is the chosen plan." : ""} An order that is no better than random tells nothing.`,
    },
    () =>
      plot({
        label: "Loss over heads removed, for every order",
        width: 515,
        height: 320,
        marginRight: 90,
        x: { label: "heads removed", labelArrow: "none" },
        y: { label: `${task} loss`, grid: true, labelArrow: "none" },
        marks: [
          Plot.line(
            points.filter((d) => d.order === "random"),
            { x: "removed", y: "loss", stroke: "var(--soft)", strokeWidth: 2, strokeDasharray: "4 3" },
          ),
          Plot.line(
            points.filter((d) => d.order !== "random"),
            {
              x: "removed",
              y: "loss",
              z: "order",
              stroke: (d: { order: string }) =>
                d.order === study.data.plan?.order ? "var(--accent)" : "var(--second)",
              strokeWidth: 2,
            },
          ),
          Plot.dot(points, {
            x: "removed",
            y: "loss",
            r: 2.5,
            fill: (d: { order: string }) => (d.order === "random" ? "var(--soft)" : "var(--accent)"),
            channels: { order: "order" },
            tip: { format: { fill: false, z: false } },
          }),
          Plot.text(ends, { x: "removed", y: "loss", text: "order", dx: 8, textAnchor: "start", fill: "var(--ink)" }),
          loss !== undefined
            ? Plot.dot([{ removed, loss }], {
                x: "removed",
                y: "loss",
                r: 8,
                stroke: "var(--strong)",
                strokeWidth: 2.5,
              })
            : null,
          loss !== undefined
            ? Plot.text([{ removed, loss }], {
                x: "removed",
                y: "loss",
                text: () => `${removed} removed`,
                dy: -18,
                fontWeight: 600,
                fill: "var(--strong)",
              })
            : null,
        ],
        color: { type: "identity" },
      }),
  );
  return made.element;
}

export function pruning(study: Study): HTMLElement | null {
  const parts = [curves(study), held_out_cost(study), before_after(study)].filter(
    (part): part is HTMLElement => part !== null,
  );
  return parts.length ? h("div", { class: "cards" }, parts) : null;
}
