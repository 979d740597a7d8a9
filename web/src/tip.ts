// One small box that follows the pointer or the focus.
import { h } from "./dom";

const box = h("div", { class: "tip", role: "tooltip", id: "tip", hidden: true });
let mounted = false;

export function show_tip(
  at: DOMRect | { left: number; right: number; top: number; bottom: number },
  ...content: (Node | string)[]
) {
  if (!mounted) {
    document.body.append(box);
    mounted = true;
  }
  box.replaceChildren(...content);
  box.hidden = false;
  const { width, height } = box.getBoundingClientRect();
  const left = Math.max(8, Math.min(window.innerWidth - width - 8, (at.left + at.right) / 2 - width / 2));
  const above = at.top - height - 8;
  box.style.left = `${left}px`;
  box.style.top = `${above > 4 ? above : at.bottom + 8}px`;
}
export function hide_tip() {
  box.hidden = true;
}
window.addEventListener("scroll", hide_tip, { passive: true });
window.addEventListener("keydown", (event) => {
  if (event.key === "Escape") hide_tip();
});
