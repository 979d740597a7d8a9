// Which heads a text asks for: "L3.H1, role:relation", as lists of heads on the command line, or any words.
import { type Study } from "./data";
import { relation_name, role_kinds } from "./roles";

/// Commas separate alternatives; words without a comma must all fit.
export function head_filter(study: Study, text: string): (head: string) => boolean {
  const alternatives = text
    .toLowerCase()
    .split(",")
    .map((part) => part.trim().split(/\s+/).filter(Boolean))
    .filter((words) => words.length > 0);
  if (alternatives.length === 0) return () => true;
  const tests = alternatives.map((words) => words.map((word) => word_test(study, word)));
  return (head) => tests.some((all) => all.every((fits) => fits(head)));
}

function word_test(study: Study, word: string): (head: string) => boolean {
  if (word.startsWith("role:")) {
    const roles = roles_named(word.slice("role:".length));
    return (head) => study.verdict(head)?.roles.some((role) => roles.has(role.role)) ?? false;
  }
  if (study.attentions.some((attention) => attention.name.toLowerCase() === word))
    return (head) => study.head(head)?.attention.toLowerCase() === word;
  return (head) => about(study, head).includes(word);
}

/// A role, a group of roles, or while it is typed all that begin like it.
function roles_named(name: string) {
  const exact = role_kinds().filter((kind) => kind.role === name || (kind.group !== "" && kind.group === name));
  const found = exact.length
    ? exact
    : role_kinds().filter((kind) => [kind.role, kind.group].some((one) => one.startsWith(name)));
  return new Set(found.map((kind) => kind.role));
}

function about(study: Study, head: string): string {
  const verdict = study.verdict(head);
  const roles = verdict?.roles.map(
    ({ role, detail }) => `${role} ${detail ?? ""} ${relation_name((detail ?? "").split(" ")[0])}`,
  );
  return `${head} ${roles?.join(" ") ?? ""} ${verdict?.standing ?? ""}`.toLowerCase();
}
