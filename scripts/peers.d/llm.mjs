// Reference outputs of llama.cpp for the language model tests, through node-llama-cpp.
//
//   node llm.mjs NODE_FOLDER MODEL.gguf OUT.json        reference outputs
//   node llm.mjs NODE_FOLDER MODEL.gguf --bench [N]     speed, as one JSON line per figure
//
// NODE_FOLDER holds node_modules/node-llama-cpp. Not part of scripts/test: its output is committed.

import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, modelPath, out, rounds] = process.argv.slice(2);
if (!out) {
  console.error("usage: node llm.mjs NODE_FOLDER MODEL.gguf (OUT.json | --bench [N])");
  process.exit(2);
}
const threads = Number(process.env.PEER_THREADS ?? 2);
const peer = join(folder, "node_modules", "node-llama-cpp");
const { getLlama } = await import(pathToFileURL(join(peer, "dist", "index.js")));
const llama = await getLlama({ gpu: false, build: "never", maxThreads: threads, logLevel: "error" });
const model = await llama.loadModel({ modelPath });

// Written for this test; 272 tokens.
const text = `The harbour at Lowmere has three lanes. The first is for the ferries, which run every ten minutes and must \
never wait; the second is for the fishing boats, which come in with the tide; and the third, the widest, is for the \
freighters that bring grain from the south. In the tower above the quay sits the keeper. She has a brass clock, a \
ledger with blue lines, and a telescope that her grandfather bought from a captain who could no longer pay his dues.

When a freighter enters, the keeper writes down the hour and the tonnage. If a ferry is due, she raises a yellow flag, \
and the freighter drops its speed until the smaller vessel has passed. "Nobody drowns of patience," she likes to say, \
although the pilots, who are paid by the trip, do not always agree. On the second of March 1907 a storm took the flag, \
the mast and most of the roof. For six days the boats sorted themselves out by shouting. There were four collisions, \
none of them serious, and one wedding, which was.

Since then the rules have been painted on the wall of the customs house: small before large, early before late, and \
whoever has been passed over twice goes next. The children learn to read from them.`;

const prompts = [
  "The capital of France is",
  "Once upon a time, in a small village by the sea,",
  "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n",
  "Water boils at a temperature of",
  "Dear Sir or Madam,\n\nI am writing to",
  "1, 2, 4, 8, 16,",
  "The three primary colours are",
  "<|im_start|>user\nName two fruits.<|im_end|>\n<|im_start|>assistant\n",
  "In 1969, the first human",
  "Q: Why is the sky blue?\nA:",
];

async function context(sequences = 1) {
  return model.createContext({ contextSize: 1024, sequences, threads, batchSize: 1024 });
}

const top = (probabilities, n) =>
  [...probabilities].sort((a, b) => b[1] - a[1]).slice(0, n).map(([id, p]) => [id, Math.log(p)]);

async function logprobs(tokens) {
  const ctx = await context();
  const want = { generateNext: { probabilities: true, token: true, options: { temperature: 0 } } };
  const results = await ctx.getSequence().controlledEvaluate(tokens.map((t) => [t, want]));
  const list = tokens.slice(1).map((t, i) => Math.log(results[i].next.probabilities.get(t)));
  await ctx.dispose();
  return list;
}

async function greedy(tokens, count) {
  const ctx = await context();
  const sequence = ctx.getSequence();
  const want = { generateNext: { probabilities: true, token: true, options: { temperature: 0 } } };
  const ids = [];
  const margins = [];
  let input = tokens;
  while (ids.length < count) {
    const items = input.map((t, i) => (i + 1 === input.length ? [t, want] : t));
    const results = await sequence.controlledEvaluate(items);
    const [[id, first], [, second]] = top(results[input.length - 1].next.probabilities, 2);
    ids.push(id);
    margins.push(Number((first - second).toFixed(4)));
    input = [id];
  }
  await ctx.dispose();
  return { ids, margins };
}

async function reference() {
  const tokens = model.tokenize(text, true);
  const generated = [];
  for (const prompt of prompts) {
    const ids = model.tokenize(prompt, true);
    generated.push({ prompt, tokens: [...ids], ...(await greedy([...ids], 64)) });
  }
  const { version } = JSON.parse(readFileSync(join(peer, "package.json"), "utf8"));
  const document = {
    peer: { "node-llama-cpp": version, "llama.cpp": llama.llamaCppRelease.release },
    model: { sha256: createHash("sha256").update(readFileSync(modelPath)).digest("hex") },
    text,
    tokens: [...tokens],
    logprobs: (await logprobs([...tokens])).map((l) => Number(l.toFixed(5))),
    generated,
  };
  const short = (key, value) => (Array.isArray(value) && typeof value[0] === "number" ? JSON.stringify(value) : value);
  writeFileSync(out, JSON.stringify(document, short, 1).replaceAll(/"(\[[^"]*\])"/g, "$1") + "\n");
}

// Best of `count` runs by wall clock, and the least processor time of one: a shared machine takes cores away.
async function best(count, tokens, run) {
  let [wall, cpu] = [Infinity, Infinity];
  for (let i = 0; i < count; i++) {
    const done = await run();
    wall = Math.min(wall, done.wall);
    cpu = Math.min(cpu, done.cpu);
  }
  return { value: (tokens * 1000) / wall, per_cpu_s: (tokens * 1000) / cpu };
}

async function timed(work) {
  const [began, used] = [performance.now(), process.cpuUsage()];
  await work();
  const { user, system } = process.cpuUsage(used);
  return { wall: performance.now() - began, cpu: (user + system) / 1000 };
}

async function bench(count) {
  const say = (what, figures) => console.log(JSON.stringify({ peer: "llama.cpp", threads, what, ...figures }));
  const tokens = [...model.tokenize(text, true)].slice(0, 256);
  const want = { generateNext: { token: true, options: { temperature: 0 } } };
  const feed = (sequence, input) =>
    sequence.controlledEvaluate(input.map((t, i) => (i + 1 === input.length ? [t, want] : t)));
  const prefill = async () => {
    const ctx = await context();
    const figures = await timed(() => feed(ctx.getSequence(), tokens));
    await ctx.dispose();
    return figures;
  };
  say("prefill_tokens_per_s", await best(count, tokens.length, prefill));
  for (const width of [1, 4, 8]) {
    const steps = 32;
    const decode = async () => {
      const ctx = await context(width);
      const sequences = Array.from({ length: width }, () => ctx.getSequence());
      let inputs = sequences.map((_, i) => tokens.slice(i, i + 32));
      const step = async () => {
        const results = await Promise.all(sequences.map((sequence, i) => feed(sequence, inputs[i])));
        inputs = results.map((result) => [result.at(-1).next.token]);
      };
      await step();
      const figures = await timed(async () => {
        for (let i = 0; i < steps; i++) {
          await step();
        }
      });
      await ctx.dispose();
      return figures;
    };
    say(`decode_tokens_per_s_${width}`, await best(count, width * steps, decode));
  }
}

await (out === "--bench" ? bench(Number(rounds ?? 5)) : reference());
process.exit(0);
