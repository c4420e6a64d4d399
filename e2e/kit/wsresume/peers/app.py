"""An app with resumable WebSockets, based on the library websockets."""
import asyncio
import http
import json
import os
import time
import urllib.parse

import websockets

DIR = os.environ["SHARDWAY_E2E_WSRESUME"]
log = open(os.path.join(DIR, f"log-py-{os.getpid()}"), "a", buffering=1)


class Conn:
    def __init__(self, path, headers):
        self.client = urllib.parse.parse_qs(urllib.parse.urlparse(path).query)["client"][0]
        self.session = headers["Shardway-WebSocket"]
        self.conn = int(headers.get("Shardway-WebSocket-Resumed", 0))
        self.gap = headers.get("Shardway-WebSocket-Gap") == "1"
        self.file, self.n = os.path.join(DIR, self.session), 0

    def record(self, what, n, at=None):
        self.at = at or time.monotonic_ns()
        line = {"At": self.at, "Client": self.client, "Session": self.session, "Conn": self.conn, "Gap": self.gap, "What": what, "N": n}
        log.write(json.dumps(line) + "\n")

    def save(self):
        with open(self.file + ".py", "w") as f:
            f.write(str(self.n))
        os.rename(self.file + ".py", self.file)


class Protocol(websockets.WebSocketServerProtocol):
    async def process_request(self, path, headers):
        self.state_of = Conn(path, headers)
        known = os.path.exists(self.state_of.file)
        if known != (self.state_of.conn > 0):
            return http.HTTPStatus.FORBIDDEN, [], b""
        if known:
            with open(self.state_of.file) as f:
                self.state_of.n = int(f.read())
        self.state_of.record("begin", self.state_of.n)
        self.state_of.save()

    async def write_close_frame(self, close, data=None):
        # The library would answer Close before the app has received all queued messages.
        while self.messages and self.open:
            await asyncio.sleep(0)
        await super().write_close_frame(close, data)


async def serve(ws):
    conn, closed = ws.state_of, False
    try:
        async for text in ws:
            closed = text.startswith("end ")
            n = int(text.removeprefix("end "))
            conn.record("got", n)
            if closed:
                conn.record("closed", conn.n)
                await ws.close(1000)
                return
            if ws.open:
                conn.n += 1
                conn.save()
                await ws.send(f"{conn.conn} {conn.n} {n}")
    except websockets.ConnectionClosed:
        pass
    finally:
        if not closed:
            conn.record("moved" if ws.close_code == 1012 else "broken", conn.n, conn.at)


async def main():
    async with websockets.serve(
        serve, "127.0.0.1", int(os.environ["PORT"]), create_protocol=Protocol,
        compression=None, extra_headers={"Shardway-WebSocket": "keep"}, ping_interval=None,
    ):
        await asyncio.Future()


asyncio.run(main())
