"""A client that counts, based on the library websockets, with one connection per name=url.
It prints the messages that it receives and the end of each connection. At the end of its
input it asks for a close. If the app lags by more messages than the first argument says, the
client sends only occasional messages."""
import asyncio
import sys

import websockets

ending = False
window = int(sys.argv[1])


async def read(name, ws, acks):
    async for text in ws:
        acks[0] = int(text.split()[2])
        print(name, text, flush=True)


async def talk(name, url):
    sent, ticks, acks, why = 0, 0, [0], ""
    async with websockets.connect(url) as ws:
        reading = asyncio.create_task(read(name, ws, acks))
        try:
            last = False
            while not last:
                last = ending
                ticks += 1
                if last or sent < acks[0] + window or ticks % 10 == 0:
                    sent += 1
                    await ws.send(("end " if last else "") + str(sent))
                await asyncio.sleep(0.01)
            await reading
        except websockets.ConnectionClosed as e:
            why = str(e)
    print(name, "end", sent, ws.close_code, why, flush=True)


async def main():
    async def stop():
        global ending
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        ending = True

    await asyncio.gather(stop(), *(talk(*arg.split("=", 1)) for arg in sys.argv[2:]))


asyncio.run(main())
