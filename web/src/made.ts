// How it was made: enough to do it again, and every number to take away.
import { type Study } from "./data";
import { format, h } from "./dom";
import { csv, flat, save } from "./download";

function list(entries: [string, unknown][]) {
  return h(
    "dl",
    { class: "facts" },
    entries
      .filter(([, value]) => value !== undefined && value !== null && value !== "")
      .map(([name, value]) =>
        h("div", {}, h("dt", {}, name), h("dd", {}, typeof value === "number" ? format(value) : String(value))),
      ),
  );
}

export function made(study: Study): HTMLElement {
  const { data } = study,
    evidence = data.evidence ?? {},
    how = { ...(data.summary?.made ?? {}), ...(data.made ?? {}) };
  const model = data.verdict?.model ?? evidence.model ?? {},
    training = data.training?.summary;
  const corpus = Object.entries(evidence.corpus ?? {})
    .filter(([, one]: any) => one.texts > 0)
    .map(
      ([kind, one]: any) =>
        [
          `corpus: ${kind}`,
          `${one.name}, ${format(one.texts)} texts, ${format(one.tokens)} tokens; sha256 ${String(one.sha256).slice(0, 16)}…`,
        ] as [string, string],
    );
  const options = Object.entries(evidence.options ?? {})
    .filter(([, value]) => value !== "" && value !== "0")
    .map(([name, value]) => `${name} ${value}`)
    .join(", ");
  const commands: string[] = how.commands ?? (how.command ? [how.command] : []);
  const button = (text: string, click: () => void) => h("button", { type: "button", onclick: click }, text);
  const parts = (["evidence", "verdict", "plan", "summary", "samples", "training"] as const).filter(
    (name) => data[name],
  );
  const rows = () =>
    study.heads.map((head) => ({
      ...flat(study.record(head.name)),
      ...Object.fromEntries(
        Object.entries(flat(study.verdict(head.name) ?? {})).map(([path, value]) => [`verdict/${path}`, value]),
      ),
    }));
  const thresholds = Object.entries(data.verdict?.thresholds ?? {})
    .map(([name, value]) => `${name} ${value}`)
    .join(", ");
  return h(
    "div",
    { class: "cards" },
    h(
      "div",
      { class: "card" },
      h("h3", {}, "From what"),
      list([
        ["model", model.name],
        ["architecture", model.architecture ?? training?.architecture],
        ["sha256 of its weights", model.sha256],
        ...corpus,
        [
          "loss",
          data.verdict?.loss
            ? `${data.verdict.loss.task}, ${format(data.verdict.loss.value)} with all heads`
            : undefined,
        ],
        ["tolerance", data.verdict?.tolerance],
        ["measured", (evidence.finished ?? []).join(", ")],
        ["options", options],
        ["thresholds", thresholds],
        ["seed", how.seed ?? evidence.options?.seed ?? training?.seed],
        ["task", training?.task],
        [
          "data",
          training?.files
            ? Object.entries(training.files)
                .map(([name, what]) => `${name}: ${what}`)
                .join("; ")
            : "",
        ],
        ["headwise", how.version ?? how.report_version],
        ["date", how.date],
        ["threads", how.threads],
        ["SIMD", how.simd],
        ["seconds", data.summary?.seconds ?? training?.seconds],
      ]),
      commands.length
        ? h("pre", { tabindex: "0", "aria-label": "Commands" }, commands.map((command) => `$ ${command}`).join("\n"))
        : null,
    ),
    h(
      "div",
      { class: "card" },
      h("h3", {}, "Every number"),
      h(
        "p",
        {},
        "The numbers of this page, as they are in it: shortened to five digits. The study's folder has them whole.",
      ),
      h(
        "div",
        { class: "buttons" },
        button("All, as JSON", () => save("headwise.json", "application/json", JSON.stringify(data))),
        study.heads.length ? button("Heads, as CSV", () => save("heads.csv", "text/csv", csv(rows()))) : null,
        parts.map((name) =>
          button(`${name}.json`, () => save(`${name}.json`, "application/json", JSON.stringify(data[name], null, 1))),
        ),
      ),
      h(
        "p",
        { class: "note" },
        "Each figure has its own CSV, and SVG where it is a drawing. What each number means stands in docs/measures.md.",
      ),
    ),
  );
}
