package h1

import "strconv"

// Kind is how the end of a body is determined.
type Kind uint8

const (
	// NoBody means that the message ends with its header.
	NoBody Kind = iota + 1
	// Length means that the body has the length given by Content-Length, which may be zero.
	Length
	// Chunked means that chunks and a trailer section follow.
	Chunked
	// UntilClose means that the body ends when the peer closes the connection. It is possible only for responses.
	UntilClose
)

// String returns the name of k.
func (k Kind) String() string {
	switch k {
	case NoBody:
		return "none"
	case Length:
		return "length"
	case Chunked:
		return "chunked"
	case UntilClose:
		return "until-close"
	}
	return "Kind(" + strconv.Itoa(int(k)) + ")"
}
