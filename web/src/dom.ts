// Elements, made without markup: whatever a token holds is text.

type Child = Node | string | number | null | undefined | false | Child[];
type Attributes = { [name: string]: any };

function append(parent: Element, children: Child[]) {
  for (const child of children) {
    if (Array.isArray(child)) append(parent, child);
    else if (child instanceof Node) parent.append(child);
    else if (child !== null && child !== undefined && child !== false) parent.append(String(child));
  }
}

function set(element: Element, attributes: Attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style")
      for (const [key, one] of Object.entries(value)) (element as HTMLElement).style.setProperty(key, String(one));
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  set(element, attributes);
  append(element, children);
  return element;
}

export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  set(element, attributes);
  append(element, children);
  return element;
}

export function option_list(choices: { value: string; text: string }[], chosen?: string) {
  return choices.map(({ value, text }) => h("option", { value, selected: value === chosen }, text));
}

/// A labelled <select>; `groups` become optgroups.
export function picker(
  label: string,
  groups: { title?: string; choices: { value: string; text: string }[] }[],
  chosen: string,
  change: (value: string) => void,
) {
  const select = h("select", { onchange: () => change(select.value) });
  for (const { title, choices } of groups) {
    if (choices.length === 0) continue;
    const options = option_list(choices, chosen);
    if (title) select.append(h("optgroup", { label: title }, options));
    else select.append(...options);
  }
  return h("label", { class: "picker" }, h("span", {}, label), select);
}

/// A canvas of so many CSS pixels, sharp on any screen.
export function canvas_of(width: number, height: number, attributes: Attributes = {}) {
  const scale = Math.max(1, window.devicePixelRatio || 1);
  const canvas = h("canvas", { width: Math.round(width * scale), height: Math.round(height * scale), ...attributes });
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d")!;
  context.scale(scale, scale);
  return { canvas, context };
}

/// Tokens as people read them: the marks of tokenizers become spaces, what cannot be seen gets a name.
export function shown_token(token: string, most = 24): string {
  const text = token.replace(/^##/, "").replace(/[Ġ▁]/g, " ").replace(/Ċ/g, "⏎").trim() || token.trim() || "␣";
  const letters = [...text];
  return letters.length > most ? letters.slice(0, most - 1).join("") + "…" : text;
}

const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
export function format(x: number | undefined | null): string {
  if (x === undefined || x === null || !Number.isFinite(x)) return "–";
  if (Number.isInteger(x)) return whole.format(x);
  if (x !== 0 && (Math.abs(x) < 1e-4 || Math.abs(x) >= 1e9)) return x.toExponential(1);
  return Math.abs(x) >= 1000 ? whole.format(x) : short.format(x);
}
export const percent = (x: number, digits = 0) => `${(100 * x).toFixed(digits)}\u00a0%`;
export const plural = (n: number, one: string, many = one + "s") => `${whole.format(n)} ${n === 1 ? one : many}`;
export const sentence_list = (items: string[]) =>
  items.length < 2 ? items.join("") : `${items.slice(0, -1).join(", ")} and ${items[items.length - 1]}`;
