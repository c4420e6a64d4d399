// Package proxy accepts HTTP requests from clients, determines the shard of their key, and
// forwards them to the node that owns the shard.
//
//	client conn ─► header ─► key ─► shard ─► Table.Route
//	                 ▲                         │
//	                 │                         ├─ Local   Admit ─► LeaseLeft ─► app, or Options.Handler
//	                 │                         ├─ Remote  Dial ─► ServePeer of the owner ─► its app
//	                 └──── wait in the queue ◄─┴─ Queued  no owner yet, or a retry is pending
//
// # Invariants
//
//   - A request gets exactly one response. It is retried only if no byte of it reached an
//     app, or as far as its method allows (retrier.go).
//   - A forwarded request is served or refused, and never forwarded again. Requests wait at the
//     node that has their client.
//   - A truncated message is never completed: the connection on which it would leave is closed.
//   - Bytes that a sender did not frame as a request are never read as a request.
//
// # Main types
//
//	Server            the proxy of one node
//	inbound.Request   a request as its front has accepted it; http1.Front is the front for HTTP/1
//	client            a connection on which requests arrive (client.go, serve.go)
//	exchange          the state of one request
//	router            finds the owner of a request, and makes attempts until it has a response
//	attemptRunner     runs an attempt: sends the request, and forwards the response
//	retrier           decides what follows an attempt that failed
//	attempt           one try to send a request over one connection (attempt.go)
//	decision          the result of an attempt
//	connpool.Pool     connections to the app or to one node (acquire.go, dial.go)
//	inflight.Slot     the current run of a connection, for cancellation
//	reqbody.Body      buffers the body of a request, and sends it
//	webSocketRun      a wsrelay.Relay, for a WebSocket that survives its upstream connection (websocket_*.go)
//	eventrelay.Relay  forwards an event stream
//	eventloop.Group   serves small requests of many connections in few goroutines (event_loop_request.go)
//	handlerConn       a connection to an app in this process (handler.go, package inproc)
//	connset.Set       the open connections; it parks idle ones without goroutines (parking.go)
//
// # Parts of the Server
//
// Each part owns its state. No part calls the Server, except through functions that it received when it
// was initialized.
//
//	upstream.Pools      the connections to the app and to the other nodes
//	webSockets          the resumable WebSockets: their queue, relays and pacing
//	sweeper             checks the open connections at regular intervals (sweep*.go)
//	connset.ParkDelays  how long a connection must be idle before it is parked
//	listener.Lifecycle  the listeners, and how far a drain or a shutdown has come
//	httpclock.Clock     the coarse clock and the Date header
//	route.KeyPlacer     where the owner of a generated key is
//	route.Explainer     why a request is not served
//	panics.Recorder     logs and counts panics of the proxy
//
// # Goroutines
//
// Each connection has one goroutine, which reads a request, runs it and writes the response. A
// second goroutine sends a streamed body while the response arrives, and a third one detects a
// disconnect of the client. A resumable WebSocket has two goroutines while it has an upstream
// connection, and none while it is idle (conn_goroutines.go, package wsrelay). Idle connections
// and small requests need no goroutine of their own.
//
// The node calls Wake, CancelShards, CancelUpstream, CancelForwarded and SetDraining from any
// goroutine. The path of a request acquires no locks except those of the pools of upstream connections.
// The Cancel functions find the runs in the slots of the connections.
package proxy
