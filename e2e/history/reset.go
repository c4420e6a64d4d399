//go:build linux

package history

// Reset is a time in which what the nodes A and B sent to each other was answered
// by forged resets: refusals of connections that nobody had refused. An empty A
// or B is any node. Until is 0 while it lasts.
type Reset struct {
	From, Until int64
	A, B        string
}

func (r Reset) until() int64 { return orNever(r.Until) }

// between tells whether a node is one of the two.
func (r Reset) between(node string) bool {
	return r.A == "" || r.B == "" || r.A == node || r.B == node
}
