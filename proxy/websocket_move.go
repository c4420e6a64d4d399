package proxy

import (
	"time"

	"shardway/proxy/cause"
	"shardway/proxy/shardkey"
	"shardway/proxy/wsession"
	"shardway/shardmap"
)

// WebSocketKeyHash returns the hash by which MoveWebSockets identifies the WebSockets of a key.
func WebSocketKeyHash(key string) uint64 { return shardkey.Hash(nil, []byte(key)) }

// MoveWebSockets ends the upstream connections of resumable WebSockets whose clients are connected to this node. It
// selects the WebSockets for which match returns true, and returns their number. keyHash is the WebSocketKeyHash of
// the key. If gap is set, each WebSocket's upstream connection is aborted as if the owner had crashed, which counts
// as a failure of the session. Otherwise the WebSocket is handed over to the current owner again, as if its shard
// had moved.
func (s *Server) MoveWebSockets(match func(shard shardmap.Shard, keyHash uint64) bool, gap bool) int {
	count := 0
	s.conns.Each(func(c *client) {
		session, current, relay := c.session.Load(), c.slot.Load(), c.slot.WebSocket.Load()
		if session == nil || relay == nil || session.State() != wsession.Attached || !match(session.Shard, session.KeyHash) {
			return
		}
		if gap {
			cancelRun(&c.slot, current, cause.MoveTest, s.metrics)
		} else {
			relay.RequestHandover()
			time.AfterFunc(s.options.DrainTimeout, relay.EnforceMoveTimeout)
		}
		count++
	})
	return count
}
