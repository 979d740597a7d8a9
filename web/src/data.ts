// What a report holds, and the questions that the sections ask of it.
import { role_kind, type Vocabulary } from "./roles";

export interface Interval {
  value: number;
  low?: number;
  high?: number;
  n?: number;
}
export interface Accuracy {
  accuracy: number;
  n: number;
  low: number;
  high: number;
  baseline: number;
}
export type Record_ = { [key: string]: any };

export interface Role {
  role: string;
  detail?: string;
  score: number;
  baseline?: number;
  low?: number;
  high?: number;
  n: number;
  source: "data" | "probes";
}
export interface HeadVerdict {
  head: string;
  roles: Role[];
  importance: Record_;
  standing?: string;
  redundant_with: string[];
  backups: string[];
  words: string;
}
export interface HeadMap {
  rows: number;
  columns: number;
  data: string;
}
export interface Sample {
  tokens: string[];
  target_tokens?: string[];
  special?: number[]; // positions of special tokens, such as [CLS]
  target_special?: number[];
  maps: { [head: string]: HeadMap };
}
export interface Data {
  schema: number;
  made?: Record_;
  vocabulary?: Vocabulary;
  first_head?: string;
  summary?: Record_;
  evidence?: Record_;
  verdict?: Record_;
  plan?: Record_;
  samples?: Sample[];
  training?: Record_;
}

export type Matrix = (number | null)[][];

/// A layer's attention: "L3"; "enc.L3", "dec.L3", "cross.L3" in encoder-decoders.
export interface Attention {
  name: string;
  kind: string;
  layer: number;
  heads: Head[];
}
export interface Head {
  name: string;
  attention: string;
  index: number;
  order: number;
}

const kinds: { [prefix: string]: string } = { "": "", enc: "Encoder", dec: "Decoder", cross: "Cross attention" };
export const kind_title = (kind: string) => kinds[kind] ?? kind;

/// "cross.L3.H1" is head 1 of layer 3 of kind cross.
export function parse_head(name: string) {
  const match = /^(?:(\w+)\.)?L(\d+)\.H(\d+)$/.exec(name);
  return match ? { kind: match[1] ?? "", layer: Number(match[2]), index: Number(match[3]) } : null;
}

/// Heads by attention, in the order given: pruning may have left gaps, and layers without any.
export function attentions_of(names: string[]): Attention[] {
  const found = new Map<string, Attention>();
  names.forEach((name, order) => {
    const parsed = parse_head(name);
    if (!parsed) return;
    const attention = name.slice(0, name.lastIndexOf(".H"));
    if (!found.has(attention))
      found.set(attention, { name: attention, kind: parsed.kind, layer: parsed.layer, heads: [] });
    found.get(attention)!.heads.push({ name, attention, index: parsed.index, order });
  });
  return [...found.values()];
}

/// A number of a record: itself, or the value or accuracy of an object.
export function number_of(value: any): number | undefined {
  const x = typeof value === "object" && value !== null ? (value.value ?? value.accuracy) : value;
  return typeof x === "number" && Number.isFinite(x) ? x : undefined;
}

export class Study {
  readonly heads: Head[];
  readonly attentions: Attention[];
  readonly name: string;
  readonly dropped: Set<string>;
  private readonly records = new Map<string, Record_>();
  private readonly verdicts = new Map<string, HeadVerdict>();
  private readonly first_roles = new Map<string, Role | undefined>();
  private readonly by_name = new Map<string, Head>();
  private readonly by_attention = new Map<string, Attention>();

  constructor(readonly data: Data) {
    for (const record of data.evidence?.heads ?? []) this.records.set(record.head, record);
    for (const verdict of data.verdict?.heads ?? []) this.verdicts.set(verdict.head, verdict);
    const names: string[] = this.records.size ? [...this.records.keys()] : [...this.verdicts.keys()];
    this.attentions = attentions_of(names);
    this.heads = this.attentions.flatMap((attention) => attention.heads);
    for (const head of this.heads) this.by_name.set(head.name, head);
    for (const attention of this.attentions) this.by_attention.set(attention.name, attention);
    this.name = data.verdict?.model?.name ?? data.evidence?.model?.name ?? "";
    this.dropped = new Set<string>(data.plan?.drop ?? []);
  }

