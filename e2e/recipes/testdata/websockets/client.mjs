// Real clients of all protocols. Usage: node client.mjs ADDRESS,ADDRESS PROTOCOL,PROTOCOL KEY.
// KEY is for the protocols with one client. The test writes a command per line:
// "stop" ends all writes, and "check" compares the documents. Each command prints a report, a line of JSON.
import { createInterface } from 'node:readline'
import { HocuspocusProvider, HocuspocusProviderWebsocket } from '@hocuspocus/provider'
import * as signalR from '@microsoft/signalr'
import { createClient } from 'graphql-ws'
import { Socket } from 'phoenix'
import { io } from 'socket.io-client'
import WebSocket from 'ws'
import { WebsocketProvider } from 'y-websocket'
import * as Y from 'yjs'

const addrs = process.argv[2].split(',')
const protocols = process.argv[3].split(',')
const key = process.argv[4]
const report = {}
const writers = []

/** counted returns a WebSocket class that counts connections and close codes. */
function counted (name) {
  const counts = report[name] ??= { opened: 0, codes: [] }
  return class extends WebSocket {
    constructor (...args) {
      super(...args)
      this.on('open', () => counts.opened++)
      this.on('close', code => counts.codes.push(code))
    }
  }
}

/** editor edits a document: each edit is a text that no other client writes. */
function editor (name, doc, key, id, isSynced) {
  const list = doc.getArray('edits')
  const mine = []
  let n = 0
  writers.push(() => {
    if (!isSynced()) return
    mine.push(`${key}-${id}-${n++}`)
    list.push([mine.at(-1)])
  })
  const docs = report[name].docs ??= {}
  ;(docs[key] ??= []).push({ mine, all: () => list.toArray() })
}

