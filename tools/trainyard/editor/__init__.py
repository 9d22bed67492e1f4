"""`lint-jobs --lsp`: a language server, which shows in an editor what lint-jobs finds in its unsaved texts.

`server` speaks the protocol. `worker` judges, in a process of its own: an edit interrupts it, and no input takes the
server with it. What is shown are the findings of `lint-jobs` for the same texts, placed in the editor's units.
"""
