// The framework makes functions of texts: templates, what runs once a part is there, what a tab's label does. The page's
// policy forbids that, so that no text, whoever wrote it, can become a script. The few texts that this page itself sends
// are understood here for what they say; any other is refused, as the browser would.
const QUOTED = /^\s*return ("(?:[^"\\]|\\.)*");\s*$/; // a template without places to fill in
const PLAIN = /^return `((?:[^`\\$]|\$(?!\{))*)`;$/; // the same, once more
const PART =
  /^playground\.(mount|screen|jobChannel)\((?:'([\w-]+)', )?element, props, trigger, watch\); \/\*[\w' -]*\*\/$/;
const CALLED = /^return \(\n\((\w*)\) => playground\.(opened|ask|choose|picker)\((?:'(\w+)'|(\w*))\)\n\);$/;

const refused = () => new EvalError("This page makes no functions of texts.");
const same = (text) => () => text;

// What `Function` gives for the texts of its parameters and its body.
export function understood(...texts) {
  const body = String(texts.pop() ?? "");
  const quoted = QUOTED.exec(body);
  if (quoted) return same(JSON.parse(quoted[1]));
  const plain = PLAIN.exec(body);
  if (plain) return same(plain[1]);
  const part = PART.exec(body);
  if (!part || texts.join() !== "element,trigger,props,server,upload,watch") throw refused();
  const kind = part[2] === undefined ? [] : [part[2]];
  return (element, trigger, props, _server, _upload, watch) =>
    window.playground[part[1]](...kind, element, props, trigger, watch);
}

// What the constructor of asynchronous functions gives.
export function understoodLater(...texts) {
  const [, given, name, text, passed] = (texts.length === 1 && CALLED.exec(texts[0])) || [];
  if (!name || (given ?? "") !== (passed ?? "")) throw refused();
  return async () =>
    (...values) =>
      window.playground[name](...(text ? [text] : values)) ?? [];
}

const instead = (native, make) =>
  new Proxy(native, {
    apply: (_native, _self, texts) => make(...texts),
    construct: (_native, texts) => make(...texts),
  });
const later = Object.getPrototypeOf(async () => {});
Object.defineProperty(later, "constructor", { value: instead(later.constructor, understoodLater) });
globalThis.Function = instead(Function, understood);
