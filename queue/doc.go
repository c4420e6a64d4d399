// Package queue is a bounded FIFO queue for requests that cannot be forwarded yet.
//
// A request waits on the node that accepted its connection, because its shard has no
// confirmed owner at the moment. The wait ends when the routing table is replaced, when
// the deadline of the request expires, or when its client disconnects. After a wait the
// request looks up its owner in the new table. The queue itself contains no routing logic.
//
//	t, err := q.Enter(shard, size) // ErrFull or ErrShardLimit: refuse the request
//	defer t.Leave()
//	for {
//		table := load()
//		if owner, ok := table.owner(shard); ok {
//			t.Dequeue()
//			… // forward the request
//			t.Leave() // when the response starts
//			return
//		}
//		if err := t.Wait(done, table.Generation, 0); err != nil {
//			… // ErrTimeout or ErrCanceled
//		}
//	}
//
// # Types
//
//   - [Queue]: the queue of one node. All methods are safe for any goroutine, and a Queue
//     starts no goroutine of its own.
//   - [Ticket]: the slot of one request. One goroutine waits on it; any goroutine may call
//     Leave.
//   - [Condition]: an additional event that a ticket can wait for, such as a circuit
//     breaker that closes.
//
// # Limits
//
// The queue limits the number of requests, their total size in bytes, and the total waiting time of
// each request, counted from Enter. One shard may use up to half of the slots and bytes while no
// other shard is queued, and up to a quarter otherwise. As a result, a shard without an owner
// cannot fill the queue before requests for other shards arrive.
//
// # No lost wake-ups
//
// Each routing table has a generation, which only grows. Wait takes the generation that the caller
// has checked and returns immediately if a newer one is known, so it makes no difference whether
// the table is replaced before, during or after the call.
//
// # Gradual release
//
// A ticket is in one of these states:
//
//	         Wait           Wake              pacer
//	outside ──────► idle ─────────► due ───────────► released ──┐
//	   ▲              │ back-off, deadline, cancellation │      │
//	   └──────────────┴───────────────────┴── Leave or Wait ────┘
//
// Wake moves the matching tickets to the due list, in the order in which they started to
// wait. The pacer then releases [Options.Batch] of them. Releasing thousands of requests
// to one owner at once would open thousands of connections and delay all other requests to
// that owner.
//
// The pacer releases the next ticket when a released one leaves (its response has started)
// or waits again. A ticket whose Wait returns nil at once stays outstanding. A released
// ticket that does neither within [Options.Pace] no longer counts, so a few slow owners
// cannot block the others. The number of outstanding tickets grows quickly while the
// process has spare CPU time ([Options.CPUUsage]): an app that is slow for each request
// has thousands of them within 100 ms.
package queue
