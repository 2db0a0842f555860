// ollama: chats with a call, whole and streamed, a second turn with its result, texts, and what the model is.
import { Ollama } from "ollama";
import { check, same, run } from "./check.mjs";

const client = new Ollama({ host: `http://127.0.0.1:${process.argv[2]}` });
const parameters = { type: "object", properties: { city: { type: "string" } } };
const tools = [{ type: "function", function: { name: "weather", description: "d", parameters } }];
const ask = { model: "any", messages: [{ role: "user", content: "Hi" }], tools, options: { temperature: 0, num_ctx: 8192 }, keep_alive: "5m" };

async function chats() {
  const { message } = await client.chat(ask);
  same([message.thinking, message.content], ["Let me see.", "I will look."], "chat");
  const call = message.tool_calls[0].function;
  same([call.name, call.arguments], ["weather", { city: "Rome" }], "its call");

  let text = "", thought = "", calls = [], last;
  for await (const part of await client.chat({ ...ask, stream: true })) {
    text += part.message.content;
    thought += part.message.thinking ?? "";
    calls = calls.concat(part.message.tool_calls ?? []);
    last = part;
  }
  same([thought, text, calls.map((one) => one.function)], ["Let me see.", "I will look.", [call]], "streamed");
  check(last.done && last.done_reason === "stop" && last.eval_count > 0, `the last part is ${JSON.stringify(last)}`);

  const messages = [...ask.messages, message, { role: "tool", tool_name: "weather", content: "sunny" }];
  same((await client.chat({ ...ask, messages })).message.content, "I will look.", "the second turn");
}

async function others() {
  const text = await client.generate({ model: "any", prompt: "Hi", system: "Be kind", think: false });
  check(text.response.includes("I will look."), `generate: ${text.response}`);
  const { models } = await client.list();
  const shown = await client.show({ model: models[0].name });
  same(shown.capabilities, ["completion", "tools", "thinking"], "capabilities");
  check((await client.ps()).models.length === 1, "ps");
  const error = await client.chat({ ...ask, messages: [{ role: "user", content: "x", images: ["aGk="] }] }).catch((e) => e);
  check(error.status_code === 400 && error.message.includes("messages[0].images"), `the error is ${error}`);
}

await run(async () => {
  await chats();
  await others();
});
