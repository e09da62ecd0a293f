// Gradio makes functions of texts: templates, what runs once a part is there, what a listener does. The page's policy has
// the browser ask here first, by Trusted Types: the few texts that this page itself sends may become functions, and any
// other text, whoever wrote it, never does. A browser without Trusted Types asks nobody. It stands in the page's head.
const QUOTED = /^\s*return ("(?:[^"\\]|\\.)*");\s*$/; // a template without places to fill in
const PLAIN = /^return `(?:[^`\\$]|\$(?!\{))*`;$/; // the same, once more
const PART =
  /^playground\.(?:mount\('[\w-]+', element, props, trigger\)|screen\(element, props\));(?: \/\*[\w' -]*\*\/)?$/;
const CALLED = /^return \(\n\((\w*)\) => playground\.(?:opened|ask|choose|put)\((?:'\w+'|\1)\)\n\);$/;
const WRAPPED = /^\((?:async )?function anonymous\([\w,\s]*\n\) \{\n([\s\S]*)\n\}\)$/; // as the browser writes a function to be

const isOurs = (text) => [QUOTED, PLAIN, PART, CALLED].some((each) => each.test(WRAPPED.exec(text)?.[1] ?? ""));

const isHere = (address) => new URL(address, document.baseURI).origin === location.origin;
globalThis.trustedTypes?.createPolicy("default", {
  createHTML: (text) => text, // no script in it runs: the policy says so by itself
  createScript: (text) => (isOurs(text) ? text : null),
  createScriptURL: (address) => (isHere(address) ? address : null),
});
