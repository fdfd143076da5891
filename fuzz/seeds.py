#!/usr/bin/env python3
"""Seeds for the fuzz targets: what real peers wrote, in the form that each target takes.

They go to fuzz/corpus/TARGET, where cargo-fuzz looks for them and git does not.
"""

import pathlib
import re

FUZZ = pathlib.Path(__file__).resolve().parent
CRATES = FUZZ.parent / "crates"
# Longer inputs make every run slow, and reach nothing that shorter ones do not.
MAX_LEN = 3000


def seed(target, name, data, max_len=MAX_LEN):
    folder = FUZZ / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    if len(data) < max_len:
        (folder / name).write_bytes(data)


def values():
    """Values of Hessian and JSONB are taken as they are."""
    for file in sorted((CRATES / "hessian/vectors").glob("*/*.bin")):
        for target in ("hessian_decode", "hessian_to_json", "hessian_serde"):
            seed(target, f"{file.parent.name}-{file.name}", file.read_bytes())
    for file in sorted((CRATES / "jsonb/vectors").glob("*.bin")):
        seed("jsonb_to_json", file.name, file.read_bytes())


def frames():
    """Two bytes say how the rest is handed over: whole frames, or bodies that get a header."""
    for target, kind in (("dubbo_client_bytes", "response"), ("dubbo_server_bytes", "request")):
        for file in sorted((CRATES / "dubbo-proto/vectors").glob(f"*_{kind}.bin")):
            frame = file.read_bytes()
            body = frame[16:]
            seed(target, f"raw-{file.name}", b"\0\xff" + frame)
            if len(body) < 256:
                head = b"\1\xff" + frame[2:4] + b"\0" + bytes([len(body)])
                seed(target, f"framed-{file.name}", head + body)


def texts():
    """A type and JSON of it, from the table that Java checks."""
    table = (CRATES / "hessian/examples/java_check.rs").read_text()
    row = re.compile(r'\(\s*"[^"]+",\s*"([^"]+)",\s*(?:r#"(.*?)"#|"((?:[^"\\]|\\.)*)")')
    for index, (ty, raw, escaped) in enumerate(row.findall(table)):
        json = (raw or escaped.replace('\\"', '"')).encode()
        seed("json_round_trip", str(index), json)
        for target in ("json_to_hessian", "json_to_jsonb"):
            seed(target, str(index), ty.encode() + b"\n" + json)
    for name in ("java33_definition.json", "java27_ls.txt"):
        document = (CRATES / "dubbo-proto/vectors" / name).read_bytes()
        seed("dubbo_definition", name, document, len(document) + 1)


values()
frames()
texts()
