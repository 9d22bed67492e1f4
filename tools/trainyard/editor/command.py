"""`lint-jobs --lsp`: the language server on standard input and output."""

import gc
import logging
import os
import signal

from trainyard.errors import EXIT_CLEAN, UsageError


def serve() -> int:
    """Serve an editor until it leaves. UsageError where the library that speaks its protocol is not installed."""
    try:
        from trainyard.editor.server import make_server
    except ModuleNotFoundError as error:
        if error.name not in ("pygls", "lsprotocol"):
            raise
        raise UsageError("--lsp needs pygls: start tools/lint-jobs, or install trainyard[lsp]") from None
    gc.enable()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # nothing is left behind, and a read of standard input would go on
    logging.getLogger("pygls").setLevel(logging.ERROR)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a module prints must not reach the editor as a message
    server = make_server()
    try:
        server.start_io(stdout=out)
    finally:
        server.judging.end()
    return EXIT_CLEAN
