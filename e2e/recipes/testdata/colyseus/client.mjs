// Colyseus clients with different keys. A client that must leave its room joins a new one. Usage:
// node client.mjs ADDRESS. Each line of the input prints a report.
import { createInterface } from 'node:readline'
import { Client } from 'colyseus.js'

const report = { codes: [], results: 0, opened: 0 }

/** play joins a room, and sends messages until it must leave. */
async function play (key) {
  const client = new Client(`http://${process.argv[2]}?key=${key}`)
  for (;;) {
    try {
      const room = await client.joinOrCreate('echo')
      report.opened++
      room.onMessage('echo', () => report.results++)
      const timer = setInterval(() => room.send('echo', 'hello'), 50)
      const code = await new Promise(resolve => room.onLeave(resolve))
      clearInterval(timer)
      report.codes.push(code)
    } catch {
      await new Promise(resolve => setTimeout(resolve, 100))
    }
  }
}

for (let i = 0; i < 24; i++) play('key' + i)
createInterface({ input: process.stdin }).on('line', () => console.log(JSON.stringify({ colyseus: report }))).on('close', () => process.exit(0))