  head(name: string) {
    return this.by_name.get(name);
  }
  record(name: string): Record_ {
    return this.records.get(name) ?? {};
  }
  verdict(name: string) {
    return this.verdicts.get(name);
  }
  /// The role that stands for a head: the first that was seen on data, else on probe sentences, else that it has none.
  private first_role(name: string): Role | undefined {
    if (!this.first_roles.has(name)) this.first_roles.set(name, this.find_first_role(name));
    return this.first_roles.get(name);
  }
  private find_first_role(name: string): Role | undefined {
    const roles = this.verdict(name)?.roles ?? [],
      found = roles.filter((role) => !role_kind(role.role).none);
    return found.find((role) => role.source === "data") ?? found[0] ?? roles[0];
  }
  role(name: string) {
    return this.first_role(name)?.role;
  }
  on_probes_only(name: string) {
    const role = this.first_role(name);
    return role !== undefined && !role_kind(role.role).none && role.source === "probes";
  }
  has_role_on_data(name: string) {
    const role = this.first_role(name);
    return role !== undefined && !role_kind(role.role).none && role.source === "data";
  }
  words(name: string) {
    return this.verdict(name)?.words ?? name;
  }
  kinds() {
    return [...new Set(this.attentions.map((attention) => attention.kind))];
  }
  has_verdict() {
    return this.verdicts.size > 0;
  }

  /// The matrix of an attention's heads under pairs, such as "js" or "subspace_overlap/q".
  pairs(measure: string, attention: string): Matrix | undefined {
    let found = this.data.evidence?.pairs;
    for (const part of measure.split("/")) found = found?.[part];
    return found?.[attention];
  }

  /// How unlike two heads of one attention look.
  js(a: string, b: string): number | undefined {
    return this.pair("js", a, b);
  }

  pair(measure: string, a: string, b: string): number | undefined {
    const one = this.head(a),
      other = this.head(b);
    if (!one || !other || one.attention !== other.attention) return undefined;
    const heads = this.attention(one.attention)!.heads;
    const value = this.pairs(measure, one.attention)?.[heads.indexOf(one)]?.[heads.indexOf(other)];
    return typeof value === "number" ? value : undefined;
  }

  attention(name: string) {
    return this.by_attention.get(name);
  }

  /// The other heads of the same attention that look at the most similar places, nearest first.
  nearest(name: string) {
    const head = this.head(name);
    if (!head) return [];
    return this.attention(head.attention)!
      .heads.filter((other) => other !== head)
      .map((other) => ({
        head: other.name,
        js: this.js(name, other.name),
        cka: this.pair("output_cka", name, other.name),
      }))
      .filter((pair): pair is { head: string; js: number; cka: number | undefined } => pair.js !== undefined)
      .sort((a, b) => a.js - b.js);
  }
}

/// The weights of a map, n × m bytes.
export function weights_of(map: HeadMap): Uint8Array {
  const text = atob(map.data),
    bytes = new Uint8Array(map.rows * map.columns);
  for (let i = 0; i < bytes.length && i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  return bytes;
}

/// Tokens, and which of them are special.
export interface Tokens {
  tokens: string[];
  special: number[];
}

/// The tokens that the rows and the columns of a head's map stand for.
export function tokens_of(sample: Omit<Sample, "maps">, head: string) {
  const kind = parse_head(head)?.kind;
  const source = { tokens: sample.tokens, special: sample.special ?? [] };
  const target = sample.target_tokens ? { tokens: sample.target_tokens, special: sample.target_special ?? [] } : source;
  return { from: kind === "dec" || kind === "cross" ? target : source, to: kind === "dec" ? target : source };
}
