// Try it: a sentence, all heads at once, gates, the output beside the original, and jobs.
import { get_model, look, type Look, type Output, Refused, type Served } from "./api";
import { attention_view, paint_map } from "./attention_view";
import { attentions_of, parse_head, type Study, tokens_of } from "./data";
import { format, h, percent, picker, plural, shown_token } from "./dom";
import { head_grid, type Grid } from "./head_grid";
import { jobs } from "./jobs";
import { role_kinds } from "./roles";
import { scrolls } from "./scrolling";
import { on_select, select, selected } from "./selection";
import { on_theme } from "./theme";
import { hide_tip, show_tip } from "./tip";

const poll_every = 2000,
  wait_for_typing = 250;
const first_text: { [task: string]: (mask: string) => string } = {
  fill: (mask) => `The cat sat on the ${mask}.`,
  next: () => "The cat sat on the",
  translate: () => "The cat sat on the mat.",
  classify: () => "The cat sat on the mat because it was tired.",
  embed: () => "The cat sat on the mat because it was tired.",
};

interface Named {
  name: string;
  value: number;
}
const named = (list: { token: string; probability: number }[]): Named[] =>
  list.map(({ token, probability }) => ({ name: token, value: probability }));

function candidates(list: Named[], most: number, digits = 1) {
  return h(
    "ol",
    {},
    list
      .slice(0, 10)
      .map(({ name, value }) =>
        h(
          "li",
          {},
          h("bdi", {}, shown_token(name)),
          h(
            "span",
            { class: "bar", "aria-hidden": "true" },
            h("i", { style: { width: `${(100 * Math.abs(value)) / most}%` } }),
          ),
          h("span", { class: "number" }, value >= 0 && value <= 1 ? percent(value, digits) : format(value)),
        ),
      ),
  );
}

/// The longest bar of an output.
function most_of(output: Output | null): number {
  const values = [...(output?.fill ?? []).flatMap((place) => place.candidates), ...(output?.candidates ?? [])].map(
    ({ probability }) => probability,
  );
  return Math.max(1e-9, ...values, ...(output?.scores ?? []).map(({ score }) => Math.abs(score)));
}

function output_of(output: Output, most: number): Node[] {
  const parts: Node[] = [];
  for (const place of output.fill ?? []) parts.push(candidates(named(place.candidates), most));
  if (output.candidates) parts.push(candidates(named(output.candidates), most));
  if (output.continuation !== undefined) parts.push(h("p", {}, "… ", h("bdi", {}, output.continuation)));
  if (output.scores)
    parts.push(
      candidates(
        output.scores.map(({ label, score }) => ({ name: label, value: score })),
        most,
      ),
    );
  if (output.output !== undefined) parts.push(h("p", {}, h("bdi", {}, output.output)));
  if (output.similarity !== undefined)
    parts.push(
      h("p", { class: "big" }, output.similarity.toFixed(4)),
      h("p", { class: "note" }, "cosine of its embedding with the original's"),
    );
  if (output.norm !== undefined)
    parts.push(h("p", { class: "note" }, `length of the embedding ${format(output.norm)}`));
  return parts;
}

