// A server with one endpoint for each WebSocket protocol. The server libraries are not modified. KEEP contains
// the value of Shardway-WebSocket for each protocol, as JSON.
import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { Hocuspocus } from '@hocuspocus/server'
import { buildSchema } from 'graphql'
import { useServer } from 'graphql-ws/use/ws'
import { Server } from 'socket.io'
import { WebSocketServer } from 'ws'
const require = createRequire(import.meta.url)
const { setupWSConnection } = require('y-websocket/bin/utils')

const { PORT, INSTANCE, DATA } = process.env
const KEEP = JSON.parse(process.env.KEEP)
const web = createServer((req, res) => res.end('ok'))

/** endpoint returns a WebSocket server whose 101 response contains the header of its protocol. */
function endpoint (name, options = {}) {
  const server = new WebSocketServer({ noServer: true, ...options })
  server.on('headers', headers => { if (KEEP[name]) headers.push('Shardway-WebSocket: ' + KEEP[name]) })
  return server
}

const yjs = endpoint('yjs')
yjs.on('connection', setupWSConnection)

const documents = new Hocuspocus({ quiet: true })
const hocuspocus = endpoint('hocuspocus')
hocuspocus.on('connection', (socket, req) => documents.handleConnection(socket, req))

const graphql = endpoint('graphql', { handleProtocols: () => 'graphql-transport-ws' })
useServer({
  schema: buildSchema('type Query { instance: String } type Subscription { tick: String }'),
  roots: {
    query: { instance: () => INSTANCE },
    subscription: {
      async * tick () {
        for (;;) {
          yield { tick: INSTANCE }
          await new Promise(resolve => setTimeout(resolve, 50))
        }
      }
    }
  }
}, graphql)

// Phoenix and ASP.NET are not in npm. These endpoints implement what the clients need of their protocols.
const phoenix = endpoint('phoenix')
phoenix.on('connection', socket => {
  const joined = new Set()
  socket.on('message', text => {
    const [join, ref, topic, event, payload] = JSON.parse(text)
    if (event === 'phx_join') joined.add(topic)
    const ok = topic === 'phoenix' || joined.has(topic)
    socket.send(JSON.stringify([join, ref, topic, 'phx_reply', { status: ok ? 'ok' : 'error', response: { ...payload, instance: INSTANCE } }]))
  })
})

const signalr = endpoint('signalr')
signalr.on('connection', socket => {
  let greeted = false
  socket.on('message', data => {
    for (const text of String(data).split('\x1e').filter(Boolean)) {
      const message = JSON.parse(text)
      if (message.protocol) {
        greeted = true
        socket.send('{}\x1e')
      } else if (message.type === 1 && greeted) {
        socket.send(JSON.stringify({ type: 3, invocationId: message.invocationId, result: INSTANCE }) + '\x1e')
      }
    }
  })
})

// The first message of a client contains its room.
const rooms = endpoint('rooms')
rooms.on('connection', socket => {
  let room
  socket.on('message', text => {
    if (room) socket.send(room + ' ' + INSTANCE)
    room ??= String(text)
  })
})

const endpoints = { yjs, hocuspocus, graphql, phoenix, signalr, rooms }
web.on('upgrade', (req, socket, head) => {
  const name = req.url.split(/[/?]/)[1]
  endpoints[name]?.handleUpgrade(req, socket, head, opened => endpoints[name].emit('connection', opened, req))
})

// A chat room stores each message before it acknowledges it.
const chat = new Server(web, { destroyUpgrade: false })
chat.engine.on('headers', (headers, req) => { if (KEEP.socketio && req.headers.upgrade) headers['Shardway-WebSocket'] = KEEP.socketio })
chat.on('connection', socket => {
  const room = socket.handshake.query.key
  const file = DATA + '/' + room
  socket.join(room)
  socket.emit('history', existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : [])
  socket.on('say', (text, stored) => {
    appendFileSync(file, text + '\n')
    stored()
    chat.to(room).emit('said', text)
  })
  socket.on('wait', done => setTimeout(done, 300))
})

web.listen(Number(PORT), '127.0.0.1')
