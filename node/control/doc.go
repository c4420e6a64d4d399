// Package control carries requests between nodes: one node calls another on a control stream of its
// peer port.
//
//	Client.Call ──► Request (JSON frame) ──► Server ──► Handler of the Kind
//	            ◄── Reply (JSON frame)   ◄──
//
// # Types
//
//   - Request has a Kind, which determines its other fields and the Handler. Reply contains a value or an
//     error.
//   - Client calls one node, the leader, or many nodes (Broadcast).
//   - PersistentStream keeps a stream open between calls of the same node.
//   - Cached shares the result of a broadcast between concurrent callers.
//   - Server handles the requests of other nodes. The handlers are a table by Kind. Package node
//     registers them, and marks those that only a leader can handle.
//
// # Concurrency
//
// All methods are safe for concurrent use. The Server calls a Handler from the goroutine of the
// stream, and handles the requests of one stream in order.
//
// # Invariants
//
//   - A request is up to 1 MiB, and is handled within HandlerTimeout.
//   - A DialError means that the node has not received the request. After a StreamError the node may have
//     handled it.
//   - The JSON keys are the format between nodes of different versions; node/testdata/wire has samples.
package control
