#!/usr/bin/env python3
"""Writes `second-order.txt`: the operators whose gradients MXNet 1.9.1 differentiates again, among those that have goldens.

Usage: second_order.py
"""

import importlib
import multiprocessing
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

os.environ["MXNET_ENGINE_TYPE"] = "NaiveEngine"  # errors are raised where they occur
os.environ["MXNET_MKLDNN_ENABLED"] = "0"
os.environ["OMP_NUM_THREADS"] = "1"

from generate import family_names  # noqa: E402
from worker import Oracle  # noqa: E402

CASES = 6  # of an operator, at most


def differentiates_twice(oracle, case):
    """Whether the gradient of the sum of squared gradients can be computed."""
    mx, autograd = oracle.mx, oracle.mx.autograd
    arrays = [oracle.array(value) for value in case.inputs]
    names = [n.split("op_", 1)[-1] for n in oracle.symbol(case.op, case.attrs).list_inputs()]
    variables = [a for a, n in zip(arrays, names) if (case.grad == "all" or n in case.grad) and a.dtype.__name__.startswith("float")]
    for variable in variables:
        variable.attach_grad()
    with autograd.record(train_mode=case.train):
        outputs = oracle.call(case, arrays)
        outputs = [o for o in outputs if o.dtype.__name__.startswith("float")]
        gradients = autograd.grad(outputs, variables, create_graph=True, retain_graph=True, train_mode=case.train)
        total = mx.nd.add_n(*[mx.nd.sum(mx.nd.square(g)) for g in gradients])
    total.backward()
    return any(v.grad.asnumpy().any() for v in variables)


def work(operators, pipe):
    """Child process: for each operator whether a case of it works; some operators end the process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    oracle = Oracle()
    for cases in operators:
        pipe.send(any(attempt(oracle, case) for case in cases[:CASES]))
    pipe.close()


def attempt(oracle, case):
    try:
        with oracle.mx.util.np_shape(case.np_shape):
            return bool(differentiates_twice(oracle, case))
    except Exception:  # MXNet's message does not matter
        return False


def answers(operators):
    """Whether each operator works; one that ends the process does not."""
    found = []
    context = multiprocessing.get_context("fork")
    while len(found) < len(operators):
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=work, args=(operators[len(found):], theirs))
        child.start()
        theirs.close()
        try:
            while len(found) < len(operators):
                found.append(ours.recv())
        except EOFError:
            found.append(False)
        child.join()
    return found


def main():
    by_operator = {}
    for family in family_names():
        for case in importlib.import_module("families." + family).cases():
            if case.kind == "op" and case.grad and not (case.refuse or case.stypes or case.nameless or case.states):
                by_operator.setdefault(case.op, []).append(case)
    names = sorted(by_operator)
    twice = [name for name, works in zip(names, answers([by_operator[n] for n in names])) if works]
    (HERE / "second-order.txt").write_text("".join(op + "\n" for op in twice))
    print("%d of %d operators" % (len(twice), len(by_operator)))


if __name__ == "__main__":
    sys.exit(main())
