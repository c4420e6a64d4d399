// A Colyseus server with a room that returns each message to its sender. KEEP is the value of
// Shardway-WebSocket.
import { Room, Server } from '@colyseus/core'
import { WebSocketTransport } from '@colyseus/ws-transport'

class Echo extends Room {
  onCreate () {
    this.onMessage('echo', (client, message) => client.send('echo', message))
  }
}

const transport = new WebSocketTransport({})
if (process.env.KEEP) transport.wss.on('headers', headers => headers.push('Shardway-WebSocket: ' + process.env.KEEP))
const server = new Server({ greet: false, transport })
server.define('echo', Echo)
server.listen(Number(process.env.PORT), '127.0.0.1')
