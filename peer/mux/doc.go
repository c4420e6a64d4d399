// Package mux multiplexes streams over one connection between two nodes, as yamux and HTTP/2 do.
//
// A request that uses its own connection between nodes costs two system calls at each end, and
// under TLS one record in each direction. A session combines what many streams write at the same
// time in one write, and delivers data for many streams with one read:
//
//	stream ─┐ frames                  connection              frames ┌─ stream
//	stream ─┼─► urgent, queue ─► writer ══════════════► readLoop ────┼─ stream
//	stream ─┘                                                        └─ stream
//
// # Types
//
//   - Session is one end of a connection. The client, which dialed, opens streams. The server
//     accepts them.
//   - Stream is a net.Conn. Its end and its failure look like those of TCP: a reader never
//     mistakes a truncated stream for a complete one.
//   - Budget limits the number of streams, or the bytes of a shared window pool.
//   - SessionSet maintains one session to each node and opens streams on it.
//
// # Goroutines
//
// Session.Run starts two goroutines for each end: one reads, and one writes whenever writing has to
// wait. A stream that writes while no write is in progress flushes the queue itself, including the
// frames that other streams add during the write, as far as the socket accepts it without blocking.
// This also holds for encrypted data. All other methods only change memory.
//
// # Invariants
//
//   - Flow control: a sender may not exceed the receiver's window. Each stream starts with Window
//     bytes of credit and regains credit as the reader consumes data. The session reader therefore
//     never blocks on a stream, and a slow reader stalls only its own stream. A peer that violates
//     the window loses the session. Sessions for many long-lived streams start with FirstWindow
//     and share a pool of additional window (Budget.WithWindowPool).
//   - Stream limit: a stream counts until both ends have closed it and the writer has taken its
//     close frame. At most MaxStreams count, over all sessions of a node (Budget). This limits the
//     memory and the work that one node causes at another, also if a node resets its streams right
//     after opening them, and limits what is queued for a peer that does not read. The server
//     refuses a stream over the limit, without effect on other streams. Streams of a failed
//     session make room for new ones as soon as either end has detected the failure.
//   - No head-of-line blocking at the client: a message that is complete is queued up to its
//     credit, and no stream is opened on a session with a long queue. Sessions with more than
//     MaxStreams streams (up to MaxWebSocketStreams) are too large for this: both ends wait for
//     queue space.
//   - Order: the bytes of a stream arrive in order, followed by its end. Reset, window update and
//     ping frames are urgent and overtake queued data, but a reset never overtakes the frame that
//     opens its stream.
//   - Stream IDs are never reused, so a late frame of a closed stream is ignored. A GOAWAY names
//     the last accepted stream, is sent once, and does not revoke an accepted stream.
//   - A session failure fails all its streams with the same error. A stream of which no byte was
//     written reports Unprocessed: its message is safe to send again.
//   - The server closes an idle session, and keeps little memory for it until then.
//
// # Path failures
//
// The kernel reports a dead path as for any TCP connection. A ping gives it something to
// acknowledge while nothing else is in flight. A missing pong does not close a session, because a
// stopped process is not a dead path. A SessionSet opens streams only on a session that has
// received something recently, and requests a pong in the background otherwise. No caller waits
// for a session: a caller that gets no stream at once continues without, unless it calls
// OpenStreamWait.
package mux
