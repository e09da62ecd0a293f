// Which mistakes a visitor has found, in this browser alone: nothing of it is sent. A list of names of exercises.
const KEY = "playground-mistakes";

export function foundSoFar() {
  try {
    const stored = JSON.parse(localStorage.getItem(KEY));
    return new Set(Array.isArray(stored) ? stored.filter((each) => typeof each === "string") : []);
  } catch {
    return new Set(); // a private window, or storage that is full or forbidden
  }
}

// Adds a name and says what there is now: another window of this browser may have found more.
export function nowFound(exercise, known) {
  const found = new Set([...foundSoFar(), ...known, exercise]);
  try {
    localStorage.setItem(KEY, JSON.stringify([...found]));
  } catch {
    /* as above */
  }
  return found;
}
