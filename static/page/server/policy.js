// Gradio creates functions from strings: templates, callbacks and listeners. The page's Trusted Types policy checks each
// string first: only the few strings that this page itself sends may become functions. A browser without Trusted Types
// performs no check. This script runs in the page's head.
const QUOTED = /^\s*return ("(?:[^"\\]|\\.)*");\s*$/; // a template without placeholders
const PLAIN = /^return `(?:[^`\\$]|\$(?!\{))*`;$/; // the same, written as a template literal
const PART =
  /^playground\.(?:mount\('[\w-]+', element, props, trigger\)|screen\(element, props\));(?: \/\*[\w' -]*\*\/)?$/;
const CALLED = /^return \(\n\((\w*)\) => playground\.(?:opened|ask|choose|put)\((?:'\w+'|\1)\)\n\);$/;
const WRAPPED = /^\((?:async )?function anonymous\([\w,\s]*\n\) \{\n([\s\S]*)\n\}\)$/; // as browsers serialize a function

const isOurs = (text) => [QUOTED, PLAIN, PART, CALLED].some((each) => each.test(WRAPPED.exec(text)?.[1] ?? ""));

const isHere = (address) => new URL(address, document.baseURI).origin === location.origin;
globalThis.trustedTypes?.createPolicy("default", {
  createHTML: (text) => text, // the page's CSP already prevents any script in the HTML from running
  createScript: (text) => (isOurs(text) ? text : null),
  createScriptURL: (address) => (isHere(address) ? address : null),
});
