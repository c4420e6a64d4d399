package procguard

// ListenerOwnership is the relation of a process to the listener at a port.
type ListenerOwnership uint8

// The results of ListenerOwner.
const (
	ListenerUnknown ListenerOwnership = iota // it cannot be found out
	ListenerOwn                              // the process, or another one of its group or session, has the listener
	ListenerForeign                          // another program has the listener
)
