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


def apps():
    """A byte or more say the serialization, the form and the status; see the exercise of HTTP apps."""
    numbers = {"hessian2": 0, "fastjson": 1, "fastjson2": 3}
    for file in sorted((CRATES / "dubbo-proto/vectors").glob("*.bin")):
        words = file.stem.split("_")
        how = next((number for name, number in numbers.items() if name in words), 0)
        body = file.read_bytes()[16:]
        if words[-1] == "request":
            seed("http_app_call", f"whole-{file.name}", bytes([how, 255]) + body)
        elif words[-1] == "response":
            seed("provider_reply", file.name, bytes([how]) + body)
            seed("provider_reply", f"class-{file.name}", bytes([16 + how]) + body)
        if how == 1:
            seed("fastjson_text", file.name, body)
    args = {
        0: b"\xe7\x01a\x79\x01b",
        1: b'7\n"a"\n["b",null]',
        2: b'\0\0\0\x017\0\0\0\x03"a"\0\0\0\x04[2L]',
        3: b"\0\0\0\x01\xe7\0\0\0\x02\x4aa\0\0\0\x02\x95\x01",
    }
    for how, data in args.items():
        for method in range(6):
            for mode in range(5):
                name = f"{how}-{method}-{mode}"
                seed("http_app_call", name, bytes([16 * mode + how, method]) + data)
    generic = b'"get"\n["long"]\n[7,"a",{"class":"a.C","n":1}]'
    seed("http_app_call", "generic", bytes([16 + 1, 4]) + generic)
    bodies = {
        "error": b'{"message":"no","code":7,"cause":{"class":"a.Conflict","message":"why"}}',
        "value": b'{"at":"2024-01-02T03:04:05Z","n":"7","all":[{"by":{"1":null}}],"x":1.50}',
    }
    for how in range(4):
        for mode in range(5):
            for status in range(8):
                for name, body in bodies.items():
                    head = bytes([16 * mode + how, status, 0])
                    text = head + b"java.util.List<a.C>\na.Conflict\nvalue\n" + body
                    seed("http_app_answer", f"{how}-{mode}-{status}-{name}", text)
                    seed("http_app_answer", f"{how}-{mode}-{status}-{name}-any", head + b"\n\n\n" + body)


values()
frames()
texts()
apps()
