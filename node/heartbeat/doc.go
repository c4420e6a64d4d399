// Package heartbeat carries the heartbeats of nodes to the leader, and its responses back.
//
//	agent ──► Client.Send ──► peer port ──► Server ──► leader loop
//	      ◄── Answers     ◄──            ◄──  Received.Respond ◄──
//
// # Types
//
//   - Client sends this node's heartbeats to the node that leads, and detects that its connection to a
//     leader has closed.
//   - Server reads the heartbeats of other nodes and passes them to a function.
//   - RoundTrips measures the time from a heartbeat to its response.
//
// # Concurrency
//
// Client.Run owns its goroutines and returns after the last one. The peer port calls Server.ServeStream in
// a goroutine for each stream. Only the goroutine of the agent uses RoundTrips.
//
// # Invariants
//
//   - A newer heartbeat or response replaces one that was not sent yet, because only the newest one matters.
//   - The reader of a stream never waits for the writer of the responses, and the leader loop never waits
//     for a socket.
package heartbeat
