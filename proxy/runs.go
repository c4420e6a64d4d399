package proxy

import (
	"shardway/proxy/inflight"
	"shardway/proxy/route"
	"shardway/shardmap"
)

// ShardRuns contains the running requests of a shard at the app of this node.
type ShardRuns struct {
	// Endless is the number of tunnels and event streams that are ended within StreamGrace after
	// the shard has moved. There is no point in waiting for them. Relays of resumable WebSockets
	// are not counted. An event stream in response to a POST is one of Requests.
	Endless int
	// Requests are all other requests.
	Requests []Run
}

// Run identifies one request while it runs. It is comparable.
type Run struct {
	client *client
	// Number increases with each request of a connection.
	Number uint32
}

// LocalRuns returns the running requests at the app of this node, by shard.
func (s *Server) LocalRuns() map[shardmap.Shard]ShardRuns {
	byShard := map[shardmap.Shard]ShardRuns{}
	s.conns.Each(func(c *client) {
		current := c.slot.Load()
		if current.Kind != route.Local || current.Has(inflight.Keyless|inflight.WebSocket) {
			return
		}
		runs := byShard[current.Shard]
		if current.IsEndless() {
			runs.Endless++
		} else {
			runs.Requests = append(runs.Requests, Run{c, current.Number})
		}
		byShard[current.Shard] = runs
	})
	return byShard
}

// Stalled returns the nodes at which a forwarded request has been in progress since the previous
// call, each of them once. The caller checks whether these nodes can still be reached, because a
// broken path causes no error until the kernel's retransmissions time out. Only one goroutine may
// call Stalled.
func (s *Server) Stalled() []string {
	var nodes []string
	seen := map[string]bool{}
	s.stalledScratch = s.conns.Visit(s.stalledScratch[:0], func(all []*client) {
		for _, c := range all {
			if node, stalled := c.stall.IsStalled(&c.slot); stalled && !seen[node] {
				seen[node] = true
				nodes = append(nodes, node)
			}
		}
	})
	return nodes
}
