// Package proxy carries requests: it accepts them from clients, finds the shard
// of their key, and has the shard's owner serve them.
//
//	client conn ─► head ─► key ─► shard ─► Table.Route
//	                 ▲                       │
//	                 │                       ├─ Local   Admit ─► LeaseLeft ─► app, or Options.Handler
//	                 │                       ├─ Remote  Dial ─► peer's ServePeer ─► its app
//	                 └── waits in the Room ◄─┴─ Held    and whatever may go again
//
// Rules that must hold:
//
//   - A request gets exactly one answer, and goes out again only if no byte of
//     it reached an app, or as far as its method allows (attempt.go).
//   - A forwarded request is served or refused, never forwarded again; it waits
//     at the node that took it from the client and nowhere else.
//   - A message that was cut off is never completed: the connection it was to
//     leave by is closed instead.
//   - Bytes that a sender did not frame as a request are never read as one.
//
// Every connection is one goroutine that reads a request, runs it and writes
// its answer; a second one exists only while a streamed body goes out beside
// the answer coming in, and a third while something watches whether the client
// has left. A kept socket has two as long as it has a leg, neither of them where
// its request went (carry.go). The node calls Wake, Cut, CutUpstream, Abandon and SetDraining from
// any goroutine. Nothing on the way of a request takes a lock but the pools of
// idle connections; what runs is found by Cut through one slot per connection
// (slot.go).
package proxy
