// @anthropic-ai/sdk: whole and streamed answers, a second turn with the result of a call, counts and errors.
import Anthropic from "@anthropic-ai/sdk";
import { check, same, run } from "./check.mjs";

const client = new Anthropic({ baseURL: `http://127.0.0.1:${process.argv[2]}`, apiKey: "none", maxRetries: 0 });
const tools = [
  { name: "weather", description: "d", input_schema: { type: "object", properties: { city: { type: "string" } } } },
  { type: "web_search_20250305", name: "web_search" },
];
const ask = { model: "any", max_tokens: 200, messages: [{ role: "user", content: "Hi" }], tools };
const blocks = (content) => content.map(({ id, ...rest }) => rest);
const wanted = [
  { type: "thinking", thinking: "Let me see.", signature: "stator" },
  { type: "text", text: "I will look." },
  { type: "tool_use", name: "weather", input: { city: "Rome" } },
];

await run(async () => {
  const whole = await client.messages.create(ask);
  same(blocks(whole.content), wanted, "whole");
  same(whole.stop_reason, "tool_use", "stop_reason");

  const stream = client.messages.stream(ask);
  let text = "", thought = "";
  stream.on("text", (piece) => (text += piece));
  stream.on("thinking", (piece) => (thought += piece));
  const last = await stream.finalMessage();
  same(blocks(last.content), wanted, "streamed");
  same([text, thought], ["I will look.", "Let me see."], "the stream's texts");
  same(last.usage.output_tokens, whole.usage.output_tokens, "usage");
  check(last.usage.cache_read_input_tokens > 0, "nothing was cached");

  const messages = [
    ...ask.messages,
    { role: "assistant", content: last.content },
    { role: "user", content: [{ type: "tool_result", tool_use_id: last.content[2].id, content: "sunny" }] },
  ];
  same(blocks((await client.messages.create({ ...ask, messages })).content), wanted, "the second turn");
  const { input_tokens } = await client.messages.countTokens({ model: "any", messages, tools });
  check(input_tokens > whole.usage.input_tokens, `${input_tokens} tokens are counted`);

  const error = await client.messages.create({ ...ask, tool_choice: { type: "tool" } }).catch((e) => e);
  check(error instanceof Anthropic.BadRequestError && error.error.error.type === "invalid_request_error", `the error is ${error}`);
});
