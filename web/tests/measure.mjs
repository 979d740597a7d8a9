// How fast a report is in a browser: first paint, all sections drawn, and each interaction until the next frame.
import { statSync } from "node:fs";
import { close_browser, open_page } from "./browser.mjs";
import { made_up_study, report } from "./studies.mjs";

const square = (n) => Array.from({ length: n }, (_, layer) => [`L${layer}`, n]);
const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];

/// Milliseconds from an event to the frame after it.
const until_frame = (page, act) =>
  page.evaluate(async (source) => {
    const begin = performance.now();
    new Function(`return (${source})`)()();
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
    return performance.now() - begin;
  }, String(act));

/// Milliseconds that the page's thread has worked: the same however busy the machine is.
async function work_of(page) {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  return async () =>
    1000 * (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value;
}

const interactions = {
  "colour by entropy": () => {
    const select = document.querySelector("#heads select");
    select.value = "entropy";
    select.dispatchEvent(new Event("change"));
  },
  "colour by role": () => {
    const select = document.querySelector("#heads select");
    select.value = "role";
    select.dispatchEvent(new Event("change"));
  },
  "open a head": () => document.querySelectorAll("#heads .cell")[Math.floor(Math.random() * 100)].click(),
  "show one role": () => document.querySelector("#heads .legend button").click(),
  find: () => {
    const input = document.querySelector("#heads input");
    input.value = `L${Math.floor(Math.random() * 9)}`;
    input.dispatchEvent(new Event("input"));
  },
  "point at a head": () =>
    document
      .querySelectorAll("#heads .cell")
      [Math.floor(Math.random() * 100)].dispatchEvent(new PointerEvent("pointerover", { bubbles: true })),
  "dark or light": () => document.querySelector("header.top > button").click(),
};

for (const side of [12, 32]) {
  const url = report(made_up_study(`${side}x${side}`, square(side))),
    runs = [];
  for (let i = 0; i < 5; ++i) {
    // The page's policy forbids code from text, which is how this script measures.
    const { page, done } = await open_page(url, { bypassCSP: true, timeout: 120_000 });
    runs.push(
      await page.evaluate(() => ({
        paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
        drawn: performance.now(),
      })),
    );
    if (i === 4) {
      const work = await work_of(page),
        begin = await work();
      await page.reload();
      await page.waitForFunction(() => document.documentElement.dataset.drawn === "yes");
      console.log(
        `${side * side} heads: ${(statSync(new URL(url)).size / 1e6).toFixed(2)} MB, first paint ${Math.round(median(runs.map((run) => run.paint)))} ms, all sections ${Math.round(median(runs.map((run) => run.drawn)))} ms (medians of 5); work ${((await work()) - begin).toFixed(0)} ms`,
      );
      for (const [name, act] of Object.entries(interactions)) {
        const times = [],
          begin = await work();
        for (let k = 0; k < 9; ++k) times.push(await until_frame(page, act));
        console.log(
          `  ${name.padEnd(20)} ${median(times).toFixed(0).padStart(5)} ms, at most ${Math.max(...times).toFixed(0)}; work ${(((await work()) - begin) / 9).toFixed(0)} ms (of 9)`,
        );
      }
    }
    await done();
  }
}
await close_browser();
