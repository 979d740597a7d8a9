// A real browser that watches over its pages: whatever they complain about, or ask of others, fails the test.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

const found = [process.env.HEADWISE_CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser"].find(
  (path) => path && existsSync(path),
);
let browser = null;

export async function open_browser() {
  // A container may not let the browser build its own sandbox; the pages are ours.
  browser ??= await chromium.launch({ executablePath: found, args: ["--no-sandbox", "--disable-gpu"] });
  return browser;
}
export async function close_browser() {
  await browser?.close();
  browser = null;
}

/// A page of `url`; `done` checks that it was quiet, and asked nobody else.
export async function open_page(url, { allow = [], timeout = 30_000, ...options } = {}) {
  const context = await (
    await open_browser()
  ).newContext({ viewport: { width: 1240, height: 900 }, acceptDownloads: true, ...options });
  const page = await context.newPage();
  const complaints = [],
    own = new URL(url).origin;
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type()) && !allow.some((pattern) => pattern.test(message.text())))
      complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error.stack ?? error)));
  page.on("request", (request) => {
    const asked = request.url();
    if (
      asked === url.split("#")[0] ||
      asked.startsWith("data:") ||
      asked.startsWith("blob:") ||
      (own !== "null" && new URL(asked).origin === own)
    )
      return;
    complaints.push(`asked for ${asked}`);
  });
  page.setDefaultTimeout(timeout);
  await page.goto(url);
  await page.waitForFunction(() => document.documentElement.dataset.drawn === "yes");
  return {
    page,
    done: async () => {
      await context.close();
      assert.deepEqual(complaints, []);
    },
  };
}
