// Package wsrelay relays resumable WebSockets. A Session is a WebSocket that survives the loss of its
// upstream connection. A Relay copies the frames of a Session over one upstream connection, hands the
// WebSocket over when its shard moves, and decides what follows after its end.
//
// Package proxy obtains the upstream connection with an ordinary request, and then runs the relay:
//
//	Init ─► Start ─► RunDown ─► StopUp ─┬─ at the ingress: Finish ─► another relay, or the end of the session
//	                                    └─ at the owner:   ReportEnd ─► end code for the ingress
//
// Start starts the goroutine of the direction up, from the client to the app. The goroutine of the
// connection calls RunDown for the other direction, and all methods after it. A direction that has
// been idle for a while parks: its goroutine ends, and another one continues it later (park.go).
//
// Any goroutine may call Cancel, RequestHandover, RequestReconnect and EnforceMoveTimeout. They set
// bits that the direction up acts on, or close a connection, but never write to one.
//
// Package wsframe parses the frames, and package wsession limits how many sessions change at once.
package wsrelay
