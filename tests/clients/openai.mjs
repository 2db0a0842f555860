// openai: Responses and chat completions, whole and streamed, and a second turn with the result of a call.
import OpenAI from "openai";
import { check, same, run } from "./check.mjs";

const client = new OpenAI({ baseURL: `http://127.0.0.1:${process.argv[2]}/v1`, apiKey: "none", maxRetries: 0 });
const parameters = { type: "object", properties: { city: { type: "string" } } };
const tools = [{ type: "function", name: "weather", description: "d", parameters, strict: false }, { type: "web_search" }];
const ask = { model: "any", input: "Hi", tools, store: false, include: ["reasoning.encrypted_content"] };

// Items without ids and without what the package adds.
const bare = (items) => JSON.parse(JSON.stringify(items, (name, value) => (/^(id|call_id|parsed.*)$/.test(name) ? undefined : value)));

async function responses() {
  const whole = await client.responses.create(ask);
  same(whole.output.map((item) => item.type), ["reasoning", "message", "function_call"], "items");
  same([whole.output_text, whole.status], ["I will look.", "completed"], "the text");
  same(JSON.parse(whole.output[2].arguments), { city: "Rome" }, "arguments");

  const stream = client.responses.stream(ask);
  let text = "";
  stream.on("response.output_text.delta", (event) => (text += event.delta));
  const last = await stream.finalResponse();
  same(text, "I will look.", "the stream's text");
  same(bare(last.output), bare(whole.output), "streamed");
  check(last.usage.input_tokens_details.cached_tokens > 0, "nothing was cached");

  const input = [
    { role: "user", content: "Hi" },
    ...whole.output,
    { type: "function_call_output", call_id: whole.output[2].call_id, output: "sunny" },
  ];
  same((await client.responses.create({ ...ask, input })).output_text, "I will look.", "the second turn");
  const error = await client.responses.create({ ...ask, previous_response_id: "resp_1" }).catch((e) => e);
  check(error instanceof OpenAI.BadRequestError && error.param === "previous_response_id", `the error is ${error}`);
}

async function chats() {
  const chat = { model: "any", messages: [{ role: "user", content: "Hi" }], tools: [{ type: "function", function: { name: "weather", parameters } }] };
  const whole = (await client.chat.completions.create(chat)).choices[0];
  same([whole.message.content, whole.finish_reason], ["I will look.", "tool_calls"], "chat");
  const call = whole.message.tool_calls[0];
  same([call.function.name, JSON.parse(call.function.arguments)], ["weather", { city: "Rome" }], "its call");
  const streamed = await client.chat.completions.stream(chat).finalMessage();
  same(streamed.tool_calls[0].function.arguments, call.function.arguments, "its call, streamed");
  const messages = [...chat.messages, whole.message, { role: "tool", tool_call_id: call.id, content: "sunny" }];
  same((await client.chat.completions.create({ ...chat, messages })).choices[0].message.content, "I will look.", "its second turn");
}

await run(async () => {
  await responses();
  await chats();
});
