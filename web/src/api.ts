// What the page asks of headwise serve.
import { type HeadMap } from "./data";

export interface Candidate {
  token: string;
  probability: number;
}
export interface Output {
  fill?: { position: number; candidates: Candidate[] }[];
  candidates?: Candidate[];
  continuation?: string;
  scores?: { label: string; score: number }[];
  output?: string;
  similarity?: number;
  norm?: number;
}
export interface Served {
  instance: string;
  version: string;
  model: { name: string; architecture: string };
  task: string;
  mask: string | null;
  limits: { tokens: number; characters: number };
  attentions: { name: string; kind: string; heads: number; head_names?: number[] }[];
}
export interface Look {
  tokens: string[];
  target_tokens?: string[];
  special?: number[];
  target_special?: number[];
  maps: { [head: string]: HeadMap };
  original: Output;
  gated: Output | null;
  truncated?: boolean;
  note?: string;
}
export interface Job {
  id: string;
  kind: "ablate" | "plan";
  state: "queued" | "running" | "done" | "failed" | "cancelled";
  done: number;
  total: number;
  what?: string;
  result?: any;
  error?: any;
}

/// The server understood, and says no.
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly retry_after = 0,
  ) {
    super(message);
  }
}

const words_of = (error: any): string =>
  !error
    ? ""
    : typeof error === "string"
      ? error
      : [
          error.what,
          error.where && `(${error.where})`,
          error.got && `got ${error.got}`,
          error.expected && `expected ${error.expected}`,
          error.hint,
        ]
          .filter(Boolean)
          .join("; ");
export { words_of as error_words };

// The server gives pages fair turns, and knows this one by its name.
const page_name = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) =>
  byte.toString(16).padStart(2, "0"),
).join("");

async function ask<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const answer = await fetch(path, {
    method,
    signal,
    cache: "no-store",
    headers: { "Headwise-Page": page_name, ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const value = await answer.json().catch(() => null);
  if (!answer.ok)
    throw new Refused(
      answer.status,
      words_of(value?.error) || `the server answered ${answer.status}`,
      Number(answer.headers.get("Retry-After")) || 0,
    );
  return value as T;
}

export const get_model = () => ask<Served>("GET", "/api/model", undefined, AbortSignal.timeout(5000));
export const look = (text: string, gates: { [head: string]: number }, signal: AbortSignal) =>
  ask<Look>("POST", "/api/look", { text, gates }, signal);
export const start_job = (job: { [field: string]: unknown }) => ask<{ id: string }>("POST", "/api/jobs", job);
export const get_job = (id: string) => ask<Job>("GET", `/api/jobs/${encodeURIComponent(id)}`);
export const cancel_job = (id: string) => ask<Job>("DELETE", `/api/jobs/${encodeURIComponent(id)}`);
