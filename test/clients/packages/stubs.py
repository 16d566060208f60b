"""Compares the stubs of pgq_ext, which have its types, with its code: names, parameters, and what is a coroutine."""

import ast
import importlib
import inspect
import os

import pgq_ext

folder = os.path.dirname(pgq_ext.__file__)


def compare(where, stub, code):
    """stub: the function in the stub; code: the function at run time. Parameters may be hidden in **options there."""
    parameters = inspect.signature(code).parameters
    hidden = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    known = [argument.arg for argument in [*stub.args.posonlyargs, *stub.args.args, *stub.args.kwonlyargs]]
    if not hidden:
        known_here = [name for name, parameter in parameters.items() if parameter.kind is not parameter.VAR_POSITIONAL]
        if known_here != known:
            print(f"{where}: the stub has {known}, the code {known_here}")
    # A method of a class with both kinds of answers is no coroutine function of its own.
    if isinstance(stub, ast.FunctionDef) and inspect.iscoroutinefunction(code):
        print(f"{where}: only the code is a coroutine")


def walk(where, body, code):
    for stub in body:
        name = getattr(stub, "name", "_")
        if name.startswith("_") and name != "__init__":
            continue
        found = getattr(code, name, None)
        if found is None:
            print(f"{where}.{name}: is not in the code")
        elif isinstance(stub, ast.ClassDef):
            walk(f"{where}.{name}", stub.body, found)
        else:
            compare(f"{where}.{name}", stub, found)


stubs = sorted(file for file in os.listdir(folder) if file.endswith(".pyi"))
exported = set()
for file in stubs:
    module = file.rsplit(".", 1)[0]
    with open(os.path.join(folder, file), encoding="utf-8") as source:
        tree = ast.parse(source.read())
    if module == "__init__":
        exported = {alias.asname for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
        continue
    walk(module, tree.body, importlib.import_module(f"pgq_ext.{module}"))
for name in sorted(set(pgq_ext.__all__) - exported):
    print(f"{name}: is not in __init__.pyi")
print(f"{len(stubs)} stubs compared")
