// Package hooks sends the hook calls of package ack/agent to the app of a node. The hooks inform the app
// that it must acquire, release or discard the state of shards, and for how long it may write.
//
// HTTP calls an app in another process, and Func an app in the process of the node. Both return only when the call
// is no longer running, as far as the node can detect: the connection is closed, or the function has returned. The
// lease protocol depends on this: a node must not acknowledge that it has given up a shard while its app may still
// write the shard. The methods may be called from any number of goroutines.
//
// The package only transports the calls. The hook state machine of package ack/agent decides when and how often a
// hook is called, and with which timeout.
//
// # On the wire
//
//	POST {hooks}/release  {"seq","disk","map","shards":[{"shard","epoch","to","cut"}]}                       → {"notes":{"17":"<base64>"},"failed":{"18":"why"},"absent":[19]}
//	POST {hooks}/acquire  {"seq","disk","map","shards":[{"shard","epoch","from","released","note","again"}]} → {"failed":{"18":"why"}}
//	POST {hooks}/lost     {"seq","disk","shards":[{"shard","epoch"}]}                                        → 204
//	POST {hooks}/alive    {"id","after","disk","map","held","may_write_ms"}                                  → 2xx
//
// The calls of alive share one persistent connection, and each other call uses a new connection. Each
// request has the header Shardway-Hook. Nodes remove this header from requests of clients, so only a node
// can send it.
//
// If the node has services, each request also has the header Shardway-Service, and shard numbers count from
// the first shard of the service. A client never sends a call for shards of another service.
//
// A response with a status 2xx means success for all shards except those in "failed". An empty body means no
// notes and no failures. If the body is invalid, the whole call has failed. If only a note is invalid, its
// shard has failed.
//
// A note is a text that the app returns when it releases a shard. The acquire call of the next owner contains
// it if "released" is true, otherwise null. In the response to a release, "absent" lists the shards that the
// app does not hold.
package hooks
