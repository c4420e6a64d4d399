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
// mark is the WebSocketKeyHash of the key. Without gap, each WebSocket is handed over to the
// present owner again, as if its shard had moved. With gap, its upstream connection is aborted, as
// if the owner had crashed; such a break counts towards maxBreaks.
func (s *Server) MoveWebSockets(match func(shard shardmap.Shard, mark uint64) bool, gap bool) int {
	many := 0
	s.conns.each(func(c *client) {
		k, r, l := c.session.Load(), c.slot.load(), c.slot.webSocket.Load()
		if k == nil || l == nil || k.load() != wsession.Attached || !match(k.shard, k.keyHash) {
			return
		}
		if gap {
			s.cancelRun(c, r, causeMoveTest)
		} else {
			l.request(requestMove)
			time.AfterFunc(s.options.DrainTimeout, l.lateToMove)
		}
		many++
	})
	return many
}

// lateToMove ends a relay whose hand-over was requested DrainTimeout ago if a message of the client
// is still incomplete. When a shard moves, the owner does that. In MoveWebSockets the shard does
// not move, so the owner does not enforce DrainTimeout.
func (l *webSocketRelay) lateToMove() {
	select {
	case <-l.upEnd: // the direction up has stopped, and the owner completes the hand-over
	default:
		if !l.hasEnded() {
			l.drainExpired.Store(true)
			l.request(requestStop | requestCloseFrame)
			l.abortAfter(endWait, l.upstream)
		}
	}
}
