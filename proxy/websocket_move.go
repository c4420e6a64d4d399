package proxy

import (
	"time"

	"shardway/proxy/shardkey"
	"shardway/proxy/wsession"
	"shardway/shardmap"
)

// WebSocketKeyHash returns the hash by which MoveWebSockets identifies the WebSockets of a key.
func WebSocketKeyHash(key string) uint64 { return shardkey.Hash(nil, []byte(key)) }

// MoveWebSockets ends the upstream connections of resumable WebSockets whose clients are connected
// to this node. It selects the WebSockets for which match returns true, and returns their number.
// keyHash is the WebSocketKeyHash of the key. Without gap, each WebSocket is handed over to the
// current owner again, as if its shard had moved. With gap, its upstream connection is aborted, as
// if the owner had crashed; such a break counts towards maxBreaks.
func (s *Server) MoveWebSockets(match func(shard shardmap.Shard, keyHash uint64) bool, gap bool) int {
	count := 0
	s.conns.each(func(c *client) {
		session, current, relay := c.session.Load(), c.slot.load(), c.slot.webSocket.Load()
		if session == nil || relay == nil || session.loadState() != wsession.Attached || !match(session.shard, session.keyHash) {
			return
		}
		if gap {
			s.cancelRun(c, current, causeMoveTest)
		} else {
			relay.request(requestMove)
			time.AfterFunc(s.options.DrainTimeout, relay.enforceMoveTimeout)
		}
		count++
	})
	return count
}

// enforceMoveTimeout ends a relay whose hand-over was requested DrainTimeout ago if a message of the client
// is still incomplete. When a shard moves, the owner does that. In MoveWebSockets the shard does
// not move, so the owner does not enforce DrainTimeout.
func (relay *webSocketRelay) enforceMoveTimeout() {
	select {
	case <-relay.upStopped: // the direction up has stopped, and the owner completes the hand-over
	default:
		if !relay.hasEnded() {
			relay.drainExpired.Store(true)
			relay.request(requestStop | requestCloseFrame)
			relay.abortAfter(streamEndTimeout, relay.upstream)
		}
	}
}
