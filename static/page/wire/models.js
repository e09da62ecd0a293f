// Choosing a model: its notice as it is loaded, a cancel, and the way back to the one before.
import { go } from "../address/places.js";
import { mounted } from "../mount.js";
import { setPrompt } from "../prompt/prompt.js";
import { asking } from "./asking.js";
import { ask as post } from "./post.js";

let wanted = {}, // of the picker: { choices, value }
  put = () => {}, // has the framework take it
  requested = null, // the model that was chosen last
  under = null, // the controller of the request
  opened = 0;
const part = (name) => mounted.get(name);
const loaded = () => part("loaded").props.value.id;
export const isLoaded = (id) => loaded() === id;

// The picker's update, as the framework asks for it.
export const pickerUpdate = () => [{ __type__: "update", ...wanted }];
export const onPut = (trigger) => {
  put = trigger;
};
function show(change) {
  wanted = { ...wanted, ...change };
  put();
}
export const choices = (list) => show({ choices: list });

// The page computes with this model from now on.
export function useModel(id) {
  opened += 1;
  part("loaded").props.value = { id, opened: String(opened) };
  requested = id;
  show({ value: id });
}

export async function choose(id) {
  if (id === requested && under) return; // the framework tells of a choice twice
  under?.abort();
  under = new AbortController();
  const mine = under;
  requested = id;
  let cancelled = null,
    there = false;
  const say = (notice) => mine === under && part("notice").show(notice);
  try {
    await post(
      "model",
      { choose: id },
      (line) => {
        cancelled ??= line.cancelled;
        if (line.notice) say(line.notice);
        if (line.models) choices(line.models);
        there ||= line.loaded === id;
      },
      mine.signal,
    );
  } catch (error) {
    if (!mine.signal.aborted) throw error;
    say(cancelled ?? {});
  }
  if (mine !== under) return;
  under = null;
  if (there) {
    useModel(id);
    asking.ask();
  } else show({ value: loaded() });
  return there;
}
export const cancel = () => under?.abort();
export const again = () => requested && choose(requested);
export const want = (id) => {
  requested = id;
};

export async function openModel({ model, prompt, tab }) {
  if (!(await choose(model))) return;
  setPrompt(prompt);
  go(tab);
}
