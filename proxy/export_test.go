package proxy

import "sync/atomic"

// CountBuffers counts in n the buffers that connections have. Before the first one.
func (s *Server) CountBuffers(n *atomic.Int64) { s.buffers.Lent = n }
