// A client of the official TypeScript SDK: it starts an agent, talks with it, and prints what it heard.
// Arguments: the SDK's folder, a directory for the session, a file with JSON steps, the agent's command.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [sdk, cwd, plan, ...command] = process.argv.slice(2);
const acp = await import(pathToFileURL(`${sdk}/dist/v1/stable/acp.js`));
const { agent, client: ours } = acp.methods;
const steps = JSON.parse(readFileSync(plan, "utf-8"));

const program = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(program.stdin), Readable.toWeb(program.stdout));
const tell = (row) => console.log(JSON.stringify(row));
let answer = "allow_once";
let heard = () => {};

const app = acp
  .client({ name: "test" })
  .onRequest(ours.session.requestPermission, ({ params }) => {
    const kinds = params.options.map((option) => option.kind);
    tell({ asked: params.toolCall.rawInput, kinds });
    const chosen = params.options.find((option) => option.kind === answer);
    return { outcome: { outcome: "selected", optionId: chosen.optionId } };
  })
  .onNotification(ours.session.update, ({ params }) => {
    tell(params.update);
    heard(params.update);
  });

await app.connectWith(stream, async (ctx) => {
  const protocolVersion = acp.PROTOCOL_VERSION;
  tell({ hello: await ctx.request(agent.initialize, { protocolVersion, clientCapabilities: {} }) });
  let sessionId;
  for (const step of steps) {
    answer = step.answer ?? "allow_once";
    if (step.load) {
      sessionId = step.load;
      await ctx.request(agent.session.load, { sessionId, cwd, mcpServers: [] });
      tell({ loaded: sessionId });
    } else if (!sessionId) {
      ({ sessionId } = await ctx.request(agent.session.new, { cwd, mcpServers: [] }));
      tell({ opened: sessionId });
    }
    if (step.mode) await ctx.request(agent.session.setMode, { sessionId, modeId: step.mode });
    if (step.cancelAfter) {
      heard = (update) => {
        if (update.content?.text?.includes(step.cancelAfter)) {
          ctx.notify(agent.session.cancel, { sessionId });
        }
      };
    }
    const prompt = [{ type: "text", text: step.say }];
    tell({ stopped: (await ctx.request(agent.session.prompt, { sessionId, prompt })).stopReason });
    heard = () => {};
  }
});
program.stdin.end();
const code = await new Promise((ended) => program.on("exit", ended));
tell({ exit: code });
process.exit(0);
