package h1

import "strconv"

// Kind says how the end of a body is found.
type Kind uint8

const (
	// NoBody: the message ends with its head.
	NoBody Kind = iota + 1
	// Length: Content-Length bytes follow, perhaps none.
	Length
	// Chunked: chunks and a trailer section follow.
	Chunked
	// UntilClose: all that comes until the peer closes. Answers only.
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
