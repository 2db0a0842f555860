// llama.cpp behind HTTP, for tools/bench_serve where there is no llama-server: the library of node-llama-cpp with one sequence
// per client and a server of Node's. A poor peer: what its JavaScript costs is not llama.cpp's.
// usage: node bench_serve_peer.mjs NODE-MODULES MODEL SEQUENCES CONTEXT THREADS; prints "listening on PORT".
import http from "node:http";
import {pathToFileURL} from "node:url";

const [modules, file, sequences, contextSize, threads] = process.argv.slice(2);
const {getLlama, LlamaCompletion} = await import(pathToFileURL(`${modules}/node-llama-cpp/dist/index.js`).href);
const llama = await getLlama({gpu: false, build: "never", maxThreads: Number(threads), logLevel: "error"});
const model = await llama.loadModel({modelPath: file});
const context = await model.createContext({
    sequences: Number(sequences), contextSize: Number(contextSize), batchSize: 512, threads: Number(threads), failedCreationRemedy: false
});
const free = [], waiting = [];
for (let i = 0; i < Number(sequences); i++) {
    const sequence = context.getSequence();
    free.push(new LlamaCompletion({contextSequence: sequence}));
}
const take = () => free.length > 0 ? Promise.resolve(free.pop()) : new Promise((done) => waiting.push(done));
const give = (c) => waiting.length > 0 ? waiting.shift()(c) : free.push(c);

const server = http.createServer((request, response) => {
    let body = "";
    request.on("data", (part) => (body += part));
    request.on("end", async () => {
        const q = JSON.parse(body), completion = await take();
        response.writeHead(200, {"Content-Type": "text/event-stream"});
        try {
            let tokens = 0;
            await completion.generateCompletion(q.prompt, {
                maxTokens: q.max_tokens, temperature: 0,
                onToken(ids) {
                    tokens += ids.length; // the text of a token may be held back: an event per token, as of stator
                    response.write(`data: ${JSON.stringify({choices: [{index: 0, text: model.detokenize(ids) || "?", finish_reason: null}]})}\n\n`);
                }
            });
            if (tokens < q.max_tokens)
                console.error(`bench_serve_peer: ${tokens} tokens of ${q.max_tokens}: the model ended`);
            response.end("data: [DONE]\n\n");
        } catch (e) {
            response.end(`data: ${JSON.stringify({"error": String(e)})}\n\n`);
        }
        give(completion);
    });
});
server.listen(0, "127.0.0.1", () => console.log(`listening on ${server.address().port}`));
