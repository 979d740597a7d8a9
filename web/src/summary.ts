// The answer: three sentences and four numbers.
import { type Study } from "./data";
import { format, h, percent, plural, sentence_list } from "./dom";
import { changes } from "./pruning";
import { group_of, role_groups } from "./roles";

interface Tile {
  number: string;
  what: string;
  detail?: string;
}

function counts(study: Study) {
  return role_groups
    .map((group) => ({
      group,
      n: study.heads.filter((head) => group_of(study.role(head.name)).id === group.id).length,
    }))
    .filter(({ n }) => n > 0)
    .sort((a, b) => b.n - a.n);
}

function what_they_do(study: Study): string {
  const found = counts(study),
    clear = found.filter(({ group }) => group.id !== "none"),
    unclear = found.find(({ group }) => group.id === "none")?.n ?? 0;
  if (clear.length === 0) return "None of its heads shows one of the roles that are looked for.";
  const said = clear
    .slice(0, 3)
    .map(
      ({ group, n }) => `${n} ${n === 1 ? group.meaning.replace(/^(look|find|rest|follow)\b/, "$1s") : group.meaning}`,
    );
  const rest = clear.slice(3).reduce((sum, { n }) => sum + n, 0);
  return `Of them, ${sentence_list(rest ? [...said, `${rest} do something else`] : said)}${unclear ? `; ${unclear} show no clear role` : ""}.`;
}

function what_can_go(study: Study): string {
  const standing = (name: string) => study.heads.filter((head) => study.verdict(head.name)?.standing === name).length;
  const free = standing("replaceable") + standing("harmful"),
    known = study.heads.filter((head) => study.verdict(head.name)?.standing).length;
  const words: string[] = [];
  if (known > 0)
    words.push(`Closed alone, ${format(free)} would hardly be missed and ${standing("essential")} are essential`);
  if (study.dropped.size > 0)
    words.push(`${known > 0 ? "t" : "T"}he plan takes out ${format(study.dropped.size)} together`);
  return words.length ? `${words.join("; ")}.` : "How much they matter was not measured.";
}

function tiles(study: Study): Tile[] {
  const all = study.heads.length,
    verdict = study.has_verdict(),
    list: Tile[] = [];
  const found = new Map(changes(study).map((change) => [change.what, change]));
  list.push({
    number: format(all),
    what: all === 1 ? "head" : "heads",
    detail: `in ${plural(study.attentions.length, study.kinds().length > 1 ? "attention" : "layer")}`,
  });
  if (verdict) {
    const clear = study.heads.filter((head) => group_of(study.role(head.name)).id !== "none").length,
      top = counts(study)[0];
    list.push({
      number: format(clear),
      what: "have a clear role",
      detail: top ? `most often: ${top.group.title.toLowerCase()} (${top.n})` : undefined,
    });
  }
  if (study.dropped.size > 0)
    list.push({
      number: format(study.dropped.size),
      what: "go, by the plan",
      detail: `${percent(study.dropped.size / all)} of all heads`,
    });
  else if (study.heads.some((head) => study.verdict(head.name)?.standing)) {
    const free = study.heads.filter((head) =>
      ["replaceable", "harmful"].includes(study.verdict(head.name)?.standing ?? ""),
    ).length;
    list.push({ number: format(free), what: "could go one by one", detail: `${percent(free / all)} of all heads` });
  }
  const speed = [...found.entries()].filter(([what]) => what.startsWith("ms for")).at(-1)?.[1],
    parameters = found.get("parameters"),
    loss = [...found.entries()].find(([what]) => what.endsWith("loss"))?.[1];
  if (speed && speed.after > 0) {
    const faster = speed.before / speed.after;
    list.push({
      number: `${faster.toFixed(2)}×`,
      what: faster >= 1 ? "as fast" : "the speed",
      detail: [
        parameters ? `${percent(1 - parameters.after / parameters.before, 1)} fewer parameters` : "",
        loss ? `${loss.what} ${format(loss.before)} → ${format(loss.after)}` : "",
      ]
        .filter(Boolean)
        .join(", "),
    });
  } else if (parameters)
    list.push({
      number: percent(1 - parameters.after / parameters.before, 1),
      what: "fewer parameters",
      detail: loss ? `${loss.what} ${format(loss.before)} → ${format(loss.after)}` : undefined,
    });
  return list;
}

function training_tiles(training: any): Tile[] {
  const list: Tile[] = [],
    summary = training.summary,
    rows = training.sweep?.rows ?? [];
  if (rows.length) {
    list.push({
      number: format(rows.length),
      what: rows.length === 1 ? "setting" : "settings compared",
      detail: Object.keys(rows[0].settings ?? {}).join(", "),
    });
    const [name, sign] = (
      [
        ["bleu", 1],
        ["accuracy", 1],
        ["perplexity", -1],
      ] as const
    ).find(([figure]) => rows[0][figure]) ?? ["", 1];
    const best =
      name &&
      rows
        .filter((row: any) => row[name])
        .reduce((a: any, b: any) => (sign * (b[name].mean - a[name].mean) > 0 ? b : a));
    if (best)
      list.push({
        number: format(best[name].mean),
        what: `best ${name}`,
        detail: Object.entries(best.settings ?? {})
          .map(([field, value]) => `${field} ${JSON.stringify(value)}`)
          .join(", "),
      });
  }
  if (!summary) return list;
  const heads = (summary.layers ?? []).reduce((sum: number, layer: any) => sum + layer.heads, 0);
  if (heads)
    list.push({ number: format(heads), what: "heads", detail: `in ${plural(summary.layers.length, "attention")}` });
  list.push(
    { number: format(summary.parameters), what: "parameters" },
    { number: format(summary.steps), what: "steps", detail: summary.task },
  );
  const evaluated = summary.test ?? summary.validation;
  for (const name of ["accuracy", "bleu", "perplexity", "loss"])
    if (typeof evaluated?.[name] === "number") {
      list.push({ number: format(evaluated[name]), what: `${name}${summary.test ? "" : ", validation"}` });
      break;
    }
  return list;
}

export function summary(study: Study): HTMLElement {
  const training = study.data.training;
  const shown = study.heads.length ? tiles(study) : training ? training_tiles(training) : [];
  const architecture = study.data.verdict?.model?.architecture ?? study.data.evidence?.model?.architecture;
  const sentences =
    study.heads.length === 0
      ? []
      : [
          `${study.name || "This model"}${architecture ? ` (${architecture})` : ""} has ${plural(study.heads.length, "head")} in ${plural(study.attentions.length, study.kinds().length > 1 ? "attention" : "layer")}.`,
          ...(study.has_verdict() ? [what_they_do(study), what_can_go(study)] : []),
        ];
  return h(
    "div",
    { class: "answer" },
    sentences.length ? h("p", { class: "lead" }, sentences.join(" ")) : null,
    h(
      "dl",
      { class: "tiles" },
      shown.map((tile) =>
        h(
          "div",
          { class: "tile" },
          h("dt", {}, tile.what),
          h("dd", {}, h("b", {}, tile.number), tile.detail ? h("span", {}, tile.detail) : null),
        ),
      ),
    ),
  );
}
