// Clients whose first message contains the key. Usage: node first.mjs ADDRESS,ADDRESS KEY,KEY. Each protocol has a client
// per key and address. Each line of the input prints a report.
import { createInterface } from 'node:readline'
import { createClient } from 'graphql-ws'
import { Socket } from 'phoenix'
import WebSocket from 'ws'

const report = { graphql: {}, phoenix: {}, rooms: {} }

/** counted returns a WebSocket class that counts connections and close codes. */
function counted (state) {
  return class extends WebSocket {
    constructor (...args) {
      super(...args)
      this.on('open', () => state.opened++)
      this.on('close', code => state.codes.push(code))
    }
  }
}

/** client adds a client to the report. */
function client (protocol, key) {
  const state = { opened: 0, codes: [], replies: 0, instance: '' }
  ;(report[protocol][key] ??= []).push(state)
  const replied = instance => { state.replies++; state.instance = instance }
  return { webSocket: counted(state), replied }
}

/** enter opens a WebSocket that sends the room first. It opens another one when the server closes it. */
function enter (addr, key, { webSocket, replied }) {
  const socket = new webSocket(`ws://${addr}/rooms`)
  let timer
  socket.on('open', () => {
    socket.send(key)
    timer = setInterval(() => socket.send('hello'), 100)
  })
  socket.on('message', text => {
    const [room, instance] = String(text).split(' ')
    if (room === key) replied(instance)
  })
  socket.on('error', () => {})
  socket.on('close', () => {
    clearInterval(timer)
    setTimeout(enter, 50, addr, key, { webSocket, replied })
  })
}

for (const key of process.argv[3].split(',')) {
  for (const addr of process.argv[2].split(',')) {
    const subscriber = client('graphql', key)
    createClient({ url: `ws://${addr}/graphql`, connectionParams: { tenant: key }, webSocketImpl: subscriber.webSocket, shouldRetry: () => true, retryAttempts: Infinity, retryWait: () => new Promise(resolve => setTimeout(resolve, 50)) })
      .subscribe({ query: 'subscription { tick }' }, { next: ({ data }) => subscriber.replied(data.tick), error: error => console.error(error), complete () {} })

    const member = client('phoenix', key)
    const socket = new Socket(`ws://${addr}/phoenix`, { transport: member.webSocket, reconnectAfterMs: () => 50, rejoinAfterMs: () => 50 })
    socket.connect()
    const channel = socket.channel(key)
    channel.join()
    setInterval(() => { if (channel.state === 'joined') channel.push('echo', {}).receive('ok', ({ instance }) => member.replied(instance)) }, 100)

    enter(addr, key, client('rooms', key))
  }
}

createInterface({ input: process.stdin }).on('line', () => console.log(JSON.stringify(report))).on('close', () => process.exit(0))
