package h1

import (
	"strings"
	"testing"
)

// Each folded line counts as a line towards the limit, because joining many of them takes quadratic
// time.
func TestFoldedLinesCountAgainstTheLimitOfLines(t *testing.T) {
	for folds, want := range map[int]bool{9: true, 10: false} {
		var r Response
		head := "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: a\r\n" + strings.Repeat(" a\r\n", folds-2) + "\r\n"
		if err := r.ParseHeader([]byte(head), []byte("GET"), 9); (err == nil) != want {
			t.Errorf("%d lines, of which %d are folded: %v", folds, folds-2, err)
		}
	}
}
