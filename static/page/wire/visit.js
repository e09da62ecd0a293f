// The name under which the server knows this page: a secret that nobody guesses.
const bytes = crypto.getRandomValues(new Uint8Array(16)); // randomUUID is only there over https and on this machine
export const visit = Array.from(bytes, (each) => each.toString(16).padStart(2, "0")).join("");
