// Package embed runs a Shardway node in the app's own process.
//
// Other processes of the cluster may be nodes like it, nodes with an app behind them, or
// gateways: to them it is a node. Its own requests cost no second connection: after a
// request was judged, routed and admitted its handler is called on the goroutine of the
// client's connection, and what it answers leaves by the same way as any app's answer.
//
//	n, err := embed.New(embed.Config{
//		Data: "./data", Listen: ":8080", Join: []string{"10.0.0.2:7946"}, SecretFile: "secret",
//		Key:     []string{"header:X-User"},
//		Handler: func(ctx *fasthttp.RequestCtx) { … },
//	})
//	if err != nil { … }            // every mistake, each with field, value and remedy
//	err = n.Run(ctx)               // until ctx ends, and the node has handed its shards over
//
// # One owner
//
// The handler of one node at a time is called for a shard, and the next one's only after
// this one's has returned: a shard's count falls when its handler has returned, whatever
// became of the client. So a handler has to come to its end. It is told to, by the Done
// of its RequestCtx, when
//
//   - the client has left,
//   - its shard moves and Config.DrainTimeout is over,
//   - the node has been without a lease for so long that its shards will be taken,
//   - Config.FirstByteTimeout is over, or the node stops and Config.ShutdownTimeout is.
//
// A handler that goes on all the same holds up the move of its shard: the node does not
// acknowledge, so the others drop it, and it loses its lease. When its shards may be
// taken, at dead-after, and it still runs, the process ends (Config.Exit): nobody can
// stop a goroutine, and another node is about to run the same key.
//
// After a pause of the process, or of the whole machine, handlers and node go on at once,
// and nobody may have told a handler yet that its shard was taken. Err asks the clock, as
// the context of a request of HTTP and that of a hook do at each Done and Err: a handler
// asks before it writes what nothing fences. Against a pause between that and the write,
// which no process can exclude, the app fences what it writes elsewhere by the ownership
// epoch, as any app does: the header Shardway-Epoch, which grows whenever the owner changes.
//
// What a handler leaves running after its return counts if it is begun by Go, Stream or
// HTTP, and not otherwise. That goes for fasthttp's SetBodyStreamWriter too: when its stream
// is cut the writer is told, by Done and by the error of its next Flush, and not waited for.
//
// # What is not there
//
// Connections cannot be taken over (Hijack, WebSockets), nor early hints be sent: an app
// that needs those runs behind a node. Trailers of requests are left out. PostBody holds a
// whole body, of at most MaxBody or else 4 MiB; with StreamBodies longer ones than
// BodyBuffer, and those of unknown length, are streams (RequestBodyStream).
//
// Nothing here is shared between nodes: any number may run in one process.
package embed
