// The foot of the page: how programs call its functions, in a dialog that lists them.
import { cross } from "../../parts/icons.js";
import { el, fill } from "../dom.js";
import { define } from "../mount.js";

const example = (address) => `pip install gradio_client

from gradio_client import Client

client = Client("${address}")
run = client.predict("The cat sat on the mat", layer=4, head=1, api_name="/attention")
print(run["tokens"], run["rows"][-1])  # the attention of the last token`;

function entry(words, [name, { description, parameters }]) {
  const node = el("details", "pg-api-function"),
    summary = el("summary"),
    names = parameters.map(({ parameter_name: each }) => each).join(", ");
  summary.append(el("code", "", name), el("span", "", (description ?? "").trim().split(/\n\s*\n/)[0]));
  node.append(summary, el("p", "", names ? fill(words.arguments, { names }) : words.no_arguments));
  return node;
}

async function functions() {
  const answer = await fetch("gradio_api/info");
  if (!answer.ok) throw new Error(`the functions: ${answer.status}`);
  return Object.entries((await answer.json()).named_endpoints);
}

function build(words) {
  const box = el("dialog", "pg-api", "", { "aria-label": words.api }),
    head = el("div", "pg-keys-head"),
    about = el("p", "pg-about"),
    list = el("div", "pg-api-list");
  head.append(
    el("h2", "", words.api),
    cross(words.close, () => box.close()),
  );
  const code = el("pre", "", example(new URL(".", document.baseURI).href), { tabindex: 0 });
  box.append(head, about, el("p", "", words.install), code, el("p", "pg-about", words.more), list);
  box.addEventListener("click", ({ target }) => target === box && box.close());
  const fetched = async () => {
    try {
      const all = await functions();
      about.textContent = fill(words.about, { n: all.length });
      list.replaceChildren(el("h3", "", words.functions), ...all.map((each) => entry(words, each)));
    } catch (error) {
      console.warn(error);
      list.replaceChildren(el("p", "pg-problem", words.failed, { role: "alert" }));
    }
  };
  return { box, fetched };
}

define("programs", (root) => {
  let dialog = null;
  return (words) => {
    const open = el("button", "pg-button pg-quiet pg-api-open", words.api, {
      type: "button",
      "aria-haspopup": "dialog",
    });
    open.onclick = () => {
      dialog ??= build(words);
      if (!dialog.box.isConnected) root.append(dialog.box);
      dialog.box.showModal();
      dialog.fetched();
    };
    dialog?.box.remove();
    dialog = null;
    root.replaceChildren(open);
  };
});
