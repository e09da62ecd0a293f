// The name under which the server knows this page, once the framework has said it.
let tell;
export const visit = new Promise((resolve) => {
  tell = resolve;
});
export const nameVisit = (name) => name && tell(name);
