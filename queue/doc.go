// Package queue is the bounded waiting room for requests whose shard has no
// certain owner at the moment.
//
// A request waits where its client is connected, until the routing table is
// replaced, its time is over or its client has gone. Then it looks at the new
// table itself: the room knows nothing about owners.
//
//	t, err := room.Enter(shard, size) // ErrFull, ErrShardLimit: refuse the request
//	defer t.Leave()
//	for {
//		table := load()
//		if … served by table … { t.Dequeue(); …; t.Leave(); …; return }
//		if err := t.Wait(done, table.Generation, 0); err != nil { … ErrTimeout, ErrCanceled … }
//	}
//
// # Bounds
//
// The room limits the number of requests, their bytes and the time of each, the
// latter from Enter on, however often it waits. One shard may take no more than half
// of the places and of the bytes, so that there is room when requests for others
// come, and no more than a quarter while they are there.
//
// # No lost wake-ups
//
// Tables carry a generation that only grows. Wait names the one that the caller
// has looked at and returns at once if there is a newer one, so it does not matter
// whether the table is replaced before, while or after the request gets to wait.
//
// # Ramped release
//
//	         Wait                Wake                ramp
//	outside ──────► idle list ──────► due list ──────────► away ──┐
//	   ▲               │ back-off, deadline, gone │               │
//	   └───────────────┴──────────────────────────┴── Leave, Wait ┘
//
// Wake does not let everybody go at once: thousands that come to one owner in the same
// moment make thousands of connections, and stand before whatever else is asked there. Those
// it concerns get in the due list, in the order in which they began to wait, and
// Options.Batch of them go. The next one goes when one of these leaves, once its answer
// begins, or waits again. One that does neither within Options.Pace counts no longer, lest
// a few slow owners keep the rest waiting; and how many are away at once grows, quickly as
// long as the process has processor time for more (Options.CPUUsage): an app that takes its
// time for each has thousands within a tenth of a second.
//
// A Queue has no goroutine of its own, and its methods may be called from any.
package queue
