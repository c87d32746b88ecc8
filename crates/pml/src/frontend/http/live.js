// Follows /events. The token is typed in and kept nowhere; EventSource could not send it.
const $ = (id) => document.getElementById(id);
const MAX_LINES = 2000;
let following;

$("connect").addEventListener("submit", (event) => {
  event.preventDefault();
  following?.abort();
  following = new AbortController();
  follow(following.signal);
});

async function follow(signal) {
  const query = new URLSearchParams();
  if ($("execution").value.trim()) query.set("execution", $("execution").value.trim());
  const headers = $("token").value ? { Authorization: `Bearer ${$("token").value.trim()}` } : {};
  while (!signal.aborted) {
    try {
      const response = await fetch(`/events?${query}`, { headers, signal });
      if (!response.ok) {
        $("state").value = (await response.text()).trim();
        return;
      }
      $("state").value = "following";
      await read(response.body.pipeThrough(new TextDecoderStream()).getReader());
      $("state").value = "the stream has ended; trying again";
    } catch (error) {
      if (signal.aborted) return;
      $("state").value = `${error.message}; trying again`;
    }
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
}

async function read(reader) {
  let buffer = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    buffer += value;
    const blocks = buffer.split("\n\n");
    buffer = blocks.pop();
    for (const block of blocks) {
      const data = block.split("\n").find((line) => line.startsWith("data: "));
      if (data) show(JSON.parse(data.slice(6)));
    }
  }
}

function show({ ts, correlation_id: id, body, count }) {
  if (!body) return line($("events"), `${count} events were missed`, "failed");
  const time = new Date(ts).toLocaleTimeString();
  const { topic, ...rest } = body;
  const isRun = topic.startsWith("execution.") || topic.startsWith("provider.mcp.tool.") || topic === "policy.denied";
  if (topic === "audit.entry") return; // says what the others say
  if (!isRun) return line($("events"), `${time} ${topic} ${JSON.stringify(rest)}`, "quiet");
  const section = document.getElementById(`run-${id}`) ?? begin(id, time);
  switch (topic) {
    case "execution.started":
      return line(section, body.intent ?? `a program of ${body.code_bytes} bytes`);
    case "execution.log":
      return line(section, body.text, body.level === "error" ? "failed" : "");
    case "execution.progress":
      return line(section, `progress ${count(body)}`, "quiet");
    case "execution.call.started":
      return line(section, `→ ${body.tool}`, "quiet");
    case "execution.call.progress":
      return line(section, `… ${body.tool} ${count(body)}`, "quiet");
    case "provider.mcp.tool.completed":
      return line(section, `✓ ${body.tool} in ${body.duration_ms} ms, ${body.result_bytes} bytes`);
    case "provider.mcp.tool.failed":
      return line(section, `✗ ${body.tool}: ${body.code} ${body.message}`, "failed");
    case "policy.denied":
      return line(section, `✗ ${body.tool}: the policy says no (${body.rule})`, "failed");
    case "execution.ended":
      section.className = body.success ? "success" : "error";
      return line(section, `${body.success ? "done" : body.code} in ${body.duration_ms} ms, ${body.calls} calls`);
  }
}

function count({ progress, total, message }) {
  return `${progress ?? ""}${total ? `/${total}` : ""} ${message ?? ""}`;
}

function begin(id, time) {
  const section = document.createElement("section");
  section.id = `run-${id}`;
  const title = document.createElement("h2");
  title.textContent = `${time} ${id}`;
  section.append(title);
  $("events").prepend(section);
  return section;
}

function line(parent, text, kind = "") {
  const paragraph = document.createElement("p");
  paragraph.textContent = text;
  paragraph.className = kind;
  if (parent === $("events")) parent.prepend(paragraph);
  else parent.append(paragraph);
  while ($("events").childElementCount > MAX_LINES) $("events").lastElementChild.remove();
}
