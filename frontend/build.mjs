// Builds the page into the Python package: node build.mjs [folder]
import { build } from "esbuild";
import { cpSync, mkdirSync, readFileSync, rmSync } from "node:fs";

const out = process.argv[2] ?? "../src/neuralrace/laboratory/static";
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
const common = {
  bundle: true, minify: true, format: "esm", target: "es2022", outdir: out, legalComments: "none",
  loader: { ".woff2": "file", ".woff": "empty", ".ttf": "empty" }, assetNames: "fonts/[name]",
};
await build({ ...common, entryPoints: ["src/page.ts", "src/page.css"] });
// A notebook takes one script and one style sheet, so fonts are inside.
await build({
  ...common, entryPoints: ["src/widget.ts", "src/widget.css"],
  loader: { ...common.loader, ".woff2": "dataurl" },
});
// A saved page is one file, with the fonts of its formulas inside.
const FONTS = /KaTeX_(Main-Regular|Math-Italic|Size[1-4]-Regular)\.woff2$/;
const fonts = {
  name: "fonts",
  setup: ({ onLoad }) => onLoad({ filter: /\.woff2$/ }, ({ path }) => ({ contents: FONTS.test(path) ? readFileSync(path) : "", loader: FONTS.test(path) ? "dataurl" : "empty" })),
};
await build({ ...common, entryPoints: ["src/saved.ts"], plugins: [fonts] });
cpSync("src/index.html", `${out}/index.html`);
