// The lines of an answer, each a JSON value, handed on as they arrive. Throws where the answer is cut off.
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
