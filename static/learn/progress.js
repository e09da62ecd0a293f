// A user's progress, stored only in this browser and never sent.
//
// { lesson: { at, finished, steps: { step: { question, guess, result, right, tries, hints } } } }
const KEY = "playground-lessons";
const isRecord = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
let held = {};

function recall() {
  try {
    const stored = JSON.parse(localStorage.getItem(KEY));
    if (isRecord(stored)) held = stored;
  } catch {
    /* private browsing, or storage that is full or blocked */
  }
}
recall();

export function of(key) {
  const one = Object.hasOwn(held, key) && isRecord(held[key]) ? held[key] : {};
  const at = Number.isInteger(one.at) && one.at >= 0 ? one.at : 0;
  return { at, finished: one.finished === true, steps: isRecord(one.steps) ? one.steps : {} };
}
export function keep(key, change) {
  recall(); // another window of this browser may have stored progress
  held = { ...held, [key]: { ...of(key), ...change } };
  try {
    localStorage.setItem(KEY, JSON.stringify(held));
  } catch {
    /* as above */
  }
}
export function note(key, step, change) {
  const { steps } = of(key);
  keep(key, { steps: { ...steps, [step]: { ...(isRecord(steps[step]) ? steps[step] : {}), ...change } } });
}
