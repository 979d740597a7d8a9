// The answer: what the heads do, what can be removed, at what cost, what that saves, and how sure it is.
import { type Study } from "./data";
import { format, h, percent, plural } from "./dom";
import { badge, can_be_removed, role_counts, standing_kinds } from "./roles";

type Content = Node | string;
interface Row {
  id: string;
  question: string;
  answer: Content;
  details: (Content | Content[] | undefined)[];
}

const attention_word = (study: Study) => (study.kinds().length > 1 ? "attention" : "layer");

function what_they_do(study: Study): Row | null {
  if (!study.has_verdict()) return null;
  const counts = role_counts(study).filter(({ kind }) => !kind.none),
    on_data = study.heads.filter((head) => study.has_role_on_data(head.name)).length,
    on_probes = study.heads.filter((head) => study.on_probes_only(head.name)).length;
  const found = counts.filter(({ data }) => data > 0).sort((a, b) => b.data - a.data);
  const details: Row["details"] = [];
  if (found.length)
    details.push(
      found.map(({ kind, data }) =>
        h("span", { class: "key", title: kind.meaning }, badge(kind.role, false), `${kind.role} `, h("b", {}, data)),
      ),
    );
  const rest = study.heads.length - on_data - on_probes;
  details.push(
    [
      on_probes ? `${format(on_probes)} more on probe sentences only.` : "",
      rest ? `${plural(rest, "head")} ${rest === 1 ? "shows" : "show"} none of the roles that are looked for.` : "",
    ]
      .filter(Boolean)
      .join(" "),
  );
  return {
    id: "roles",
    question: "What the heads do",
    answer: `${format(on_data)} of ${plural(study.heads.length, "head")} ${on_data === 1 ? "has" : "have"} a role.`,
    details,
  };
}

/// "1 essential, 53 replaceable, 4 harmful, 86 undecided: 106 texts are too few"
function standings(study: Study): string {
  const count = (standing: string | undefined) =>
    study.heads.filter((head) => study.verdict(head.name)?.standing === standing).length;
  const texts: number | undefined = study.data.evidence?.loss?.examples,
    undecided = count("undecided"),
    unmeasured = count(undefined);
  const kinds = standing_kinds().map(({ standing }) => standing);
  const said = [...kinds.filter((name) => name !== "undecided"), "undecided"]
    .map((name) => ({ name, n: count(name) }))
    .filter(({ n }) => n > 0)
    .map(({ name, n }) => `${format(n)} ${name}`);
  if (said.length === 0) return "How much the heads matter was not measured.";
  if (unmeasured > 0) said.push(`${format(unmeasured)} not measured`);
  return `${said.join(", ")}${undecided && texts ? `: ${plural(texts, "text")} ${texts === 1 ? "is" : "are"} too few` : ""}.`;
}

function what_can_go(study: Study): Row | null {
  if (!study.has_verdict()) return null;
  const removable = study.heads.filter((head) => can_be_removed(study.verdict(head.name)?.standing)).length,
    measured = study.heads.some((head) => study.verdict(head.name)?.standing);
  const all = study.heads.length,
    dropped = study.dropped.size;
  return {
    id: "removable",
    question: "What can be removed",
    answer: words_of(study).importance || standings(study),
    details: [
      [
        measured ? `${format(removable)} of ${plural(all, "head")} can be removed alone, while all others stay. ` : "",
        dropped ? `The plan removes ${plural(dropped, "head")} together (${percent(dropped / all)}).` : "",
      ],
    ],
  };
}

/// What the program says too, as sentences.
function words_of(study: Study): { [about: string]: string } {
  const sentence = (text: string) =>
    text && `${text.charAt(0).toUpperCase()}${text.slice(1).replace(/->/g, "→")}${text.endsWith(".") ? "" : "."}`;
  const words: { [about: string]: string } = study.data.summary?.words ?? {};
  return Object.fromEntries(Object.entries(words).map(([about, text]) => [about, sentence(text)]));
}

