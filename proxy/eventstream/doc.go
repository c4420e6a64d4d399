// Package eventstream follows streams of server-sent events (text/event-stream, WHATWG
// HTML section 9.2): where one may be cut off so that no event is lost, and from which
// event on it goes on over another connection.
//
//	whole := scanner.Next(part)      // the bytes of part up to the last place between events
//	err := hold.Pass(w, part, whole) // passes those on, and keeps the rest
//	…                                // the connection breaks
//	id, ok := scanner.ID()           // Last-Event-ID of the request that goes on with it
//	hold.Again(); scanner.Again()
//
// A place between events is behind a blank line, and behind a comment where no event
// has begun. Lines end in CR, LF or CR LF, wherever the parts are split; a LF that
// comes later belongs to its CR. Nothing here has a goroutine, a clock or a lock: a
// Scanner and a Hold belong to one goroutine.
package eventstream
