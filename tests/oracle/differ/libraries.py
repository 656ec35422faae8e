"""Processes that answer calls with a library."""

import os
import pathlib
import subprocess
import sys

from client import read, write

HERE = pathlib.Path(__file__).resolve().parent


class Library:
    """A process that answers calls with one library."""

    def __init__(self, **environment):
        program = [sys.executable, "-W", "ignore", str(HERE / "client.py")]
        environment = {**os.environ, **environment}
        self.process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)

    def ask(self, request):
        write(self.process.stdin, request)

    def answer(self):
        return read(self.process.stdout)

    def run(self, request):
        self.ask(request)
        return self.answer()


class Oracle:
    """MXNet. Its operators on 8-bit integers, and `amp_cast` to integers, need oneDNN, which the others do without (see `generate.py`)."""

    def __init__(self, **environment):
        self.libraries = [Library(MXNET_MKLDNN_ENABLED=enabled, **environment) for enabled in "01"]

    def for_call(self, call):
        return self.libraries["quantize" in call.op or call.op == "amp_cast"]

    def run(self, call):
        return self.for_call(call).run(call)
