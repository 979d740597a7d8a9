// What is wider than the screen says so.
import { h } from "./dom";

/// The scroller with a line above it while there is more beside it, and a shadow where.
export function scrolls(scroller: HTMLElement): HTMLElement {
  const hint = h(
    "p",
    { class: "scroll-hint", hidden: true, "aria-hidden": "true" },
    "Wider than the screen: scroll it sideways →",
  );
  const box = h("div", { class: "scrolls" }, hint, scroller);
  const check = () => {
    const left = scroller.scrollWidth - scroller.clientWidth;
    hint.hidden = left <= 1;
    box.classList.toggle("more-before", scroller.scrollLeft > 1);
    box.classList.toggle("more-after", scroller.scrollLeft < left - 1);
  };
  new ResizeObserver(check).observe(scroller);
  scroller.addEventListener("scroll", check, { passive: true });
  return box;
}
