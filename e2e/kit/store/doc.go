//go:build linux

// Package store is what the apps of an e2e test keep their registers in: a store
// outside of the cluster that fences by the epoch, as docs/guarantees.md tells
// users to.
//
// It knows the newest epoch that it has seen for each shard, and refuses every
// older one, for reads as for writes: an owner that was replaced neither changes
// what its successor wrote nor learns anything that it could take for the present.
// What is asked for as Unfenced it does whatever the epoch, as a store that knows none.
// It keeps a log of what it applied, on the clock of history.Now.
//
// A Store lives in the process of the test; the apps reach it by a Client.
package store
