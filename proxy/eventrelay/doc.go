// Package eventrelay forwards event streams (text/event-stream) to clients, and resumes them when
// their shard moves or their connection breaks.
//
//   - A Relay forwards the events of one response. Another goroutine may request its end, which then
//     happens between two events.
//   - A Stream survives its response: the client stays connected while the stream is requested again
//     from the next owner of its shard. It exists only at the ingress, and only if the app permits
//     resumption.
//
// The goroutine of the connection of the client calls all methods, except Relay.RequestEnd and
// Relay.IsResumable, which any goroutine may call. Package eventstream parses the events.
package eventrelay
