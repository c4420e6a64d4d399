// Clients of Centrifugo's own library, and publishers. Usage: node client.mjs ADDRESS,ADDRESS CHANNEL,CHANNEL. Each
// channel has a subscriber at each address, and a publisher. The test writes a command per line: "nodes
// ADDRESS,ADDRESS" sets the addresses of the publishers, and "stop" ends them. Each command prints a report.
import { createInterface } from 'node:readline'
import { Centrifuge } from 'centrifuge'
import WebSocket from 'ws'

let nodes = process.argv[2].split(',')
let stopped = false
const channels = {}

/** subscribe records which publications a subscriber has, and which ones it knows that it has missed. */
function subscribe (channel, addr, subscribers) {
  const state = { received: new Set(), last: 0, missed: [], unrecovered: 0, recovered: 0, presence: 0 }
  subscribers.push(state)
  const client = new Centrifuge(`ws://${addr}/connection/websocket?channel=${channel}`, { websocket: WebSocket, minReconnectDelay: 20, maxReconnectDelay: 200 })
  const subscription = client.newSubscription(channel, { minResubscribeDelay: 20, maxResubscribeDelay: 200 })
  let gap = false
  subscription.on('subscribed', context => {
    if (!context.wasRecovering) return
    if (context.recovered) state.recovered++
    else { state.unrecovered++; gap = true }
  })
  subscription.on('publication', ({ data }) => {
    if (gap) state.missed.push([state.last, data.n])
    gap = false
    state.received.add(data.n)
    state.last = Math.max(state.last, data.n)
  })
  setInterval(async () => {
    try { state.presence = Object.keys((await subscription.presence()).clients).length } catch { state.presence = 0 }
  }, 100)
  subscription.subscribe()
  client.connect()
}

/** publish sends numbered publications. It repeats each one until the server has acknowledged it. */
async function publish (channel, state) {
  for (let n = 1, i = 0; !stopped; await new Promise(resolve => setTimeout(resolve, 50))) {
    const addr = nodes[i++ % nodes.length]
    try {
      const response = await fetch(`http://${addr}/api/publish`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ channel, data: { n } }) })
      const body = await response.text()
      if (response.ok) state.acked = n++
      else state.failed = response.status + ' ' + body
    } catch (error) {
      state.failed = String(error.cause ?? error)
    }
  }
}

for (const channel of process.argv[3].split(',')) {
  const state = channels[channel] = { acked: 0, failed: '', subscribers: [] }
  for (const addr of nodes) subscribe(channel, addr, state.subscribers)
  publish(channel, state)
}

/** lost returns the number of publications that a subscriber has missed without notice. */
function lost (acked, { received, missed }) {
  let count = 0
  const first = Math.min(...received)
  for (let n = first; n <= acked; n++) if (!received.has(n) && !missed.some(([from, to]) => n > from && n < to)) count++
  return count
}

createInterface({ input: process.stdin }).on('line', command => {
  if (command === 'stop') stopped = true
  if (command.startsWith('nodes ')) nodes = command.slice(6).split(',')
  console.log(JSON.stringify(Object.fromEntries(Object.entries(channels).map(([channel, { acked, failed, subscribers }]) => [channel, {
    acked,
    failed,
    subscribers: subscribers.map(state => ({ last: state.last, lost: lost(acked, state), recovered: state.recovered, unrecovered: state.unrecovered, presence: state.presence }))
  }]))))
}).on('close', () => process.exit(0))
