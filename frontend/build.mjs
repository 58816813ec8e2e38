// Builds the page into the Python package: node build.mjs [folder]
import { build } from "esbuild";
import { cpSync, mkdirSync, readFileSync, rmSync } from "node:fs";

const out = process.argv[2] ?? "../src/neuralrace/laboratory/static";
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
// Licences ask that their notices go along with every copy, also inside a page that somebody saves.
const { version } = JSON.parse(readFileSync("node_modules/katex/package.json"));
const banner = `/*!
This file holds work of others; whole licences are in THIRD_PARTY.md of neuralrace.

KaTeX ${version}, https://katex.org
${readFileSync("node_modules/katex/LICENSE", "utf8").trim()}

Fonts of KaTeX: Copyright (c) 2009-2010, Design Science, Inc. Copyright (c) 2014-2018 Khan Academy, with Reserved
Font Names that begin with KaTeX. SIL Open Font License, Version 1.1, https://openfontlicense.org

Coefficients of Dormand and Prince's method of order 8: from diffrax, https://github.com/patrick-kidger/diffrax,
Apache License, Version 2.0, https://www.apache.org/licenses/LICENSE-2.0; changed in form.
*/`;
const common = {
  banner: { js: banner, css: banner },
  bundle: true, minify: true, format: "esm", target: "es2022", outdir: out, legalComments: "none",
  loader: { ".woff2": "file", ".woff": "empty", ".ttf": "empty" }, assetNames: "fonts/[name]",
};
await build({ ...common, entryPoints: ["src/page.ts", "src/page.css"] });
// A notebook takes one script and one style sheet, so fonts are inside.
await build({
  ...common, entryPoints: ["src/widget.ts", "src/widget.css"],
  loader: { ...common.loader, ".woff2": "dataurl" },
});
// A saved page is one file, with the fonts inside that its formulas need.
const wanted = /url\((fonts\/KaTeX_(?:Main-Regular|Math-Italic|Size[1-4]-Regular)\.woff2)\)/;
const face = (text) => (wanted.test(text) ? text.replace(/src:[^;}]*/, `src: url(${wanted.exec(text)[1]}) format("woff2")`) : "");
const fonts = {
  name: "fonts",
  setup: ({ onLoad }) => onLoad({ filter: /katex\.css$/ }, ({ path }) => ({ contents: readFileSync(path, "utf8").replace(/@font-face\s*\{[^}]*\}/g, face), loader: "css" })),
};
await build({ ...common, entryPoints: ["src/saved.ts"], plugins: [fonts], loader: { ".woff2": "dataurl" } });
cpSync("src/index.html", `${out}/index.html`);