for (const key of ['d1', 'd2', 'd3']) {
  for (const id of [0, 1, 2]) {
    const addr = addrs[id % addrs.length]
    if (protocols.includes('yjs')) {
      const doc = new Y.Doc()
      const polyfill = counted('yjs')
      const provider = new WebsocketProvider(`ws://${addr}/yjs`, key, doc, { WebSocketPolyfill: polyfill, params: { key }, disableBc: true, maxBackoffTime: 300 })
      editor('yjs', doc, key, id, () => provider.synced)
    }
    if (protocols.includes('hocuspocus')) {
      const doc = new Y.Doc()
      const provider = new HocuspocusProvider({ url: `ws://${addr}/hocuspocus?key=${key}`, name: key, document: doc, WebSocketPolyfill: counted('hocuspocus'), token: 'secret', delay: 100, maxDelay: 300, minDelay: 100 })
      editor('hocuspocus', doc, key, id, () => provider.synced)
    }
    if (protocols.includes('socketio')) {
      const state = report.socketio ??= { connects: 0, disconnects: [], acked: [], seen: {}, unanswered: 0 }
      const socket = io(`http://${addr}`, { transports: ['websocket'], query: { key }, forceNew: true, reconnectionDelay: 50, reconnectionDelayMax: 200 })
      const seen = state.seen[key + id] = new Set()
      let n = 0
      let overdue = 0 // messages whose acknowledgement is missing, although a later one has been acknowledged
      const waiting = new Set()
      socket.on('connect', () => state.connects++)
      socket.on('disconnect', reason => state.disconnects.push(reason))
      socket.on('history', texts => texts.forEach(text => seen.add(text)))
      socket.on('said', text => seen.add(text))
      writers.push(() => {
        const text = `${key}-${id}-${n++}`
        socket.volatile.emit('say', text, () => state.acked.push(text))
        if (!socket.connected) return
        const turn = n
        waiting.add(turn)
        socket.emit('wait', () => {
          waiting.delete(turn)
          const before = overdue
          overdue = [...waiting].filter(earlier => earlier < turn).length
          state.unanswered += overdue - before
        })
      })
    }
  }
}
// Two clients that each use one WebSocket for three documents. remote is the number of edits of the second client
// that the first one has, for each document.
if (protocols.includes('hocuspocus-shared')) {
  const webSocketClass = counted('hocuspocus-shared')
  const remote = report['hocuspocus-shared'].remote = [0, 0, 0]
  for (const id of [0, 1]) {
    const websocketProvider = new HocuspocusProviderWebsocket({ url: `ws://${addrs[id]}/hocuspocus?key=${key}`, WebSocketPolyfill: webSocketClass, delay: 100, maxDelay: 300, minDelay: 100 })
    remote.forEach((_, i) => {
      const document = new Y.Doc()
      const list = document.getArray('edits')
      const provider = new HocuspocusProvider({ websocketProvider, name: 's' + i, document, token: 'secret' })
      provider.attach()
      if (id === 0) list.observe(() => { remote[i] = list.length })
      else writers.push(() => { if (provider.synced) list.push(['edit']) })
    })
  }
}
if (protocols.includes('graphql')) {
  const client = createClient({ url: `ws://${addrs[0]}/graphql?key=${key}`, webSocketImpl: counted('graphql'), shouldRetry: () => true, retryAttempts: Infinity, retryWait: () => new Promise(resolve => setTimeout(resolve, 200)) })
  report.graphql.ticks = 0
  client.subscribe({ query: 'subscription { tick }' }, { next: () => report.graphql.ticks++, error: e => { report.graphql.error = String(e) }, complete () {} })
}
if (protocols.includes('phoenix')) {
  const socket = new Socket(`ws://${addrs[0]}/phoenix`, { transport: counted('phoenix'), params: { key }, reconnectAfterMs: () => 50, rejoinAfterMs: () => 50 })
  socket.connect()
  report.phoenix.replies = 0
  report.phoenix.refused = 0
  for (const topic of ['room:tea', 'room:milk']) {
    const channel = socket.channel(topic)
    channel.join()
    writers.push(() => { if (channel.state === 'joined') channel.push('echo', {}).receive('ok', () => report.phoenix.replies++).receive('error', () => report.phoenix.refused++) })
  }
}
if (protocols.includes('signalr')) {
  const hub = new signalR.HubConnectionBuilder().withUrl(`http://${addrs[0]}/signalr?key=${key}`, { skipNegotiation: true, transport: signalR.HttpTransportType.WebSockets, WebSocket: counted('signalr') })
    .withAutomaticReconnect({ nextRetryDelayInMilliseconds: () => 50 }).configureLogging(signalR.LogLevel.None).build()
  report.signalr.results = 0
  hub.start().catch(e => { report.signalr.error = String(e) })
  writers.push(() => { if (hub.state === 'Connected') hub.invoke('instance').then(() => report.signalr.results++, () => {}) })
}

const timer = setInterval(() => writers.forEach(write => write()), 100)

/** summary returns the report without the documents. With check, it contains the number of missing edits and messages. */
function summary (check) {
  const result = {}
  for (const [name, counts] of Object.entries(report)) {
    const { docs, seen, acked, ...rest } = counts
    result[name] = rest
    if (docs) rest.edits = Object.values(docs).flat().reduce((sum, client) => sum + client.mine.length, 0)
    if (acked) rest.acked = acked.length
    if (docs && check) {
      let diverged = 0; let lost = 0
      for (const clients of Object.values(docs)) {
        const written = clients.flatMap(client => client.mine)
        const states = clients.map(client => JSON.stringify(client.all()))
        if (new Set(states).size > 1) diverged++
        for (const client of clients) {
          const has = new Set(client.all())
          lost += written.filter(text => !has.has(text)).length
        }
      }
      Object.assign(rest, { diverged, lost })
    }
    if (acked && check) {
      let missing = 0
      for (const [client, texts] of Object.entries(seen)) {
        const room = client.slice(0, -1)
        missing += acked.filter(text => text.startsWith(room + '-') && !texts.has(text)).length
      }
      rest.missing = missing
    }
  }
  return result
}

createInterface({ input: process.stdin }).on('line', command => {
  if (command === 'stop') clearInterval(timer)
  console.log(JSON.stringify(summary(command === 'check')))
}).on('close', () => process.exit(0))
