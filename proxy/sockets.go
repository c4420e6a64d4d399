package proxy

// Sockets counts the upgraded connections to this node's app. One may stay longer than
// its shard.
func (s *Server) Sockets() int {
	total := 0
	for i := range s.load.shards {
		total += int(s.load.shards[i].sockets.Load())
	}
	return total
}
