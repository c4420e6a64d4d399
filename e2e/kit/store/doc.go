//go:build linux

// Package store is the external store in which the apps of an end-to-end test keep their
// registers. It implements fencing by epoch, as docs/guarantees.md recommends.
//
// It records the newest epoch of each shard, and rejects every older epoch, for reads and
// writes: a replaced owner neither changes what its successor wrote, nor reads a value
// that it could consider current. Unfenced operations are done with any epoch, as by a
// store that ignores epochs. The store has a log of the applied writes, on the clock of
// history.Now.
//
// A Store runs in the process of the test. The apps access it with a Client.
package store
