// The head that is looked at: one for the whole page, and part of its address.

type Listener = (head: string, by_user: boolean) => void;
const listeners: Listener[] = [];
let current = "";

export const selected = () => current;
export function on_select(listener: Listener) {
  listeners.push(listener);
}

export function select(head: string, by_user = true) {
  if (!head) return;
  current = head;
  if (by_user) history.replaceState(null, "", `#${head}`);
  for (const listener of listeners) listener(head, by_user);
}

export function head_of_address() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return ""; // not one of ours
  }
}
