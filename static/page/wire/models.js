// Choosing a model: its notice as it is loaded, a cancel, and the way back to the one before. And putting values into
// Gradio's own components, the picker and the prompt's box.
import { go } from "../address/places.js";
import { mounted, onDrawn } from "../mount.js";
import { setPrompt } from "../prompt/prompt.js";
import { reachable } from "../server/connection.js";
import { post } from "./post.js";
import { page } from "./question.js";
import { ask } from "./view.js";

let picker = {}, // what it is to have: { label, choices, value }
  prompt = {}, // and the prompt's box: { label, placeholder }
  put = () => {}, // has Gradio ask for both
  requested = null, // the model that was chosen last
  under = null; // the controller of its request
export const isLoaded = (id) => page.model === id;

// The updates of picker and prompt, as Gradio asks for them.
export const updates = () => [picker, prompt].map((change) => ({ __type__: "update", ...change }));
export const onPut = (trigger) => {
  put = trigger;
};
function show(change) {
  picker = { ...picker, ...change };
  put();
}
export const choices = (list) => show({ choices: list });

// Their labels in the reader's language.
onDrawn((root, payload) => {
  if (root.dataset.part !== "nav" || !payload) return;
  const { model, prompt: label, placeholder } = payload.labels;
  prompt = { label, placeholder };
  show({ label: model });
});

// The model that the page came with.
export function begin(id) {
  page.model = requested = id;
}
// The page computes with this model from now on.
export function useModel(id) {
  begin(id);
  show({ value: id });
}

export async function choose(id) {
  if (id === requested && under) return; // Gradio tells of a choice twice
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
      await reachable(); // an answer that was cut off is asked for again
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
