// A Colyseus server with a room that returns each message to its sender.
import { Room, Server } from '@colyseus/core'
import { WebSocketTransport } from '@colyseus/ws-transport'

class Echo extends Room {
  onCreate () {
    this.onMessage('echo', (client, message) => client.send('echo', message))
  }
}

const server = new Server({ greet: false, transport: new WebSocketTransport({}) })
server.define('echo', Echo)
server.listen(Number(process.env.PORT), '127.0.0.1')
