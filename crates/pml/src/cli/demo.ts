import { searchTools } from "pml";

// Which tool finds something in files? Agents ask in plain words, programs can too.
const [tool] = await searchTools("find the files that mention a word", 1);
console.log(`${tool.name} scores ${tool.score}: ${tool.signature}`);

// What do my files want me to do? Two servers know together: `files` and `notes`.
const names = await mcp.files.search_files({ text: "TODO" });

// All of them at the same time.
const texts = await Promise.all(names.map((path) => mcp.files.read_file({ path })));

const todos = texts.flatMap((text, i) =>
  text.split("\n")
    .filter((line) => line.includes("TODO"))
    .map((line) => `${names[i]}: ${line.replace(/.*TODO:?\s*/, "")}`));
for (const todo of todos) await mcp.notes.add_note({ text: todo });

// A tool that fails is an exception, with a code.
try {
  await mcp.files.read_file({ path: "../secret" });
} catch (error) {
  console.log(`as it should be, ${error.code}: ${error.message}`);
}

// Only what is returned reaches the agent: a few lines instead of every file.
const [notes, seconds] = await Promise.all([mcp.notes.list_notes(), mcp.clock.now()]);
return { asOf: new Date(seconds * 1000).toISOString(), todo: notes };
