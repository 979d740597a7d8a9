// Work that takes a while on the server: an ablation of every head, or a plan; with a bar, and a way to stop.
import * as Plot from "@observablehq/plot";
import { cancel_job, error_words, get_job, type Job, Refused, type Served, start_job } from "./api";
import { format, h, picker, plural } from "./dom";
import { figure, plot } from "./figure";

interface Options {
  apply: (dropped: string[]) => void;
  pick: (head: string) => void;
}
const over = ["done", "failed", "cancelled"];

function ablation_result(result: any, pick: (head: string) => void): HTMLElement {
  const heads = [...(result.heads ?? [])].sort((a: any, b: any) => b.value - a.value);
  const made = figure(
    {
      title: `What ablating each head costs (${result.loss?.task ?? "loss"})`,
      name: "ablation-live",
      rows: () => heads,
      note: "Most important first, with 95 % intervals.",
    },
    () => {
      const drawing = plot({
        label: "Ablation of every head",
        width: 1085,
        height: 240,
        marginBottom: 52,
        x: {
          type: "point",
          domain: heads.map((d: any) => d.head),
          label: null,
          tickRotate: -60,
          tickSize: 0,
          ticks: heads.length > 80 ? [] : undefined,
        },
        y: { label: null, grid: true, zero: true, ticks: 5 },
        marks: [
          Plot.ruleY([0], { stroke: "var(--line)" }),
          Plot.ruleX(heads, { x: "head", y1: "low", y2: "high", stroke: "var(--soft)" }),
          Plot.dot(heads, { x: "head", y: "value", r: 4, fill: "var(--accent)", tip: true }),
        ],
      });
      drawing.addEventListener("click", () => {
        const point = (drawing as any).value;
        if (point?.head) pick(point.head);
      });
      return drawing;
    },
  );
  return made.element;
}

export function jobs({ apply, pick }: Options) {
  const list = h("div", {}),
    bar = h("div", { class: "controls" });
  const element = h(
    "div",
    { class: "card", id: "jobs" },
    h("h3", {}, "Ask more of it"),
    h("p", { class: "note" }, "On the text that comes with the program. Takes seconds to minutes; it can be stopped."),
    h("div", { style: { "margin-top": "10px" } }, bar),
    list,
  );
  const running = new Map<string, { forget: () => void }>();

  async function run(what: string, body: { [field: string]: unknown }) {
    const status = h("span", { class: "note", role: "status" }, "waiting"),
      progress = h("progress", { max: 1, value: 0, "aria-label": what });
    const stop = h("button", { type: "button", class: "cancel" }, "Cancel"),
      result = h("div", {});
    const line = h(
      "div",
      { class: "job" },
      h("div", { class: "job-line" }, h("strong", {}, what), progress, status, stop),
      result,
    );
    list.prepend(line);
    const end = (words: string) => {
      status.textContent = words;
      progress.remove();
      stop.remove();
    };
    let id = "",
      gone = false;
    try {
      ({ id } = await start_job(body));
    } catch (error) {
      end(
        error instanceof Refused
          ? error.status === 503
            ? "The server has too much to do; try again in a moment."
            : error.message
          : "The server does not answer.",
      );
      return;
    }
    running.set(id, {
      forget: () => {
        gone = true;
        end("gone: the server was started anew");
      },
    });
    stop.addEventListener("click", () => {
      stop.disabled = true;
      status.textContent = "stopping";
      cancel_job(id)
        .then(show)
        .catch(() => {
          stop.disabled = false;
        });
    });
    function show(job: Job) {
      if (gone) return;
      progress.max = Math.max(1, job.total);
      progress.value = job.done;
      status.textContent =
        job.state === "queued"
          ? "waiting"
          : `${job.what ?? ""} ${job.total ? `${format(job.done)} of ${format(job.total)}` : ""}`.trim();
      if (!over.includes(job.state)) return;
      gone = true;
      running.delete(id);
      end(
        job.state === "done" ? "done" : job.state === "cancelled" ? "cancelled" : `failed: ${error_words(job.error)}`,
      );
      if (job.state !== "done") return;
      if (job.kind === "ablate") result.append(ablation_result(job.result, pick));
      else {
        const drop: string[] = job.result?.drop ?? [];
        result.append(
          h("p", {}, `${plural(drop.length, "head")} would be removed: ${drop.join(", ")}.`),
          h("button", { type: "button", class: "apply-plan", onclick: () => apply(drop) }, "Ablate these heads here"),
        );
      }
    }
    while (!gone) {
      try {
        show(await get_job(id));
      } catch (error) {
        if (error instanceof Refused && error.status === 404 && !gone) {
          gone = true;
          running.delete(id);
          end("gone: the server does not know it any more");
        }
      }
      if (!gone) await new Promise((resolve) => setTimeout(resolve, 500));
    }
  }

  return {
    element,
    forget: () => {
      for (const job of running.values()) job.forget();
      running.clear();
    },
    set_up: (_: Served) => {
      let order = "ablation";
      const keep = h("input", { type: "number", min: 0.05, max: 1, step: 0.05, value: 0.75, style: { width: "76px" } });
      bar.replaceChildren(
        h(
          "button",
          {
            type: "button",
            class: "start-ablation",
            onclick: () => void run("Ablation of every head", { kind: "ablate" }),
          },
          "Ablate every head",
        ),
        h(
          "button",
          {
            type: "button",
            class: "start-plan",
            onclick: () => {
              const asked = Number.parseFloat(keep.value),
                share = Number.isFinite(asked) ? Math.min(1, Math.max(0, asked)) : 0.75;
              keep.value = String(share);
              void run(`Plan: keep ${share}, by ${order}`, { kind: "plan", keep: share, order });
            },
          },
          "Make a plan",
        ),
        h("label", { class: "picker" }, h("span", {}, "keep"), keep),
        picker(
          "by",
          [{ choices: ["ablation", "gradient", "random"].map((value) => ({ value, text: value })) }],
          order,
          (value) => {
            order = value;
          },
        ),
      );
    },
  };
}
