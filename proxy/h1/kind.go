package h1

import "strconv"

// Kind says how the end of a body is found.
type Kind uint8

const (
	// NoBody says that the message ends with its head.
	NoBody Kind = iota + 1
	// Length says that Content-Length bytes follow, perhaps none.
	Length
	// Chunked says that chunks and a trailer section follow.
	Chunked
	// UntilClose says that all that comes until the peer closes is the body, of
	// answers only.
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
