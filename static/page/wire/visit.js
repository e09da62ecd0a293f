// The name by which the server knows this page, an unguessable secret.
const bytes = crypto.getRandomValues(new Uint8Array(16)); // `randomUUID` requires https or localhost
export const visit = Array.from(bytes, (each) => each.toString(16).padStart(2, "0")).join("");
