package cli_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"shardway/internal/problem"
)

// Error texts of a node are untrusted input for an operator's terminal. They must not clear the screen
// or look like a line of another program.
func TestErrorsDoNotMoveTheCursor(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Server", "shardway-admin")
		problem.Write(w, problem.New(problem.Conflict, "\x1b[2J\x1b]0;owned\a\u009b2J\u202egone\r\nroot@host# all is well"))
	}))
	defer srv.Close()
	for _, line := range []string{"status", "nodes", "remove a", "step-down", "locate k"} {
		code, out, errOut := run(t, line+" --admin "+strings.TrimPrefix(srv.URL, "http://"))
		if code != 1 || strings.ContainsAny(out+errOut, "\x1b\a\r\u009b\u202e") || !strings.Contains(errOut, "gone") {
			t.Errorf("%s: exit %d: %q %q", line, code, out, errOut)
		}
		for text := range strings.Lines(errOut) {
			if !strings.HasPrefix(text, "shardway: ") {
				t.Errorf("%s: the line %q is not marked as ours", line, text)
			}
		}
	}
}
