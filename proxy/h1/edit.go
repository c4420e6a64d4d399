package h1

// Edit describes the changes to a header when a message is forwarded. The zero value keeps the
// framing of the message and removes only the hop-by-hop fields.
type Edit struct {
	// Drop contains the known fields to remove. HopByHop fields, fields that Connection names, Host
	// and the framing fields are always removed; the last two are regenerated.
	Drop FieldSet
	// Extra contains complete header lines to append, each ending in CRLF. They are not validated.
	Extra []byte
	// Replace contains new values of header lines, in the order of the lines. A removed line stays
	// removed. A replaced or removed line must not be a Host or a framing field.
	Replace []FieldValue
	// Host replaces the Host of the request. If it is empty, the original Host is kept, or an empty
	// one added.
	Host []byte
	// Date is added to a final response without Date. Empty means that no Date is added.
	Date []byte
	// Kind and Size set the framing of the body for the next hop. Zero keeps that of the message,
	// with two exceptions. A response that is delimited by the end of the connection is sent in
	// chunks. A chunked response to an HTTP/1.0 client is delimited by the end of the connection. A
	// response to HEAD and a 304 response keep their header fields.
	Kind Kind
	Size int64 // for Length
	// ToHTTP10 is set if the receiver of a response uses HTTP/1.0.
	ToHTTP10 bool
	// Close adds Connection: close. A response that is delimited by the end of the connection
	// always has it.
	Close bool
	// KeepAlive adds Connection: keep-alive, for HTTP/1.0 clients.
	KeepAlive bool
	// Upgrade forwards Upgrade and adds Connection: upgrade.
	Upgrade bool
	// DropExpect removes Expect.
	DropExpect bool
}

// FieldValue is a new value of one header line, or the removal of the line.
type FieldValue struct {
	Line   int // index of the line, as in Header.Field
	Value  []byte
	Remove bool // the line is removed, and Value has no effect
}

// replacedLen returns the length of the replaced values.
func (edit *Edit) replacedLen() int {
	total := 0
	for i := range edit.Replace {
		total += len(edit.Replace[i].Value)
	}
	return total
}
