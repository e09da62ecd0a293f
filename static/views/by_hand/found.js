// The exercises that the user has solved, stored only in this browser as a list of names.
const KEY = "playground-mistakes";

export function foundSoFar() {
  try {
    const stored = JSON.parse(localStorage.getItem(KEY));
    return new Set(Array.isArray(stored) ? stored.filter((each) => typeof each === "string") : []);
  } catch {
    return new Set(); // private browsing, or storage that is full or blocked
  }
}

// Add a name and return all names, including those that another window of this browser has added.
export function nowFound(exercise, known) {
  const found = new Set([...foundSoFar(), ...known, exercise]);
  try {
    localStorage.setItem(KEY, JSON.stringify([...found]));
  } catch {
    /* as above */
  }
  return found;
}
