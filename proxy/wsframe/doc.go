// Package wsframe parses one direction of a WebSocket (RFC 6455 section 5) as its bytes pass, and
// finds the ends of frames and messages. It validates strictly, because a proxy that keeps a
// WebSocket while its upstream connection changes must not guess.
//
// A Scanner accepts the stream in pieces of any size. It parses frame headers and counts payloads.
// It copies nothing except the payloads of control frames, and allocates nothing:
//
//	for len(p) > 0 {
//		n, err := s.Step(p) // up to the end of the frame in which p begins, or of p
//		… pass p[:n] on; s.IsControl, s.BetweenFrames and s.BetweenMessages describe it …
//		p = p[n:]
//	}
//
// Errors are permanent, because later frame boundaries are unknown. A Tracker follows a WebSocket that keeps its
// upstream connection; it only finds the ends of frames, and validates nothing. A Scanner or a Tracker belongs to
// one goroutine at a time, that of a relay direction in package proxy.
package wsframe
