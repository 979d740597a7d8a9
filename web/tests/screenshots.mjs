// The pictures of README and docs/report.md, from a real study. usage: screenshots.mjs STUDY [FOLDER]
// With HEADWISE_SERVER, the address of headwise serve on the same model, also of the live page.
import { join } from "node:path";
import { close_browser, open_page } from "./browser.mjs";
import { report, root } from "./studies.mjs";

const [study, out = join(root, "docs/images")] = process.argv.slice(2);
if (!study) {
  console.error("usage: ./dev page --screenshots STUDY");
  process.exit(2);
}
const head = process.env.HEADWISE_HEAD, // else the one that the page opens with
  url = report(study),
  size = { viewport: { width: 1180, height: 1120 }, reducedMotion: "reduce" },
  phone = { viewport: { width: 390, height: 844 }, reducedMotion: "reduce" };

const still = ".top { position: static !important; }"; // pictures of parts show no header

async function shoot(page, name, selector, { below = 0, height } = {}) {
  const top = await page.evaluate(() => window.scrollY);
  const box = selector ? await page.locator(selector).boundingBox() : { x: 0, y: 0, ...page.viewportSize() };
  const margin = selector ? 14 : 0;
  await page.screenshot({
    path: join(out, `${name}.png`),
    fullPage: true,
    clip: {
      x: Math.max(0, box.x - margin),
      y: Math.max(0, box.y + top - margin),
      width: Math.min(1180, box.width + 2 * margin),
      height: Math.min(height ?? 1e9, box.height + 2 * margin + below),
    },
  });
  console.log(join(out, `${name}.png`));
}

{
  const { page, done } = await open_page(url, size);
  await shoot(page, "report");
  await page.addStyleTag({ content: still });
  if (head) await page.click(`#heads [data-head="${head}"]`);
  await page.mouse.move(2, 2);
  await shoot(page, "report-head", "#head", { height: 900 });
  await shoot(page, "report-pruning", "#pruning");
  await shoot(page, "report-composition", "#composition");
  await done();
}
{
  const { page, done } = await open_page(url, { ...size, colorScheme: "dark" });
  await page.addStyleTag({ content: still });
  await page.selectOption("#heads select", "ablation_zero");
  await shoot(page, "report-dark", "#heads");
  await done();
}
{
  const { page, done } = await open_page(url, phone);
  await page.locator("#heads").scrollIntoViewIfNeeded();
  await page.addStyleTag({ content: still });
  await shoot(page, "report-phone", "#heads");
  await done();
}
if (process.env.HEADWISE_SERVER) {
  const { page, done } = await open_page(process.env.HEADWISE_SERVER, size);
  await page.addStyleTag({ content: still });
  await page.waitForSelector("#try .output li, #try .output p.big");
  await page.fill("#try textarea", "The cat sat on the mat because it was tired.");
  await page.click(`#try [data-head="${head ?? "L3.H1"}"]`);
  await page.click("#try .toggle-head");
  await page.waitForSelector("#try .output.gated li, #try .output.gated p.big");
  await page.mouse.move(2, 2);
  await shoot(page, "live", "#try", { height: 1000 });
  await done();
}
await close_browser();
