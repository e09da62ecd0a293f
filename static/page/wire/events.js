// The requests of the page's parts, and how they are sent.
//
// payload of "wire": { shown, model, modes }: the page's initial content, its model, and for each stream event the policy
//  for repeating it while it is in progress.
import { define, onEvent } from "../mount.js";
import { endSign } from "../server/sign.js";
import { job } from "./jobs.js";
import { again, begin, cancel, onPut } from "./models.js";
import { leaveOut, page } from "./question.js";
import { isStream, setModes, stream } from "./streams.js";
import { ask } from "./view.js";

onEvent((name, event, value) => {
  if (isStream(name)) stream(name, event, value);
  else if (event === "select") ask();
  else if (name === "notice") (event === "cancel" ? cancel : again)();
  else job(event, name);
});

define("wire", (root, props) => {
  root.hidden = true;
  onPut(() => props.trigger("put", { index: 0, value: "" }));
  return ({ shown, model, modes }) => {
    page.shown = shown;
    setModes(modes);
    leaveOut(Object.keys(modes));
    begin(model);
    ask().then(endSign);
  };
});
