// A tab's parts, laid out in one component: one payload in, one value out.
//
// data-places: JSON, a list of [name, kind] and { box: "row" | "column", of: [...], class, id }.
// props.payload: JSON { seq, previous, parts: { name: payload } }: the parts that changed. Where `previous` is not the
//   last one that was seen, one was lost: the screen requests everything again.
// props.value: { values: { name: value }, again }: what the server reads.
// Jobs run in a channel of their own, so that their bars and the screens' pictures cannot swallow each other:
// props.payload { parts: { name: { stamp, payload } } }, props.value { part }.
import { el } from "./dom.js";
import { caughtUp, mounted, mountPart } from "./mount.js";
import { asking } from "./wire/asking.js";

const screens = [];
let jobs = null; // { props, trigger } of the channel
const stamps = new Map(); // the last bar that was drawn, by part

function laidOut(nodes, make) {
  return nodes.map((node) => {
    if (Array.isArray(node)) return make(...node);
    const box = el("div", `pg-${node.box}${node.class ? ` ${node.class}` : ""}`, "", node.id ? { id: node.id } : {});
    box.append(...laidOut(node.of, make));
    return box;
  });
}

export function screen(element, props, trigger, watch) {
  const root = element.querySelector("[data-screen]"),
    values = { ...props.value?.values };
  let seen = 0,
    again = null;
  const held = () => (again ? { values: { ...values }, again } : { values: { ...values } });
  const push = () => {
    props.value = held();
  };
  const tell = (event, data) => {
    push();
    if (event === "select" && asking.ask) asking.ask();
    else trigger(event, data);
  };
  const parts = [];
  root.replaceChildren(
    ...laidOut(JSON.parse(root.dataset.places), (name, kind) => {
      const block = el("div", "pg-block", "", { id: `pg-${name}` });
      block.append(el("div", `pg-${kind}`, "", { "data-part": name }));
      parts.push([name, kind, block.firstChild]);
      return block;
    }),
  );
  for (const [name, kind, place] of parts) {
    const partProps = {
      get value() {
        return values[name];
      },
      set value(value) {
        values[name] = value;
        push();
      },
    };
    const ask = (event, data) => {
      if (event === "select") return tell(event, data);
      if (asking.job) return asking.job(event, name);
      jobs.props.value = { part: name };
      jobs.trigger(event, { index: 0, value: name });
    };
    mountPart(kind, place, partProps, ask);
  }
  const update = () => {
    if (!props.payload) return;
    const payload = JSON.parse(props.payload);
    caughtUp();
    for (const [name, partPayload] of Object.entries(payload.parts)) mounted.get(name)?.show(partPayload);
    const lost = payload.previous !== seen && payload.previous !== 0;
    seen = payload.seq;
    if (!lost) return;
    again = String(seen);
    tell("select", { index: 0, value: "again" });
  };
  screens.push({ push });
  watch("payload", update);
  // Gradio gives a component what the page came with after it is there, which undoes what a link gave it meanwhile.
  watch("value", () => {
    if (JSON.stringify(props.value) !== JSON.stringify(held())) tell("select", { index: 0, value: "given" });
  });
  update();
}

// What every screen holds, once more: Gradio gives components what the page came with after they are there.
export const pushAll = () => {
  for (const each of screens) each.push();
};
// The same for a part with a component of its own.
export const onPush = (push) => screens.push({ push });

export function jobChannel(element, props, trigger, watch) {
  jobs = { props, trigger };
  const update = () => {
    const { parts = {} } = props.payload ? JSON.parse(props.payload) : {};
    for (const [name, { stamp, payload }] of Object.entries(parts)) {
      if (stamps.get(name) === stamp) continue;
      stamps.set(name, stamp);
      mounted.get(name)?.show(payload);
    }
  };
  watch("payload", update);
  update();
}
