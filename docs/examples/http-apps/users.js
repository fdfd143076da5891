// node users.js
const http = require("node:http");

const users = new Map([[1, { id: 1, name: "Ann", born: "1990-05-01T00:00:00Z" }]]);

http.createServer((request, response) => {
  let body = "";
  request.on("data", (chunk) => (body += chunk));
  request.on("end", () => {
    const answer = (status, value) => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify(value));
    };
    const id = Number(/^\/users\/(\d+)$/.exec(request.url)?.[1]);
    if (request.method === "GET" && id) {
      return users.has(id) ? answer(200, users.get(id)) : answer(404, { message: `no user ${id}` });
    }
    if (request.method === "POST" && request.url === "/users") {
      const user = { ...JSON.parse(body), id: users.size + 1 };
      if (!user.name) return answer(422, { message: "a user needs a name", field: "name" });
      users.set(user.id, user);
      return answer(201, user);
    }
    answer(404, { message: `no ${request.method} ${request.url}` });
  });
}).listen(8080, "127.0.0.1");
