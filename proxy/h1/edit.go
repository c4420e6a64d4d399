package h1

// Edit says what changes in a head on its way through. The zero value forwards
// a message with its own framing and only the hop-by-hop fields left out.
type Edit struct {
	// Drop holds the known fields to leave out, beside those that always stay
	// behind: HopByHop, what Connection names, Host and framing lines, which
	// are written anew.
	Drop Set
	// Extra holds whole header lines to append, each "Name: value\r\n". The
	// caller vouches for them.
	Extra []byte
	// Host replaces the request's Host. Empty: as it came; if there was none,
	// an empty one.
	Host []byte
	// Date is added to a final answer that has no Date. Empty: none is.
	Date []byte
	// Kind and Size frame the body on this hop. Zero: as the message came, but
	// that an answer that runs until close is sent in chunks, and one in chunks
	// to an Old client runs until close. An answer to HEAD and a 304 keep what
	// they declare.
	Kind Kind
	Size int64 // for Length
	// Old tells that the receiver of an answer speaks HTTP/1.0.
	Old bool
	// Close writes Connection: close. An answer that runs until close has it
	// anyway.
	Close bool
	// KeepAlive writes Connection: keep-alive, for HTTP/1.0 clients.
	KeepAlive bool
	// Upgrade passes Upgrade on and writes Connection: upgrade.
	Upgrade bool
	// DropExpect leaves Expect out.
	DropExpect bool
}