export function live(study: Study): HTMLElement {
  const element = h("div", {});
  const banner = h("div", { class: "banner", role: "alert", hidden: true });
  const state = h("p", { class: "note", role: "status" });
  const text = h("textarea", {
    class: "try-text",
    rows: 2,
    spellcheck: "false",
    "aria-label": "A sentence",
    oninput: () => later(),
  });
  const outputs = h("div", { class: "outputs", "aria-live": "polite" }),
    chips = h("div", { class: "gates" }),
    detail = h("div", { class: "card" }),
    maps = h("div", { class: "scroller" }),
    tools = h("div", { class: "controls" });
  const gates: { [head: string]: number } = {};
  let served: Served | null = null,
    lost = false,
    seen: Look | null = null,
    grid: Grid | null = null,
    heads: string[] = [],
    head = "",
    asking: AbortController | null = null,
    typing = 0;

  const runs = jobs({
    apply: (dropped) => {
      for (const name of Object.keys(gates)) delete gates[name];
      for (const name of dropped) gates[name] = 0;
      gates_changed();
    },
    pick: (name) => choose(name),
  });

  // The server may go away and come back.
  async function poll() {
    try {
      const found = await get_model(),
        returned = lost || served?.instance !== found.instance;
      const renewed = served !== null && served.instance !== found.instance;
      served = found;
      if (lost) {
        lost = false;
        banner.hidden = true;
        state.textContent = "The server is back.";
      }
      if (renewed) runs.forget();
      if (returned) {
        if (!grid || renewed) set_up();
        void ask_now();
      }
    } catch {
      if (!lost) {
        lost = true;
        banner.hidden = false;
        banner.replaceChildren("The server does not answer. What you see stays; this page tries again by itself.");
      }
    }
    setTimeout(poll, poll_every);
  }

  function later() {
    clearTimeout(typing);
    typing = window.setTimeout(ask_now, wait_for_typing);
  }
  async function ask_now() {
    if (!served || lost) return;
    asking?.abort();
    asking = null;
    const said = text.value;
    if (said.trim() === "") {
      state.textContent = "Type something.";
      return;
    }
    if ([...said].length > served.limits.characters) {
      state.textContent = `At most ${format(served.limits.characters)} characters; these are ${format([...said].length)}.`;
      return;
    }
    const mine = (asking = new AbortController());
    element.setAttribute("aria-busy", "true");
    try {
      const found = await look(said, { ...gates }, mine.signal);
      if (asking !== mine) return;
      seen = found;
      state.textContent = `${plural(found.tokens.length, "token")}${found.truncated ? `, cut to the first ${served.limits.tokens}` : ""}.${found.note ? ` ${found.note}` : ""}`;
      show();
    } catch (error) {
      if (asking !== mine) return;
      if (error instanceof Refused) {
        state.textContent =
          error.status === 503 ? "The server is busy; trying again." : `The server refused: ${error.message}`;
        if (error.status === 503)
          setTimeout(
            () => {
              if (asking === mine) void ask_now();
            },
            1000 * Math.max(1, error.retry_after),
          );
      }
    } finally {
      if (asking === mine) element.removeAttribute("aria-busy");
    }
  }

  function show() {
    if (!seen) return;
    const most = Math.max(most_of(seen.original), most_of(seen.gated)); // both sides on one scale
    outputs.replaceChildren(
      h("div", { class: "output" }, h("h4", {}, "As it is"), output_of(seen.original, most)),
      h(
        "div",
        { class: "output gated" },
        h("h4", {}, seen.gated ? `With ${plural(Object.keys(gates).length, "gate")} changed` : "With heads ablated"),
        seen.gated
          ? output_of(seen.gated, most)
          : h("p", { class: "note" }, "Choose a head below and ablate it, or a layer or a role at once."),
      ),
    );
    paint();
    draw_detail();
  }

  function paint() {
    for (const [name, cell] of grid?.cells ?? []) {
      const map = seen?.maps[name],
        canvas = cell.firstElementChild as HTMLCanvasElement,
        gate = gates[name];
      if (map) paint_map(canvas, map);
      cell.classList.toggle("gated", gate !== undefined);
      cell.dataset.gate = gate === undefined ? "" : gate === 0 ? "off" : format(gate);
      cell.setAttribute(
        "aria-label",
        `${study.verdict(name) ? study.words(name) : name}${gate === undefined ? "" : ` Gate ${format(gate)}.`}`,
      );
    }
  }

  function draw_detail() {
    const map = seen?.maps[head];
    if (!seen || !map) {
      detail.replaceChildren(h("p", { class: "note" }, "Choose a head to see its weights."));
      return;
    }
    const value = gates[head] ?? 1;
    const slider = h("input", {
      type: "range",
      min: 0,
      max: 1,
      step: 0.05,
      value,
      "aria-label": `Gate of ${head}`,
      oninput: () => {
        shown.textContent = Number(slider.value).toFixed(2);
      },
      onchange: () => set_gate(head, Number(slider.value), slider),
    });
    const shown = h("output", {}, value.toFixed(2));
    detail.replaceChildren(
      h(
        "div",
        { class: "card-head" },
        h("h3", {}, `Head ${head}`),
        h(
          "div",
          { class: "gate-line", style: { margin: 0 } },
          h(
            "button",
            {
              type: "button",
              class: "toggle-head",
              "aria-pressed": String(value === 0),
              onclick: () => {
                set_gate(head, value === 0 ? 1 : 0);
                detail.querySelector<HTMLElement>(".toggle-head")?.focus();
              },
            },
            value === 0 ? "Restore" : "Ablate",
          ),
          h("label", { class: "picker" }, h("span", {}, "Gate"), slider, shown),
        ),
      ),
      study.verdict(head) ? h("p", { class: "note" }, study.words(head)) : "",
      attention_view({ map, ...tokens_of(seen, head) }),
    );
  }

  function set_gate(name: string, value: number, keep?: HTMLElement) {
    if (value === 1) delete gates[name];
    else gates[name] = value;
    gates_changed();
    if (keep) detail.querySelector<HTMLElement>("input[type=range]")?.focus();
  }
  function set_many(names: string[], value: number) {
    for (const name of names)
      if (value === 1) delete gates[name];
      else gates[name] = value;
    gates_changed();
  }
  function gates_changed() {
    const names = Object.keys(gates);
    chips.replaceChildren(
      ...(names.length === 0
        ? [h("span", { class: "note" }, "All gates are 1.")]
        : [
            ...names.slice(0, 24).map((name) =>
              h(
                "button",
                {
                  type: "button",
                  class: "chip",
                  "aria-label": `Reset the gate of ${name}`,
                  onclick: () => set_gate(name, 1),
                },
                `${name} ${gates[name] === 0 ? "off" : format(gates[name])} ×`,
              ),
            ),
            ...(names.length > 24 ? [h("span", { class: "note" }, `and ${names.length - 24} more`)] : []),
            h("button", { type: "button", class: "quiet reset", onclick: () => set_many(names, 1) }, "Reset all"),
          ]),
    );
    paint();
    draw_detail();
    void ask_now();
  }

  function choose(name: string) {
    if (!heads.includes(name)) return;
    head = name;
    grid?.mark(name);
    draw_detail();
    if (study.head(name) && selected() !== name) select(name, false);
  }

  /// Pruning leaves gaps in the numbers of heads.
  function names_of(model: Served): string[] {
    return model.attentions.flatMap((attention) =>
      (attention.head_names ?? [...Array(attention.heads).keys()]).map((index) => `${attention.name}.H${index}`),
    );
  }

  function set_up() {
    if (!served) return;
    heads = names_of(served);
    for (const name of Object.keys(gates)) if (!heads.includes(name)) delete gates[name];
    draw_grid();
    if (!text.value) text.value = (first_text[served.task] ?? first_text.embed)(served.mask ?? "");
    const layers = [...new Set(heads.map((name) => name.slice(0, name.lastIndexOf(".H"))))];
    const roles = role_kinds().filter(({ role }) => heads.some((name) => study.role(name) === role));
    let target = layers[0];
    const members = () =>
      target.startsWith("role:")
        ? heads.filter((name) => study.role(name) === target.slice(5))
        : heads.filter((name) => name.startsWith(`${target}.H`));
    tools.replaceChildren(
      picker(
        "All heads of",
        [
          { title: "Layers", choices: layers.map((name) => ({ value: name, text: name })) },
          { title: "Roles", choices: roles.map(({ role }) => ({ value: `role:${role}`, text: role })) },
        ],
        target,
        (value) => {
          target = value;
        },
      ),
      h("button", { type: "button", class: "close-group", onclick: () => set_many(members(), 0) }, "Ablate"),
      h("button", { type: "button", onclick: () => set_many(members(), 1) }, "Restore"),
    );
    head = heads.includes(selected()) ? selected() : (heads[0] ?? "");
    grid?.mark(head);
    gates_changed();
    runs.set_up(served);
  }

  function draw_grid() {
    const attentions = attentions_of(heads);
    grid = head_grid({
      label: "Weights of every head in this sentence",
      attentions,
      cell: () =>
        h(
          "button",
          { type: "button", class: "map-cell", "aria-selected": "false" },
          h("canvas", { width: 1, height: 1, "aria-hidden": "true" }),
        ),
      pick: choose,
      point: (name, cell) =>
        name && cell
          ? show_tip(
              cell.getBoundingClientRect(),
              h("strong", {}, name),
              h("span", {}, study.verdict(name) ? study.words(name).replace(`${name} `, "") : ""),
            )
          : hide_tip(),
    });
    grid.element.classList.add("maps");
    grid.element.classList.toggle(
      "dense",
      heads.some((name) => (parse_head(name)?.index ?? 0) > 15),
    );
    grid.element.addEventListener("keydown", (event) => {
      const name = (event.target as HTMLElement).dataset?.head;
      if (name && (event.key === "0" || event.key === "1")) set_gate(name, Number(event.key));
    });
    maps.replaceChildren(grid.element);
  }

  on_select((name, by_user) => {
    if (by_user) choose(name);
  });
  on_theme(() => {
    paint();
    detail.querySelector(".attention")?.dispatchEvent(new Event("repaint"));
  });
  element.append(
    banner,
    h("div", { class: "card" }, text, h("div", { class: "try-state" }, state), outputs),
    h(
      "div",
      { class: "card", style: { "margin-top": "14px" } },
      h("div", { class: "card-head" }, h("h3", {}, "Every head in this sentence"), tools),
      h(
        "p",
        { class: "note" },
        "Rows attend to columns. Choose a head to see it large; in the grid, key 0 ablates a head and key 1 restores it.",
      ),
      chips,
      scrolls(maps),
    ),
    h("div", { style: { "margin-top": "14px" } }, detail),
    h("div", { style: { "margin-top": "14px" } }, runs.element),
  );
  void poll();
  return element;
}
