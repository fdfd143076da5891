# python3 users.py
import json, re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

users = {1: {"id": 1, "name": "Ann", "born": "1990-05-01T00:00:00Z"}}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        path = re.fullmatch(r"/users/(\d+)", self.path)
        user = users.get(int(path[1])) if path else None
        if user is None:
            return self.answer(404, {"message": f"nothing at {self.path}"})
        self.answer(200, user)

    def do_POST(self):
        user = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if not user.get("name"):
            return self.answer(422, {"message": "a user needs a name", "field": "name"})
        user["id"] = len(users) + 1
        users[user["id"]] = user
        self.answer(201, user)


ThreadingHTTPServer(("127.0.0.1", 8080), Handler).serve_forever()
