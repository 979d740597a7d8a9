// The roles and standings of heads: what the program says about them; see docs/judge.md.
import { type Role, type Study } from "./data";
import { h } from "./dom";
import { css, ink_on, is_dark, mix, on_theme, rgb } from "./theme";

/// A role as the library describes it.
export interface RoleKind {
  role: string;
  letter: string;
  color: string; // #rrggbb
  group: string; // "positional"; "": none
  meaning: string;
  none: boolean; // says that the head has no role
}
export interface StandingKind {
  standing: string;
  removable: boolean; // alone, while all other heads stay
  meaning: string;
}
export interface Vocabulary {
  roles: RoleKind[];
  standings: StandingKind[];
}

let vocabulary: Vocabulary = { roles: [], standings: [] };

/// The library's list, and the colours that follow from it.
export function use_vocabulary(given: Vocabulary | undefined) {
  if (!given) return;
  vocabulary = given;
  const style = document.documentElement.style;
  const set_colors = () => {
    for (const { role, color } of vocabulary.roles) {
      const shown = is_dark() ? on_dark(color) : rgb(color);
      style.setProperty(`--role-${role}`, css(shown));
      style.setProperty(`--on-role-${role}`, ink_on(shown));
    }
  };
  on_theme(set_colors);
  set_colors();
}

/// Greys sink into a dark page, colours stay.
function on_dark(color: string) {
  const channels = rgb(color),
    chroma = (Math.max(...channels) - Math.min(...channels)) / 255;
  return mix(channels, rgb("#171c22"), Math.min(0.9, Math.max(0.08, 0.95 - 6 * chroma)));
}

export const role_kinds = () => vocabulary.roles;
export const standing_kinds = () => vocabulary.standings;
const unknown: RoleKind = { role: "", letter: "·", color: "", group: "", meaning: "", none: true };
export const role_kind = (role: string | undefined) =>
  vocabulary.roles.find((kind) => kind.role === role) ?? { ...unknown, role: role ?? "" };
export const can_be_removed = (standing: string | undefined) =>
  vocabulary.standings.find((kind) => kind.standing === standing)?.removable === true;

export const role_color = (role: string | undefined) => (role ? `var(--role-${role})` : "var(--accent)");
export const role_ink = (role: string | undefined) => (role ? `var(--on-role-${role})` : "var(--paper)");

/// The letter of a role in its colour; hollow: seen on probe sentences only.
export function badge(role: string | undefined, hollow: boolean, more = "") {
  return h(
    "span",
    {
      class: `badge ${hollow ? "hollow" : ""} ${more}`.trim(),
      style: { "--badge": role_color(role), "--on-badge": role_ink(role) },
      "aria-hidden": "true",
    },
    role_kind(role).letter,
  );
}

/// A role in words, with the full name of its relation.
export const role_words = (role: Role) => [role.role, detail_words(role)].filter(Boolean).join(": ");
export const detail_words = (role: Role) =>
  role.role === "relation" && role.detail
    ? relation_words(role.detail.split(" ")[0], role.detail.split(" ")[1] ?? "")
    : (role.detail ?? "").replace(/_/g, " ");

/// How many heads have each role as their first: on data, and on probe sentences only.
export function role_counts(study: Study) {
  return vocabulary.roles
    .map((kind) => {
      const heads = study.heads.filter((head) => study.role(head.name) === kind.role);
      const probes = heads.filter((head) => study.on_probes_only(head.name)).length;
      return { kind, data: heads.length - probes, probes };
    })
    .filter(({ data, probes }) => data + probes > 0);
}

/// https://universaldependencies.org/u/dep/
const relations: { [relation: string]: string } = {
  acl: "clausal modifier of a noun",
  advcl: "adverbial clause",
  advmod: "adverbial modifier",
  amod: "adjectival modifier",
  appos: "appositional modifier",
  aux: "auxiliary",
  case: "case marking",
  cc: "coordinating conjunction",
  ccomp: "clausal complement",
  clf: "classifier",
  compound: "compound",
  conj: "conjunct",
  cop: "copula",
  csubj: "clausal subject",
  dep: "unspecified dependency",
  det: "determiner",
  discourse: "discourse element",
  dislocated: "dislocated element",
  expl: "expletive",
  fixed: "fixed expression",
  flat: "flat expression",
  goeswith: "goes with",
  iobj: "indirect object",
  list: "list",
  mark: "subordinating marker",
  nmod: "nominal modifier",
  nsubj: "nominal subject",
  nummod: "numeral modifier",
  obj: "object",
  obl: "oblique nominal",
  orphan: "orphan",
  parataxis: "parataxis",
  punct: "punctuation",
  reparandum: "overridden disfluency",
  root: "root",
  vocative: "vocative",
  xcomp: "open clausal complement",
};
const subtypes: { [relation: string]: string } = {
  "acl:relcl": "relative clause",
  "advcl:relcl": "adverbial relative clause",
  "aux:pass": "passive auxiliary",
  "cc:preconj": "preconjunct",
  "compound:prt": "phrasal verb particle",
  "csubj:outer": "outer clausal subject",
  "csubj:pass": "passive clausal subject",
  "det:predet": "predeterminer",
  "flat:foreign": "foreign words",
  "nmod:poss": "possessive modifier",
  "nmod:unmarked": "unmarked nominal modifier",
  "nsubj:outer": "outer subject",
  "nsubj:pass": "passive subject",
  "obl:agent": "agent",
  "obl:tmod": "temporal modifier",
  "obl:unmarked": "unmarked oblique nominal",
};

/// "numeral modifier" of nummod; that of its base for an unknown subtype; "" of what is not Universal Dependencies.
export const relation_name = (relation: string) =>
  subtypes[relation] ?? relations[relation] ?? relations[relation.split(":")[0]] ?? "";
/// "nummod: numeral modifier → head"; `way` is "to_head" or "to_dependent".
export function relation_words(relation: string, way: string): string {
  const name = relation_name(relation),
    arrow = way === "to_head" ? " → head" : way === "to_dependent" ? " → dependent" : "";
  return `${relation}${name && name !== relation ? `: ${name}` : ""}${arrow}`;
}
