// One head: what it does with the evidence, where it looks, whom it resembles, what it is worth.
import { attention_view } from "./attention_view";
import { type Sample, type Study, tokens_of } from "./data";
import { h, picker, shown_token } from "./dom";
import { all_numbers, likeness, offsets, relations, roles_table, worth } from "./head_evidence";
import { badge } from "./roles";
import { on_select, select, selected } from "./selection";
import { on_theme } from "./theme";

export function head_page(study: Study): HTMLElement {
  const element = h("div", { id: "head-page", tabindex: "-1", "aria-live": "polite" });
  const samples = study.data.samples ?? [];
  let sample = 0,
    drawn = "";

  function sentence_card(head: string) {
    const usable = samples.map((one, at) => ({ one, at })).filter(({ one }) => one.maps[head]);
    if (usable.length === 0) return null;
    const chosen = usable.find(({ at }) => at === sample) ?? usable[0];
    const line = ({ tokens, special }: Sample) => {
      const text = tokens
        .filter((_, place) => !special?.includes(place))
        .map((token) => (token.startsWith("##") ? shown_token(token) : ` ${shown_token(token)}`))
        .join("")
        .trim();
      return text.length > 90 ? `${text.slice(0, 89)}…` : text;
    };
    const card = h(
      "div",
      { class: "card wide" },
      h(
        "div",
        { class: "card-head" },
        h("h3", {}, "What it attends to"),
        h(
          "div",
          { class: "controls" },
          picker(
            "Sentence",
            [{ choices: usable.map(({ one, at }) => ({ value: String(at), text: line(one) })) }],
            String(chosen.at),
            (value) => {
              sample = Number(value);
              card.replaceWith(sentence_card(head)!);
            },
          ),
        ),
      ),
      attention_view({ map: chosen.one.maps[head], ...tokens_of(chosen.one, head) }),
    );
    return card;
  }

  function draw(head: string) {
    const at = study.heads.findIndex((one) => one.name === head);
    if (at < 0) return;
    drawn = head;
    const verdict = study.verdict(head),
      next = (step: number) => study.heads[(at + step + study.heads.length) % study.heads.length].name;
    const step = (by: number, word: string, label: string) =>
      h(
        "button",
        {
          type: "button",
          "aria-label": `${label}: ${next(by)}`,
          "data-step": by,
          onclick: () => {
            select(next(by));
            element.querySelector<HTMLElement>(`[data-step="${by}"]`)?.focus();
          },
        },
        word,
      );
    element.replaceChildren(
      h(
        "header",
        { class: "head-title" },
        h("h2", {}, badge(study.role(head), study.on_probes_only(head), "large"), " Head ", head),
        verdict?.standing ? h("span", { class: `standing ${verdict.standing}` }, verdict.standing) : null,
        study.dropped.has(head) ? h("span", { class: "standing goes" }, "removed by the plan") : null,
        h("span", { class: "steps" }, step(-1, "←", "Previous head"), step(1, "→", "Next head")),
      ),
      h("p", { class: "lead" }, study.words(head)),
      h(
        "div",
        { class: "cards" },
        sentence_card(head) ?? "",
        roles_table(study, head) ?? "",
        worth(study, head) ?? "",
        offsets(study, head) ?? "",
        relations(study, head) ?? "",
        likeness(study, head) ?? "",
      ),
      all_numbers(study, head),
    );
  }
  on_select((head, by_user) => {
    if (head !== drawn) draw(head);
    if (by_user && element.getBoundingClientRect().top > window.innerHeight * 0.6)
      element.scrollIntoView({
        block: "start",
        behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth",
      });
  });
  on_theme(() => element.querySelector(".attention")?.dispatchEvent(new Event("repaint")));
  draw(selected());
  return element;
}
