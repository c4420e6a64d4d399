// Package eventstream parses streams of server-sent events (text/event-stream, WHATWG HTML section
// 9.2). It finds the places where a stream can be interrupted without losing an event, and the
// event after which it can be resumed over another connection.
//
//	complete := scanner.Next(part)           // number of bytes up to the last boundary between events
//	err := buffer.Write(w, part, complete)   // writes those bytes, and buffers the rest
//	…                                        // the connection breaks
//	id, ok := scanner.ID()                   // Last-Event-ID of the request that resumes the stream
//	buffer.Resume(); scanner.Resume()
//
// A boundary between events is after a blank line, and after a comment if no event has begun. Lines
// end in CR, LF or CR LF, wherever the parts are split; an LF that arrives later belongs to its CR.
//
// The package has no goroutine, clock or lock. A Scanner and a Buffer belong to one goroutine, that
// of the relay in package proxy.
package eventstream
