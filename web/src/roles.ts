// The roles of heads: their letters, colours and words; see docs/judge.md.

export interface RoleGroup {
  id: string;
  title: string;
  color: string;
  meaning: string;
  roles: string[];
}

/// Few hues, told apart by the colour-blind, in the order of the legend; letters say the same.
export const role_groups: RoleGroup[] = [
  {
    id: "position",
    title: "Position",
    color: "var(--role-position)",
    meaning: "look at a fixed place nearby",
    roles: ["previous", "next", "self", "offset", "window"],
  },
  {
    id: "syntax",
    title: "Syntax",
    color: "var(--role-syntax)",
    meaning: "find a syntactic relation",
    roles: ["relation"],
  },
  {
    id: "reference",
    title: "Reference",
    color: "var(--role-reference)",
    meaning: "find the name behind a pronoun",
    roles: ["coreference"],
  },
  {
    id: "copy",
    title: "Repetition",
    color: "var(--role-copy)",
    meaning: "find what came before",
    roles: ["induction", "duplicate"],
  },
  {
    id: "words",
    title: "Words",
    color: "var(--role-words)",
    meaning: "look at rare or related words",
    roles: ["rare", "semantic"],
  },
  {
    id: "translation",
    title: "Translation",
    color: "var(--role-translation)",
    meaning: "follow the source",
    roles: ["alignment"],
  },
  {
    id: "rest",
    title: "Resting",
    color: "var(--role-rest)",
    meaning: "rest on delimiters, the first or the last token",
    roles: ["delimiter", "first", "last"],
  },
  {
    id: "broad",
    title: "Broad",
    color: "var(--role-broad)",
    meaning: "look nearly everywhere alike",
    roles: ["broad"],
  },
  {
    id: "none",
    title: "No clear role",
    color: "var(--role-none)",
    meaning: "show none of the roles that are looked for",
    roles: ["noise", "unclear", "dead"],
  },
];

const letters: { [role: string]: string } = {
  dead: "X",
  previous: "P",
  next: "N",
  self: "S",
  offset: "O",
  induction: "I",
  duplicate: "U",
  coreference: "C",
  relation: "R",
  alignment: "A",
  rare: "T",
  semantic: "M",
  delimiter: "D",
  first: "F",
  last: "L",
  window: "W",
  broad: "B",
  noise: "–",
  unclear: "?",
};
export const role_letter = (role: string) => letters[role] ?? "·";

export const role_meaning: { [role: string]: string } = {
  dead: "says the same everywhere, or adds nothing",
  previous: "looks at the previous token",
  next: "looks at the next token",
  self: "looks at the token itself",
  offset: "looks at one other fixed offset",
  induction: "looks at what followed the same token before",
  duplicate: "looks at an earlier copy of the same token",
  coreference: "finds the name behind a pronoun",
  relation: "finds a syntactic relation, better than any fixed offset",
  alignment: "follows the order of the source, in cross attention",
  rare: "looks at the rarest token",
  semantic: "looks at words of similar meaning",
  delimiter: "rests on special tokens and punctuation",
  first: "looks at the first token",
  last: "looks at the last token",
  window: "stays within two tokens",
  broad: "looks nearly everywhere alike",
  noise: "no role, and the model does without it",
  unclear: "no role, yet it matters, or that is not known",
};

export const group_of = (role: string | undefined): RoleGroup =>
  role_groups.find((group) => role !== undefined && group.roles.includes(role)) ?? role_groups[role_groups.length - 1];

export const standings = ["essential", "undecided", "replaceable", "harmful"];
export const standing_meaning: { [standing: string]: string } = {
  essential: "the loss rises by more than the tolerance without it",
  undecided: "the data do not say whether it is needed",
  replaceable: "the loss stays within the tolerance without it",
  harmful: "the loss falls without it",
};
