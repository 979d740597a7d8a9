// Numbers as JSON and CSV, plots as SVG: written by the page itself.
import { h } from "./dom";

export function save(name: string, type: string, text: string) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/// A spreadsheet must not take a token for a formula.
function cell(value: unknown): string {
  if (value === undefined || value === null) return "";
  let text = String(value);
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
  return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

export function csv(rows: { [column: string]: unknown }[]): string {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return (
    [columns.map(cell), ...rows.map((row) => columns.map((column) => cell(row[column])))]
      .map((line) => line.join(","))
      .join("\r\n") + "\r\n"
  );
}

/// "a/b/c" for everything below an object that is a number or a word.
export function flat(value: any, path = "", into: { [path: string]: unknown } = {}) {
  if (value !== null && typeof value === "object" && !Array.isArray(value)) {
    for (const [key, one] of Object.entries(value)) flat(one, path ? `${path}/${key}` : key, into);
  } else if (Array.isArray(value)) {
    into[path] = value.map((one) => (typeof one === "object" ? JSON.stringify(one) : one)).join(" ");
  } else into[path] = value;
  return into;
}

/// The drawing as a file of its own: styles of the page are written into it.
export function svg_text(drawing: SVGSVGElement): string {
  const copy = drawing.cloneNode(true) as SVGSVGElement;
  const style = getComputedStyle(document.documentElement);
  const resolve = (text: string) =>
    text.replace(/var\((--[\w-]+)\)/g, (_, name) => style.getPropertyValue(name).trim());
  const originals = [drawing, ...drawing.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll<SVGElement>("*")].forEach((element, i) => {
    for (const attribute of [...element.attributes]) {
      if (attribute.value.includes("var(")) element.setAttribute(attribute.name, resolve(attribute.value));
    }
    if (element.tagName === "style") element.textContent = resolve(element.textContent ?? "");
    const seen = getComputedStyle(originals[i]);
    for (const name of ["fill", "stroke", "color", "font-size", "font-family", "font-weight"]) {
      if (element.hasAttribute("class") && seen.getPropertyValue(name))
        element.style.setProperty(name, seen.getPropertyValue(name));
    }
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.style.setProperty("color", style.getPropertyValue("--ink").trim());
  copy.style.setProperty("background", style.getPropertyValue("--paper").trim());
  copy.style.setProperty("font-family", "system-ui, sans-serif");
  return new XMLSerializer().serializeToString(copy);
}

/// Buttons under a figure.
export function downloads(
  name: string,
  what: { svg?: () => SVGSVGElement | null; rows?: () => { [column: string]: unknown }[] },
) {
  const bar = h("div", { class: "downloads" });
  if (what.svg) {
    const get = what.svg;
    bar.append(
      h(
        "button",
        {
          type: "button",
          class: "quiet",
          "aria-label": `Save the plot ${name} as SVG`,
          onclick: () => {
            const drawing = get();
            if (drawing) save(`${name}.svg`, "image/svg+xml", svg_text(drawing));
          },
        },
        "SVG",
      ),
    );
  }
  if (what.rows) {
    const get = what.rows;
    bar.append(
      h(
        "button",
        {
          type: "button",
          class: "quiet",
          "aria-label": `Save the numbers of ${name} as CSV`,
          onclick: () => save(`${name}.csv`, "text/csv", csv(get())),
        },
        "CSV",
      ),
    );
  }
  return bar;
}
