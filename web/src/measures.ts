// What the head map can be coloured by: every number that there is about heads.
import { number_of, type Study } from "./data";
import { relation_words } from "./roles";

export interface Measure {
  id: string;
  title: string;
  group: string;
  about: string;
  value: (head: string) => number | undefined;
  /// 0 means something: colours go two ways from there.
  around_zero?: boolean;
}

const about: { [name: string]: [string, string] } = {
  // title, what it is
  entropy: ["Entropy", "how widely it spreads its weight, in nats"],
  entropy_ratio: ["Entropy, of the most there could be", "1: attends everywhere alike; 0: to one token"],
  confidence: ["Confidence", "mean of the largest weight"],
  distance: ["Distance", "how many tokens away it attends, on average"],
  mass_previous: ["Weight on the previous token", "mean weight"],
  mass_self: ["Weight on the token itself", "mean weight"],
  mass_next: ["Weight on the next token", "mean weight"],
  mass_first: ["Weight on the first token", "mean weight"],
  mass_last: ["Weight on the last token", "mean weight"],
  mass_special: ["Weight on special tokens", "mean weight"],
  mass_punctuation: ["Weight on punctuation", "mean weight"],
  mass_window: ["Weight within two tokens", "mean weight"],
  rare_share: ["Attends to the rarest token", "share of tokens"],
  rare_chance: ["… by chance", "share of tokens"],
  semantic: ["Similar meaning", "correlation of weights with the likeness of tokens"],
  contribution_norm: ["Size of what it adds", "as a share of the whole attention output"],
  constancy: ["Constancy", "1: the same output everywhere"],
  direct_logit: ["Direct logit", "what it adds to the right next token"],
  diagonal: ["Diagonal", "weight near the diagonal, in cross attention"],
  induction: ["Induction", "weight on what followed the same token before"],
  duplicate: ["Duplicate", "weight on the same token before"],
  previous_on_random: ["Previous token, random text", "mean weight"],
  coreference: ["Pronouns", "share of pronouns whose name it finds"],
  alignment: ["Alignment", "share of words whose source it finds"],
  alignment_read: ["Alignment, reading", "share of words whose source it finds"],
  upos: ["Parts of speech", "accuracy of a classifier that reads its output"],
  upos_selectivity: ["Parts of speech, selectivity", "accuracy above that for meaningless tags"],
  rare_word: ["Rare words", "share found, on the probes"],
  same_field: ["Words of one field", "share found, on the probes"],
  qk_rank: ["Rank of queries and keys", "effective rank of W_Q W_K'"],
  ov_rank: ["Rank of values and output", "effective rank of W_V W_O"],
  copying: ["Copying", "1: writes what it reads; -1: the opposite"],
  ablation_zero: ["Loss added by ablating it", "how much the loss rises without the head"],
  ablation_mean: ["Loss added by mean ablation", "how much the loss rises with the head's mean output in its place"],
  gradient: ["Gradient", "size of the loss's slope in the head's gate"],
  gradient_normalised: ["Gradient, within the layer", "its gradient over that of all heads of the layer"],
};
const matters = ["ablation_zero", "ablation_mean", "gradient", "gradient_normalised", "contribution_norm"];
const knows = [
  "coreference",
  "alignment",
  "alignment_read",
  "upos",
  "upos_selectivity",
  "rare_word",
  "same_field",
  "induction",
  "duplicate",
  "previous_on_random",
  "semantic",
  "rare_share",
];
const weights = ["qk_rank", "ov_rank", "copying"];
const signed = ["ablation_zero", "ablation_mean", "semantic", "copying", "direct_logit", "upos_selectivity"];
const hidden = ["rows", "n", "head", "rare_chance"];

export const title_of = (name: string) => about[name]?.[0] ?? name.replace(/_/g, " ");
export const about_of = (name: string) => about[name]?.[1] ?? "";
const group_title = (name: string) =>
  matters.includes(name)
    ? "How much it matters"
    : knows.includes(name)
      ? "What it knows"
      : weights.includes(name)
        ? "Its weights"
        : "What it attends to";

/// Relations by name with both directions: from the treebank, else from the probes.
export function relations_of(record: any): { [relation: string]: any } {
  return record.relation ?? record.probes?.relation ?? {};
}

const known = new WeakMap<Study, Measure[]>();
export function measures_of(study: Study): Measure[] {
  if (!known.has(study)) known.set(study, all_measures(study).map(remembered));
  return known.get(study)!;
}

function remembered(measure: Measure): Measure {
  const values = new Map<string, number | undefined>();
  return {
    ...measure,
    value: (head) => {
      if (!values.has(head)) values.set(head, measure.value(head));
      return values.get(head);
    },
  };
}

function all_measures(study: Study): Measure[] {
  const found = new Map<string, Measure>();
  const add = (measure: Measure) => {
    if (!found.has(measure.id)) found.set(measure.id, measure);
  };
  if (study.data.evidence?.pairs?.js) {
    add({
      id: "redundancy",
      title: "Redundancy",
      group: "How much it matters",
      about: "likeness to the nearest head of its layer, 1: attends to the same",
      value: (head) => {
        const near = study.nearest(head)[0];
        return near && 1 - near.js / Math.LN2;
      },
    });
  }
  const relations = new Set<string>();
  for (const head of study.heads) {
    const record = study.record(head.name);
    for (const [source, place] of [
      [record, ""],
      [record.probes ?? {}, "probes/"],
    ] as const) {
      for (const name of Object.keys(source)) {
        if (hidden.includes(name) || number_of(source[name]) === undefined || (place && name in record)) continue;
        add({
          id: place + name,
          title: title_of(name),
          group: group_title(name),
          about: about_of(name) + (place ? " (built-in probes)" : ""),
          around_zero: signed.includes(name),
          value: (h) => number_of((place ? (study.record(h).probes ?? {}) : study.record(h))[name]),
        });
      }
    }
    for (const [relation, ways] of Object.entries(relations_of(record))) {
      for (const way of Object.keys(ways as object)) relations.add(`${relation}/${way}`);
    }
  }
  for (const relation of [...relations].sort()) {
    const [name, way] = relation.split("/");
    add({
      id: `relation/${relation}`,
      title: relation_words(name, way),
      group: "Relations, above the best fixed offset",
      about: `accuracy on ${name}, above that of the best fixed offset`,
      around_zero: true,
      value: (h) => {
        const a = relations_of(study.record(h))[name]?.[way];
        return a && a.accuracy - a.baseline;
      },
    });
  }
  return [...found.values()];
}
