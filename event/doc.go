// Package event keeps the most recent events of a node for readers of the admin API.
//
// A [Ring] contains the last events of one process, numbered from 1. Any goroutine may add
// an event; Add never blocks on a reader. Each reader has a [Cursor] and copies events at
// its own pace. The ring stores nothing per reader, so a slow reader delays neither the
// ring nor other readers. A reader that was too slow receives a [Lost] event with the number
// of events that it missed.
//
// # Memory
//
// A ring has a fixed number of events. The lists of shards of its shards-moved events have a limit of their own
// ([Options.ShardMemory]), because a map change can move up to 65,536 shards.
//
// # Event ids
//
// The id of an event contains a random number of the process and the number of the event.
// After a restart, or on another node, an old id matches no event. The reader then receives
// a Lost event instead of an unrelated event with the same number.
package event
