package proxy

// Sockets counts the upgraded connections to this node's app.
func (s *Server) Sockets() int {
	total := 0
	for i := range s.load.shards {
		total += int(s.load.shards[i].sockets.Load())
	}
	return total
}
