// Package hooks carries calls of the hook machine (package ack) to the app behind a
// node.
//
// What carries one is HTTP, for an app in another process, or Func, for one in the
// node's own. Either returns only when nothing of the call runs any more as far as the
// node can tell: the connection is closed, or the function has returned. On that hangs
// that a shard is not acknowledged while its app may still be writing it. Their methods
// may be called from any number of goroutines.
//
// The package decides nothing: when a hook is called, how often and for how long is the
// machine's.
//
// # On the wire
//
//	POST {hooks}/release  {"seq","disk","map","shards":[{"shard","epoch","to","cut"}]}                       → {"notes":{"17":"<base64>"},"failed":{"18":"why"},"absent":[19]}
//	POST {hooks}/acquire  {"seq","disk","map","shards":[{"shard","epoch","from","released","note","again"}]} → {"failed":{"18":"why"}}
//	POST {hooks}/lost     {"seq","disk","shards":[{"shard","epoch"}]}                                        → 204
//	POST {hooks}/alive    {"id","after","disk","map","held","may_write_ms"}                                  → 2xx
//
// The calls of alive share a connection that is kept, and each other call goes over a
// connection of its own. Each has the header Shardway-Hook, which no client
// can send through a node. Any 2xx is success for each shard that is not in failed, and
// an empty answer has neither notes nor failures. The note of a release comes with the
// acquire of who owns the shard next, if "released" is true there; else it is null. An
// answer that cannot be read is an error of the whole call; a note that cannot be one is
// a failure of its shard. A release lists in absent what the app does not hold.
package hooks
