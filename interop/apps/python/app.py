"""An app without Java, for tests: the services of interop/service-api as plain JSON over HTTP.

    python3 app.py [--port N]   prints `READY http://127.0.0.1:PORT` and ends with its standard input

interop/README.md lists the paths; app.js beside it answers the same. Python's standard library only.
"""

import json
import os
import re
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

MAX_BODY_BYTES = 64 * 1024 * 1024
ATTACHMENT = "x-dubbo-attachment-"


class HttpError(Exception):
    """What a method raises to answer with an HTTP error."""

    def __init__(self, status, message, **more):
        super().__init__(message)
        self.status = status
        self.body = {"message": message, **more}


def text_of_len(length):
    alphabet = "abcdefghijklmnopqrstuvwxyz0123456789"
    return (alphabet * (length // len(alphabet) + 1))[:length]


def hash_code(text):
    """Java's String.hashCode."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (value * 31 + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def full_person(name, age):
    return {
        "name": name,
        "age": age,
        "id": 7000000000,
        "active": True,
        "score": 1.5,
        # A float would be rounded here.
        "balance": "12345678901234567890.99",
        "born": "1999-12-31T23:59:59.123Z",
        "color": "GREEN",
        "address": {"street": "Main Street 1", "city": "Springfield", "zip": 12345},
        "friends": [{"name": "Bob", "age": 42, "active": False, "score": 0.0}],
        "counts": {"one": 1, "many": 1000000},
    }


class Users:
    """The users of `UserService`. Requests come on many threads."""

    def __init__(self):
        self.lock = threading.Lock()
        self.users = {}
        self.last_id = 0
        for name in ("Ann", "Ben", "Cleo"):
            self.save({"name": name, "age": 20})

    def save(self, user):
        if not user or not user.get("name"):
            raise HttpError(422, "a user needs a name", code=422)
        with self.lock:
            self.last_id += 1
            saved = {**user, "id": self.last_id}
            self.users[self.last_id] = saved
            return saved

    def find(self, user_id):
        with self.lock:
            user = self.users.get(int(user_id))
        if user is None:
            raise HttpError(404, f"no user {user_id}")
        return user

    def list(self, name=None, limit=None):
        with self.lock:
            wanted = [user for user in self.users.values() if user["name"].startswith(name or "")]
        return wanted[: None if limit is None else int(limit)]

    def replace(self, user_id, user):
        self.find(user_id)
        replaced = {**user, "id": int(user_id)}
        with self.lock:
            self.users[int(user_id)] = replaced
        return replaced

    def remove(self, user_id):
        with self.lock:
            return self.users.pop(int(user_id), None) is not None


USERS = Users()


def status(code):
    if int(code) >= 400:
        raise HttpError(int(code), f"status {code}")
    return f"status {code}"


def sleep(millis):
    time.sleep(int(millis) / 1000)
    return int(millis)


notes = {}
notes_lock = threading.Lock()


def note(_, key):
    """Counts; the calls come on many threads."""
    with notes_lock:
        notes[key] = notes.get(key, 0) + 1


def fail(_, message):
    raise HttpError(422, message, code=42)


def fail_unchecked(_, message):
    raise HttpError(500, message)


def echo(call, *args):
    """Tells the overloads apart by the types that the request names."""
    if len(args) == 2:
        return f"{args[0]} and {args[1]}"
    (value,) = args
    types = call.headers.get("x-dubbo-parameter-types", "").strip()
    if types == "long":
        return -value
    if types == "double":
        return value / 2
    return f"String {value}" if isinstance(value, str) else value


def reply_with_attachment(call, name, value):
    call.reply[ATTACHMENT + name.lower()] = value
    return value


def attachments(call):
    headers = {name.lower(): value for name, value in call.headers.items()}
    return {n[len(ATTACHMENT) :]: v for n, v in headers.items() if n.startswith(ATTACHMENT)}


def variant(call):
    group = call.headers.get("x-dubbo-service-group")
    return f"{group}/{call.headers.get('x-dubbo-service-version')}" if group else "plain"


TYPES_SERVICE = {
    "add": lambda _, left, right: left + right,
    "attachments": attachments,
    "echo": echo,
    "fail": fail,
    "failUnchecked": fail_unchecked,
    "makePerson": lambda _, name, age: full_person(name, age),
    "note": note,
    "noted": lambda _, key: notes.get(key, 0),
    "nothing": lambda _, value: None,
    "nullText": lambda _, value: None,
    "replyWithAttachment": reply_with_attachment,
    "sleep": lambda _, millis: sleep(millis),
    "textOfLen": lambda _, length: text_of_len(length),
    "twins": lambda _, person: [person, person],
    "variant": variant,
}

# Methods of `TypesService` that return their argument. The text is returned as it came: numbers
# that Python would round stay what they are.
ECHOES = set(
    "text bool int8 int16 int32 int64 float32 float64 char16 boxedBool boxedInt boxedLong "
    "boxedDouble decimal bigInteger date dateTime color bytes int32s int64s textArray texts "
    "textSet counts anyMap any person people".split()
)

# What answers `POST /{interface}/{method}`. Each method gets the call, then its arguments.
SERVICES = {
    "org.dubmesh.interop.TypesService": TYPES_SERVICE,
    "org.dubmesh.interop.UserService": {
        "find": lambda _, user_id: USERS.find(user_id),
        "list": lambda _, name, limit: USERS.list(name, limit),
        "save": lambda _, user: USERS.save(user),
        "replace": lambda _, user_id, user: USERS.replace(user_id, user),
        "remove": lambda _, user_id: USERS.remove(user_id),
        "status": lambda _, code: status(code),
    },
    "com.alibaba.dubbo.performance.demo.provider.IHelloService": {
        "hash": lambda _, text: hash_code(text),
    },
}


def save_user(call):
    call.status = 201
    return USERS.save(json.loads(call.body))


# The paths besides `/{interface}/{method}`: method, pattern, and what answers.
PATHS = [
    ("GET", r"/users/(\d+)", lambda call, user_id: USERS.find(user_id)),
    ("GET", r"/users", lambda call: USERS.list(call.query.get("name"), call.query.get("limit"))),
    ("POST", r"/users", save_user),
    ("PUT", r"/users/(\d+)", lambda call, user_id: USERS.replace(user_id, json.loads(call.body))),
    ("DELETE", r"/users/(\d+)", lambda call, user_id: USERS.remove(user_id)),
    ("GET", r"/status/(\d+)", lambda call, code: status(code)),
    ("GET", r"/sleep/(\d+)", lambda call, millis: sleep(millis)),
    ("GET", r"/text/(\d+)", lambda call, length: text_of_len(int(length))),
    ("GET", r"/headers", lambda call: {n.lower(): v for n, v in call.headers.items()}),
    ("GET", r"/active", lambda call: call.server.n_active),
    ("GET", r"/healthz", lambda call: "ok"),
]


class Call(BaseHTTPRequestHandler):
    """One request, and what its answer is made of."""

    protocol_version = "HTTP/1.1"
    # Headers and body leave in one write, and without waiting for an acknowledgement.
    wbufsize = 65536
    disable_nagle_algorithm = True

    def handle_any(self):
        url = urlsplit(self.path)
        self.route = unquote(url.path)
        self.query = {name: values[0] for name, values in parse_qs(url.query).items()}
        self.status = 200
        # Attachments and the trace go back as they came.
        self.reply = {
            name.lower(): value
            for name, value in self.headers.items()
            if name.lower().startswith(ATTACHMENT) or name.lower() == "traceparent"
        }
        try:
            self.body = self.read_body()
            if self.route.startswith("/broken/") and self.answer_badly(self.route[8:]):
                return
            text = self.answer()
        except HttpError as error:
            self.status, text = error.status, dumps(error.body)
        except json.JSONDecodeError as error:
            self.status, text = 400, dumps({"message": str(error)})
        except Exception as error:  # An app answers, whatever goes wrong.
            self.status, text = 500, dumps({"message": repr(error)})
        self.send(text, "application/json")

    def handle_counted(self):
        with self.server.counted:
            self.server.n_active += 1
        try:
            self.handle_any()
            self.wfile.flush()
        finally:
            with self.server.counted:
                self.server.n_active -= 1

    do_GET = do_POST = do_PUT = do_DELETE = handle_counted

    def read_body(self):
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            chunks = []
            while length := int(self.rfile.readline().split(b";")[0], 16):
                chunks.append(self.rfile.read(length))
                self.rfile.readline()
                if sum(map(len, chunks)) > MAX_BODY_BYTES:
                    raise HttpError(413, f"a body over {MAX_BODY_BYTES} bytes")
            while self.rfile.readline().strip():
                pass
            return b"".join(chunks).decode()
        length = int(self.headers.get("content-length", "0"))
        if length > MAX_BODY_BYTES:
            self.close_connection = True
            raise HttpError(413, f"a body over {MAX_BODY_BYTES} bytes")
        return self.rfile.read(length).decode()

    def answer(self):
        """What a call returns, as JSON text."""
        for method, pattern, handle in PATHS:
            found = self.command == method and re.fullmatch(pattern, self.route)
            if found:
                return dumps(handle(self, *found.groups()))
        _, name, method, *rest = self.route.split("/") + ["", ""]
        service = SERVICES.get(name)
        is_echo = service is TYPES_SERVICE and method in ECHOES
        is_known = service is not None and (is_echo or method in service)
        if self.command != "POST" or any(rest) or not is_known:
            raise HttpError(404, f"no {self.command} {self.route}")
        args = json.loads(self.body) if self.body.strip() else []
        if not isinstance(args, list):
            raise HttpError(400, "the body must be an array of arguments")
        if is_echo:
            return self.body.strip()[1:-1].strip() or "null"
        return dumps(service[method](self, *args))

    def answer_badly(self, how):
        """Answers that no app should give, for who has to cope with them."""
        self.close_connection = True
        if how == "hang":
            time.sleep(600)
        elif how == "half":
            self.wfile.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n[1,"
            )
        elif how == "json":
            self.send('{"name": "Zo', "application/json")
        elif how == "text":
            self.send("no JSON at all", "text/plain")
        return how in ("hang", "close", "half", "json", "text")

    def send(self, text, content_type):
        content = text.encode("utf-8", "surrogatepass")
        self.send_response(self.status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(content)))
        for name, value in self.reply.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        """Standard error is for what goes wrong."""


def dumps(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024
    # How many requests are being answered.
    n_active = 0
    counted = threading.Lock()


def exit_when_input_closes():
    while os.read(0, 4096):
        pass  # Input is only a sign of life.
    os._exit(0)


def main(args):
    if args and not (len(args) == 2 and args[0] == "--port" and args[1].isdigit()):
        sys.exit("usage: python3 app.py [--port N]")
    server = Server(("127.0.0.1", int(args[1]) if args else 0), Call)
    stop = threading.Thread(target=server.shutdown)
    signal.signal(signal.SIGTERM, lambda *_: stop.start())
    threading.Thread(target=exit_when_input_closes, daemon=True).start()
    print(f"READY http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever(poll_interval=0.05)
    # What was begun is finished.
    server.socket.close()
    while server.n_active > 0:
        time.sleep(0.005)
    os._exit(0)


main(sys.argv[1:])
