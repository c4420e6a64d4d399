// Package shardkey finds the key of a request, which selects its shard.
//
// Keys is the key configuration: the key sources for each path prefix, and the policy for requests
// without a key. Spec describes it in the terms of the configuration. Keys does not change after
// New, so any number of goroutines may use it.
//
// Extractor applies a Keys to the requests of one connection, and belongs to the goroutine of that
// connection. Extractor.Find returns the key, or the problem with which the request is refused. A
// request is refused if the app could read a different key from it than this package does, because
// the node and the app would then disagree about the owner.
//
// Hash is the form of a key in logs and lists. Quarantine is a set of keys, by their hashes, that
// an operator has blocked; it must not change while the proxy uses it.
package shardkey
