// Starts the language server of the folder that is open, and hands VS Code what it says.
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const vscode = require('vscode');
const { LanguageClient } = require('vscode-languageclient/node');

let client;

/** The program of the setting, with the path of the first open folder that holds it; undefined where none does. */
function found(program) {
  if (path.isAbsolute(program) || !program.includes('/')) {
    return program;
  }
  const folders = (vscode.workspace.workspaceFolders || []).filter((folder) => folder.uri.scheme === 'file');
  return folders.map((folder) => path.join(folder.uri.fsPath, program)).find((file) => fs.existsSync(file));
}

async function start() {
  const [program, ...args] = vscode.workspace.getConfiguration('trainyard').get('command', []);
  const command = program && found(program);
  if (!command) {
    return; // a folder of another sort, in which nobody misses the server
  }
  const schemes = { scheme: 'file' };
  client = new LanguageClient('trainyard', 'Trainyard', { command, args }, {
    documentSelector: [
      { ...schemes, language: 'yaml' },
      { ...schemes, language: 'json' },
      { ...schemes, pattern: '**/Kustomization' },
    ],
  });
  await client.start();
}

async function stop() {
  const running = client;
  client = undefined;
  await running?.stop();
}

async function activate(context) {
  const restart = async () => {
    await stop();
    await start();
  };
  context.subscriptions.push(
    vscode.commands.registerCommand('trainyard.restart', restart),
    vscode.workspace.onDidChangeConfiguration((event) => event.affectsConfiguration('trainyard') && restart()),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
