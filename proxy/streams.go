package proxy

import "shardway/shardmap"

// EndlessStreams counts, by shard, the tunnels and event streams at this node's app that end
// within StreamGrace once their shard moves. Nothing is gained by waiting for their end. Legs
// of kept WebSockets are not among them.
func (s *Server) EndlessStreams() map[shardmap.Shard]int {
	streams := map[shardmap.Shard]int{}
	s.conns.each(func(c *client) {
		if r := c.slot.load(); r.kind == Local && r.flags&(slotTunnel|slotEvents) != 0 && r.flags&(slotKeyless|slotSocket) == 0 {
			streams[r.shard]++
		}
	})
	return streams
}
