// Package keylimit limits the requests of each key at the owner of its shard.
//
// The owner of a shard receives all requests of its keys, so the limits are exact without any
// communication between nodes. After a move, the new owner starts without requests in flight and with
// full buckets.
//
// # Types
//
//   - ID identifies a key in bounded memory, by a keyed 128-bit hash. A Hasher computes it.
//   - Limit is the limit of each key. Buckets contains a token bucket for each key that has sent requests
//     recently.
//   - Gate limits how many requests of a key run at the same time. Further requests wait in the order of
//     their arrival, or are refused.
//
// All methods are safe for any goroutine. Nothing here reads a clock or starts a goroutine, except that
// Waiter.Await uses a timer.
//
// # Memory
//
// A Gate has an entry for each key with requests that run or wait, so other limits bound its memory. Buckets
// has an entry for each bucket that is not full, up to a fixed number. Further keys share buckets.
package keylimit
