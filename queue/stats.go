package queue

// Stats is what a Queue holds at one moment and what it has seen since New.
// Entered = Waiting + Dequeued + TimedOut + Gone at any time.
type Stats struct {
	Waiting int   // tickets that have not left, awakened ones included
	Bytes   int64 // of these
	Due     int   // of these, how many the ramp has not reached yet
	Idle    int   // of these, how many wait for a newer table than they have seen, or at a gate

	Entered           uint64 // tickets given out
	Dequeued          uint64 // left for another reason than the two below
	TimedOut          uint64 // left after ErrTimeout
	Canceled          uint64 // left after ErrCanceled
	RefusedFull       uint64 // got ErrFull
	RefusedShardLimit uint64 // got ErrShardLimit
	Released          uint64 // releases by the ramp: several per ticket if its shard stays without an owner
}
