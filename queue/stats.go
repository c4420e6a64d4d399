package queue

// Stats is a snapshot of a Queue. The gauges describe the current state, the counters all
// events since New. Entered = Waiting + Dequeued + TimedOut + Canceled at any time.
type Stats struct {
	// Gauges.
	Waiting int   // tickets that have not left, including released ones
	Bytes   int64 // total size of the waiting requests
	Due     int   // waiting tickets that were woken but not released yet
	Idle    int   // waiting tickets that have not been woken

	// Counters.
	Entered           uint64 // tickets returned by Enter
	Dequeued          uint64 // tickets that left for any reason but a timeout or cancellation
	TimedOut          uint64 // tickets that left after ErrTimeout
	Canceled          uint64 // tickets that left after ErrCanceled
	RefusedFull       uint64 // calls of Enter that returned ErrFull
	RefusedShardLimit uint64 // calls of Enter that returned ErrShardLimit
	Released          uint64 // releases; several per ticket if its shard stays without an owner
}
