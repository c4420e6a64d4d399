package proxy

import (
	"time"

	"shardway/shardmap"
)

// WebSocketKeyHash is what MoveWebSockets knows the sockets of a key by.
func WebSocketKeyHash(key string) uint64 { return KeyHash(nil, []byte(key)) }

// MoveWebSockets ends the legs of the kept sockets that match names, by shard and mark, whose
// clients are connected here, and returns how many it were. Each is handed over to where its
// shard is, as if that had moved; with gap its leg is cut, as if the owner had died, which
// counts among those that may break within a minute.
func (s *Server) MoveWebSockets(match func(shard shardmap.Shard, mark uint64) bool, gap bool) int {
	many := 0
	s.conns.each(func(c *client) {
		k, r, l := c.session.Load(), c.slot.load(), c.slot.webSocket.Load()
		if k == nil || l == nil || k.load() != sessionAttached || !match(k.shard, k.keyHash) {
			return
		}
		if gap {
			s.cancelRun(c, r, causeMoveTest)
		} else {
			l.request(requestMove)
			time.AfterFunc(s.o.DrainTimeout, l.lateToMove)
		}
		many++
	})
	return many
}

// lateToMove ends a leg that was to be handed over DrainTimeout ago, if a message of its client
// is still under way. Of a shard that moves the owner does so; of this it knows nothing.
func (l *webSocketRelay) lateToMove() {
	select {
	case <-l.upEnd: // the rest is the owner's
	default:
		if !l.isOver() {
			l.drainExpired.Store(true)
			l.request(requestStop | requestClose)
			l.abortAfter(endWait, l.upstream)
		}
	}
}
