// Yield the lines of a response as they arrive, each parsed from JSON. Throws if the response is incomplete.
export async function eachLine(body, take) {
  const text = new TextDecoder(),
    reader = body.getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    const whole = (rest + text.decode(value, { stream: !done })).split("\n");
    rest = whole.pop();
    for (const line of whole) take(JSON.parse(line));
    if (done) return;
  }
}
