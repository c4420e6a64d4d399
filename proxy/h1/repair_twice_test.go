package h1

import "testing"

// A header section may be parsed twice in the same buffer: first without blocking, then by a
// goroutine. A framing field that is refused must be refused again.
func TestRefusedFramingFieldIsNotChanged(t *testing.T) {
	for _, text := range []string{"Content-Length : 2", "content-length\t: 2", "Transfer-Encoding : chunked", "Content-Length: 2\x01", "Transfer-Encoding: chunked\x7f", "(Content-Length: 2"} {
		b := []byte(text)
		for range 2 {
			var l line
			err := parseFieldLine(b, &l)
			if err == nil {
				t.Fatalf("%q is accepted", b)
			}
			var s repairs
			if s.repairLine(b, &l, err) || s != 0 || string(b) != text {
				t.Errorf("%q became %q, repairs %v", text, b, s)
			}
		}
	}
}
