package rawio

// Heard is what a Lookout tells of a socket.
type Heard struct {
	ID  uint64 // the number that its owner gave it
	End bool   // the other end has ended its side, or the connection is broken
}
