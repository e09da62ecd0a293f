// Selection of a model: the loading notice, cancellation, and return to the previous model. Also sets the values of
// Gradio's own components, the picker and the prompt box.
import { go } from "../address/places.js";
import { mounted, onDrawn } from "../mount.js";
import { setPrompt } from "../prompt/prompt.js";
import { reachable } from "../server/connection.js";
import { post } from "./post.js";
import { page } from "./question.js";
import { ask } from "./view.js";

let picker = {}, // the picker's next update: { label, choices, value }
  prompt = {}, // the prompt box's next update: { label, placeholder }
  put = () => {}, // a function that makes Gradio request both updates
  requested = null, // the most recently selected model
  under = null; // the AbortController of its request
export const isLoaded = (id) => page.model === id;

// Return the updates of the picker and the prompt box when Gradio requests them.
export const updates = () => [picker, prompt].map((change) => ({ __type__: "update", ...change }));
export const onPut = (trigger) => {
  put = trigger;
};
function show(change) {
  picker = { ...picker, ...change };
  put();
}
export const choices = (list) => show({ choices: list });

// Set the labels of both in the user's language.
onDrawn((root, payload) => {
  if (root.dataset.part !== "nav" || !payload) return;
  const { model, prompt: label, placeholder } = payload.labels;
  prompt = { label, placeholder };
  show({ label: model });
});

// Store the model with which the page was loaded.
export function begin(id) {
  page.model = requested = id;
}
// Use this model for all further questions.
export function useModel(id) {
  begin(id);
  show({ value: id });
}

export async function choose(id) {
  if (id === requested && under) return; // Gradio reports each selection twice
  under?.abort();
  under = new AbortController();
  const mine = under;
  requested = id;
  let cancelled = null,
    there = false;
  const say = (notice) => mine === under && mounted.get("notice").show(notice);
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
    if (!mine.signal.aborted) {
      console.warn(error);
      await reachable(); // repeat a request whose response was cut off
      if (mine === under) under = null;
      return requested === id && choose(id);
    }
    say(cancelled ?? {});
  }
  if (mine !== under) return;
  under = null;
  if (there) {
    useModel(id);
    ask();
  } else show({ value: page.model });
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
