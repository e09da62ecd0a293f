// How far a visitor has come, in this browser alone: nothing of it is sent.
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
    /* a private window, or storage that is full or forbidden */
  }
}
recall();

export function of(key) {
  const one = Object.hasOwn(held, key) && isRecord(held[key]) ? held[key] : {};
  const at = Number.isInteger(one.at) && one.at >= 0 ? one.at : 0;
  return { at, finished: one.finished === true, steps: isRecord(one.steps) ? one.steps : {} };
}
export function keep(key, change) {
  recall(); // another window of this browser may have come further
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
