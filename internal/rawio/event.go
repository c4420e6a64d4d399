package rawio

// Event reports that a connection watched by a Poller is ready.
type Event struct {
	ID  uint64 // assigned by the owner of the connection
	End bool   // the peer closed its sending side, or the connection is broken
}