function cost(study: Study): Row | null {
  const { cost: answer, meaning } = words_of(study),
    before = study.data.summary?.prune?.before?.loss,
    after = study.data.summary?.prune?.after?.loss;
  if (answer) return { id: "cost", question: "At what cost", answer, details: [meaning ?? ""] };
  if (!before || !after) return null;
  return {
    id: "cost",
    question: "At what cost",
    answer: `${before.task} loss ${format(before.value)} → ${format(after.value)}.`,
    details: ["Measured on the texts that chose the heads: on others it may rise more."],
  };
}

function savings(study: Study): Row | null {
  const { savings: answer, limit, pays } = words_of(study),
    before = study.data.summary?.prune?.before,
    after = study.data.summary?.prune?.after;
  if (answer || limit)
    return { id: "savings", question: "What it saves", answer: answer || limit, details: [answer ? limit : "", pays] };
  if (!before?.parameters || !after) return null;
  return {
    id: "savings",
    question: "What it saves",
    answer: `${percent(1 - after.parameters / before.parameters, 1)} of the parameters.`,
    details: [],
  };
}

function how_sure(study: Study): Row | null {
  const { plan, summary, verdict } = study.data,
    { comparison } = words_of(study),
    details: string[] = [];
  if (plan?.supported === false) details.push("The data do not support the plan: see above.");
  else if (comparison) details.push(comparison);
  else if (summary?.held_out?.reason) details.push(summary.held_out.reason);
  const passes = summary?.undecided?.heads > 0 ? summary?.undecided?.passes_half : undefined;
  if (passes)
    details.push(`About ${format(Math.ceil(passes))} passes over more texts would decide half of the undecided heads.`);
  const correlation = verdict?.correlation?.gradient?.ablation_zero;
  if (typeof correlation === "number")
    details.push(
      `Gradient and ablation agree on the order of heads with a rank correlation of ${correlation.toFixed(2)}.`,
    );
  if (details.length === 0) return null;
  return { id: "sure", question: "How sure that is", answer: details[0], details: [details.slice(1).join(" ")] };
}

/// At the top, where the data do not support the plan.
function unsupported(study: Study): HTMLElement | null {
  if (study.data.plan?.supported !== false) return null;
  const reasons: string[] = study.data.plan.reasons ?? [],
    help: string = study.data.summary?.help ?? "";
  return h(
    "div",
    { class: "notice", role: "note", "aria-label": "The plan is not supported" },
    h("strong", {}, "The data do not support this plan."),
    reasons.length
      ? h(
          "ul",
          {},
          reasons.map((reason) => h("li", {}, reason)),
        )
      : null,
    help ? h("p", {}, help) : null,
  );
}

interface Tile {
  number: string;
  what: string;
  detail?: string;
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

function tiles(shown: Tile[]) {
  return h(
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
  );
}

export function summary(study: Study): HTMLElement {
  if (study.heads.length === 0)
    return h("div", {}, study.data.training ? tiles(training_tiles(study.data.training)) : null);
  const architecture = study.data.verdict?.model?.architecture ?? study.data.evidence?.model?.architecture;
  const rows = [what_they_do(study), what_can_go(study), cost(study), savings(study), how_sure(study)].filter(
    (row): row is Row => row !== null,
  );
  return h(
    "div",
    { class: "answer" },
    h(
      "h1",
      {},
      study.name || "This model",
      h(
        "span",
        {},
        `${architecture ? `${architecture}: ` : ""}${plural(study.heads.length, "head")} in ${plural(study.attentions.length, attention_word(study))}`,
      ),
    ),
    unsupported(study),
    h(
      "dl",
      { class: "card answers" },
      rows.map(({ id, question, answer, details }) =>
        h(
          "div",
          { "data-answer": id },
          h("dt", {}, question),
          h(
            "dd",
            {},
            h("strong", {}, answer),
            details
              .filter(
                (detail) =>
                  detail !== undefined && (Array.isArray(detail) ? detail.some((one) => one !== "") : detail !== ""),
              )
              .map((detail) => h("p", {}, detail)),
          ),
        ),
      ),
    ),
  );
}
