// What the parts of the page ask for, and how it is asked.
//
// payload of "wire": { shown, model, modes }: what the page came with, its model, and of each stream's events what they
//   do while one like them goes on.
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
