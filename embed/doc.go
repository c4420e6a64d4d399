// Package embed runs a Shardway node in the process of the app.
//
// Other processes of the cluster can be embedded nodes, nodes with a separate app, or gateways; to them
// an embedded node is an ordinary node. Its own requests need no second connection: after routing and
// admission, the node calls the handler on the goroutine of the client connection, and forwards the
// response like that of any app.
//
//	n, err := embed.New(embed.Config{
//		Data: "./data", Listen: ":8080", Join: []string{"10.0.0.2:7946"}, SecretFile: "secret",
//		Key:     []string{"header:X-User"},
//		Handler: func(ctx *fasthttp.RequestCtx) { … },
//	})
//	if err != nil { … }            // all mistakes, each with field, value and remedy
//	err = n.Run(ctx)               // until ctx ends and the node has handed over its shards
//
// # Types
//
//   - Config contains the settings and the handler of the app.
//   - Node is a node: New opens it, Run runs it. All methods except Run are safe for concurrent use.
//   - HookFunc is a hook that loads, saves or discards the state of shards.
//   - NodeChange, Rebalance and ClusterHealth are the arguments of callbacks; Event is an event of the node.
//   - HTTP, Go and Stream adapt an http.Handler, background work and streamed responses.
//
// # One owner
//
// At any time the handler of only one node runs for a shard. The next owner starts only after all handlers of the
// previous one have returned, even if their clients have disconnected, so a handler must end. The Done channel of
// its RequestCtx is closed when
//
//   - the client has disconnected,
//   - the shard moves and Config.DrainTimeout has expired,
//   - the node has had no lease for so long that its shards will be reassigned,
//   - Config.FirstByteTimeout has expired, or the node stops and Config.ShutdownTimeout has expired.
//
// A handler that continues nevertheless delays the move of its shard: the node does not acknowledge the
// new map, so the cluster excludes the node, and its lease expires. If the handler is still running at
// dead-after, when the shards can be reassigned, the process exits (Config.Exit): a goroutine cannot be
// stopped, and another node is about to run requests for the same key.
//
// After a pause of the process or of the machine, handlers and node continue at the same time, so a
// handler may run before it is cancelled although its shard has been reassigned. Err reads the clock, and
// so do the contexts of HTTP requests and of hooks at each Done and Err. A handler should check it before
// it writes to an external system without fencing. No check excludes a pause between the check and the
// write. Against this the app fences its writes by the ownership epoch, like any app: the header
// Shardway-Epoch increases whenever the owner changes.
//
// Work that continues after the return of the handler counts as part of the request only if it is started
// by Go, Stream or HTTP. It does not count for SetBodyStreamWriter of fasthttp: when its stream is
// aborted, Done and the error of the next Flush report this to the writer, but the node does not wait.
//
// # Limitations
//
// A handler cannot take over the connection (Hijack, WebSockets) or send early hints. An app that needs
// these must run as a separate process, to which a node forwards requests. Trailers of requests are
// discarded. PostBody contains the whole body, up to MaxBody or 4 MiB. With StreamBodies, a body that is
// longer than BodyBuffer or has no known length is a stream (RequestBodyStream).
//
// Nodes share no state: one process can run any number of them.
package embed
