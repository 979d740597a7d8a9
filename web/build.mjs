// Bundles the page into one file, dist/page.html. --check: fails if that file is not what the sources give.
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));

const bundle = async (entry, options = {}) => {
  const { outputFiles } = await build({
    entryPoints: [here(entry)],
    bundle: true,
    minify: true,
    write: false,
    target: "es2022",
    charset: "ascii",
    legalComments: "none",
    ...options,
  });
  return outputFiles[0].text.trim();
};

const [template, script, style] = await Promise.all([
  readFile(here("src/page.html"), "utf8"),
  bundle("src/page.ts", { format: "iife" }),
  bundle("src/page.css"),
]);
// Inside <script>, these would end or open something else.
if (/<\/script|<!--/i.test(script)) throw new Error("the script holds </script or <!--");
// The policy lets this very text run, without a space more.
if (!template.includes("<script>/*SCRIPT*/</script>")) throw new Error("page.html has no <script>/*SCRIPT*/</script>");
const hash = createHash("sha256").update(script).digest("base64");
const page = template
  .replace("SCRIPT_HASH", () => `sha256-${hash}`)
  .replace("/*STYLE*/", () => style)
  .replace("/*SCRIPT*/", () => script);

const out = here("dist/page.html");
if (process.argv.includes("--check")) {
  if ((await readFile(out, "utf8").catch(() => "")) !== page) {
    console.error("web/dist/page.html is not what the sources give; run ./dev page");
    process.exit(1);
  }
  console.log("web/dist/page.html is what the sources give");
} else {
  await writeFile(out, page);
  console.log(`web/dist/page.html: ${Math.round(page.length / 1024)} KiB`);
}
