// The head map: every head of the model at once, coloured by what one asks for.
import { type Study } from "./data";
import { format, h, picker, plural } from "./dom";
import { downloads } from "./download";
import { head_filter } from "./filter";
import { head_grid } from "./head_grid";
import { type Measure, measures_of } from "./measures";
import { badge, role_color, role_counts, role_ink, role_kind, role_words, standing_kinds } from "./roles";
import { scrolls } from "./scrolling";
import { on_select, select, selected } from "./selection";
import { color_of, css, ink_on, on_theme } from "./theme";
import { hide_tip, show_tip } from "./tip";

const two_digits = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 });
const in_cell = (value: number) => two_digits.format(value).replace(/^(-?)0\./, "$1.");

export function head_map(study: Study): HTMLElement {
  const measures = measures_of(study);
  const any_role = study.has_verdict();
  const standings = standing_kinds().filter(({ standing }) =>
    study.heads.some((head) => study.verdict(head.name)?.standing === standing),
  );
  let shown = any_role ? "role" : (measures[0]?.id ?? "");
  const measure = (): Measure | undefined => measures.find((one) => one.id === shown);
  const hidden_roles = new Set<string>(); // "probes": those on probe sentences only
  const counts = any_role ? role_counts(study) : [];
  const on_probes = counts.reduce((sum, { probes }) => sum + probes, 0);
  const keys = [
    ...counts.filter(({ data }) => data > 0).map(({ kind }) => kind.role),
    ...(on_probes ? ["probes"] : []),
  ];
  const key_of = (head: string) => (study.on_probes_only(head) ? "probes" : (study.role(head) ?? ""));
  let text = "",
    only = "";

  const grid = head_grid({
    label: "Heads",
    attentions: study.attentions,
    cell: (head) =>
      h(
        "button",
        { type: "button", class: study.dropped.has(head) ? "cell goes" : "cell", "aria-selected": "false" },
        h("span", { class: "face" }),
      ),
    pick: (head) => select(head),
    point: (head, cell) => (head && cell ? show_tip(cell.getBoundingClientRect(), ...tip_of(head)) : hide_tip()),
  });
  const wide = Math.max(...study.heads.map((head) => head.index)) > 15;
  grid.element.classList.toggle("dense", wide);

  const legend = h("div", { class: "legend" });
  const count = h("p", { class: "note", role: "status" });

  function tip_of(head: string): (Node | string)[] {
    const one = measure(),
      value = one?.value(head);
    const lines: Node[] = [h("strong", {}, head), h("span", {}, study.words(head).replace(`${head} `, ""))];
    if (one) lines.push(h("span", { class: "tip-value" }, `${one.title}: ${format(value)}`));
    if (study.on_probes_only(head)) lines.push(h("span", { class: "tip-value" }, "on probe sentences only"));
    if (study.dropped.has(head)) lines.push(h("span", { class: "tip-value" }, "removed by the plan"));
    return lines;
  }

  const scale = (one: Measure) => {
    const values = study.heads.map((head) => one.value(head.name)).filter((x): x is number => x !== undefined);
    const low = Math.min(...values),
      high = Math.max(...values),
      size = Math.max(Math.abs(low), Math.abs(high)) || 1;
    const of = (x: number) => (one.around_zero ? x / size : high > low ? (x - low) / (high - low) : 0.5);
    return {
      low: one.around_zero && low < 0 ? -size : one.around_zero ? 0 : low,
      high: one.around_zero ? size : high,
      of,
      empty: values.length === 0,
    };
  };

  function paint() {
    const one = measure(),
      range = one && scale(one);
    for (const [head, cell] of grid.cells) {
      const face = cell.firstElementChild as HTMLElement;
      const role = study.role(head),
        hollow = !one && shown === "role" && study.on_probes_only(head),
        standing = study.verdict(head)?.standing;
      let said = "";
      cell.classList.toggle("hollow", hollow);
      if (one && range) {
        const value = one.value(head),
          color = value === undefined ? null : color_of(range.of(value));
        cell.style.setProperty("--cell", color ? css(color) : "transparent");
        cell.style.setProperty("--on-cell", color ? ink_on(color) : "var(--soft)");
        face.textContent = value === undefined ? "" : wide ? "" : in_cell(value);
        said = `${one.title} ${format(value)}`;
      } else if (shown === "standing") {
        cell.style.setProperty("--cell", `var(--standing-${standing ?? "none"})`);
        cell.style.setProperty("--on-cell", standing ? `var(--on-standing-${standing})` : "var(--soft)");
        face.textContent = standing ? standing[0].toUpperCase() : "";
        said = standing ?? "";
      } else {
        cell.style.setProperty("--cell", role_color(role));
        cell.style.setProperty("--on-cell", hollow ? "var(--ink)" : role_ink(role));
        face.textContent = role ? role_kind(role).letter : "";
      }
      cell.setAttribute(
        "aria-label",
        `${study.words(head)}${said && one ? ` ${said}.` : ""}${hollow ? " Seen on probe sentences only." : ""}${study.dropped.has(head) ? " Removed by the plan." : ""}`,
      );
    }
    draw_legend();
    filter();
  }

  function filter() {
    const wanted = head_filter(study, text);
    let matching = 0;
    for (const [head, cell] of grid.cells) {
      const fits =
        !(shown === "role" && hidden_roles.has(key_of(head))) &&
        wanted(head) &&
        (only === "" ||
          (only === "removed"
            ? study.dropped.has(head)
            : only === "kept"
              ? !study.dropped.has(head)
              : study.verdict(head)?.standing === only));
      cell.classList.toggle("out", !fits);
      matching += fits ? 1 : 0;
    }
    count.textContent = matching === study.heads.length ? "" : `${matching} of ${plural(study.heads.length, "head")}`;
  }

  /// The first click shows one role alone; further ones add to it or take away.
  function toggle(key: string) {
    if (hidden_roles.size === 0) keys.filter((other) => other !== key).forEach((other) => hidden_roles.add(other));
    else if (!hidden_roles.delete(key)) hidden_roles.add(key);
    if (keys.every((one) => hidden_roles.has(one))) hidden_roles.clear();
    draw_legend();
    filter();
    legend.querySelector<HTMLElement>(`[data-role=${key}]`)?.focus();
  }

  function draw_legend() {
    const one = measure();
    if (one) {
      const range = scale(one),
        stops = Array.from({ length: 11 }, (_, i) =>
          css(color_of(range.of(range.low + (i / 10) * (range.high - range.low)))),
        );
      legend.replaceChildren(
        h("span", {}, format(range.low)),
        h("span", { class: "ramp", style: { background: `linear-gradient(90deg, ${stops.join(",")})` } }),
        h("span", {}, format(range.high)),
        h("span", { class: "note" }, one.about),
      );
    } else if (shown === "standing") {
      legend.replaceChildren(
        ...standings.map(({ standing, meaning }) =>
          h(
            "span",
            { class: "key" },
            h("i", { style: { background: `var(--standing-${standing})` } }),
            standing,
            h("span", { class: "note" }, meaning),
          ),
        ),
      );
    } else {
      legend.replaceChildren(
        ...keys.map((key) => {
          const count = counts.find(({ kind }) => kind.role === key);
          return h(
            "button",
            {
              type: "button",
              class: "key",
              "aria-pressed": String(!hidden_roles.has(key)),
              title: count?.kind.meaning ?? "roles that were seen on the built-in probe sentences only, not on data",
              onclick: () => toggle(key),
              "data-role": key,
            },
            count ? badge(key, false) : h("i", { class: "hollow" }),
            count ? `${key} ` : "hollow: on probe sentences only ",
            h("b", {}, count ? count.data : on_probes),
          );
        }),
      );
    }
    if (study.dropped.size > 0)
      legend.append(h("span", { class: "key" }, h("i", { class: "goes" }), "removed by the plan"));
  }

  const groups = [...new Set(measures.map((one) => one.group))].sort((a, b) => +(a > b));
  const ordered = [
    "How much it matters",
    ...groups.filter((group) => group !== "How much it matters" && !group.startsWith("Relations")),
    ...groups.filter((group) => group.startsWith("Relations")),
  ];
  const choices = [
    {
      choices: [
        ...(any_role ? [{ value: "role", text: "Role" }] : []),
        ...(standings.length ? [{ value: "standing", text: "Standing" }] : []),
      ],
    },
    ...ordered.map((title) => ({
      title,
      choices: measures.filter((one) => one.group === title).map(({ id, title: name }) => ({ value: id, text: name })),
    })),
  ];
  const controls = h(
    "div",
    { class: "controls" },
    picker("Colour by", choices, shown, (value) => {
      shown = value;
      paint();
    }),
    picker(
      "Show",
      [
        {
          choices: [
            { value: "", text: "all heads" },
            ...(study.dropped.size
              ? [
                  { value: "kept", text: "kept heads" },
                  { value: "removed", text: "removed heads" },
                ]
              : []),
            ...standings.map(({ standing }) => ({ value: standing, text: `${standing} heads` })),
          ],
        },
      ],
      "",
      (value) => {
        only = value;
        filter();
      },
    ),
    h(
      "label",
      { class: "picker" },
      h("span", {}, "Find"),
      h("input", {
        type: "search",
        placeholder: "L3, role:relation, nsubj",
        oninput: (event: Event) => {
          text = (event.target as HTMLInputElement).value;
          filter();
        },
      }),
    ),
  );
  on_select((head) => grid.mark(head));
  on_theme(paint);
  paint();
  grid.mark(selected());
  return h(
    "div",
    { class: "card" },
    controls,
    legend,
    scrolls(h("div", { class: "scroller", tabindex: "-1" }, grid.element)),
    h(
      "div",
      { class: "card-foot" },
      count,
      downloads("heads", {
        rows: () =>
          study.heads.map((head) => ({
            head: head.name,
            role: study.role(head.name),
            source: study.verdict(head.name)?.roles.find(({ role }) => role === study.role(head.name))?.source,
            roles: study.verdict(head.name)?.roles.map(role_words).join("; "),
            standing: study.verdict(head.name)?.standing,
            removed: study.dropped.has(head.name),
            ...Object.fromEntries(measures.map((one) => [one.id, one.value(head.name)])),
          })),
      }),
    ),
  );
}
