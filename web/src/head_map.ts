// The head map: every head of the model at once, coloured by what one asks for.
import { type Study } from "./data";
import { format, h, picker, plural } from "./dom";
import { downloads } from "./download";
import { head_grid } from "./head_grid";
import { type Measure, measures_of } from "./measures";
import { group_of, role_groups, role_letter, standing_meaning, standings } from "./roles";
import { on_select, select, selected } from "./selection";
import { color_of, css, ink_on, on_theme } from "./theme";
import { hide_tip, show_tip } from "./tip";

const two_digits = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 });
const in_cell = (value: number) => two_digits.format(value).replace(/^(-?)0\./, "$1.");

export function head_map(study: Study): HTMLElement {
  const measures = measures_of(study);
  const any_role = study.has_verdict();
  const any_standing = study.heads.some((head) => study.verdict(head.name)?.standing);
  let shown = any_role ? "role" : (measures[0]?.id ?? "");
  const measure = (): Measure | undefined => measures.find((one) => one.id === shown);
  const hidden_groups = new Set<string>();
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
    if (study.dropped.has(head)) lines.push(h("span", { class: "tip-value" }, "goes, by the plan"));
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
        standing = study.verdict(head)?.standing;
      let said = "";
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
        const group = group_of(role);
        cell.style.setProperty("--cell", group.color);
        cell.style.setProperty("--on-cell", `var(--on-role-${group.id})`);
        face.textContent = role ? role_letter(role) : "";
        said = role ?? "";
      }
      cell.setAttribute(
        "aria-label",
        `${study.words(head)}${said && one ? ` ${said}.` : ""}${study.dropped.has(head) ? " It goes, by the plan." : ""}`,
      );
    }
    draw_legend();
    filter();
  }

  function filter() {
    const wanted = text.trim().toLowerCase();
    let matching = 0;
    for (const [head, cell] of grid.cells) {
      const verdict = study.verdict(head);
      const about =
        `${head} ${verdict?.roles.map((role) => `${role.role} ${role.detail ?? ""}`).join(" ") ?? ""} ${verdict?.standing ?? ""}`.toLowerCase();
      const fits =
        !(shown === "role" && hidden_groups.has(group_of(study.role(head)).id)) &&
        about.includes(wanted) &&
        (only === "" ||
          (only === "goes"
            ? study.dropped.has(head)
            : only === "stays"
              ? !study.dropped.has(head)
              : verdict?.standing === only));
      cell.classList.toggle("out", !fits);
      matching += fits ? 1 : 0;
    }
    count.textContent = matching === study.heads.length ? "" : `${matching} of ${plural(study.heads.length, "head")}`;
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
        ...standings
          .filter((name) => study.heads.some((head) => study.verdict(head.name)?.standing === name))
          .map((name) =>
            h(
              "span",
              { class: "key" },
              h("i", { style: { background: `var(--standing-${name})` } }),
              name,
              h("span", { class: "note" }, standing_meaning[name]),
            ),
          ),
      );
    } else {
      legend.replaceChildren(
        ...role_groups.map((group) => {
          const n = study.heads.filter((head) => group_of(study.role(head.name)).id === group.id).length;
          return n === 0
            ? ""
            : h(
                "button",
                {
                  type: "button",
                  class: "key",
                  "aria-pressed": String(!hidden_groups.has(group.id)),
                  title: group.meaning,
                  onclick: () => {
                    // The first click shows this group alone; further ones add to it or take away.
                    const groups = role_groups.map(({ id }) => id);
                    if (hidden_groups.size === 0)
                      groups.filter((id) => id !== group.id).forEach((id) => hidden_groups.add(id));
                    else if (!hidden_groups.delete(group.id)) hidden_groups.add(group.id);
                    if (study.heads.every((head) => hidden_groups.has(group_of(study.role(head.name)).id)))
                      hidden_groups.clear();
                    draw_legend();
                    filter();
                    legend.querySelector<HTMLElement>(`[data-group=${group.id}]`)?.focus();
                  },
                  "data-group": group.id,
                },
                h("i", { style: { background: group.color } }),
                `${group.title} `,
                h("b", {}, n),
              );
        }),
      );
    }
    if (study.dropped.size > 0)
      legend.append(h("span", { class: "key" }, h("i", { class: "goes" }), "goes, by the plan"));
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
        ...(any_standing ? [{ value: "standing", text: "Standing" }] : []),
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
                  { value: "stays", text: "heads that stay" },
                  { value: "goes", text: "heads that go" },
                ]
              : []),
            ...(any_standing ? standings.map((name) => ({ value: name, text: `${name} heads` })) : []),
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
        placeholder: "L3, relation, nsubj …",
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
    h("div", { class: "scroller", tabindex: "-1" }, grid.element),
    h(
      "div",
      { class: "card-foot" },
      count,
      downloads("heads", {
        rows: () =>
          study.heads.map((head) => ({
            head: head.name,
            role: study.role(head.name),
            standing: study.verdict(head.name)?.standing,
            goes: study.dropped.has(head.name),
            ...Object.fromEntries(measures.map((one) => [one.id, one.value(head.name)])),
          })),
      }),
    ),
  );
}
