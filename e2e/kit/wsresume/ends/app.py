"""An app that keeps its sockets, by websockets."""
import asyncio
import http
import json
import os
import time
import urllib.parse

import websockets

DIR = os.environ["SHARDWAY_E2E_KEPT"]
log = open(os.path.join(DIR, f"log-py-{os.getpid()}"), "a", buffering=1)


class Leg:
    def __init__(self, path, headers):
        self.client = urllib.parse.parse_qs(urllib.parse.urlparse(path).query)["client"][0]
        self.socket = headers["Shardway-WebSocket"]
        self.leg = int(headers.get("Shardway-WebSocket-Resumed", 0))
        self.gap = headers.get("Shardway-WebSocket-Gap") == "1"
        self.file, self.n = os.path.join(DIR, self.socket), 0

    def note(self, what, n, at=None):
        self.at = at or time.monotonic_ns()
        line = {"At": self.at, "Client": self.client, "Socket": self.socket, "Leg": self.leg, "Gap": self.gap, "What": what, "N": n}
        log.write(json.dumps(line) + "\n")

    def save(self):
        with open(self.file + ".py", "w") as f:
            f.write(str(self.n))
        os.rename(self.file + ".py", self.file)


class Protocol(websockets.WebSocketServerProtocol):
    async def process_request(self, path, headers):
        self.of = Leg(path, headers)
        known = os.path.exists(self.of.file)
        if known != (self.of.leg > 0):
            return http.HTTPStatus.FORBIDDEN, [], b""
        if known:
            with open(self.of.file) as f:
                self.of.n = int(f.read())
        self.of.note("begin", self.of.n)
        self.of.save()

    async def write_close_frame(self, close, data=None):
        # By itself it answers Close before the app has had what waits in its queue.
        while self.messages and self.open:
            await asyncio.sleep(0)
        await super().write_close_frame(close, data)


async def serve(ws):
    leg, closed = ws.of, False
    try:
        async for text in ws:
            closed = text.startswith("end ")
            n = int(text.removeprefix("end "))
            leg.note("got", n)
            if closed:
                leg.note("closed", leg.n)
                await ws.close(1000)
                return
            if ws.open:
                leg.n += 1
                leg.save()
                await ws.send(f"{leg.leg} {leg.n} {n}")
    except websockets.ConnectionClosed:
        pass
    finally:
        if not closed:
            leg.note("moved" if ws.close_code == 1012 else "broken", leg.n, leg.at)


async def main():
    async with websockets.serve(
        serve, "127.0.0.1", int(os.environ["PORT"]), create_protocol=Protocol,
        compression=None, extra_headers={"Shardway-WebSocket": "keep"}, ping_interval=None,
    ):
        await asyncio.Future()


asyncio.run(main())
