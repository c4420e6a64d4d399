package proxy

import "shardway/shardmap"

// ShardRuns is what runs for a shard at this node's app.
type ShardRuns struct {
	// Endless counts tunnels and event streams that end within StreamGrace once the shard
	// moves. Nothing is gained by waiting for their end. Legs of kept WebSockets are in no
	// count, and an event stream that answers a POST is one of Requests.
	Endless int
	// Requests are all others.
	Requests []Run
}

// Run names one request for as long as it runs. It is comparable.
type Run struct {
	by *client
	// Number grows from request to request of a connection.
	Number uint32
}

// LocalRuns returns what runs at this node's app, by shard.
func (s *Server) LocalRuns() map[shardmap.Shard]ShardRuns {
	all := map[shardmap.Shard]ShardRuns{}
	s.conns.each(func(c *client) {
		r := c.slot.load()
		if r.kind != Local || r.flags&(slotKeyless|slotWebSocket) != 0 {
			return
		}
		x := all[r.shard]
		if r.isEndless() {
			x.Endless++
		} else {
			x.Requests = append(x.Requests, Run{c, r.number})
		}
		all[r.shard] = x
	})
	return all
}
