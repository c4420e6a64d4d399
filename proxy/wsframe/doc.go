// Package wsframe follows one direction of a WebSocket (RFC 6455 section 5) as its
// bytes pass, to know where a frame ends and where a message does, and judges it
// strictly: whoever keeps a socket while its connection changes may not guess.
//
// A Scanner is fed any chunks of the stream. It looks at heads and counts payloads, so
// it copies nothing but what a Close says and allocates nothing:
//
//	for len(p) > 0 {
//		n, err := s.Step(p) // up to the end of the frame that p begins in, or of p
//		… pass p[:n]; s.Control, s.Between and s.Whole say what it was …
//		p = p[n:]
//	}
//
// An error stays: what follows cannot be told apart any more.
package wsframe
