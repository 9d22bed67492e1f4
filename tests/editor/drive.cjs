// An editor as Microsoft's library speaks the protocol: opens a file, types, and prints what the server answers as JSON.
// Arguments: the file, what is replaced and by what in its text, and the command of the server.
'use strict';

const fs = require('node:fs');
const { spawn } = require('node:child_process');
const { pathToFileURL } = require('node:url');
const protocol = require('vscode-languageserver-protocol/node');

async function main([file, before, after, ...command]) {
  const server = spawn(command[0], command.slice(1), { stdio: ['pipe', 'pipe', 'inherit'] });
  const ended = new Promise((resolve) => server.on('exit', resolve));
  const connection = protocol.createProtocolConnection(
    new protocol.StreamMessageReader(server.stdout), new protocol.StreamMessageWriter(server.stdin));
  const uri = pathToFileURL(file).href;
  let told = () => {};
  connection.onNotification(protocol.PublishDiagnosticsNotification.type, (params) => told(params));
  const judged = (version) => new Promise((resolve) => {
    told = (params) => params.uri === uri && params.version === version && resolve(params.diagnostics);
  });
  connection.listen();

  const { capabilities } = await connection.sendRequest(
    protocol.InitializeRequest.type, { processId: process.pid, rootUri: null, capabilities: {} });
  await connection.sendNotification(protocol.InitializedNotification.type, {});
  const text = fs.readFileSync(file, 'utf8');
  const opened = judged(1);
  await connection.sendNotification(
    protocol.DidOpenTextDocumentNotification.type, { textDocument: { uri, languageId: 'yaml', version: 1, text } });
  const saved = await opened;
  const changed = judged(2);
  await connection.sendNotification(protocol.DidChangeTextDocumentNotification.type, {
    textDocument: { uri, version: 2 }, contentChanges: [{ text: text.replace(before, after) }] });
  const typed = await changed;
  const textDocument = { uri };
  const { range } = typed[0];
  const actions = await connection.sendRequest(
    protocol.CodeActionRequest.type, { textDocument, range, context: { diagnostics: typed } });
  const hover = await connection.sendRequest(protocol.HoverRequest.type, { textDocument, position: range.start });
  const items = await connection.sendRequest(
    protocol.CompletionRequest.type, { textDocument, position: range.start });
  await connection.sendRequest(protocol.ShutdownRequest.type);
  await connection.sendNotification(protocol.ExitNotification.type);
  const code = await ended;
  process.stdout.write(JSON.stringify({ capabilities, saved, typed, actions, hover, items, code }));
}

main(process.argv.slice(2)).then(() => process.exit(0), (error) => {
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
});
