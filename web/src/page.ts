// The page: reads what it was given, and shows the sections in their order.
import { composition } from "./composition";
import { type Data, Study } from "./data";
import { h } from "./dom";
import { head_map } from "./head_map";
import { head_page } from "./head_page";
import { importance } from "./importance";
import { layers } from "./layers";
import { live } from "./live";
import { made } from "./made";
import { pruning } from "./pruning";
import { redundancy } from "./redundancy";
import { use_vocabulary } from "./roles";
import { head_of_address, select } from "./selection";
import { summary } from "./summary";
import { is_dark, on_theme, start_theme, toggle_theme } from "./theme";
import { training } from "./training";

interface Section {
  id: string;
  title: string;
  lead?: string;
  draw: () => HTMLElement | null;
}

const given = <T>(id: string): T | null => JSON.parse(document.getElementById(id)?.textContent || "null");

function sections_of(study: Study, is_live: boolean): Section[] {
  const heads = study.heads.length > 0,
    list: Section[] = [];
  if (heads || study.data.training) list.push({ id: "answer", title: "", draw: () => summary(study) });
  if (is_live)
    list.push({
      id: "try",
      title: "Try it",
      lead: "Type a sentence and see what every head attends to; ablate heads and see what changes.",
      draw: () => live(study),
    });
  if (heads) {
    list.push(
      {
        id: "heads",
        title: "All heads",
        lead: "A row per layer, a cell per head. Point at a head to read what it does; choose it to see why.",
        draw: () => head_map(study),
      },
      { id: "head", title: "", draw: () => head_page(study) },
      {
        id: "layers",
        title: "Layers",
        lead: "How heads change from the first layer to the last.",
        draw: () => layers(study),
      },
      {
        id: "composition",
        title: "Composition",
        lead: "Heads of later layers read what earlier ones wrote.",
        draw: () => composition(study),
      },
      {
        id: "redundancy",
        title: "Redundancy",
        lead: "Heads that attend to the same can often stand in for each other.",
        draw: () => redundancy(study),
      },
      {
        id: "importance",
        title: "Importance",
        lead: "What the model loses without a head, and whether cheaper estimates agree.",
        draw: () => importance(study),
      },
      {
        id: "pruning",
        title: "Pruning",
        lead: "How many heads can be removed together, and what that saves.",
        draw: () => pruning(study),
      },
    );
  }
  if (study.data.training) list.push({ id: "training", title: "Training", draw: () => training(study.data.training) });
  if (heads || study.data.training) list.push({ id: "made", title: "How it was made", draw: () => made(study) });
  return list;
}

function show_section(id: string) {
  const to = document.getElementById(id);
  to?.scrollIntoView();
  to?.focus({ preventScroll: true });
}

/// What people see first is drawn first; the rest follows without keeping them waiting.
async function draw_all(study: Study, places: { section: Section; element: HTMLElement; link: HTMLElement | null }[]) {
  const pause = () => new Promise((resolve) => setTimeout(resolve));
  for (const { section, element, link } of places) {
    if (!["answer", "try", "heads"].includes(section.id)) await pause();
    let content: HTMLElement | null;
    try {
      content = section.draw();
    } catch (error) {
      console.error(error);
      content = h("p", { class: "note" }, "This part could not be drawn: its numbers are not what they should be.");
    }
    if (content) element.append(content);
    else {
      element.remove();
      link?.remove();
    }
    if (section.id === "head" && study.head(head_of_address())) show_section("head");
  }
  const asked = places.find(({ section }) => `#${section.id}` === location.hash);
  if (asked) show_section(asked.section.id);
  document.documentElement.dataset.drawn = "yes";
}

function start() {
  start_theme();
  const data = given<Data>("headwise-data") ?? { schema: 1 },
    is_live = given<boolean>("headwise-live") === true;
  use_vocabulary(data.vocabulary);
  const study = new Study(data),
    page = document.getElementById("page")!;
  const first_head = () => {
    const asked = head_of_address();
    if (study.head(asked)) return asked;
    return study.head(data.first_head ?? "") ? data.first_head! : (study.heads[0]?.name ?? "");
  };
  const title = study.name || data.training?.summary?.architecture || "";
  document.title = title ? `${title} · headwise` : "headwise";
  const theme = h("button", { type: "button", class: "quiet", onclick: toggle_theme });
  const name_theme = () => {
    theme.textContent = is_dark() ? "Light" : "Dark";
    theme.setAttribute("aria-label", `Switch to ${is_dark() ? "light" : "dark"} colours`);
  };
  name_theme();
  on_theme(name_theme);
  const sections = sections_of(study, is_live);
  const links = h("nav", { "aria-label": "Sections" });
  const main = h("main", { id: "content", tabindex: "-1" });
  select(first_head(), false);
  const places = sections.map((section) => {
    const link = section.title
      ? h(
          "a",
          {
            href: `#${section.id}`,
            onclick: (event: Event) => {
              event.preventDefault();
              show_section(section.id);
            },
          },
          section.title,
        )
      : null;
    if (link) links.append(link);
    const element = h(
      "section",
      {
        id: section.id,
        tabindex: "-1",
        "aria-label": section.title || (section.id === "head" ? "The chosen head" : "The answer"),
      },
      section.title ? h("h2", {}, section.title) : null,
      section.lead ? h("p", { class: "section-lead" }, section.lead) : null,
    );
    main.append(element);
    return { section, element, link };
  });
  if (sections.length === 0)
    main.append(h("section", {}, h("h2", {}, "Nothing to show"), h("p", {}, "The page was given no study.")));
  page.replaceChildren(
    h(
      "a",
      {
        class: "skip",
        href: "#content",
        onclick: (event: Event) => {
          event.preventDefault();
          main.focus();
        },
      },
      "Skip to the content",
    ),
    h(
      "header",
      { class: "top" },
      h(
        "div",
        { class: "brand" },
        h(
          "span",
          { class: "mark", "aria-hidden": "true" },
          h("i"),
          h("i"),
          h("i"),
          h("i"),
          h("i"),
          h("i"),
          h("i"),
          h("i"),
          h("i"),
        ),
        h("span", {}, "headwise"),
        title ? h("span", { class: "of" }, title) : null,
      ),
      links,
      theme,
    ),
    main,
  );
  window.addEventListener("hashchange", () => {
    if (!study.head(head_of_address())) return;
    select(head_of_address(), false);
    show_section("head");
  });
  void draw_all(study, places);
}

start();
